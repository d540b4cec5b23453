//! What a call or a reply answered. Every answer names its attempt, so a late or repeated one is known as such.

use std::sync::Arc;
use std::time::Duration;

use super::begin::released_until;
use super::{Machine, Rule, is_called, millis, unknown};
use crate::code::Code;
use crate::message::Message;
use crate::port::backoff::BackoffDecision;
use crate::port::participant::StepError;
use crate::port::transport::{Fault, PluginIdentity};
use crate::saga::call::{Answer, AnswerResult};
use crate::saga::event::{EventKind, Failure, PauseCause, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::json::Json;
use crate::saga::limits::{RETRY_AFTER_MAX, WAIT_TIMEOUT_DEFAULT};
use crate::saga::state::{Effect, Phase, StepRecord, StepState, StepWait};
use crate::streams::joint::JointAppends;

/// Which attempt an answer is about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attempt {
    pub saga: SagaNumber,
    pub step: StepNumber,
    pub way: StepDirection,
    pub attempt: u32,
}

/// An answer's side: who gave it and how long it took.
struct By {
    plugin: Option<Arc<PluginIdentity>>,
    took_ms: u64,
    backoff: Option<BackoffDecision>,
}

impl Machine<'_> {
    /// Takes an answer. One that decides nothing any more changes nothing, or is kept for the compensation.
    pub fn answer(&mut self, saga: SagaNumber, step: StepNumber, way: StepDirection, attempt: u32, answer: Answer) {
        if self.tree.is_ended() {
            return;
        }
        let of = Attempt { saga, step, way, attempt };
        let by = By { plugin: answer.plugin, took_ms: millis(answer.took), backoff: answer.backoff };
        match answer.result {
            AnswerResult::Done { output, messages, events } => self.done(of, output, (messages, events), by),
            AnswerResult::Pending { signal, timeout, data } => self.pending(of, signal, timeout, data, by),
            AnswerResult::Failed(error) => self.not_done(of, &error, by),
        }
    }

    /// Whether a success of this attempt still completes the step.
    fn completes(&self, record: &StepRecord, of: Attempt) -> bool {
        if !self.kept(Rule::OnceOnly) && record.state == StepState::Succeeded && of.way == StepDirection::Execute {
            return true;
        }
        if !record.is_active(of.way) || of.attempt > record.attempt {
            return false;
        }
        let is_current = of.attempt == record.attempt && is_called(record.wait.as_ref());
        let is_late = matches!(
            record.wait,
            Some(StepWait::For(Wait::Call | Wait::Reply) | StepWait::Retry | StepWait::Released(_))
                | Some(StepWait::Lost | StepWait::Operator)
        );
        is_current || is_late && self.kept(Rule::TakeLate)
    }

    fn done(&mut self, of: Attempt, output: Json, (messages, events): (Vec<Arc<Message>>, JointAppends), by: By) {
        let Attempt { saga, step, way, attempt } = of;
        let Some(record) = self.record(saga, step) else { return };
        if !self.completes(record, of) {
            return self.late_result(of, output);
        }
        let late = attempt < record.attempt || !is_called(record.wait.as_ref());
        let asked = record.wait == Some(StepWait::Operator);
        let bytes_max = self.turn.limits.output_bytes_max;
        let what = if output.len() > bytes_max && way == StepDirection::Execute {
            let reason = format!("its output has {} bytes, at most {bytes_max} are kept", output.len());
            let failure = unknown(Code::SAGA_OUTPUT_TOO_LARGE, &reason);
            EventKind::StepFailed {
                step,
                way,
                attempt,
                failure,
                retry_at: None,
                plugin: by.plugin,
                took_ms: by.took_ms,
            }
        } else {
            self.outcome.messages.extend(messages);
            self.outcome.appends.extend(events);
            let output = (way == StepDirection::Execute).then_some(output);
            EventKind::StepSucceeded { step, way, attempt, output, plugin: by.plugin, took_ms: by.took_ms, late }
        };
        self.emit(saga, what);
        if asked {
            self.resume_decided();
        }
    }

    /// A success that came when it completes nothing: kept once, for a compensation that is still to come.
    fn late_result(&mut self, of: Attempt, output: Json) {
        let Attempt { saga, step, way, attempt } = of;
        let Some(record) = self.record(saga, step) else { return };
        let is_news = way == StepDirection::Execute
            && record.effect != Effect::Done
            && attempt <= record.attempt.max(1)
            && (record.state == StepState::Failed || record.state == StepState::Skipped);
        if is_news && output.len() <= self.turn.limits.output_bytes_max {
            self.emit(saga, EventKind::LateResult { step, way, attempt, output: Some(output) });
        }
    }

    fn is_current(&self, of: Attempt) -> bool {
        let record = self.record(of.saga, of.step);
        record.is_some_and(|record| {
            record.is_active(of.way) && of.attempt == record.attempt && is_called(record.wait.as_ref())
        })
    }

    fn pending(&mut self, of: Attempt, signal: Arc<str>, timeout: Option<Duration>, data: Json, by: By) {
        let Attempt { saga, step, way, attempt } = of;
        if !self.is_current(of) {
            return;
        }
        if way == StepDirection::Compensate {
            let failure = Failure::new(Code::PLUGIN_CONTRACT, "a compensation can't be answered with pending");
            return self.emit(
                saga,
                EventKind::StepFailed {
                    step,
                    way,
                    attempt,
                    failure,
                    retry_at: None,
                    plugin: by.plugin,
                    took_ms: by.took_ms,
                },
            );
        }
        let own = self.definition(saga).and_then(|definition| definition.step(step).and_then(|step| step.timeout));
        let until = self.turn.now.plus(timeout.or(own).unwrap_or(WAIT_TIMEOUT_DEFAULT));
        let name = Arc::clone(&signal);
        let (plugin, took_ms) = (by.plugin, by.took_ms);
        self.emit(saga, EventKind::StepPending { step, signal, until: Some(until), data, plugin, took_ms });
        self.take_kept_signal(saga, step, &name);
    }

    fn not_done(&mut self, of: Attempt, error: &StepError, by: By) {
        if !self.is_current(of) {
            return;
        }
        match error {
            StepError::Retryable(fault) => self.retryable(of, fault, by),
            StepError::Permanent(fault) => self.failed_for_good(of, &failure_of(fault), by),
            StepError::Blocked { scope, fault } => self.released(of, Some(Arc::from(scope.as_str())), fault, by),
            StepError::Release(fault) => self.released(of, None, fault, by),
        }
    }

    /// It wasn't tried. While the saga goes back there is nothing more to try.
    fn released(&mut self, of: Attempt, scope: Option<Arc<str>>, fault: &Fault, by: By) {
        let Attempt { saga, step, way, .. } = of;
        if self.is_given_up(of) {
            return self.failed_for_good(of, &failure_of(fault), by);
        }
        let count = self.record(saga, step).map_or(0, |record| record.released);
        let retry_at = released_until(self.turn.now, count, fault.after);
        self.emit(saga, EventKind::StepReleased { step, way, scope, failure: failure_of(fault), retry_at });
    }

    /// Its saga goes back, so it isn't tried again.
    fn is_given_up(&self, of: Attempt) -> bool {
        of.way == StepDirection::Execute && self.phase(of.saga) != Phase::Forward
    }

    pub(super) fn failed_for_good(&mut self, of: Attempt, failure: &Failure, by: impl Into<Option<ByAnswer>>) {
        let Attempt { saga, step, way, attempt } = of;
        let (plugin, took_ms) = by.into().map_or((None, 0), |by: ByAnswer| (by.plugin, by.took_ms));
        let failure = failure.clone();
        self.emit(saga, EventKind::StepFailed { step, way, attempt, failure, retry_at: None, plugin, took_ms });
    }

    fn retryable(&mut self, of: Attempt, fault: &Fault, by: By) {
        let failure = failure_of(fault);
        let backoff = by.backoff.clone();
        self.failed_attempt(of, failure, fault.after, backoff, Some(by.into()));
    }

    /// An attempt failed, or its result is unknown: retry, ask an operator, or give up.
    pub(super) fn failed_attempt(
        &mut self,
        of: Attempt,
        failure: Failure,
        after: Option<Duration>,
        backoff: Option<BackoffDecision>,
        by: Option<ByAnswer>,
    ) {
        let Attempt { saga, step, way, attempt } = of;
        let definition = self.definition(saga);
        let Some(defined) = definition.as_ref().and_then(|definition| definition.step(step)) else { return };
        let Some(record) = self.record(saga, step) else { return };
        let failures = record.failures.saturating_add(1);
        if self.is_given_up(of) {
            return self.failed_for_good(of, &failure, by);
        }
        if failure.maybe_done && !defined.idempotent && self.kept(Rule::AskOperator) {
            self.emit(saga, EventKind::StepUnknown { step, way, attempt, failure });
            return self.pause(PauseCause::UnknownResult);
        }
        let policy = defined.retry.over(&self.tree.started.default_retry);
        let mut delay = policy.delay(failures, self.turn.random);
        let mut allowed = policy.allowed(failures);
        let mut failure = failure;
        let mut held = false;
        match backoff {
            Some(BackoffDecision::Delay(own)) => delay = own.min(RETRY_AFTER_MAX.saturating_mul(24 * 30)),
            Some(BackoffDecision::Dead(reason)) => {
                allowed = false;
                failure.reason = Arc::from(format!("{} (retry policy: {reason})", failure.reason));
            }
            Some(BackoffDecision::Pause(_)) => held = true,
            Some(BackoffDecision::Fallback) | None => {}
        }
        let delay = delay.max(after.unwrap_or_default().min(RETRY_AFTER_MAX));
        let retry_at = (allowed || held).then(|| self.turn.now.plus(delay));
        let (plugin, took_ms) = by.map_or((None, 0), |by| (by.plugin, by.took_ms));
        self.emit(saga, EventKind::StepFailed { step, way, attempt, failure, retry_at, plugin, took_ms });
        if held {
            self.pause(PauseCause::Policy);
        }
    }
}

/// Who answered, and how long it took.
#[derive(Debug)]
pub(super) struct ByAnswer {
    plugin: Option<Arc<PluginIdentity>>,
    took_ms: u64,
}

impl From<By> for ByAnswer {
    fn from(by: By) -> Self {
        Self { plugin: by.plugin, took_ms: by.took_ms }
    }
}

impl From<By> for Option<ByAnswer> {
    fn from(by: By) -> Self {
        Some(by.into())
    }
}

fn failure_of(fault: &Fault) -> Failure {
    Failure { maybe_done: fault.maybe_delivered, ..Failure::new(&fault.code, &fault.reason) }
}
