//! Makes the view of a tree.

use std::sync::Arc;

use super::words::{event_word, sentence, step_waiting};
use super::{HistoryLine, SagaNodeView, SagaView, StepView};
use crate::ids::Tenant;
use crate::port::participant::{Direction, idempotency_key};
use crate::saga::definition::{Definition, DefinitionSet, Step};
use crate::saga::event::{End, SagaNumber};
use crate::saga::json::Json;
use crate::saga::state::{Phase, SagaNode, StepRecord, Tree};
use crate::saga::tree::{step_of, wait_word};

impl Tree {
    /// All that people see of it. `definitions` are those that it runs on.
    pub fn view(&self, definitions: &DefinitionSet) -> SagaView {
        let history = self.events().map(|event| {
            let node = self.saga(event.saga);
            let definition = node.and_then(|node| definitions.by_hash(&node.definition.hash));
            let step = step_of(&event.what).and_then(|step| definition.and_then(|definition| definition.step(step)));
            let step = step.map(|step| Arc::clone(&step.name));
            HistoryLine {
                at: event.at,
                saga: node.map_or_else(|| self.key.id.clone(), |node| node.id.clone()),
                kind: event_word(&event.what),
                text: sentence(&event.what, step.as_deref()),
                step,
                actor: event.actor.clone(),
                event: event.clone(),
            }
        });
        SagaView {
            summary: self.summary(definitions),
            waiting: self.waiting_sentence(definitions),
            paused: self.paused.clone(),
            saga: self.node_view(0, definitions),
            plugins: self.started.plugins.clone(),
            headers: self.started.headers.clone(),
            envelope_id: self.started.envelope_id.clone(),
            correlation_id: self.started.correlation_id.clone(),
            history: history.collect(),
            history_dropped: self.dropped,
        }
    }

    /// What it waits for, in a sentence.
    fn waiting_sentence(&self, definitions: &DefinitionSet) -> Option<String> {
        if self.is_ended() {
            return None;
        }
        if let Some(dead) = self.dead_letter(definitions) {
            return Some(format!(
                "the compensation of step {:?} failed ({}): an operator may retry, skip or accept it",
                &*dead.step, dead.code
            ));
        }
        if let Some(pause) = &self.paused {
            let by = pause.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
            let summary = self.summary(definitions);
            let steps = summary.steps.join(", ");
            return Some(match pause.cause {
                crate::saga::event::PauseCause::Asked => format!("held{by}: resume goes on"),
                crate::saga::event::PauseCause::Policy => {
                    format!("held by the retry policy at {steps}: retry or cancel")
                }
                _ => format!("the result of {steps} is unknown: an operator may retry, skip or cancel"),
            });
        }
        self.sagas.iter().filter(|saga| !saga.is_ended()).find_map(|saga| {
            let definition = definitions.by_hash(&saga.definition.hash)?;
            let mut steps = saga.steps.iter().zip(&definition.steps);
            steps.find_map(|(record, step)| {
                let is_leaf = record.wait.as_ref().is_some_and(|wait| wait_word(wait) != "saga");
                is_leaf.then(|| step_waiting(record, step)).flatten().map(|text| format!("{}: {text}", step.name))
            })
        })
    }

    fn node_view(&self, number: SagaNumber, definitions: &DefinitionSet) -> SagaNodeView {
        let Some(node) = self.saga(number) else { return self.missing_view() };
        let definition = definitions.by_hash(&node.definition.hash);
        let steps = definition.map(|definition| self.step_views(number, node, definition, definitions));
        SagaNodeView {
            id: node.id.clone(),
            definition: node.definition.clone(),
            state: if number == 0 { self.state() } else { node.state() },
            cause: match node.phase {
                Phase::Stuck => Some("compensation_failed"),
                Phase::Ended(End::Killed) => Some("killed"),
                Phase::Ended(End::Accepted) => Some("accepted"),
                Phase::Ended(End::Skipped) => Some("skipped"),
                _ => None,
            },
            failure: node.failure.clone(),
            input: node.input.raw(),
            deadline: node.deadline,
            started_at: node.started_at,
            ended_at: node.ended_at,
            steps: steps.unwrap_or_default(),
            signals: node.signals.iter().map(|(name, _)| Arc::clone(name)).collect(),
        }
    }

    /// A tree always has a root; this is for a number that it doesn't have.
    fn missing_view(&self) -> SagaNodeView {
        SagaNodeView {
            id: self.key.id.clone(),
            definition: self.started.definition.clone(),
            state: self.state(),
            cause: None,
            failure: None,
            input: Json::null().raw(),
            deadline: None,
            started_at: self.updated_at,
            ended_at: None,
            steps: Vec::new(),
            signals: Vec::new(),
        }
    }

    fn step_views(
        &self,
        number: SagaNumber,
        node: &SagaNode,
        definition: &Definition,
        definitions: &DefinitionSet,
    ) -> Vec<StepView> {
        let mut views = Vec::with_capacity(definition.steps.len());
        for (index, (record, step)) in node.steps.iter().zip(&definition.steps).enumerate() {
            let group = definition.groups.iter().position(|group| group.contains(&index)).unwrap_or(index);
            let step_number = u16::try_from(index).unwrap_or(u16::MAX);
            let child = self.child_of(number, step_number).map(|child| Box::new(self.node_view(child, definitions)));
            let mut view = step_view((&self.key.tenant, node), record, step, u16::try_from(group).unwrap_or(u16::MAX));
            view.saga = child;
            views.push(view);
        }
        views
    }
}

fn step_view((tenant, node): (&Tenant, &SagaNode), record: &StepRecord, step: &Step, group: u16) -> StepView {
    StepView {
        name: Arc::clone(&step.name),
        action: step.action.to_string(),
        compensation: step.compensation.as_ref().map(ToString::to_string),
        group,
        state: record.state,
        way: record.way,
        effect: record.effect,
        attempts: record.attempt,
        failures: record.failures,
        waiting_for: record.wait.as_ref().map(|wait| Arc::from(wait_word(wait))),
        waiting: step_waiting(record, step),
        since: record.since,
        until: record.until,
        input: record.input.as_ref().map(Json::raw),
        output: record.output.as_ref().map(Json::raw),
        failure: record.failure.clone(),
        began_at: record.began_at,
        ended_at: record.ended_at,
        plugin: record.plugin.clone(),
        actor: record.actor.clone(),
        note: record.note.clone(),
        idempotency_key: idempotency_key(tenant.as_str(), node.id.as_str(), &step.name, Direction::Execute),
        saga: None,
    }
}
