//! What comes from outside for a waiting step: a person's decision, a signal.

use std::sync::Arc;

use super::{Machine, Rules, Turn};
use crate::code::Code;
use crate::error::InputError;
use crate::saga::definition::DefinitionSet;
use crate::saga::definition::uri::APPROVAL;
use crate::saga::error::SagaError;
use crate::saga::event::{EventKind, Failure, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::id::{NAME_RULE, SagaId, is_name};
use crate::saga::json::Json;
use crate::saga::limits::{SIGNAL_BYTES_MAX, SIGNALS_MAX, SagaLimits};
use crate::saga::state::{StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

/// Why a tree that has ended takes no decision about a step: the named one, or the one decided last. As the tree's shard answers
/// while it has it in memory.
pub fn late_decision(tree: &Tree, definitions: &DefinitionSet, id: &SagaId, step: Option<&str>) -> SagaError {
    let mut tree = tree.clone();
    let ended = SagaError::Ended { id: id.to_string(), state: tree.state().word().to_owned() };
    let (now, limits, rules) = (tree.updated_at, SagaLimits::default(), Rules::default());
    let mut machine = Machine::new(&mut tree, definitions, Turn { now, random: 0.0, limits, rules }, None);
    machine.decide(id, (step, None), true, None).err().unwrap_or(ended)
}

impl Machine<'_> {
    /// Approves or rejects a waiting step: the named one, in the wait that began then if that is told.
    pub fn decide(
        &mut self,
        id: &SagaId,
        (step, since): (Option<&str>, Option<UnixMillis>),
        approved: bool,
        note: Option<Arc<str>>,
    ) -> Result<(), SagaError> {
        let saga = self.find(id)?;
        let step = self.approval(saga, step)?;
        if self.tree.is_ended() {
            return Err(self.decided_or_ended(saga, step));
        }
        let record = self.record(saga, step);
        let Some(record) = record.filter(|record| record.wait == Some(StepWait::For(Wait::Approval))) else {
            return Err(self.not_waiting(saga, step));
        };
        if let Some(at) = record.until.filter(|until| *until <= self.turn.now) {
            return Err(SagaError::ApprovalExpired { id: self.id(saga), step: self.step_name(saga, step), at });
        }
        if let Some(now) = record.since.filter(|began| since.is_some_and(|since| since != *began)) {
            let state = format!("in another wait by now, since {now}");
            return Err(SagaError::NotWaiting { id: self.id(saga), step: self.step_name(saga, step), state });
        }
        let (way, attempt) = (record.way.unwrap_or(StepDirection::Execute), record.attempt);
        let actor = self.actor.clone();
        self.emit_by(saga, actor.clone(), EventKind::Decided { step, approved, note: note.clone() });
        if approved {
            let by = actor.as_deref().unwrap_or_default();
            let output = Json::of(&serde_json::json!({ "approved": true, "by": by, "note": note.as_deref() }));
            let output = (way == StepDirection::Execute).then_some(output);
            let (plugin, took_ms, late) = (None, 0, false);
            self.emit(saga, EventKind::StepSucceeded { step, way, attempt, output, plugin, took_ms, late });
        } else {
            let why = note.as_deref().map_or_else(String::new, |note| format!(": {note}"));
            let reason = format!("rejected by {}{why}", actor.as_deref().unwrap_or("somebody"));
            let failure = Failure::new(Code::SAGA_REJECTED, &reason);
            let (retry_at, plugin, took_ms) = (None, None, 0);
            self.emit(saga, EventKind::StepFailed { step, way, attempt, failure, retry_at, plugin, took_ms });
        }
        Ok(())
    }

    /// The step that is meant: the named one, or the only one that waits for a decision.
    fn approval(&self, saga: SagaNumber, name: Option<&str>) -> Result<StepNumber, SagaError> {
        if let Some(name) = name {
            return self.find_step(saga, name);
        }
        let steps = self.node(saga).map(|node| node.steps.as_slice()).unwrap_or_default().iter().enumerate();
        let waits = |step: &StepRecord| step.wait == Some(StepWait::For(Wait::Approval));
        let waiting: Vec<usize> = steps.filter(|(_, step)| waits(step)).map(|(number, _)| number).collect();
        match waiting.as_slice() {
            [one] => Ok(u16::try_from(*one).unwrap_or(u16::MAX)),
            [] => match self.last_decision(saga) {
                Some(step) if self.tree.is_ended() => Err(self.decided_or_ended(saga, step)),
                Some(step) => Err(self.not_waiting(saga, step)),
                None => {
                    self.not_ended()?;
                    Err(self.state_error("not waiting for a decision", "look at it with `waybill saga show`"))
                }
            },
            several => {
                let names: Vec<String> = several
                    .iter()
                    .filter_map(|number| u16::try_from(*number).ok())
                    .map(|number| self.step_name(saga, number))
                    .collect();
                let fix = format!("name one of the steps {}", names.join(", "));
                Err(self.state_error("waiting for several decisions", &fix))
            }
        }
    }

    /// Why a step of an ended tree takes no decision: somebody made it, its time was over, or else because the tree has ended.
    fn decided_or_ended(&self, saga: SagaNumber, step: StepNumber) -> SagaError {
        let refusal = self.not_waiting(saga, step);
        let is_told = matches!(refusal, SagaError::ApprovalExpired { .. }) || self.tree.decision(saga, step).is_some();
        match self.not_ended() {
            Err(ended) if !is_told => ended,
            _ => refusal,
        }
    }

    fn last_decision(&self, saga: SagaNumber) -> Option<StepNumber> {
        let decided = self.tree.events().filter(|event| event.saga == saga);
        decided
            .filter_map(|event| match &event.what {
                EventKind::Decided { step, .. } => Some(*step),
                EventKind::StepFailed { step, failure, .. }
                    if &*failure.code == Code::SAGA_APPROVAL_EXPIRED.as_str() =>
                {
                    Some(*step)
                }
                _ => None,
            })
            .last()
    }

    pub(super) fn step_name(&self, saga: SagaNumber, step: StepNumber) -> String {
        let definition = self.definition(saga);
        let step = definition.as_ref().and_then(|definition| definition.step(step));
        step.map_or_else(String::new, |step| step.name.to_string())
    }

    fn not_waiting(&self, saga: SagaNumber, step: StepNumber) -> SagaError {
        let (id, name) = (self.id(saga), self.step_name(saga, step));
        let Some(record) = self.record(saga, step) else {
            return SagaError::NoStep { id, step: name, known: String::new() };
        };
        let expired =
            record.failure.as_ref().is_some_and(|failure| &*failure.code == Code::SAGA_APPROVAL_EXPIRED.as_str());
        if let Some(at) = record.ended_at.filter(|_| expired) {
            return SagaError::ApprovalExpired { id, step: name, at };
        }
        let state = match self.tree.decision(saga, step) {
            Some((approved, actor, at)) => {
                let word = if approved { "approved" } else { "rejected" };
                format!("{word} already, by {} at {at}", actor.as_deref().unwrap_or("somebody"))
            }
            None => record.state.word().to_owned(),
        };
        SagaError::NotWaiting { id, step: name, state }
    }

    /// Takes a signal: for the step that waits for it, or to keep.
    pub fn signal(&mut self, id: &SagaId, name: &str, data: Json) -> Result<(), SagaError> {
        let saga = self.find(id)?;
        self.not_ended()?;
        if self.node(saga).is_some_and(super::SagaNode::is_ended) {
            let state = self.node(saga).map_or("", |node| node.state().word()).to_owned();
            return Err(SagaError::Ended { id: id.to_string(), state });
        }
        if name == APPROVAL {
            return Err(self.state_error("decided by persons", "use approve or reject for wait:approval"));
        }
        if !is_name(name) {
            return Err(InputError::name("signal", name, NAME_RULE).into());
        }
        if data.len() > SIGNAL_BYTES_MAX {
            let what = format!("the data of signal {name:?}");
            return Err(SagaError::DataTooLarge { what, bytes: data.len(), bytes_max: SIGNAL_BYTES_MAX });
        }
        let kept = self.node(saga).map_or(0, |node| node.signals.len());
        let step = self.waits_for_signal(saga, name);
        if step.is_none() && kept >= SIGNALS_MAX {
            return Err(SagaError::SignalsFull { id: id.to_string(), count: SIGNALS_MAX });
        }
        let actor = self.actor.clone();
        self.emit_by(saga, actor, EventKind::Signalled { name: Arc::from(name), data: data.clone(), step });
        if let Some(step) = step {
            self.signalled(saga, step, data);
        }
        Ok(())
    }

    fn waits_for_signal(&self, saga: SagaNumber, name: &str) -> Option<StepNumber> {
        let waits = |step: &StepRecord| match &step.wait {
            Some(StepWait::For(Wait::Signal(signal)) | StepWait::Pending(signal)) => {
                step.state == StepState::InFlight && **signal == *name
            }
            _ => false,
        };
        let index = self.node(saga)?.steps.iter().position(waits)?;
        u16::try_from(index).ok()
    }

    /// A step's signal is here.
    fn signalled(&mut self, saga: SagaNumber, step: StepNumber, data: Json) {
        let Some(record) = self.record(saga, step) else { return };
        let (way, attempt) = (record.way.unwrap_or(StepDirection::Execute), record.attempt);
        let output = (way == StepDirection::Execute).then_some(data);
        let (plugin, took_ms, late) = (None, 0, false);
        self.emit(saga, EventKind::StepSucceeded { step, way, attempt, output, plugin, took_ms, late });
    }

    /// Takes a signal that came before its wait.
    pub(super) fn take_kept_signal(&mut self, saga: SagaNumber, step: StepNumber, name: &Arc<str>) {
        let kept = self.node(saga).and_then(|node| node.signals.iter().find(|(kept, _)| kept == name).cloned());
        if let Some((name, data)) = kept {
            self.emit(saga, EventKind::SignalTaken { name });
            self.signalled(saga, step, data);
        }
    }
}
