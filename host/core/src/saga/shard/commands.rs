//! What is asked of a shard, and what it asks for.

use std::sync::Arc;

use super::SagaShard;
use crate::backoff::RetryPolicy;
use crate::ids::Tenant;
use crate::message::Headers;
use crate::port::participant::StepError;
use crate::port::saga::{Acted, ActedBy, SagaAct, StepReply};
use crate::port::transport::{Fault, PluginIdentity};
use crate::saga::call::{Answer, Call, CallRef};
use crate::saga::definition::{Action, DefinitionSet, Step};
use crate::saga::error::SagaError;
use crate::saga::event::StepDirection;
use crate::saga::id::{SagaId, SagaKey};
use crate::saga::json::Json;
use crate::saga::limits::NOTE_BYTES_MAX;
use crate::saga::machine::{Turn, Verdict};
use crate::saga::state::{SagaState, StepState, Tree};
use crate::time::UnixMillis;

/// Names a command, so that its answer finds the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// A saga to start, checked by the caller but for what only the shard knows.
#[derive(Clone, Debug)]
pub struct NewSaga {
    /// Key; the id of a root.
    pub key: SagaKey,
    /// The caller chose the id.
    pub caller_id: bool,
    /// When it begins, where its id tells that; none = now. An id that tells another instant than its row costs the store one
    /// record more.
    pub at: Option<UnixMillis>,
    /// With a caller's id: beat of the shard's record before the store was asked for the id and didn't know it.
    pub looked_up: Option<u64>,
    /// Its definition and those below it.
    pub definitions: Arc<DefinitionSet>,
    /// The version that the caller named, if any: a repeat has to name the same or none.
    pub version: Option<u32>,
    pub input: Json,
    /// When it must be over; none = the definition's.
    pub deadline: Option<UnixMillis>,
    /// Handed to every step.
    pub headers: Headers,
    pub envelope_id: Option<Arc<str>>,
    /// Ties replies to the saga.
    pub correlation_id: Option<Arc<str>>,
    pub traceparent: Option<Arc<str>>,
    /// Participants that it names, with who serves them.
    pub plugins: Vec<(Arc<str>, PluginIdentity)>,
    /// Retries where the definitions don't say.
    pub default_retry: RetryPolicy,
    pub actor: Option<Arc<str>>,
}

impl NewSaga {
    /// One that begins now under an id that its caller didn't choose, and of which nothing else is said.
    pub fn new(key: SagaKey, definitions: Arc<DefinitionSet>, input: Json, default_retry: RetryPolicy) -> Self {
        Self {
            key,
            caller_id: false,
            at: None,
            looked_up: None,
            definitions,
            version: None,
            input,
            deadline: None,
            headers: Vec::new(),
            envelope_id: None,
            correlation_id: None,
            traceparent: None,
            plugins: Vec::new(),
            default_retry,
            actor: None,
        }
    }
}

/// What can be asked.
#[derive(Clone, Debug)]
pub enum SagaCommand {
    Start(Box<NewSaga>),
    /// A call was answered. One for a saga that isn't here any more is dropped.
    Answer {
        call: CallRef,
        answer: Answer,
    },
    /// An operator acts. [`SagaError::NotFound`] may be one that has ended: the store knows.
    Act {
        key: SagaKey,
        act: SagaAct,
        by: ActedBy,
    },
    Signal {
        key: SagaKey,
        name: String,
        data: Json,
        by: ActedBy,
    },
    Reply {
        tenant: Tenant,
        reply: StepReply,
    },
}

/// What a caller is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaReply {
    /// A saga is running.
    Started {
        id: SagaId,
        /// It was there already.
        duplicate: bool,
    },
    /// An act, a signal or a reply is done.
    Acted(Acted),
}

/// What is to be done outside, in order. Everything it follows from is durable.
#[derive(Debug)]
pub enum SagaEffect {
    /// Make this call and submit its answer.
    Call(Box<Call>),
    Reply {
        ticket: Ticket,
        result: Result<SagaReply, SagaError>,
    },
    /// A tree began, for metrics.
    Began {
        key: SagaKey,
    },
    /// A tree moved and is in this state now, for followers and metrics.
    Moved {
        key: SagaKey,
        state: SagaState,
        /// All that led to the state is committed.
        settled: bool,
        /// It, as it is now: it may be ahead of the events. To be dropped soon: a tree that is held elsewhere is copied when it
        /// moves.
        tree: Arc<Tree>,
        /// What it runs on.
        definitions: Arc<DefinitionSet>,
        /// The events that moved it, for the audit and for metrics of steps.
        events: Vec<crate::saga::event::Event>,
    },
}

impl SagaShard {
    fn acted(&self, slot: u64, unchanged: bool) -> Result<SagaReply, SagaError> {
        let running = self.running.get(&slot);
        let tree = running.map(|running| &running.tree).ok_or(SagaError::LookAgain)?;
        Ok(SagaReply::Acted(Acted { id: tree.key.id.clone(), state: tree.state(), unchanged }))
    }

    pub(super) fn act(
        &mut self,
        key: &SagaKey,
        act: &SagaAct,
        by: ActedBy,
        turn: Turn,
    ) -> (Option<u64>, Result<SagaReply, SagaError>) {
        let slot = match self.slot_of(key).and_then(|slot| check_note(&by).map(|()| slot)) {
            Ok(slot) => slot,
            Err(error) => return (None, Err(error)),
        };
        let note = by.note.as_deref().map(Arc::from);
        let done = self.work(slot, turn, Some(Arc::from(by.actor.as_str())), |machine| machine.act(&key.id, act, note));
        let reply = match done {
            Some(Ok(verdict)) => self.acted(slot, verdict == Verdict::Unchanged),
            Some(Err(error)) => Err(error),
            None => Err(SagaError::NotFound { id: key.id.to_string() }),
        };
        (Some(slot), reply)
    }

    pub(super) fn signal(
        &mut self,
        key: &SagaKey,
        name: &str,
        data: Json,
        by: ActedBy,
        turn: Turn,
    ) -> (Option<u64>, Result<SagaReply, SagaError>) {
        let slot = match self.slot_of(key).and_then(|slot| check_note(&by).map(|()| slot)) {
            Ok(slot) => slot,
            Err(error) => return (None, Err(error)),
        };
        let actor = Some(Arc::from(by.actor.as_str()));
        let done = self.work(slot, turn, actor, |machine| machine.signal(&key.id, name, data));
        let reply = match done {
            Some(Ok(())) => self.acted(slot, false),
            Some(Err(error)) => Err(error),
            None => Err(SagaError::NotFound { id: key.id.to_string() }),
        };
        (Some(slot), reply)
    }

    pub(super) fn reply(
        &mut self,
        tenant: Tenant,
        reply: StepReply,
        turn: Turn,
    ) -> (Option<u64>, Result<SagaReply, SagaError>) {
        let key = SagaKey { tenant, id: reply.id.clone() };
        let slot = match self.slot_of(&key) {
            Ok(slot) => slot,
            Err(error) => return (None, Err(error)),
        };
        match self.replied(slot, &key, reply) {
            Ok(Some((call, answer))) => {
                let before = self.running.get(&slot).map(|running| running.tree.events);
                self.work(slot, turn, None, |machine| {
                    machine.answer(call.saga, call.step, call.way, call.attempt, answer);
                });
                let unchanged = self.running.get(&slot).map(|running| running.tree.events) == before;
                (Some(slot), self.acted(slot, unchanged))
            }
            Ok(None) => (Some(slot), self.acted(slot, true)),
            Err(error) => (Some(slot), Err(error)),
        }
    }

    /// The attempt that a reply is about, and its answer. None when it decides nothing any more.
    fn replied(&self, slot: u64, key: &SagaKey, reply: StepReply) -> Result<Option<(CallRef, Answer)>, SagaError> {
        let gone = || SagaError::NotFound { id: key.id.to_string() };
        let running = self.running.get(&slot).ok_or_else(gone)?;
        let tree = &running.tree;
        if tree.is_ended() {
            return Err(SagaError::Ended { id: key.id.to_string(), state: tree.state().word().to_owned() });
        }
        let saga = tree.number_of(&key.id).ok_or_else(gone)?;
        let node = tree.saga(saga).ok_or_else(gone)?;
        let definition = running.definitions.by_hash(&node.definition.hash).ok_or_else(gone)?;
        let step = definition.step_number(&reply.step).ok_or_else(|| SagaError::NoStep {
            id: key.id.to_string(),
            step: reply.step.clone(),
            known: definition.steps.iter().map(|step| &*step.name).collect::<Vec<_>>().join(", "),
        })?;
        let record = node.step(step).ok_or_else(gone)?;
        let not_waiting =
            |state: String| SagaError::NotWaiting { id: key.id.to_string(), step: reply.step.clone(), state };
        if let Some(state) = definition.step(step).and_then(|defined| takes_no_reply(defined, reply.way)) {
            return Err(not_waiting(state));
        }
        if record.state == StepState::Ready {
            return Err(not_waiting(record.state.word().to_owned()));
        }
        let attempt = reply.attempt.unwrap_or(record.attempt);
        let bytes_max = self.config.limits.output_bytes_max;
        let answer = match reply.result {
            Ok(output) if output.len() > bytes_max => {
                let what = "the output".to_owned();
                return Err(SagaError::DataTooLarge { what, bytes: output.len(), bytes_max });
            }
            Ok(output) => Answer::done(output),
            Err(failed) => {
                let maybe_delivered = failed.failure.maybe_done;
                let fault = Fault { maybe_delivered, ..Fault::new(&*failed.failure.code, &*failed.failure.reason) };
                let retry = failed.retryable || maybe_delivered;
                let error = if retry { StepError::Retryable(fault) } else { StepError::Permanent(fault) };
                Answer::failed(error)
            }
        };
        let call = CallRef { key: tree.key.clone(), saga, step, way: reply.way, attempt };
        Ok(Some((call, answer)))
    }
}

/// Why a step takes no replies in a way: only those that a message asked for count, whatever the step waits for.
fn takes_no_reply(step: &Step, way: StepDirection) -> Option<String> {
    let (action, word) = match way {
        StepDirection::Execute => (Some(&step.action), "done"),
        StepDirection::Compensate => (step.undo(), "undone"),
    };
    match action {
        Some(Action::Bus(_)) => None,
        Some(action) => Some(format!("{word} by {action}, and only bus: steps take replies")),
        None => Some("not undone by anything, and only bus: steps take replies".to_owned()),
    }
}

fn check_note(by: &ActedBy) -> Result<(), SagaError> {
    let bytes = by.note.as_ref().map_or(0, String::len);
    if bytes > NOTE_BYTES_MAX {
        return Err(crate::error::InputError::TooLong { field: "reason", bytes, bytes_max: NOTE_BYTES_MAX }.into());
    }
    Ok(())
}
