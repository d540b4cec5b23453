//! From a transport's word on one message to the settlement that its shard's owner gets.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::timeout;
use waybill_core::outbox::decide::{Fate, Next, after_failure, attempt_outcome, classify};
use waybill_core::outbox::owner::{HoldKey, Sending, Settlement, Verdict};
use waybill_core::outbox::records::AttemptRecord;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::transport::Fault;

use super::dispatch::Call;
use super::mail::{Mail, SettlementReport};
use crate::{spans, supervisor};

/// A policy component decides within tens of milliseconds; one that takes this long never will.
const POLICY_TIMEOUT: Duration = Duration::from_secs(5);
/// A message on which nothing can be decided, not even by the formula, is tried again after this.
const UNDECIDED_PAUSE: Duration = Duration::from_secs(60);

/// Decides what follows. None when a policy component has to be asked: its decision goes to the owner when it is there.
pub(super) fn decide(call: &Arc<Call>, index: usize, word: Fate) -> Option<SettlementReport> {
    let now = call.context.clock.now().wall;
    let sending = call.sending.get(index)?;
    match classify(word, call.live.config.retries.retry_after_max, now) {
        Next::Verdict(verdict) => Some(report(call, sending, verdict, false)),
        Next::TransportDown(_) => Some(report(call, sending, Verdict::Release { due: None }, false)),
        Next::Failed { kind, fault, unknown } => match &call.live.config.retries.component {
            None => {
                let verdict = judge(call, sending, None, kind, fault);
                Some(report(call, sending, verdict, unknown))
            }
            Some(policy) => {
                let (call, policy) = (Arc::clone(call), Arc::clone(policy));
                tokio::spawn(async move {
                    let asked = ask(&call, index, policy, kind, fault.clone(), unknown);
                    // The message is marked as on its way: nobody but this task tells of it.
                    let report = match AssertUnwindSafe(asked).catch_unwind().await {
                        Ok(report) => report,
                        Err(_panic) => undecided(&call, index, kind, fault, unknown),
                    };
                    if let Some(report) = report {
                        let _ended = call.mail.send(Mail::Settlement(Box::new(report)));
                    }
                });
                None
            }
        },
    }
}

/// What follows by a policy component's decision, counted.
async fn ask(
    call: &Call,
    index: usize,
    policy: Arc<dyn BackoffPolicy>,
    kind: FailureKind,
    fault: Fault,
    unknown: bool,
) -> Option<SettlementReport> {
    let sending = call.sending.get(index)?;
    let decision = ask_policy(policy, failed_attempt(call, sending, kind, &fault)).await;
    let is_pause = matches!(decision, BackoffDecision::Pause(_));
    let verdict = judge(call, sending, Some(decision), kind, fault);
    let mut report = report(call, sending, verdict, unknown);
    report.hold = is_pause.then(|| destination(call, sending));
    meter(call, std::slice::from_ref(&report));
    Some(report)
}

/// What follows when something panicked on the way to it: what the formula says, and if that is what panicked, another try after a
/// while. It isn't counted.
pub(super) fn undecided(
    call: &Call,
    index: usize,
    kind: FailureKind,
    fault: Fault,
    unknown: bool,
) -> Option<SettlementReport> {
    let sending = call.sending.get(index)?;
    tracing::error!(
        transport = &*call.name,
        seq = sending.seq.0,
        trace_id = spans::trace_id(&sending.message),
        "a panic while it was decided what follows an attempt"
    );
    let formula = catch_unwind(AssertUnwindSafe(|| judge(call, sending, None, kind, fault.clone())));
    let verdict = formula.unwrap_or_else(|_| {
        let due = call.context.clock.now().wall.plus(UNDECIDED_PAUSE);
        match call.live.config.retries.policy.allowed(sending.attempt) {
            true => Verdict::Retry { due, delay: UNDECIDED_PAUSE, fault },
            false => Verdict::Dead(fault),
        }
    });
    Some(report(call, sending, verdict, unknown))
}

/// A policy component's decision. One that panics or doesn't answer has no opinion: the built-in formula decides.
pub(super) async fn ask_policy(policy: Arc<dyn BackoffPolicy>, attempt: FailedAttempt) -> BackoffDecision {
    let name = policy.name().to_owned();
    let mut work = tokio::spawn(async move { policy.decide(&attempt).await });
    let failed = match timeout(POLICY_TIMEOUT, &mut work).await {
        Ok(Ok(decision)) => return decision,
        Ok(Err(panic)) => panic.to_string(),
        Err(_late) => {
            work.abort();
            format!("it didn't answer within {POLICY_TIMEOUT:?}")
        }
    };
    supervisor::count_failure("policy");
    tracing::error!(policy = name, failed, "a policy component failed: the built-in formula decides");
    BackoffDecision::Fallback
}

/// The hold on a message's own destination.
fn destination(call: &Call, sending: &Sending) -> HoldKey {
    let message = &sending.message;
    HoldKey {
        tenant: Some(message.tenant.clone()),
        transport: Some(call.transport),
        scope: Arc::from(message.topic.subject()),
    }
}

fn judge(
    call: &Call,
    sending: &Sending,
    decision: Option<BackoffDecision>,
    kind: FailureKind,
    fault: Fault,
) -> Verdict {
    let retries = &call.live.config.retries;
    let now = call.context.clock.now().wall;
    after_failure(&retries.policy, decision, kind, fault, sending.attempt, rand::random(), now)
}

fn failed_attempt(call: &Call, sending: &Sending, kind: FailureKind, fault: &Fault) -> FailedAttempt {
    let now = call.context.clock.now().wall;
    FailedAttempt {
        work: WorkKind::Delivery,
        kind,
        fault: fault.clone(),
        number: sending.attempt,
        max_attempts: call.live.config.retries.policy.max_attempts,
        elapsed: sending.first_attempt_at.map_or(Duration::ZERO, |first| now.since(first)),
        age: now.since(sending.message.created_at),
        previous_delay: sending.previous_delay,
        tenant: sending.message.tenant.to_string(),
        topic: sending.message.topic.to_string(),
        endpoint: call.name.to_string(),
        now,
        deadline: sending.message.expires_at,
        random: rand::random(),
    }
}

fn report(call: &Call, sending: &Sending, verdict: Verdict, unknown: bool) -> SettlementReport {
    if call.context.config.tracer.is_some() {
        call.spans.end(sending.seq, &verdict);
    }
    let now = call.context.clock.now().wall;
    let message = &sending.message;
    let fault = match &verdict {
        Verdict::Retry { fault, .. } | Verdict::Dead(fault) | Verdict::Blocked { fault, .. } => Some(fault),
        _ => None,
    };
    let attempt = AttemptRecord {
        at: now,
        took_ms: u64::try_from(call.began.elapsed().as_millis()).unwrap_or(u64::MAX),
        outcome: attempt_outcome(&verdict, unknown),
        worker: Arc::clone(&call.context.host),
        transport: Arc::clone(&call.name),
        plugin: call.identity(),
        code: fault.map(|fault| fault.code.clone()),
        reason: fault.map(|fault| fault.reason.clone()),
        maybe_delivered: fault.is_some_and(|fault| fault.maybe_delivered) || unknown,
    };
    SettlementReport {
        seq: sending.seq,
        epoch: sending.epoch,
        settlement: Settlement { verdict, attempt },
        message: Arc::clone(message),
        hold: None,
    }
}

/// Counts what was told of a call.
pub(super) fn meter(call: &Call, reports: &[SettlementReport]) {
    let meter = &call.context.meter;
    let delivered = reports.iter().filter(|report| matches!(report.settlement.verdict, Verdict::Ack(_)));
    meter.delivered(&call.live, &call.name, delivered.map(|report| (&*report.message, report.settlement.attempt.at)));
    for SettlementReport { settlement, message, .. } in reports {
        let fault = match &settlement.verdict {
            Verdict::Retry { fault, .. } => {
                meter.retried(&call.name, &message.tenant, fault);
                fault
            }
            Verdict::Dead(fault) => {
                meter.settled_dead();
                fault
            }
            _ => continue,
        };
        tracing::debug!(transport = &*call.name, id = %message.id, code = fault.code, reason = fault.reason, trace_id = spans::trace_id(message), "an attempt failed");
    }
}
