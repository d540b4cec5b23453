//! Beginning a step: its input, and then a call, a message, a wait or a sub-saga.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{Machine, Rule, next_attempt};
use crate::annotation::Annotation;
use crate::annotations::Annotations;
use crate::code::Code;
use crate::ids::MessageId;
use crate::message::Message;
use crate::new_message::NewMessage;
use crate::port::participant::StepContext;
use crate::saga::call::{Call, CallRef};
use crate::saga::definition::{Action, Definition, Step};
use crate::saga::event::{EventKind, Failure, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::json::Json;
use crate::saga::limits::{
    CALL_GRACE, CALL_TIMEOUT_DEFAULT, DEPTH_MAX, REPLY_TIMEOUT_DEFAULT, TREE_SAGAS_MAX, WAIT_TIMEOUT_DEFAULT,
};
use crate::time::UnixMillis;

/// Header of a `bus:` step's message that says which way it goes: `execute` or `compensate`.
pub const DIRECTION_HEADER: &str = "waybill-saga-direction";

impl Machine<'_> {
    /// Begins a step, or begins it again.
    pub(super) fn begin(&mut self, saga: SagaNumber, definition: &Definition, step: StepNumber, way: StepDirection) {
        let (Some(defined), Some(record)) = (definition.step(step), self.record(saga, step)) else { return };
        let attempt = next_attempt(record, way);
        let action = match way {
            StepDirection::Execute => &defined.action,
            StepDirection::Compensate => match defined.undo() {
                Some(action) => action,
                None => return,
            },
        };
        let made = match self.input(saga, definition, step) {
            Ok(made) => made,
            Err(failure) => return self.fail(saga, step, way, attempt, failure),
        };
        let input = made.clone().or_else(|| self.record(saga, step).and_then(|record| record.input.clone()));
        let input = input.or_else(|| self.node(saga).map(|node| node.input.clone())).unwrap_or_else(Json::null);
        match action {
            Action::Http(_) | Action::Fn(_) => {
                let timeout = defined.timeout.unwrap_or(CALL_TIMEOUT_DEFAULT);
                self.began(saga, step, way, attempt, made, Wait::Call, Some(timeout + CALL_GRACE));
                self.call(saga, defined, step, way, attempt, action, input, timeout);
            }
            Action::Bus(subject) => match self.message(saga, defined, step, way, attempt, subject, &input) {
                Ok(message) => {
                    let timeout = defined.timeout.unwrap_or(REPLY_TIMEOUT_DEFAULT);
                    self.began(saga, step, way, attempt, made, Wait::Reply, Some(timeout));
                    self.outcome.messages.push(message);
                }
                Err(failure) => self.fail(saga, step, way, attempt, failure),
            },
            Action::Signal(name) => {
                let wait = Wait::Signal(Arc::clone(name));
                let timeout = defined.timeout.unwrap_or(WAIT_TIMEOUT_DEFAULT);
                self.began(saga, step, way, attempt, made, wait, Some(timeout));
                self.take_kept_signal(saga, step, name);
            }
            Action::Approval => {
                let timeout = defined.timeout.unwrap_or(WAIT_TIMEOUT_DEFAULT);
                self.began(saga, step, way, attempt, made, Wait::Approval, Some(timeout));
            }
            Action::Saga { .. } if way == StepDirection::Compensate && defined.compensation.is_none() => {
                self.began(saga, step, way, attempt, None, Wait::Child, None);
                self.undo_child(saga, step);
            }
            Action::Saga { .. } => self.begin_child(saga, defined, step, attempt, made, input, &action.to_string()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn began(
        &mut self,
        saga: SagaNumber,
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        input: Option<Json>,
        wait: Wait,
        timeout: Option<Duration>,
    ) {
        let until = timeout.map(|timeout| self.turn.now.plus(timeout));
        self.emit(saga, EventKind::StepBegan { step, way, attempt, input, wait, until });
    }

    /// It fails for good before anybody is called.
    fn fail(&mut self, saga: SagaNumber, step: StepNumber, way: StepDirection, attempt: u32, failure: Failure) {
        let what = EventKind::StepFailed { step, way, attempt, failure, retry_at: None, plugin: None, took_ms: 0 };
        self.emit(saga, what);
    }

    /// What the mapping makes, when it has to make it: not for a step that kept its input.
    fn input(&self, saga: SagaNumber, definition: &Definition, step: StepNumber) -> Result<Option<Json>, Failure> {
        let (Some(node), Some(defined)) = (self.node(saga), definition.step(step)) else { return Ok(None) };
        let Some(mapping) = &defined.input else { return Ok(None) };
        if node.step(step).is_some_and(|record| record.input.is_some()) {
            return Ok(None);
        }
        let known = definition.steps.iter().zip(&node.steps);
        let outputs = known.filter_map(|(step, record)| Some((&*step.name, record.output.as_ref()?)));
        let made = mapping.evaluate(&node.input, outputs, node.id.as_str(), self.tree.key.tenant.as_str());
        let made = made.map_err(|reason| Failure::new(Code::SAGA_MAPPING, &reason))?;
        let bytes_max = self.turn.limits.input_bytes_max;
        if made.len() > bytes_max {
            let reason = format!("its mapping made {} bytes, at most {bytes_max} are taken", made.len());
            return Err(Failure::new(Code::SAGA_INPUT_TOO_LARGE, &reason));
        }
        Ok(Some(made))
    }

    fn context(&self, saga: SagaNumber, step: &Step, attempt: u32) -> Option<StepContext> {
        let node = self.node(saga)?;
        let started = &self.tree.started;
        let text = |text: &Option<Arc<str>>| text.as_ref().map(ToString::to_string);
        Some(StepContext {
            saga_id: node.id.to_string(),
            definition: node.definition.name.to_string(),
            definition_version: node.definition.version,
            tenant: self.tree.key.tenant.to_string(),
            step: step.name.to_string(),
            attempt,
            envelope_id: text(&started.envelope_id),
            correlation_id: text(&started.correlation_id).or_else(|| Some(self.tree.key.id.to_string())),
            saga_deadline: node.deadline,
            traceparent: text(&started.traceparent),
            headers: started.headers.clone(),
            attributes: Vec::new(),
        })
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one call")]
    fn call(
        &mut self,
        saga: SagaNumber,
        defined: &Step,
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        action: &Action,
        input: Json,
        timeout: Duration,
    ) {
        let (Some(mut context), Some(record)) = (self.context(saga, defined, attempt), self.record(saga, step)) else {
            return;
        };
        if !self.kept(Rule::SameKey) {
            context.saga_id = format!("{}-{attempt}", context.saga_id);
        }
        let call = Call {
            reference: CallRef { key: self.tree.key.clone(), saga, step, way, attempt },
            action: action.clone(),
            context,
            input,
            output: (way == StepDirection::Compensate).then(|| record.output.clone()).flatten(),
            timeout,
            retry: defined.retry.over(&self.tree.started.default_retry),
            retry_plugin: defined.retry_plugin.clone(),
            failures: record.failures,
            previous_delay: Duration::from_millis(record.delay_ms),
            began_at: record.began_at.unwrap_or(self.turn.now),
            started_at: self.tree.root().map_or(self.turn.now, |root| root.started_at),
        };
        self.outcome.calls.push(call);
    }

    /// The message of a `bus:` step: input as payload, the idempotency key and the saga in headers. Its id differs by attempt, also
    /// when attempts are counted from 1 again because the saga has turned round, so that a repeat is delivered.
    #[expect(clippy::too_many_arguments, reason = "the fields of one message")]
    fn message(
        &self,
        saga: SagaNumber,
        defined: &Step,
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        subject: &str,
        input: &Json,
    ) -> Result<Arc<Message>, Failure> {
        let refuse = |reason: &str| Failure::new(Code::OUTBOX_TOPIC, reason);
        let context = self.context(saga, defined, attempt).ok_or_else(|| refuse("its saga is gone"))?;
        let key = context.idempotency_key(way.direction());
        let mut headers = context.headers.clone();
        headers.retain(|(name, _)| !name.to_ascii_lowercase().starts_with("waybill-saga"));
        for (name, value) in [
            ("idempotency-key", key.clone()),
            ("waybill-saga-id", context.saga_id.clone()),
            ("waybill-saga-step", context.step.clone()),
            (DIRECTION_HEADER, way.as_str().to_owned()),
            ("waybill-saga-attempt", attempt.to_string()),
        ] {
            headers.push((name.to_owned(), value));
        }
        let output = self.record(saga, step).and_then(|record| record.output.clone());
        let payload = match (way, output) {
            (StepDirection::Compensate, output) => {
                let output = output.as_ref().map_or("null", Json::as_str);
                format!("{{\"input\":{},\"output\":{output}}}", input.as_str())
            }
            (StepDirection::Execute, _) => input.as_str().to_owned(),
        };
        let correlation: String = key.chars().take(crate::limits::TEXT_BYTES_MAX).collect();
        let mut annotations = Annotations::from([
            (Annotation::ContentType, "application/json"),
            (Annotation::CorrelationId, correlation.as_str()),
        ]);
        annotations.set(Annotation::EnvelopeId, context.envelope_id);
        annotations.set(Annotation::Traceparent, context.traceparent);
        let message = NewMessage {
            topic: format!("bus:{subject}"),
            payload: Bytes::from(payload),
            id: Some(message_id(&key, MessagePlace::Step { event: self.tree.events })),
            tenant: Some(context.tenant),
            headers,
            annotations,
            ..NewMessage::default()
        };
        let draft = message
            .check(self.turn.now, self.turn.limits.message_bytes_max)
            .map_err(|error| Failure::new(error.code(), &error.to_string()))?;
        Ok(draft.message)
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one event")]
    fn begin_child(
        &mut self,
        saga: SagaNumber,
        defined: &Step,
        step: StepNumber,
        attempt: u32,
        made: Option<Json>,
        input: Json,
        uri: &str,
    ) {
        let Some(parent) = self.node(saga) else { return };
        let id = parent.id.child(&defined.name);
        let depth = id.as_str().matches(crate::saga::id::CHILD_SEPARATOR).count() + 1;
        let limits = depth <= DEPTH_MAX && self.tree.sagas.len() < TREE_SAGAS_MAX;
        let Some(child) = self.definitions.resolve_uri(uri).filter(|_| limits).cloned() else {
            let failure = if limits {
                Failure::new(Code::SAGA_NO_DEFINITION, &format!("{uri} wasn't there when the saga began"))
            } else {
                let reason = format!("at most {TREE_SAGAS_MAX} sagas, {DEPTH_MAX} deep, belong to one root");
                Failure::new(Code::SAGA_TREE_TOO_LARGE, &reason)
            };
            return self.fail(saga, step, StepDirection::Execute, attempt, failure);
        };
        let deadline = child.deadline.map(|deadline| self.turn.now.plus(deadline));
        self.began(saga, step, StepDirection::Execute, attempt, made, Wait::Child, defined.timeout);
        let steps = u16::try_from(child.steps.len()).unwrap_or(u16::MAX);
        self.emit(saga, EventKind::ChildStarted { step, id, definition: child.reference(), steps, input, deadline });
        if let Some(child) = self.tree.child_of(saga, step) {
            self.dirty.push(child);
        }
    }

    /// Compensates a sub-saga that had completed.
    fn undo_child(&mut self, saga: SagaNumber, step: StepNumber) {
        let failure = self.node(saga).and_then(|node| node.failure.clone());
        let failure = failure.unwrap_or_else(|| Failure::new(Code::SAGA_CANCELLED, "its parent goes back"));
        if let Some(child) = self.tree.child_of(saga, step) {
            self.emit(child, EventKind::CompensationStarted { failure });
        }
    }
}

/// What a message is to its step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessagePlace {
    /// The message of a `bus:` step, begun after so many events of the tree: every attempt has another.
    Step {
        /// Events before the attempt.
        event: u32,
    },
    /// One that an answer left behind, by its place among them, from 0: the same on every attempt.
    Left(usize),
}

/// Id of a message of a step. `key` is the idempotency key of the call. What an answer leaves behind has the same id whenever it
/// is made again, so that a repeat enqueues nothing new.
pub fn message_id(key: &str, place: MessagePlace) -> String {
    use sha2::{Digest, Sha256};
    let mut hash = Sha256::new();
    hash.update(key.as_bytes());
    match place {
        MessagePlace::Left(position) => hash.update(format!("#{position}")),
        // Not of the form "@attempt" that ids once had: what was sent then must not swallow what is sent now.
        MessagePlace::Step { event } => hash.update(format!("@event-{event}")),
    }
    let digest = hash.finalize();
    let text: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    MessageId::new(format!("saga-{text}")).map_or_else(|_| text.clone(), |id| id.to_string())
}

/// When an attempt that wasn't made is tried again.
pub(super) fn released_until(now: UnixMillis, released: u32, after: Option<Duration>) -> UnixMillis {
    use crate::saga::limits::{RELEASED_DELAY, RELEASED_DELAY_MAX, RETRY_AFTER_MAX};
    let grown = RELEASED_DELAY.saturating_mul(1_u32 << released.min(10)).min(RELEASED_DELAY_MAX);
    now.plus(after.map_or(grown, |after| after.min(RETRY_AFTER_MAX).max(Duration::from_millis(1))))
}
