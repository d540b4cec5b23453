//! What workers outside want to become of messages that they claimed.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::ids::{Seq, Tenant};
use waybill_core::outbox::decide::{after_failure, attempt_outcome};
use waybill_core::outbox::owner::{Lease, Settlement, Verdict};
use waybill_core::outbox::records::AttemptRecord;
use waybill_core::port::backoff::{BackoffDecision, FailedAttempt, FailureKind, WorkKind};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::{Fault, Receipt};
use waybill_core::port::workers::{EXTERNAL, FlushResult, SettleWish};
use waybill_core::time::{Now, UnixMillis};

use super::actor::{Actor, SETTLE_LINGER};
use super::mail::Mail;
use crate::spans;

/// A worker's faults share this label in metrics: their codes are as many as workers invent.
const FAULT_LABEL: Code = Code::EXTERNAL_FAILED;

/// One message that a worker settles.
pub(crate) struct OutsideAsk {
    pub seq: Seq,
    /// Ownership that lent it.
    pub owner: u64,
    pub nonce: u64,
    pub id: String,
    /// Whose messages it may settle; none = everybody's.
    pub tenants: Option<Vec<Tenant>>,
    pub wish: SettleWish,
    /// What a policy component said meanwhile.
    pub decision: Option<BackoffDecision>,
    pub reply: oneshot::Sender<Result<OutsideDone, ServiceError>>,
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutsideDone {
    pub result: FlushResult,
    /// When it is tried again, or the end of the renewed lease.
    pub at: Option<UnixMillis>,
}

/// A worker that waits for the commit with its settlement.
pub(super) struct Settler {
    done: OutsideDone,
    reply: oneshot::Sender<Result<OutsideDone, ServiceError>>,
}

impl Actor {
    pub(super) fn take_outside(&mut self, ask: OutsideAsk, now: Now) {
        if let Some(error) = self.flight.trouble() {
            let _gone = ask.reply.send(Err(ServiceError::Store(error.clone())));
            return;
        }
        let is_allowed =
            |lease: &Lease| ask.tenants.as_ref().is_none_or(|allowed| allowed.contains(&lease.sending.message.tenant));
        let lease = self.owner.leased(ask.seq, ask.nonce).filter(|_| ask.owner == self.owner.token());
        let Some(lease) =
            lease.filter(|lease| lease.sending.message.id.as_str() == ask.id && is_allowed(lease)).cloned()
        else {
            let _gone = ask.reply.send(Ok(OutsideDone { result: FlushResult::Conflict, at: None }));
            return;
        };
        match &ask.wish {
            SettleWish::Renew { lease: time } => {
                let time = time.unwrap_or(lease.time);
                self.renew_outside(ask.seq, ask.nonce, time, ask.reply, now);
            }
            SettleWish::Ack { receipt } => {
                let receipt = Receipt { broker_ref: receipt.clone(), ..Receipt::default() };
                self.settle_outside(ask, &lease, Verdict::Ack(receipt), now);
            }
            SettleWish::Dead { fault } => {
                let verdict = Verdict::Dead(fault.clone());
                self.settle_outside(ask, &lease, verdict, now);
            }
            SettleWish::Release { not_before } => {
                let due = not_before.map(|at| self.latest(at, now));
                self.settle_outside(ask, &lease, Verdict::Release { due }, now);
            }
            SettleWish::Nack { fault, next_attempt_at } => {
                let live = self.context.live();
                let retries = &live.config.retries;
                let mut fault = fault.clone();
                let decision = match (ask.decision.clone(), *next_attempt_at) {
                    // Workers outside can't be held, and their attempt counts.
                    (Some(BackoffDecision::Pause(reason)), _) => {
                        fault.reason = format!("{reason} (after: {})", fault.reason);
                        Some(BackoffDecision::Fallback)
                    }
                    (Some(decision), _) => Some(decision),
                    (None, Some(at)) => Some(BackoffDecision::Delay(self.latest(at, now).since(now.wall))),
                    (None, None) if retries.component.is_some() => {
                        let attempt = self.failed_attempt(&lease, &fault, now);
                        return self.ask_policy(ask, attempt);
                    }
                    (None, None) => None,
                };
                let (number, random) = (lease.sending.attempt, rand::random());
                let kind = FailureKind::Retryable;
                let verdict = after_failure(&retries.policy, decision, kind, fault, number, random, now.wall);
                self.settle_outside(ask, &lease, verdict, now);
            }
        }
    }

    /// An instant that a worker asks for, cut as other wishes to wait are.
    fn latest(&self, at: UnixMillis, now: Now) -> UnixMillis {
        at.min(now.wall.plus(self.context.live().config.retries.retry_after_max))
    }

    fn renew_outside(
        &mut self,
        seq: Seq,
        nonce: u64,
        lease: Duration,
        reply: oneshot::Sender<Result<OutsideDone, ServiceError>>,
        now: Now,
    ) {
        let answer = match self.owner.renew_outside(seq, nonce, lease, now) {
            Some(until) => Ok(OutsideDone { result: FlushResult::Renewed, at: Some(until) }),
            None => Err(ServiceError::Unavailable(
                "its own lease of the shard has ended, so it can't promise anything: try again in a moment".to_owned(),
            )),
        };
        let _gone = reply.send(answer);
    }

    fn settle_outside(&mut self, ask: OutsideAsk, lease: &Lease, verdict: Verdict, now: Now) {
        let (result, at) = match &verdict {
            Verdict::Ack(_) => (FlushResult::Success, None),
            Verdict::Retry { due, .. } => (FlushResult::Retry, Some(*due)),
            Verdict::Blocked { .. } => (FlushResult::Retry, None),
            Verdict::Release { due } => (FlushResult::Released, *due),
            Verdict::Dead(_) | Verdict::Expired | Verdict::Cancelled => (FlushResult::Dead, None),
        };
        let needs_commit = !matches!(verdict, Verdict::Blocked { .. } | Verdict::Release { .. });
        let settlement = Settlement { attempt: attempt(lease, &verdict, now), verdict };
        self.meter_outside(lease, &settlement);
        let tracer = self.context.config.tracer.clone();
        let traced = tracer.map(|tracer| (tracer, settlement.verdict.clone()));
        if !self.owner.settle_outside(ask.seq, ask.nonce, settlement, now) {
            let _gone = ask.reply.send(Ok(OutsideDone { result: FlushResult::Conflict, at: None }));
            return;
        }
        if let Some((tracer, verdict)) = traced {
            // From the claim on: nobody here saw more of the attempt.
            let (sending, took) = (&lease.sending, now.mono - lease.began);
            let mut span = spans::send(&tracer, &sending.message, sending.attempt, EXTERNAL, took);
            span.set("waybill.worker", lease.worker.to_string().into());
            spans::decided(span, &verdict);
        }
        let done = OutsideDone { result, at };
        if needs_commit {
            self.settlers.insert(ask.seq, Settler { done, reply: ask.reply });
            if self.linger_until.is_none() {
                self.linger_until = Some(Instant::now() + SETTLE_LINGER);
            }
        } else {
            let _gone = ask.reply.send(Ok(done));
        }
    }

    fn meter_outside(&self, lease: &Lease, settlement: &Settlement) {
        let meter = &self.context.meter;
        let message = &*lease.sending.message;
        let fault = Fault::new(FAULT_LABEL, "");
        match &settlement.verdict {
            Verdict::Ack(_) => {
                let live = self.context.live();
                meter.delivered(&live, EXTERNAL, std::iter::once((message, settlement.attempt.at)));
            }
            Verdict::Retry { .. } => meter.retried(EXTERNAL, &message.tenant, &fault),
            Verdict::Dead(_) => meter.settled_dead(),
            _ => {}
        }
    }

    fn failed_attempt(&self, lease: &Lease, fault: &Fault, now: Now) -> FailedAttempt {
        let sending = &lease.sending;
        FailedAttempt {
            work: WorkKind::Delivery,
            kind: FailureKind::Retryable,
            fault: fault.clone(),
            number: sending.attempt,
            max_attempts: self.context.live().config.retries.policy.max_attempts,
            elapsed: sending.first_attempt_at.map_or(Duration::ZERO, |first| now.wall.since(first)),
            age: now.wall.since(sending.message.created_at),
            previous_delay: sending.previous_delay,
            tenant: sending.message.tenant.to_string(),
            topic: sending.message.topic.to_string(),
            endpoint: EXTERNAL.to_owned(),
            now: now.wall,
            deadline: sending.message.expires_at,
            random: rand::random(),
        }
    }

    /// Asks the policy component; the wish comes back with its decision.
    fn ask_policy(&self, mut ask: OutsideAsk, attempt: FailedAttempt) {
        let Some(policy) = self.context.live().config.retries.component.clone() else { return };
        let mail = self.sender.clone();
        tokio::spawn(async move {
            ask.decision = Some(super::fate::ask_policy(policy, attempt).await);
            let _ended = mail.send(Mail::Outside(Box::new(ask)));
        });
    }

    /// Tells workers that their settlements are durable.
    pub(super) fn answer_settlers(&mut self, settled: &[Seq]) {
        if self.settlers.is_empty() {
            return;
        }
        for settler in settled.iter().filter_map(|seq| self.settlers.remove(seq)) {
            let _gone = settler.reply.send(Ok(settler.done));
        }
    }

    /// Tells workers that nobody knows what became of their settlements.
    pub(super) fn abandon_settlers(&mut self, error: &StoreError) {
        for settler in std::mem::take(&mut self.settlers).into_values() {
            let _gone = settler.reply.send(Err(ServiceError::OutcomeUnknown(error.clone())));
        }
    }
}

fn attempt(lease: &Lease, verdict: &Verdict, now: Now) -> AttemptRecord {
    let fault = match verdict {
        Verdict::Retry { fault, .. } | Verdict::Dead(fault) | Verdict::Blocked { fault, .. } => Some(fault),
        _ => None,
    };
    AttemptRecord {
        at: now.wall,
        took_ms: u64::try_from((now.mono - lease.began).as_millis()).unwrap_or(u64::MAX),
        outcome: attempt_outcome(verdict, false),
        worker: Arc::clone(&lease.worker),
        transport: Arc::from(EXTERNAL),
        plugin: None,
        code: fault.map(|fault| fault.code.clone()),
        reason: fault.map(|fault| fault.reason.clone()),
        maybe_delivered: fault.is_some_and(|fault| fault.maybe_delivered),
    }
}
