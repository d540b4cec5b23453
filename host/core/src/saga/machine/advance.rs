//! What can go on: the next group forward, compensations in reverse, the end.

use super::{Machine, Rule, unknown};
use crate::code::Code;
use crate::saga::definition::Definition;
use crate::saga::event::{End, EventKind, Failure, SagaNumber, StepDirection, StepNumber, Wait};
use crate::saga::json::Json;
use crate::saga::state::{Phase, StepRecord, StepState, StepWait};

impl Machine<'_> {
    /// Goes on until everything waits.
    pub(super) fn run(&mut self) {
        while let Some(saga) = self.dirty.pop() {
            while !self.tree.is_ended() && self.tree.paused.is_none() && self.progress(saga) {}
        }
    }

    /// One thing that can be done now. False when there is none.
    fn progress(&mut self, saga: SagaNumber) -> bool {
        let Some(definition) = self.definition(saga) else { return false };
        match self.phase(saga) {
            Phase::Forward => self.forward(saga, &definition),
            Phase::Back => self.back(saga, &definition),
            Phase::Stuck | Phase::Ended(_) => false,
        }
    }

    /// The steps of a group with their numbers.
    fn group(&self, saga: SagaNumber, group: &std::ops::Range<usize>) -> Vec<(StepNumber, &StepRecord)> {
        let records = self.node(saga).and_then(|node| node.steps.get(group.clone())).unwrap_or_default();
        let numbers = group.clone().filter_map(|index| u16::try_from(index).ok());
        numbers.zip(records).collect()
    }

    fn forward(&mut self, saga: SagaNumber, definition: &Definition) -> bool {
        for group in &definition.groups {
            let records = self.group(saga, group);
            if let Some((_, failed)) = records.iter().find(|(_, record)| record.state == StepState::Failed) {
                let failure = failed.failure.clone().unwrap_or_else(|| Failure::new(Code::UNKNOWN_INTERNAL, "unknown"));
                let failure = Failure { maybe_done: false, ..failure };
                self.emit(saga, EventKind::CompensationStarted { failure });
                return true;
            }
            if records.iter().all(|(_, record)| matches!(record.state, StepState::Succeeded | StepState::Skipped)) {
                continue;
            }
            let due: Vec<StepNumber> = records
                .into_iter()
                .filter(|(_, record)| record.state == StepState::Ready || self.is_due(record))
                .map(|(number, _)| number)
                .collect();
            for step in &due {
                self.begin(saga, definition, *step, StepDirection::Execute);
            }
            return !due.is_empty();
        }
        self.end(saga, End::Completed);
        false
    }

    /// Whether its next attempt may begin now.
    fn is_due(&self, record: &StepRecord) -> bool {
        record.state == StepState::InFlight
            && record.waits_for_attempt()
            && record.until.is_none_or(|until| until <= self.turn.now)
    }

    fn back(&mut self, saga: SagaNumber, definition: &Definition) -> bool {
        let count = definition.groups.len();
        for index in 0..count {
            let at = if self.kept(Rule::Reverse) { count - 1 - index } else { index };
            let Some(group) = definition.groups.get(at) else { continue };
            let mut waits = false;
            let mut moved = false;
            let numbers: Vec<StepNumber> = self.group(saga, group).into_iter().map(|(number, _)| number).collect();
            for number in &numbers {
                let Some(record) = self.record(saga, *number) else { continue };
                if record.is_active(StepDirection::Execute) {
                    moved |= self.give_up(saga, *number);
                    waits |= self.record(saga, *number).is_some_and(|record| record.state == StepState::InFlight);
                }
            }
            if waits && self.kept(Rule::AwaitCalls) {
                return moved;
            }
            for number in &numbers {
                let (Some(record), Some(step)) = (self.record(saga, *number), definition.step(*number)) else {
                    continue;
                };
                if self.needs_undoing(record, step)
                    || record.is_active(StepDirection::Compensate) && self.is_due(record)
                {
                    self.begin(saga, definition, *number, StepDirection::Compensate);
                    moved = true;
                }
                waits |= self.record(saga, *number).is_some_and(|record| record.state == StepState::InFlight);
            }
            if moved {
                return true;
            }
            if waits {
                return false;
            }
            let failed = numbers.iter().find(|number| {
                self.record(saga, **number).is_some_and(|record| record.state == StepState::CompensationFailed)
            });
            if let Some(step) = failed.copied()
                && self.kept(Rule::StopWhenStuck)
            {
                self.emit(saga, EventKind::Stuck { step });
                return false;
            }
        }
        let skipped = self.tree.sagas.iter().flat_map(|saga| &saga.steps).any(|step| step.compensation_skipped);
        self.end(saga, if skipped { End::Skipped } else { End::Cancelled });
        false
    }

    /// Ends the waiting of a step that goes forward while its saga goes back. A call under way is waited for, and a sub-saga
    /// goes back itself. True when something changed.
    fn give_up(&mut self, saga: SagaNumber, step: StepNumber) -> bool {
        let cause = self.node(saga).and_then(|node| node.failure.clone());
        let cause = cause.unwrap_or_else(|| Failure::new(Code::SAGA_CANCELLED, "the saga goes back"));
        let Some(record) = self.record(saga, step) else { return false };
        let attempt = record.attempt;
        match record.wait {
            Some(StepWait::For(Wait::Call | Wait::Reply)) => return false,
            Some(StepWait::For(Wait::Child)) => {
                let child = self.tree.child_of(saga, step);
                let goes_on = child.filter(|child| self.phase(*child) == Phase::Forward);
                if let Some(child) = goes_on {
                    self.emit(child, EventKind::CompensationStarted { failure: cause });
                }
                return goes_on.is_some();
            }
            _ => {}
        }
        let is_open = matches!(record.wait, Some(StepWait::Pending(_) | StepWait::Lost | StepWait::Operator));
        let failure = if is_open { unknown(&cause.code, &cause.reason) } else { cause };
        let what = EventKind::StepFailed {
            step,
            way: StepDirection::Execute,
            attempt,
            failure,
            retry_at: None,
            plugin: None,
            took_ms: 0,
        };
        self.emit(saga, what);
        true
    }

    /// Ends a saga, and tells the step that began it.
    pub(super) fn end(&mut self, saga: SagaNumber, end: End) {
        self.emit(saga, EventKind::Ended { end, note: None });
        let Some((parent, step)) = self.node(saga).and_then(|node| node.parent) else { return };
        let Some(record) = self.record(parent, step) else { return };
        if record.wait != Some(StepWait::For(Wait::Child)) {
            return;
        }
        let (attempt, way) = (record.attempt, record.way.unwrap_or(StepDirection::Execute));
        let what = match (way, end) {
            (StepDirection::Compensate, _) => {
                EventKind::StepSucceeded { step, way, attempt, output: None, plugin: None, took_ms: 0, late: false }
            }
            (StepDirection::Execute, End::Completed) => {
                let output = self.outputs(saga);
                self.child_completed(step, attempt, output)
            }
            (StepDirection::Execute, _) => {
                let cause = self.node(saga).and_then(|node| node.failure.clone());
                let cause = cause.map_or_else(String::new, |failure| format!("{}: {}", failure.code, failure.reason));
                let failure =
                    Failure::new(Code::SAGA_CHILD, &format!("sub-saga {} was undone: {cause}", self.id(saga)));
                EventKind::StepFailed { step, way, attempt, failure, retry_at: None, plugin: None, took_ms: 0 }
            }
        };
        self.emit(parent, what);
    }

    fn child_completed(&self, step: StepNumber, attempt: u32, output: Json) -> EventKind {
        let bytes_max = self.turn.limits.output_bytes_max;
        let way = StepDirection::Execute;
        if output.len() > bytes_max {
            let reason = format!("its sub-saga's outputs have {} bytes, at most {bytes_max} are kept", output.len());
            let failure = unknown(Code::SAGA_OUTPUT_TOO_LARGE, &reason);
            return EventKind::StepFailed { step, way, attempt, failure, retry_at: None, plugin: None, took_ms: 0 };
        }
        EventKind::StepSucceeded { step, way, attempt, output: Some(output), plugin: None, took_ms: 0, late: false }
    }

    /// The output of a sub-saga: an object of its steps' outputs by name.
    fn outputs(&self, saga: SagaNumber) -> Json {
        let (Some(node), Some(definition)) = (self.node(saga), self.definition(saga)) else { return Json::null() };
        let outputs = definition
            .steps
            .iter()
            .zip(&node.steps)
            .filter_map(|(step, record)| Some((&*step.name, record.output.as_ref()?)));
        Json::object(outputs)
    }
}
