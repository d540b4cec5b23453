//! What follows from what: the rules of `semantics.md` §3 for one tree of sagas.
//!
//! A machine works on a tree for one command or tick. Each decision is an event that is applied at once, so later decisions of
//! the same turn see it. A refused command has changed nothing.
//!
//! | file | holds |
//! |---|---|
//! | `advance` | what can go on: the next group, compensations in reverse, the end |
//! | `begin` | beginning a step: input, call, message, wait, sub-saga |
//! | `answer` | what a call or a reply answered |
//! | `timers` | timeouts, deadlines; what was under way when the host ended |
//! | `operators` | pause, resume, cancel, kill, retry, skip, accept |
//! | `decisions` | approvals and signals |

mod advance;
mod answer;
mod begin;
mod decisions;
mod operators;
mod timers;

use std::sync::Arc;

use super::call::Call;
use super::definition::{Definition, DefinitionSet, Step};
use super::error::SagaError;
use super::event::{Event, EventKind, Failure, PauseCause, SagaNumber, StepDirection, StepNumber, Wait};
use super::id::SagaId;
use super::limits::SagaLimits;
use super::state::{Effect, Phase, SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::message::Message;
use crate::streams::joint::JointAppends;
use crate::time::UnixMillis;

pub use begin::{MessagePlace, message_id};
pub use decisions::late_decision;
pub use operators::Verdict;
pub use timers::LostCall;

/// The rules that the model leaves out one by one, to prove that it would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Compensations go in reverse.
    Reverse,
    /// A step whose result is unknown is compensated, too.
    CompensateUnknown,
    /// Nothing is compensated while a step of its group is still being called.
    AwaitCalls,
    /// A step that isn't idempotent isn't repeated after an unknown result.
    AskOperator,
    /// An answer that comes twice counts once.
    OnceOnly,
    /// A compensation that fails for good stops the saga.
    StopWhenStuck,
    /// A late success counts.
    TakeLate,
    /// Effects wait for the commit that holds their transition.
    EffectsAfterCommit,
    /// A record of the journal is dropped only when nothing running needs it.
    KeepJournal,
    /// A repeat has the idempotency key of the first attempt.
    SameKey,
    /// A step whose events can't be appended where they were to be has failed, and nothing of it is kept.
    RefusedFails,
}

impl Rule {
    pub const ALL: [Self; 11] = [
        Self::Reverse,
        Self::CompensateUnknown,
        Self::AwaitCalls,
        Self::AskOperator,
        Self::OnceOnly,
        Self::StopWhenStuck,
        Self::TakeLate,
        Self::EffectsAfterCommit,
        Self::KeepJournal,
        Self::SameKey,
        Self::RefusedFails,
    ];
}

/// Which rules hold: all, but in a mutation of the model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    omitted: Option<Rule>,
}

impl Rules {
    /// All but one. Only for proving that the model notices. It isn't behind a feature: tests and binary would then have two cores,
    /// and core and all above it would be compiled twice.
    pub fn without(rule: Rule) -> Self {
        Self { omitted: Some(rule) }
    }
    /// Whether a rule holds.
    pub fn kept(self, rule: Rule) -> bool {
        self.omitted != Some(rule)
    }
}

/// What a turn comes with from outside.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// Now; never before an earlier turn of the shard.
    pub now: UnixMillis,
    /// Uniform in [0, 1): jitter.
    pub random: f64,
    pub limits: SagaLimits,
    /// All, but in the model.
    pub rules: Rules,
}

/// What a turn leads to, besides the changed tree.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What happened, in order; applied to the tree already.
    pub events: Vec<Event>,
    /// Calls to make once the events are durable.
    pub calls: Vec<Call>,
    /// Messages to enqueue with them.
    pub messages: Vec<Arc<Message>>,
    /// Events to append with them.
    pub appends: JointAppends,
}

/// A tree at work.
#[derive(Debug)]
pub struct Machine<'t> {
    tree: &'t mut Tree,
    definitions: &'t DefinitionSet,
    turn: Turn,
    outcome: Outcome,
    /// Sagas that may go on.
    dirty: Vec<SagaNumber>,
    actor: Option<Arc<str>>,
}

impl<'t> Machine<'t> {
    /// Takes a tree up. `actor` is who acts, if somebody does.
    pub fn new(tree: &'t mut Tree, definitions: &'t DefinitionSet, turn: Turn, actor: Option<Arc<str>>) -> Self {
        Self { tree, definitions, turn, outcome: Outcome::default(), dirty: Vec::new(), actor }
    }

    /// Goes on as far as it can and tells what came of it.
    pub fn finish(mut self) -> Outcome {
        self.run();
        self.outcome
    }

    /// The root was just begun.
    pub fn started(&mut self) {
        self.dirty.push(0);
    }

    fn emit(&mut self, saga: SagaNumber, what: EventKind) {
        self.emit_by(saga, None, what);
    }

    fn emit_by(&mut self, saga: SagaNumber, actor: Option<Arc<str>>, what: EventKind) {
        let at = self.turn.now.max(self.tree.updated_at);
        let event = Event { at, saga, actor, what };
        self.tree.apply(&event);
        self.outcome.events.push(event);
        if !self.dirty.contains(&saga) {
            self.dirty.push(saga);
        }
    }

    fn kept(&self, rule: Rule) -> bool {
        self.turn.rules.kept(rule)
    }

    fn node(&self, saga: SagaNumber) -> Option<&SagaNode> {
        self.tree.saga(saga)
    }

    fn record(&self, saga: SagaNumber, step: StepNumber) -> Option<&StepRecord> {
        self.node(saga)?.step(step)
    }

    fn definition(&self, saga: SagaNumber) -> Option<Arc<Definition>> {
        self.definitions.by_hash(&self.node(saga)?.definition.hash).cloned()
    }

    fn phase(&self, saga: SagaNumber) -> Phase {
        self.node(saga).map_or(Phase::Stuck, |node| node.phase)
    }

    /// Numbers of the sagas that aren't over.
    fn open(&self) -> Vec<SagaNumber> {
        let open = self.tree.sagas.iter().enumerate().filter(|(_, saga)| !saga.is_ended());
        open.filter_map(|(number, _)| u16::try_from(number).ok()).collect()
    }

    /// A saga and its step by name, for a command.
    fn find(&self, id: &SagaId) -> Result<SagaNumber, SagaError> {
        self.tree.number_of(id).ok_or_else(|| SagaError::NotFound { id: id.to_string() })
    }

    fn find_step(&self, saga: SagaNumber, name: &str) -> Result<StepNumber, SagaError> {
        let definition = self.definition(saga);
        let number = definition.as_ref().and_then(|definition| definition.step_number(name));
        number.ok_or_else(|| {
            let names = definition.iter().flat_map(|definition| &definition.steps).map(|step| &*step.name);
            SagaError::NoStep { id: self.id(saga), step: name.to_owned(), known: names.collect::<Vec<_>>().join(", ") }
        })
    }

    fn id(&self, saga: SagaNumber) -> String {
        self.node(saga).map_or_else(String::new, |node| node.id.to_string())
    }

    fn not_ended(&self) -> Result<(), SagaError> {
        if self.tree.is_ended() {
            let (id, state) = (self.tree.key.id.to_string(), self.tree.state().word().to_owned());
            return Err(SagaError::Ended { id, state });
        }
        Ok(())
    }

    fn state_error(&self, state: &str, fix: &str) -> SagaError {
        SagaError::State { id: self.tree.key.id.to_string(), state: state.to_owned(), fix: fix.to_owned() }
    }

    fn pause(&mut self, cause: PauseCause) {
        if self.tree.paused.is_none() {
            self.emit(0, EventKind::Paused { cause, note: None });
        }
    }

    /// Goes on when it was held for a decision that has been made.
    fn resume_decided(&mut self) {
        let asked = self.tree.paused.as_ref().is_none_or(|pause| pause.cause == PauseCause::Asked);
        if !asked && !self.waits_for_operator() {
            self.emit(0, EventKind::Resumed);
            self.wake();
        }
    }

    fn waits_for_operator(&self) -> bool {
        let mut steps = self.tree.sagas.iter().filter(|saga| !saga.is_ended()).flat_map(|saga| &saga.steps);
        steps.any(|step| step.state == StepState::InFlight && step.wait == Some(StepWait::Operator))
    }

    /// Every saga is looked at again.
    fn wake(&mut self) {
        self.dirty = self.open();
    }

    /// Whether a step has something to undo and may be undone.
    fn needs_undoing(&self, record: &StepRecord, step: &Step) -> bool {
        (record.effect != Effect::Unknown || self.kept(Rule::CompensateUnknown)) && record.needs_undoing(step)
    }
}

/// Whether a wait is for somebody who was called.
fn is_called(wait: Option<&StepWait>) -> bool {
    matches!(wait, Some(StepWait::For(Wait::Call | Wait::Reply)))
}

/// Milliseconds for an event.
fn millis(duration: std::time::Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A failure whose effect is unknown.
fn unknown(code: impl AsRef<str>, reason: &str) -> Failure {
    Failure { maybe_done: true, ..Failure::new(code, reason) }
}

/// The attempt that follows in a way.
fn next_attempt(record: &StepRecord, way: StepDirection) -> u32 {
    if record.way == Some(way) { record.attempt.saturating_add(1) } else { 1 }
}
