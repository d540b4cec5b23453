//! A saga as people see it, made of its tree.

mod describe;

use std::sync::Arc;

use waybill_api::headers::HeadersJson;
use waybill_api::instant::Instant;
use waybill_api::saga_history::HistoryLine;
use waybill_api::saga_node::{SagaNodeView, StepView};
use waybill_api::saga_ways::WayOutView;
use waybill_api::sagas::{FailureView, PauseView, SagaParticipant, SagaView};
use waybill_core::ids::Tenant;
use waybill_core::port::participant::{Direction, idempotency_key};
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::definition::{Definition, DefinitionSet, Step};
use waybill_core::saga::event::{End, Event, EventKind, PauseCause, SagaNumber};
use waybill_core::saga::json::Json;
use waybill_core::saga::state::{Phase, SagaNode, StepRecord, Tree};
use waybill_core::saga::tree::{step_of, wait_word};
use waybill_core::saga::ways::ways_out;
use waybill_core::time::UnixMillis;

use describe::{event_word, sentence, step_waiting};

/// All that people see of a tree. `definitions` are those that it runs on.
pub(super) fn saga_view(tree: &Tree, definitions: &DefinitionSet, now: UnixMillis) -> SagaView {
    let ways: Vec<WayOutView> = ways_out(tree, definitions, now).into_iter().map(WayOutView::from).collect();
    let plugins = tree.started.plugins.iter();
    let plugins =
        plugins.map(|(name, plugin)| SagaParticipant { participant: name.to_string(), plugin: plugin.clone() });
    SagaView {
        waiting: waiting_sentence(tree, definitions),
        paused: tree.paused.clone().map(PauseView::from),
        saga: Some(node_view(tree, 0, definitions)),
        ways_out: Some(ways).filter(|ways| !ways.is_empty()),
        plugins: Some(plugins.collect()),
        headers: Some(HeadersJson(tree.started.headers.clone())),
        envelope_id: tree.started.envelope_id.as_ref().map(ToString::to_string),
        correlation_id: tree.started.correlation_id.as_ref().map(ToString::to_string),
        history: Some(tree.events().map(|event| history_line(tree, event, definitions)).collect()),
        history_dropped: Some(tree.dropped),
        ..SagaView::from(tree.summary(definitions))
    }
}

/// An event of a tree.
pub(super) fn history_line(tree: &Tree, event: &Event, definitions: &DefinitionSet) -> HistoryLine {
    let node = tree.saga(event.saga);
    let definition = node.and_then(|node| definitions.by_hash(&node.definition.hash));
    let step = step_of(&event.what).and_then(|step| definition.and_then(|definition| definition.step(step)));
    let step = step.map(|step| step.name.to_string());
    let mut line = HistoryLine {
        at: event.at.into(),
        saga: node.map_or(&tree.key.id, |node| &node.id).to_string(),
        kind: event_word(&event.what).to_owned(),
        text: sentence(&event.what, step.as_deref()),
        step,
        actor: event.actor.as_ref().map(ToString::to_string),
        direction: None,
        attempt: None,
        took_ms: None,
        failure: None,
        retry_at: None,
        plugin: None,
    };
    add_detail(&mut line, &event.what);
    line
}

fn add_detail(line: &mut HistoryLine, what: &EventKind) {
    let identity = |plugin: &Option<Arc<PluginIdentity>>| plugin.as_deref().cloned();
    match what {
        EventKind::StepBegan { way, attempt, .. }
        | EventKind::StepLost { way, attempt, .. }
        | EventKind::LateResult { way, attempt, .. } => {
            line.direction = Some(*way);
            line.attempt = Some(*attempt);
        }
        EventKind::StepPending { plugin, took_ms, .. } => {
            line.took_ms = Some(*took_ms);
            line.plugin = identity(plugin);
        }
        EventKind::StepSucceeded { way, attempt, plugin, took_ms, .. } => {
            line.direction = Some(*way);
            line.attempt = Some(*attempt);
            line.took_ms = Some(*took_ms);
            line.plugin = identity(plugin);
        }
        EventKind::StepFailed { way, attempt, failure, retry_at, plugin, took_ms, .. } => {
            line.direction = Some(*way);
            line.attempt = Some(*attempt);
            line.took_ms = Some(*took_ms);
            line.failure = Some(failure.into());
            line.retry_at = retry_at.map(Instant);
            line.plugin = identity(plugin);
        }
        EventKind::StepReleased { way, failure, retry_at, .. } => {
            line.direction = Some(*way);
            line.failure = Some(failure.into());
            line.retry_at = Some((*retry_at).into());
        }
        EventKind::StepUnknown { way, attempt, failure, .. } => {
            line.direction = Some(*way);
            line.attempt = Some(*attempt);
            line.failure = Some(failure.into());
        }
        EventKind::StepSkipped { way, .. } | EventKind::StepReset { way, .. } => line.direction = Some(*way),
        EventKind::CompensationStarted { failure } => line.failure = Some(failure.into()),
        _ => {}
    }
}

/// What it waits for, in a sentence.
fn waiting_sentence(tree: &Tree, definitions: &DefinitionSet) -> Option<String> {
    if tree.is_ended() {
        return None;
    }
    if let Some(dead) = tree.dead_letter(definitions) {
        return Some(format!(
            "the compensation of step {:?} failed ({}): an operator may retry, skip or accept it",
            &*dead.step, dead.code
        ));
    }
    if let Some(pause) = &tree.paused {
        let by = pause.actor.as_deref().map_or_else(String::new, |actor| format!(" by {actor}"));
        let summary = tree.summary(definitions);
        let steps = summary.steps.join(", ");
        return Some(match pause.cause {
            PauseCause::Asked => format!("held{by}: resume goes on"),
            PauseCause::Policy => {
                format!("held by the retry policy at {steps}: retry or cancel")
            }
            _ => format!("the result of {steps} is unknown: an operator may retry, skip or cancel"),
        });
    }
    tree.sagas.iter().filter(|saga| !saga.is_ended()).find_map(|saga| {
        let definition = definitions.by_hash(&saga.definition.hash)?;
        let mut steps = saga.steps.iter().zip(&definition.steps);
        steps.find_map(|(record, step)| {
            let is_leaf = record.wait.as_ref().is_some_and(|wait| wait_word(wait) != "saga");
            is_leaf.then(|| step_waiting(record, step)).flatten().map(|text| format!("{}: {text}", step.name))
        })
    })
}

fn node_view(tree: &Tree, number: SagaNumber, definitions: &DefinitionSet) -> SagaNodeView {
    let Some(node) = tree.saga(number) else { return missing_view(tree) };
    let definition = definitions.by_hash(&node.definition.hash);
    let steps = definition.map(|definition| step_views(tree, number, node, definition, definitions));
    SagaNodeView {
        id: node.id.to_string(),
        definition: node.definition.name.to_string(),
        version: node.definition.version,
        state: if number == 0 { tree.state() } else { node.state() },
        cause: match node.phase {
            Phase::Stuck => Some("compensation_failed"),
            Phase::Ended(End::Killed) => Some("killed"),
            Phase::Ended(End::Accepted) => Some("accepted"),
            Phase::Ended(End::Skipped) => Some("skipped"),
            _ => None,
        }
        .map(str::to_owned),
        failure: node.failure.as_ref().map(FailureView::from),
        input: node.input.raw(),
        deadline: node.deadline.map(Instant),
        started_at: node.started_at.into(),
        ended_at: node.ended_at.map(Instant),
        steps: steps.unwrap_or_default(),
        signals: node.signals.iter().map(|(name, _)| name.to_string()).collect(),
    }
}

/// A tree always has a root; this is for a number that it doesn't have.
fn missing_view(tree: &Tree) -> SagaNodeView {
    SagaNodeView {
        id: tree.key.id.to_string(),
        definition: tree.started.definition.name.to_string(),
        version: tree.started.definition.version,
        state: tree.state(),
        cause: None,
        failure: None,
        input: Json::null().raw(),
        deadline: None,
        started_at: tree.updated_at.into(),
        ended_at: None,
        steps: Vec::new(),
        signals: Vec::new(),
    }
}

fn step_views(
    tree: &Tree,
    number: SagaNumber,
    node: &SagaNode,
    definition: &Definition,
    definitions: &DefinitionSet,
) -> Vec<StepView> {
    let mut views = Vec::with_capacity(definition.steps.len());
    for (index, (record, step)) in node.steps.iter().zip(&definition.steps).enumerate() {
        let group = definition.groups.iter().position(|group| group.contains(&index)).unwrap_or(index);
        let step_number = u16::try_from(index).unwrap_or(u16::MAX);
        let child = tree.child_of(number, step_number).map(|child| Box::new(node_view(tree, child, definitions)));
        let mut view = step_view((&tree.key.tenant, node), record, step, u16::try_from(group).unwrap_or(u16::MAX));
        view.saga = child;
        views.push(view);
    }
    views
}

fn step_view((tenant, node): (&Tenant, &SagaNode), record: &StepRecord, step: &Step, group: u16) -> StepView {
    StepView {
        name: step.name.to_string(),
        action: step.action.to_string(),
        compensation: step.compensation.as_ref().map(ToString::to_string),
        group,
        state: record.state,
        direction: record.way,
        effect: record.effect,
        attempts: record.attempt,
        failures: record.failures,
        waiting_for: record.wait.as_ref().map(|wait| wait_word(wait).to_owned()),
        waiting: step_waiting(record, step),
        since: record.since.map(Instant),
        until: record.until.map(Instant),
        input: record.input.as_ref().map(Json::raw),
        output: record.output.as_ref().map(Json::raw),
        failure: record.failure.as_ref().map(FailureView::from),
        began_at: record.began_at.map(Instant),
        ended_at: record.ended_at.map(Instant),
        plugin: record.plugin.as_deref().cloned(),
        actor: record.actor.as_ref().map(ToString::to_string),
        note: record.note.as_ref().map(ToString::to_string),
        idempotency_key: idempotency_key(tenant.as_str(), node.id.as_str(), &step.name, Direction::Execute),
        saga: None,
    }
}

#[cfg(test)]
mod tests {
    use waybill_core::saga::event::{Failure, StepDirection};

    use super::*;

    #[test]
    fn an_event_shows_what_it_knows_of_a_call() {
        let at = UnixMillis(1_790_000_000_000);
        let (step, way, attempt, took_ms) = (0, StepDirection::Execute, 3, 12);
        let failure = || Failure { maybe_done: true, ..Failure::new("HTTP.TIMEOUT", "no answer") };
        let of = |what: EventKind| {
            let mut line = HistoryLine {
                at: at.into(),
                saga: "one".to_owned(),
                step: None,
                kind: event_word(&what).to_owned(),
                text: sentence(&what, None),
                actor: None,
                direction: None,
                attempt: None,
                took_ms: None,
                failure: None,
                retry_at: None,
                plugin: None,
            };
            add_detail(&mut line, &what);
            let failed = line.failure.is_some_and(|failure| failure.maybe_done);
            (line.direction, line.attempt, line.took_ms, failed, line.retry_at.map(|at| at.0))
        };
        let failed =
            EventKind::StepFailed { step, way, attempt, failure: failure(), retry_at: Some(at), plugin: None, took_ms };
        assert_eq!(of(failed), (Some(way), Some(3), Some(12), true, Some(at)));
        let done = EventKind::StepSucceeded { step, way, attempt, output: None, plugin: None, took_ms, late: false };
        assert_eq!(of(done), (Some(way), Some(3), Some(12), false, None));
        let unknown = EventKind::StepUnknown { step, way, attempt, failure: failure() };
        assert_eq!(of(unknown), (Some(way), Some(3), None, true, None));
        let blocked = EventKind::StepReleased { step, way, scope: None, failure: failure(), retry_at: at };
        assert_eq!(of(blocked), (Some(way), None, None, true, Some(at)));
        assert_eq!(of(EventKind::CompensationStarted { failure: failure() }), (None, None, None, true, None));
        assert_eq!(of(EventKind::Resumed), (None, None, None, false, None));
    }
}
