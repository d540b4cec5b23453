//! What a tree may still call of participants, whatever becomes of it: a plugin that is to take another's place has to serve it.

use crate::saga::definition::{Action, DefinitionSet, Step};
use crate::saga::event::{End, SagaNumber, StepDirection, StepNumber};
use crate::saga::state::{Effect, Phase, SagaNode, StepRecord, StepState, Tree};
use crate::step_address::StepAddress;

impl StepRecord {
    /// Whether it has had an effect, or may have had one, that nobody has undone or decided to leave.
    fn may_have_effect(&self) -> bool {
        self.effect != Effect::None && !self.compensation_skipped && self.state != StepState::Compensated
    }

    /// Whether its action may be called, again or for the first time.
    fn goes_on(&self, phase: Phase) -> bool {
        phase == Phase::Forward && matches!(self.state, StepState::Ready | StepState::InFlight)
    }

    /// Whether its compensation may be called.
    fn may_be_undone(&self, phase: Phase) -> bool {
        let is_open = matches!(self.state, StepState::InFlight | StepState::CompensationFailed);
        self.may_have_effect() || is_open || self.goes_on(phase)
    }
}

impl Tree {
    /// Tells every `fn:` action and compensation that it may still call by itself; acts of operators that do over what was done
    /// (`retry --step`) aren't foreseen.
    pub fn step_needs(&self, definitions: &DefinitionSet, tell: &mut dyn FnMut(&StepAddress, StepDirection)) {
        if self.is_ended() {
            return;
        }
        for (number, saga) in self.sagas.iter().enumerate() {
            let Some(definition) = definitions.by_hash(&saga.definition.hash) else { continue };
            let Ok(number) = SagaNumber::try_from(number) else { continue };
            match saga.phase {
                // What it did may be undone all the same, when its parent goes back.
                Phase::Ended(End::Completed) if self.is_undone_with_parent(saga, definitions) => {}
                Phase::Ended(_) => continue,
                Phase::Forward | Phase::Back | Phase::Stuck => {}
            }
            for (place, (record, step)) in saga.steps.iter().zip(&definition.steps).enumerate() {
                if record.may_be_undone(saga.phase) {
                    tell_of(step.undo(), StepDirection::Compensate, tell);
                }
                if record.goes_on(saga.phase) {
                    tell_of(Some(&step.action), StepDirection::Execute, tell);
                    let has_begun = StepNumber::try_from(place).is_ok_and(|at| self.child_of(number, at).is_some());
                    if !has_begun {
                        of_sub_saga(step, definitions, tell);
                    }
                }
            }
        }
    }

    /// Whether a sub-saga is compensated itself when its parent goes back.
    fn is_undone_with_parent(&self, saga: &SagaNode, definitions: &DefinitionSet) -> bool {
        let parent = saga.parent.and_then(|(parent, step)| {
            let definition = definitions.by_hash(&self.saga(parent)?.definition.hash)?;
            definition.step(step)
        });
        parent.is_some_and(|step| step.compensation.is_none())
    }
}

fn tell_of(action: Option<&Action>, way: StepDirection, tell: &mut dyn FnMut(&StepAddress, StepDirection)) {
    if let Some(Action::Fn(address)) = action {
        tell(address, way);
    }
}

/// All steps of a sub-saga that a step will begin. Definitions name no circle: they were resolved.
fn of_sub_saga(step: &Step, definitions: &DefinitionSet, tell: &mut dyn FnMut(&StepAddress, StepDirection)) {
    let Action::Saga { .. } = &step.action else { return };
    let Some(below) = definitions.resolve_uri(&step.action.to_string()) else { return };
    for step in &below.steps {
        tell_of(Some(&step.action), StepDirection::Execute, tell);
        tell_of(step.undo(), StepDirection::Compensate, tell);
        of_sub_saga(step, definitions, tell);
    }
}
