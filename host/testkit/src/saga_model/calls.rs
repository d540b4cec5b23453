//! What participants do: each call's fate is thrown when it is made.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::port::participant::StepError;
use waybill_core::port::saga::{ActedBy, ReplyFailure, StepReply};
use waybill_core::port::transport::Fault;
use waybill_core::saga::call::{Answer, AnswerResult, Call, CallRef};
use waybill_core::saga::event::{Failure, StepDirection};
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::shard::SagaCommand;
use waybill_core::streams::exact::ExactAppend;
use waybill_core::streams::joint::{JointAppend, JointAppends};
use waybill_core::streams::records::Append;
use waybill_core::time::UnixMillis;

use super::world::World;
use crate::conformance::stream_samples::append;

/// The event that a step leaves, each time the same.
pub(super) fn event_of(key: &str) -> Append {
    append(["one", "two", "three"][key.len() % 3], &[key])
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Underway {
    pub at: UnixMillis,
    /// In which life of the host the call was made.
    pub life: u64,
    pub what: Back,
}

#[derive(Debug)]
pub(super) enum Back {
    Answer(CallRef, String, Answer),
    Reply(SagaKey, StepReply),
    Signal(SagaKey, String),
}

impl World {
    /// A call is made.
    pub(super) fn called(&mut self, call: Call) {
        self.ledger.call(&call, &self.by_hash, self.now, self.life);
        let reference = call.reference.clone();
        let key = call.context.idempotency_key(reference.way.direction());
        let output = Json::parse(&format!("{{\"of\":\"{}\"}}", call.context.step)).unwrap();
        let fault = |code: &str, unknown: bool| Fault { maybe_delivered: unknown, ..Fault::new(code, "thrown") };
        let done = self.done(&call, &key, output);
        let soon = self.now.plus(Duration::from_millis(self.rng.below(400)));
        let roll =
            if self.calm || self.ledger.applied.contains(&key) { self.rng.below(60) } else { self.rng.below(100) };
        let mut send = |world: &mut Self, at: UnixMillis, answer: Answer| {
            let what = Back::Answer(reference.clone(), key.clone(), answer);
            world.underway.push(Underway { at, life: world.life, what });
        };
        let compensates = call.reference.way == StepDirection::Compensate;
        match roll {
            0..56 => {
                self.ledger.applied.insert(key.clone());
                send(self, soon, done);
            }
            56..60 => {
                self.ledger.applied.insert(key.clone());
                send(self, soon, done.clone());
                send(self, soon.plus(Duration::from_millis(300)), done);
            }
            60..68 => send(self, soon, Answer::failed(StepError::Retryable(fault("T.BUSY", false)))),
            68..76 => {
                if self.rng.percent(50) {
                    self.ledger.applied.insert(key.clone());
                }
                send(self, soon, Answer::failed(StepError::Retryable(fault("T.BROKEN", true))));
            }
            76..82 => send(self, soon, Answer::failed(StepError::Permanent(fault("T.NO", false)))),
            82..88 => {
                if self.rng.percent(60) {
                    self.ledger.applied.insert(key.clone());
                    let late = soon.plus(Duration::from_millis(2_500 + self.rng.below(300)));
                    send(self, late, done);
                }
            }
            88..91 => send(self, soon, Answer::failed(StepError::Release(fault("T.FULL", false)))),
            91..94 => {
                let error = StepError::Blocked { scope: "fn:p".to_owned(), fault: fault("T.DOWN", false) };
                send(self, soon, Answer::failed(error));
            }
            _ if compensates => send(self, soon, Answer::failed(StepError::Permanent(fault("T.STUCK", false)))),
            _ => self.pending(&call, soon, &mut send),
        }
    }

    /// A success. Some leave an event, for a stream that has to end where it does now.
    fn done(&mut self, call: &Call, key: &str, output: Json) -> Answer {
        let leaves =
            call.reference.way == StepDirection::Execute && key.len() % 3 == usize::from(call.reference.step) % 3;
        if !leaves {
            return Answer::done(output);
        }
        let append = event_of(key);
        let expected = self.store.read(|tables| tables.streams.head(&append.stream).last);
        let exact = JointAppend::Exact(ExactAppend::new(append, expected, 1));
        let events = JointAppends { list: vec![exact], at: self.now };
        if !self.ledger.pended.contains(key) {
            self.ledger.left.insert(key.to_owned());
        }
        Answer::of(AnswerResult::Done { output, messages: Vec::new(), events })
    }

    fn pending(&mut self, call: &Call, soon: UnixMillis, send: &mut impl FnMut(&mut Self, UnixMillis, Answer)) {
        let signal = format!("done-{}", call.context.step);
        let key = SagaKey {
            tenant: call.reference.key.tenant.clone(),
            id: SagaId::new(&call.context.saga_id).unwrap_or_else(|_| call.reference.key.id.clone()),
        };
        let executed = call.context.idempotency_key(call.reference.way.direction());
        // A signal ends the step, and leaves nothing.
        self.ledger.left.remove(&executed);
        self.ledger.pended.insert(executed.clone());
        self.ledger.applied.insert(executed);
        let (timeout, data) = (Some(Duration::from_millis(900)), Json::null());
        send(self, soon, Answer::of(AnswerResult::Pending { signal: Arc::from(signal.as_str()), timeout, data }));
        if self.rng.percent(70) {
            let at = self.now.plus(Duration::from_millis(self.rng.below(1_200)));
            self.underway.push(Underway { at, life: self.life, what: Back::Signal(key, signal) });
        }
    }

    /// A message of a `bus:` step was enqueued: whoever handles it replies, once or twice or never.
    pub(super) fn enqueued(&mut self, message: &waybill_core::message::Message) {
        let header = |name: &str| {
            message
                .headers
                .iter()
                .find(|(header, _)| header == name)
                .map(|(_, value)| value.clone())
                .unwrap_or_default()
        };
        let id = SagaId::new(&header("waybill-saga-id")).unwrap();
        let key = SagaKey { tenant: message.tenant.clone(), id: id.clone() };
        let way = if header("waybill-saga-direction") == "execute" {
            StepDirection::Execute
        } else {
            StepDirection::Compensate
        };
        let attempt = header("waybill-saga-attempt").parse().ok();
        let roll = if self.calm { 0 } else { self.rng.below(100) };
        let failed = |retryable: bool| Err(ReplyFailure { failure: Failure::new("T.REPLY", "thrown"), retryable });
        let (result, times) = match roll {
            0..75 => (Ok(Json::null()), if roll < 8 { 2 } else { 1 }),
            75..85 => (failed(true), 1),
            85..90 => (failed(false), 1),
            _ => (Ok(Json::null()), 0),
        };
        if result.is_ok() {
            self.ledger.applied.insert(header("idempotency-key"));
        }
        for _ in 0..times {
            let reply =
                StepReply { id: id.clone(), step: header("waybill-saga-step"), way, attempt, result: result.clone() };
            let at = self.now.plus(Duration::from_millis(self.rng.below(2_000)));
            self.underway.push(Underway { at, life: self.life, what: Back::Reply(key.clone(), reply) });
        }
    }

    /// Hands in what has come back.
    pub(super) fn come_back(&mut self) {
        let mut due = Vec::new();
        let mut index = 0;
        while index < self.underway.len() {
            if self.underway[index].at <= self.now {
                due.push(self.underway.swap_remove(index));
            } else {
                index += 1;
            }
        }
        for back in due {
            if back.life != self.life && self.rng.percent(50) && matches!(back.what, Back::Answer(..)) {
                continue;
            }
            match back.what {
                Back::Answer(call, key, answer) => self.answered(call, key, answer),
                Back::Reply(key, reply) => {
                    let command = SagaCommand::Reply { tenant: key.tenant, reply };
                    self.submit(command);
                }
                Back::Signal(key, name) => {
                    let by = ActedBy { actor: "test".to_owned(), note: None };
                    self.submit(SagaCommand::Signal { key, name, data: Json::null(), by });
                }
            }
        }
    }

    fn answered(&mut self, call: CallRef, key: String, answer: Answer) {
        let tree = self.shard.as_ref().and_then(|shard| shard.tree(&call.key)).map(|(tree, _)| tree);
        let record = tree.as_ref().and_then(|tree| tree.saga(call.saga)?.step(call.step).cloned());
        if let Some(record) = record
            && matches!(&answer.result, AnswerResult::Done { events, .. } if !events.has_exact())
            && record.is_active(StepDirection::Execute)
            && call.way == StepDirection::Execute
            && call.attempt <= record.attempt
        {
            self.ledger.told.insert(key, (self.life, record.attempt));
        }
        self.ledger.open.remove(&(call.key.clone(), call.saga, call.step, call.attempt));
        self.submit(SagaCommand::Answer { call, answer });
    }
}
