//! A tree of sagas: how events change it, and what it says about itself.

mod apply;
mod needs;
mod summary;

pub use apply::step_of;
pub use summary::wait_word;

use super::definition::Step;
use super::event::{End, Event, SagaNumber, StepDirection, StepNumber, Wait};
use super::id::SagaId;
use super::state::{Effect, Phase, SagaNode, SagaState, StepRecord, StepState, StepWait, Tree};
use crate::time::UnixMillis;

impl StepRecord {
    /// Whether it waits for its next attempt, or for one that wasn't made.
    pub fn waits_for_attempt(&self) -> bool {
        matches!(self.wait, Some(StepWait::Retry | StepWait::Released(_) | StepWait::Lost))
    }

    /// Whether a call or message is under way.
    pub fn is_called(&self) -> bool {
        self.state == StepState::InFlight && matches!(self.wait, Some(StepWait::For(Wait::Call | Wait::Reply)))
    }

    /// Whether it is active in this way.
    pub fn is_active(&self, way: StepDirection) -> bool {
        self.state == StepState::InFlight && self.way == Some(way)
    }

    /// Whether it has something to undo and may be undone.
    pub fn needs_undoing(&self, step: &Step) -> bool {
        // Ready: it was to be begun anew when its saga went back.
        let settled = matches!(self.state, StepState::Succeeded | StepState::Failed | StepState::Ready)
            || self.state == StepState::Skipped && !self.compensation_skipped;
        self.effect != Effect::None && settled && step.undo().is_some()
    }
}

impl SagaNode {
    /// A step by its number.
    pub fn step(&self, number: StepNumber) -> Option<&StepRecord> {
        self.steps.get(usize::from(number))
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        matches!(self.phase, Phase::Ended(_))
    }
}

impl Tree {
    pub fn root(&self) -> Option<&SagaNode> {
        self.sagas.first()
    }

    /// A saga by its number.
    pub fn saga(&self, number: SagaNumber) -> Option<&SagaNode> {
        self.sagas.get(usize::from(number))
    }

    /// The number of a saga.
    pub fn number_of(&self, id: &SagaId) -> Option<SagaNumber> {
        self.sagas.iter().position(|saga| saga.id == *id).and_then(|index| u16::try_from(index).ok())
    }

    /// The sub-saga that a step began last.
    pub fn child_of(&self, saga: SagaNumber, step: StepNumber) -> Option<SagaNumber> {
        let at = self.sagas.iter().rposition(|node| node.parent == Some((saga, step)))?;
        u16::try_from(at).ok()
    }

    pub fn end(&self) -> Option<End> {
        match self.root()?.phase {
            Phase::Ended(end) => Some(end),
            _ => None,
        }
    }

    /// Whether it is over.
    pub fn is_ended(&self) -> bool {
        self.end().is_some()
    }

    /// The first saga of it that is stuck.
    pub fn stuck(&self) -> Option<SagaNumber> {
        let at = self.sagas.iter().position(|saga| saga.phase == Phase::Stuck)?;
        u16::try_from(at).ok()
    }

    /// State of the whole, in one word.
    pub fn state(&self) -> SagaState {
        if !self.is_ended() {
            if self.stuck().is_some() {
                return SagaState::Failed;
            }
            if self.paused.is_some() {
                return SagaState::Paused;
            }
        }
        self.root().map_or(SagaState::Running, |root| root.state())
    }

    /// Whether something waits for an operator, or the whole is held.
    pub fn needs_operator(&self) -> bool {
        !self.is_ended() && (self.stuck().is_some() || self.paused.is_some())
    }

    /// Whether a call, a message or a lost call is under way, so that it will move soon.
    pub fn is_called(&self) -> bool {
        let mut steps = self.sagas.iter().filter(|saga| !saga.is_ended()).flat_map(|saga| &saga.steps);
        steps.any(|step| step.state == StepState::InFlight && step.wait == Some(StepWait::For(Wait::Call)))
    }

    /// When it moves by itself at the latest: the next timeout, attempt or deadline. None while it only waits for others.
    pub fn next_due(&self) -> Option<UnixMillis> {
        if self.is_ended() {
            return None;
        }
        let paused = self.paused.is_some();
        let mut next: Option<UnixMillis> = None;
        let mut take = |at: Option<UnixMillis>| {
            if let Some(at) = at {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        };
        for (number, saga) in self.sagas.iter().enumerate() {
            match saga.phase {
                Phase::Ended(_) => continue,
                Phase::Forward if !paused => take(saga.deadline),
                _ => {}
            }
            for (index, step) in saga.steps.iter().enumerate() {
                if step.state != StepState::InFlight || step.until.is_none() {
                    continue;
                }
                match &step.wait {
                    Some(StepWait::Retry | StepWait::Released(_) | StepWait::Lost) if paused => {}
                    Some(StepWait::For(Wait::Child)) => {
                        let (number, index) = (u16::try_from(number).ok(), u16::try_from(index).ok());
                        let child = number.zip(index).and_then(|(number, index)| self.child_of(number, index));
                        let child = child.and_then(|child| self.saga(child));
                        if child.is_some_and(|child| child.phase == Phase::Forward) && !paused {
                            take(step.until);
                        }
                    }
                    _ => take(step.until),
                }
            }
        }
        next
    }

    /// The events that are kept, oldest first.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.history.iter().chain(&self.latest)
    }
}

impl End {
    /// The state in which a saga is that ended so.
    pub fn state(self) -> SagaState {
        match self {
            Self::Completed => SagaState::Completed,
            Self::Cancelled => SagaState::Cancelled,
            Self::Killed | Self::Accepted | Self::Skipped => SagaState::Failed,
        }
    }
}

impl SagaNode {
    /// Its state by itself.
    pub fn state(&self) -> SagaState {
        match self.phase {
            Phase::Forward => SagaState::Running,
            Phase::Back => SagaState::Compensating,
            Phase::Stuck => SagaState::Failed,
            Phase::Ended(end) => end.state(),
        }
    }
}
