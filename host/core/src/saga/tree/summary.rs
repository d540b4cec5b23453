//! What a tree says about itself without being unpacked.

use std::sync::Arc;

use crate::outbox::records::DeadState;
use crate::saga::definition::DefinitionSet;
use crate::saga::event::{EventKind, PauseCause, SagaNumber, Wait};
use crate::saga::records::{SagaDead, SagaSummary};
use crate::saga::state::{SagaNode, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

/// What a step waits for, in one word.
pub fn wait_word(wait: &StepWait) -> &'static str {
    match wait {
        StepWait::For(Wait::Call) => "call",
        StepWait::For(Wait::Reply) => "reply",
        StepWait::For(Wait::Signal(_)) | StepWait::Pending(_) => "signal",
        StepWait::For(Wait::Approval) => "approval",
        StepWait::For(Wait::Child) => "saga",
        StepWait::Retry | StepWait::Lost => "retry",
        StepWait::Released(_) => "blocked",
        StepWait::Operator => "operator",
    }
}

/// The same with the name of the signal, for columns.
fn wait_name(wait: &StepWait) -> Arc<str> {
    match wait {
        StepWait::For(Wait::Signal(name)) | StepWait::Pending(name) => Arc::from(format!("signal:{name}")),
        wait => Arc::from(wait_word(wait)),
    }
}

/// How much a wait says about why nothing moves: an operator before people before machines.
fn rank(wait: &StepWait) -> u8 {
    match wait {
        StepWait::Operator => 0,
        StepWait::For(Wait::Approval) => 1,
        StepWait::For(Wait::Signal(_)) | StepWait::Pending(_) => 2,
        StepWait::Released(_) => 3,
        StepWait::Retry | StepWait::Lost => 4,
        StepWait::For(Wait::Reply) => 5,
        StepWait::For(Wait::Call) => 6,
        StepWait::For(Wait::Child) => 7,
    }
}

impl Tree {
    /// Columns of its row. `definitions` gives the names of steps.
    pub fn summary(&self, definitions: &DefinitionSet) -> SagaSummary {
        let root = self.root();
        let (waiting_for, since, until) = self.waiting();
        let failure = self.failure();
        SagaSummary {
            key: self.key.clone(),
            definition: self.started.definition.clone(),
            state: self.state(),
            waiting_for,
            since,
            until,
            steps: self.named_steps(definitions),
            code: failure.map(|failure| Arc::clone(&failure.code)),
            reason: failure.map(|failure| Arc::clone(&failure.reason)),
            started_at: root.map_or(self.updated_at, |root| root.started_at),
            updated_at: self.updated_at,
            ended_at: root.and_then(|root| root.ended_at),
            deadline: self.started.deadline,
        }
    }

    fn open_steps(&self) -> impl Iterator<Item = (&SagaNode, usize, &StepRecord)> {
        let open = self.sagas.iter().filter(|saga| !saga.is_ended());
        open.flat_map(|saga| saga.steps.iter().enumerate().map(move |(index, step)| (saga, index, step)))
    }

    /// What the whole waits for, since when and until when.
    pub fn waiting(&self) -> (Option<Arc<str>>, Option<UnixMillis>, Option<UnixMillis>) {
        if self.is_ended() {
            return (None, None, None);
        }
        let operator = || Some(Arc::from("operator"));
        if let Some(stuck) = self.stuck().and_then(|number| self.saga(number)) {
            let failed = stuck.steps.iter().filter(|step| step.state == StepState::CompensationFailed);
            return (operator(), failed.filter_map(|step| step.ended_at).max(), None);
        }
        if let Some(pause) = &self.paused {
            return (operator(), Some(pause.at), None);
        }
        let waits = self.open_steps().filter_map(|(_, _, step)| Some((step.wait.as_ref()?, step)));
        match waits.min_by_key(|(wait, _)| rank(wait)) {
            Some((wait, step)) => (Some(wait_name(wait)), step.since, step.until),
            None => (None, Some(self.updated_at), None),
        }
    }

    /// Whether it waits for a person's decision before anything else: its row says so, too.
    pub fn asks(&self) -> bool {
        if self.is_ended() || self.needs_operator() {
            return false;
        }
        let waits = self.open_steps().filter_map(|(_, _, step)| step.wait.as_ref());
        matches!(waits.min_by_key(|wait| rank(wait)), Some(StepWait::For(Wait::Approval)))
    }

    /// Why it went back, is held or is stuck.
    fn failure(&self) -> Option<&crate::saga::event::Failure> {
        let stuck = self.stuck().and_then(|number| self.saga(number)).and_then(|saga| {
            let failed = saga.steps.iter().find(|step| step.state == StepState::CompensationFailed);
            failed.and_then(|step| step.failure.as_ref())
        });
        let held = self.paused.as_ref().filter(|pause| pause.cause != PauseCause::Asked).and_then(|_| {
            let mut steps = self.open_steps();
            steps
                .find(|(_, _, step)| step.wait == Some(StepWait::Operator))
                .and_then(|(_, _, step)| step.failure.as_ref())
        });
        stuck.or(held).or_else(|| self.root().and_then(|root| root.failure.as_ref()))
    }

    /// Path of a saga's steps: nothing for the root, else the names of the steps that lead to it.
    pub fn path(&self, number: SagaNumber) -> String {
        let id = self.saga(number).map_or("", |saga| saga.id.as_str());
        match id.split_once(crate::saga::id::CHILD_SEPARATOR) {
            Some((_, path)) => format!("{}/", path.replace(crate::saga::id::CHILD_SEPARATOR, "/")),
            None => String::new(),
        }
    }

    fn named_steps(&self, definitions: &DefinitionSet) -> Vec<Arc<str>> {
        let ended = self.is_ended();
        let mut names = Vec::new();
        for (number, saga) in self.sagas.iter().enumerate() {
            let Some(definition) = definitions.by_hash(&saga.definition.hash) else { continue };
            let path = u16::try_from(number).map_or_else(|_| String::new(), |number| self.path(number));
            for (step, defined) in saga.steps.iter().zip(&definition.steps) {
                let listed = match step.state {
                    StepState::InFlight => !ended,
                    StepState::CompensationFailed => true,
                    StepState::Failed => ended,
                    _ => false,
                };
                if listed && path.is_empty() {
                    names.push(Arc::clone(&defined.name));
                } else if listed {
                    names.push(Arc::from(format!("{path}{}", defined.name)));
                }
            }
        }
        names
    }

    /// The dead letter of a stuck one.
    pub fn dead_letter(&self, definitions: &DefinitionSet) -> Option<SagaDead> {
        let saga = self.saga(self.stuck()?)?;
        let index = saga.steps.iter().position(|step| step.state == StepState::CompensationFailed)?;
        let step = saga.steps.get(index)?;
        let definition = definitions.by_hash(&saga.definition.hash)?;
        let failure = step.failure.as_ref()?;
        Some(SagaDead {
            key: self.key.clone(),
            saga: saga.id.clone(),
            definition: saga.definition.clone(),
            step: Arc::clone(&definition.steps.get(index)?.name),
            code: Arc::clone(&failure.code),
            reason: Arc::clone(&failure.reason),
            attempts: step.attempt,
            died_at: step.ended_at.unwrap_or(self.updated_at),
            state: DeadState::Dead,
        })
    }

    /// Who decided about a step, and how, if somebody did.
    pub fn decision(&self, saga: SagaNumber, step: u16) -> Option<(bool, Option<Arc<str>>, UnixMillis)> {
        let mut events: Vec<_> = self.events().filter(|event| event.saga == saga).collect();
        events.reverse();
        events.into_iter().find_map(|event| match &event.what {
            EventKind::Decided { step: of, approved, .. } if *of == step => {
                Some((*approved, event.actor.clone(), event.at))
            }
            _ => None,
        })
    }
}
