//! What operators do to a tree.

use std::sync::Arc;

use super::Machine;
use crate::code::Code;
use crate::port::saga::{RetryMode, SagaAct};
use crate::saga::definition::{Action, Definition};
use crate::saga::error::SagaError;
use crate::saga::event::{End, EventKind, Failure, PauseCause, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::id::SagaId;
use crate::saga::state::{Phase, StepRecord, StepState, StepWait};

/// Whether an act changed something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Changed,
    /// It was so already.
    Unchanged,
}

impl Machine<'_> {
    /// Does an act, or refuses it with nothing changed.
    pub fn act(&mut self, id: &SagaId, act: &SagaAct, note: Option<Arc<str>>) -> Result<Verdict, SagaError> {
        let saga = self.find(id)?;
        if !matches!(act, SagaAct::Approve { .. } | SagaAct::Reject { .. }) {
            self.not_ended()?;
        }
        let whole = matches!(act, SagaAct::Pause | SagaAct::Resume | SagaAct::Cancel | SagaAct::Kill);
        if whole && saga != 0 {
            return Err(SagaError::NotRoot { id: id.to_string(), root: self.tree.key.id.to_string() });
        }
        match act {
            SagaAct::Pause => Ok(self.hold(note)),
            SagaAct::Resume => self.resume(),
            SagaAct::Cancel => self.cancel(note),
            SagaAct::Kill => {
                self.end_all(End::Killed, note);
                Ok(Verdict::Changed)
            }
            SagaAct::Accept if self.tree.stuck().is_none() => {
                Err(self.state_error(self.tree.state().word(), "only a stuck compensation can be accepted"))
            }
            SagaAct::Accept => {
                self.end_all(End::Accepted, note);
                Ok(Verdict::Changed)
            }
            SagaAct::Retry { step: Some(step), .. } => self.retry_from(saga, step),
            SagaAct::Retry { step: None, mode } if self.tree.stuck().is_some() => self.retry_stuck(*mode),
            SagaAct::Retry { step: None, .. } => self.retry_waiting(),
            SagaAct::Skip { step } => self.skip(saga, step, note),
            SagaAct::Approve { step, since } => {
                self.decide(id, (step.as_deref(), *since), true, note).map(|()| Verdict::Changed)
            }
            SagaAct::Reject { step, since } => {
                self.decide(id, (step.as_deref(), *since), false, note).map(|()| Verdict::Changed)
            }
        }
    }

    fn by_actor(&mut self, saga: SagaNumber, what: EventKind) {
        let actor = self.actor.clone();
        self.emit_by(saga, actor, what);
    }

    fn hold(&mut self, note: Option<Arc<str>>) -> Verdict {
        if self.tree.paused.as_ref().is_some_and(|pause| pause.cause == PauseCause::Asked) {
            return Verdict::Unchanged;
        }
        self.by_actor(0, EventKind::Paused { cause: PauseCause::Asked, note });
        Verdict::Changed
    }

    fn resume(&mut self) -> Result<Verdict, SagaError> {
        if self.waits_for_operator() {
            let fix = "use retry to call it again, skip to go on without it, or cancel to compensate";
            return Err(self.state_error("waiting for a decision about a step whose result is unknown", fix));
        }
        if self.tree.paused.is_none() {
            return Ok(Verdict::Unchanged);
        }
        self.by_actor(0, EventKind::Resumed);
        self.late_deadlines();
        self.wake();
        Ok(Verdict::Changed)
    }

    /// Deadlines that passed while it was held.
    fn late_deadlines(&mut self) {
        if self.tree.sagas.iter().any(|saga| saga.deadline.is_some_and(|deadline| deadline <= self.turn.now)) {
            self.tick();
        }
    }

    fn cancel(&mut self, note: Option<Arc<str>>) -> Result<Verdict, SagaError> {
        if self.tree.stuck().is_some() {
            let fix = "use retry to try the compensation again, skip or accept";
            return Err(self.state_error("stuck in a compensation", fix));
        }
        let is_back = self.phase(0) == Phase::Back;
        let undecided = self.undoing_is_undecided();
        if is_back && undecided {
            let fix = "use retry to call it again, or skip to leave it as it is";
            return Err(self.state_error("waiting for a decision about a compensation whose result is unknown", fix));
        }
        if is_back && self.tree.paused.is_none() {
            return Ok(Verdict::Unchanged);
        }
        if !is_back {
            let by = self.actor.as_deref().unwrap_or("somebody");
            let why = note.as_deref().map_or_else(String::new, |note| format!(": {note}"));
            let failure = Failure::new(Code::SAGA_CANCELLED, &format!("cancelled by {by}{why}"));
            self.by_actor(0, EventKind::CompensationStarted { failure });
        }
        if self.tree.paused.is_some() && !undecided {
            self.by_actor(0, EventKind::Resumed);
        }
        self.wake();
        Ok(Verdict::Changed)
    }

    /// Whether a compensation waits for an operator: cancelling doesn't decide about it.
    fn undoing_is_undecided(&self) -> bool {
        let mut steps = self.tree.sagas.iter().filter(|saga| !saga.is_ended()).flat_map(|saga| &saga.steps);
        steps.any(|step| step.is_active(StepDirection::Compensate) && step.wait == Some(StepWait::Operator))
    }

    fn end_all(&mut self, end: End, note: Option<Arc<str>>) {
        let mut open = self.open();
        open.reverse();
        for saga in open {
            self.by_actor(saga, EventKind::Ended { end, note: note.clone() });
        }
    }

    /// A stuck compensation again, or forward again.
    fn retry_stuck(&mut self, mode: RetryMode) -> Result<Verdict, SagaError> {
        let Some(saga) = self.tree.stuck() else { return Ok(Verdict::Unchanged) };
        let steps: Vec<(StepNumber, StepState)> = self.states(saga);
        let stuck = |way: StepDirection| {
            steps
                .iter()
                .filter(|(_, state)| *state == StepState::CompensationFailed)
                .map(move |(step, _)| EventKind::StepReset { step: *step, way })
                .collect::<Vec<_>>()
        };
        let undo = stuck(StepDirection::Compensate);
        if mode == RetryMode::Retry {
            let undone = self.tree.sagas.iter().flat_map(|saga| &saga.steps);
            let undone =
                undone.filter(|step| step.state == StepState::Compensated || step.compensation_skipped).count();
            if undone > 0 || saga != 0 {
                let fix = "it can only go back: use retry with mode compensate, skip or accept";
                return Err(self.state_error(&format!("stuck with {undone} steps compensated already"), fix));
            }
            let failed = steps.iter().filter(|(_, state)| *state == StepState::Failed);
            if failed.clone().any(|(step, _)| self.tree.child_of(saga, *step).is_some()) {
                let fix = "a sub-saga begins once: use retry with mode compensate, skip or accept";
                return Err(self.state_error("stuck after a sub-saga failed", fix));
            }
        }
        for what in undo {
            self.by_actor(saga, what);
        }
        if mode == RetryMode::Retry {
            self.by_actor(saga, EventKind::ForwardAgain);
            for (step, state) in self.states(saga) {
                if state == StepState::Failed {
                    self.by_actor(saga, EventKind::StepReset { step, way: StepDirection::Execute });
                }
            }
        }
        Ok(Verdict::Changed)
    }

    fn states(&self, saga: SagaNumber) -> Vec<(StepNumber, StepState)> {
        let steps = self.node(saga).map(|node| node.steps.as_slice()).unwrap_or_default().iter().enumerate();
        steps.filter_map(|(number, step)| Some((u16::try_from(number).ok()?, step.state))).collect()
    }

    /// Whatever waits for its next attempt or for an operator.
    fn retry_waiting(&mut self) -> Result<Verdict, SagaError> {
        let mut again = Vec::new();
        for saga in self.open() {
            for (step, _) in self.states(saga) {
                let record = self.record(saga, step);
                if let Some(way) = record.filter(|record| waits(record)).and_then(|record| record.way) {
                    again.push((saga, step, way));
                }
            }
        }
        if again.is_empty() {
            let fix = "nothing waits to be tried again; a paused saga can be retried from a step";
            return Err(self.state_error(self.tree.state().word(), fix));
        }
        for (saga, step, way) in again {
            self.by_actor(saga, EventKind::StepReset { step, way });
        }
        self.resume_decided();
        Ok(Verdict::Changed)
    }

    /// A step and everything behind it anew.
    fn retry_from(&mut self, saga: SagaNumber, name: &str) -> Result<Verdict, SagaError> {
        let step = self.find_step(saga, name)?;
        let Some(definition) = self.definition(saga) else { return Ok(Verdict::Unchanged) };
        if self.tree.paused.is_none()
            && self.record(saga, step).is_some_and(waits)
            && self.phase(saga) == Phase::Forward
        {
            self.by_actor(saga, EventKind::StepReset { step, way: StepDirection::Execute });
            return Ok(Verdict::Changed);
        }
        if self.tree.paused.is_none() || self.phase(saga) != Phase::Forward {
            let fix = "pause it first; only a saga that goes forward can be retried from a step";
            return Err(self.state_error(self.tree.state().word(), fix));
        }
        let steps = behind(&definition, step);
        for number in &steps {
            let Some(record) = self.record(saga, *number) else { continue };
            let nested = definition.step(*number).is_some_and(|step| matches!(step.action, Action::Saga { .. }));
            if record.is_called() || nested && record.state != StepState::Ready {
                let name = self.step_name(saga, *number);
                let fix =
                    format!("step {name:?} is being called or has begun a sub-saga: choose a step behind it, or wait");
                return Err(self.state_error("paused", &fix));
            }
        }
        for number in steps {
            if self.record(saga, number).is_some_and(|record| record.state != StepState::Ready) {
                self.by_actor(saga, EventKind::StepReset { step: number, way: StepDirection::Execute });
            }
        }
        if !self.waits_for_operator() {
            self.by_actor(0, EventKind::Resumed);
            self.wake();
        }
        Ok(Verdict::Changed)
    }

    fn skip(&mut self, saga: SagaNumber, name: &str, note: Option<Arc<str>>) -> Result<Verdict, SagaError> {
        let step = self.find_step(saga, name)?;
        let Some(record) = self.record(saga, step) else { return Ok(Verdict::Unchanged) };
        let idle = record.state == StepState::InFlight
            && !record.is_called()
            && record.wait != Some(StepWait::For(Wait::Child));
        let way = match (self.phase(saga), record.state) {
            (_, StepState::Skipped) => return Ok(Verdict::Unchanged),
            (Phase::Forward, StepState::Ready) => StepDirection::Execute,
            (Phase::Forward, StepState::InFlight) if idle => StepDirection::Execute,
            (Phase::Stuck | Phase::Back, StepState::CompensationFailed) => StepDirection::Compensate,
            (Phase::Back, StepState::InFlight) if idle && record.way == Some(StepDirection::Compensate) => {
                StepDirection::Compensate
            }
            (_, state) => {
                let fix = "only a step that isn't begun or waits, or a stuck compensation, can be skipped";
                return Err(SagaError::State {
                    id: self.id(saga),
                    state: format!("at {name} ({})", state.word()),
                    fix: fix.to_owned(),
                });
            }
        };
        self.by_actor(saga, EventKind::StepSkipped { step, way, note });
        self.resume_decided();
        Ok(Verdict::Changed)
    }
}

/// Whether a step waits for its next attempt or for an operator.
fn waits(record: &StepRecord) -> bool {
    record.state == StepState::InFlight && (record.waits_for_attempt() || record.wait == Some(StepWait::Operator))
}

/// A step and all in later groups.
fn behind(definition: &Definition, step: StepNumber) -> Vec<StepNumber> {
    let index = usize::from(step);
    let end = definition.groups.iter().find(|group| group.contains(&index)).map_or(definition.steps.len(), |g| g.end);
    let later = end..definition.steps.len();
    std::iter::once(step).chain(later.filter_map(|index| u16::try_from(index).ok())).collect()
}
