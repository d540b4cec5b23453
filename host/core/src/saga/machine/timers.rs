//! What time does: timeouts, deadlines, attempts that are due. And what a host finds that takes over.

use super::answer::Attempt;
use super::{Machine, Rule, unknown};
use crate::code::Code;
use crate::saga::event::{EventKind, Failure, PauseCause, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::state::{Phase, StepState, StepWait};
use crate::time::UnixMillis;

/// What becomes of a call that was under way when the host ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LostCall {
    /// It is taken for what killed the host: an operator decides.
    pub convicted: bool,
    /// It is made again then; none = at once.
    pub until: Option<UnixMillis>,
}

impl Machine<'_> {
    /// Does what is due now.
    pub fn tick(&mut self) {
        for saga in self.open() {
            self.deadline(saga);
            for step in self.active(saga) {
                self.step_due(saga, step);
            }
            self.dirty.push(saga);
        }
    }

    fn active(&self, saga: SagaNumber) -> Vec<StepNumber> {
        let steps = self.node(saga).map(|node| node.steps.as_slice()).unwrap_or_default().iter().enumerate();
        let active = steps.filter(|(_, step)| step.state == StepState::InFlight);
        active.filter_map(|(number, _)| u16::try_from(number).ok()).collect()
    }

    fn deadline(&mut self, saga: SagaNumber) {
        let Some(node) = self.node(saga) else { return };
        let passed = node.deadline.filter(|deadline| *deadline <= self.turn.now);
        if let Some(deadline) = passed
            && node.phase == Phase::Forward
            && self.tree.paused.is_none()
        {
            let failure = Failure::new(Code::SAGA_DEADLINE, &format!("it had to be over by {deadline}"));
            self.emit(saga, EventKind::CompensationStarted { failure });
        }
    }

    fn step_due(&mut self, saga: SagaNumber, step: StepNumber) {
        let Some(record) = self.record(saga, step) else { return };
        let Some(way) = record.way else { return };
        if record.state != StepState::InFlight || record.until.is_none_or(|until| until > self.turn.now) {
            return;
        }
        let of = Attempt { saga, step, way, attempt: record.attempt };
        match record.wait.clone() {
            Some(StepWait::For(Wait::Call)) => self.timed_out(of, "no answer came in time"),
            Some(StepWait::For(Wait::Reply)) => self.timed_out(of, "no reply came in time"),
            Some(StepWait::For(Wait::Signal(name))) => {
                let failure = Failure::new(Code::SAGA_TIMEOUT, &format!("signal {name:?} didn't come in time"));
                self.failed_for_good(of, &failure, None);
            }
            Some(StepWait::For(Wait::Approval)) => {
                let failure = Failure::new(Code::SAGA_APPROVAL_EXPIRED, "nobody decided in time");
                self.failed_for_good(of, &failure, None);
            }
            Some(StepWait::Pending(name)) => {
                let failure = unknown(Code::SAGA_TIMEOUT, &format!("signal {name:?} didn't come in time"));
                self.failed_for_good(of, &failure, None);
            }
            Some(StepWait::For(Wait::Child)) if self.tree.paused.is_none() => {
                let child = self.tree.child_of(saga, step).filter(|child| self.phase(*child) == Phase::Forward);
                if let Some(child) = child {
                    let failure = Failure::new(Code::SAGA_TIMEOUT, "the sub-saga wasn't over in time");
                    self.emit(child, EventKind::CompensationStarted { failure });
                }
            }
            _ => {}
        }
    }

    fn timed_out(&mut self, of: Attempt, reason: &str) {
        self.failed_attempt(of, unknown(Code::SAGA_TIMEOUT, reason), None, None, None);
    }

    /// The host that made the calls under way is gone: their results are unknown. `died` = its process died of something, and
    /// they may have been it. `fate` says what becomes of each, and of those that were lost before and wait to be made again.
    pub fn recover(&mut self, died: bool, fate: impl Fn(SagaNumber, StepNumber) -> LostCall) {
        for saga in self.open() {
            for step in self.active(saga) {
                self.recover_step(saga, step, died, fate(saga, step));
            }
            self.dirty.push(saga);
        }
    }

    /// Makes a lost call again now, if it waits for that.
    pub fn call_again(&mut self, saga: SagaNumber, step: StepNumber) {
        let (Some(definition), Some(record)) = (self.definition(saga), self.record(saga, step)) else { return };
        let Some(way) = record.way.filter(|way| record.is_active(*way) && record.wait == Some(StepWait::Lost)) else {
            return;
        };
        if self.tree.paused.is_none() && (way == StepDirection::Compensate || self.phase(saga) == Phase::Forward) {
            self.begin(saga, &definition, step, way);
        }
    }

    fn recover_step(&mut self, saga: SagaNumber, step: StepNumber, died: bool, fate: LostCall) {
        let definition = self.definition(saga);
        let Some(defined) = definition.as_ref().and_then(|definition| definition.step(step)) else { return };
        let Some(record) = self.record(saga, step) else { return };
        let (Some(way), attempt) = (record.way, record.attempt) else { return };
        match record.wait {
            Some(StepWait::For(Wait::Call)) => {}
            Some(StepWait::Lost) if fate.until.is_some() => {
                return self.emit(saga, EventKind::StepLost { step, way, attempt, clean: true, until: fate.until });
            }
            _ => return,
        }
        let gives_up = way == StepDirection::Execute && self.phase(saga) != Phase::Forward;
        let asks = fate.convicted || !defined.idempotent && self.kept(Rule::AskOperator);
        let until = fate.until.filter(|_| !gives_up && !asks);
        self.emit(saga, EventKind::StepLost { step, way, attempt, clean: !died, until });
        if gives_up {
            // Nobody will answer, and it isn't tried again.
            let failure = unknown(Code::SAGA_UNKNOWN_RESULT, "the host ended during the call");
            let of = Attempt { saga, step, way, attempt };
            return self.failed_for_good(of, &failure, None);
        }
        if asks {
            let (code, cause) = if fate.convicted {
                (Code::SUSPECTED_POISON, PauseCause::Suspect)
            } else {
                (Code::SAGA_UNKNOWN_RESULT, PauseCause::UnknownResult)
            };
            let failure = unknown(code, "the host ended during the call");
            self.emit(saga, EventKind::StepUnknown { step, way, attempt, failure });
            self.pause(cause);
        }
    }
}
