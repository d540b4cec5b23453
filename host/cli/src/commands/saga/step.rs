//! What stands below a step in the tree.

use waybill_api::saga_node::StepView;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::state::{Effect, StepState};

use super::paint::{Paint, at};
use super::tree::one_line;
use crate::output::{safe, short_digest};

/// Its lines, each with its colour.
pub(super) fn details(step: &StepView) -> Vec<(Paint, String)> {
    let mut lines = vec![(Paint::Faint, calls(step))];
    if let Some(waiting) = waiting(step) {
        lines.push((Paint::Busy, waiting));
    }
    if let Some(failure) = &step.failure {
        let maybe = if failure.maybe_done { " (may have been done)" } else { "" };
        lines.push((Paint::Bad, format!("error {}: {}{maybe}", safe(&failure.code), safe(&failure.reason))));
    }
    if step.effect == Effect::Unknown {
        let key = safe(&step.idempotency_key);
        lines.push((Paint::Bad, format!("whether it was done isn't known; its idempotency key is {key}")));
    }
    if let Some(input) = &step.input {
        lines.push((Paint::Faint, format!("in  {}", one_line(input))));
    }
    if let Some(output) = &step.output {
        lines.push((Paint::Faint, format!("out {}", one_line(output))));
    }
    if step.actor.is_some() || step.note.is_some() {
        lines.push((Paint::Faint, decided(step)));
    }
    if let Some(plugin) = &step.plugin {
        lines.push((Paint::Faint, format!("answered by {}", plugin_words(plugin))));
    }
    lines
}

/// Its action, and the compensation beside it.
fn calls(step: &StepView) -> String {
    let action = safe(&step.action);
    match &step.compensation {
        Some(compensation) => format!("{action}  ↺ {}", safe(compensation)),
        None => action,
    }
}

fn waiting(step: &StepView) -> Option<String> {
    let what = step.waiting.as_deref().or(step.waiting_for.as_deref())?;
    let since = step.since.map(|since| format!(", since {}", at(since))).unwrap_or_default();
    let until = step.until.map(|until| format!(", until {}", at(until))).unwrap_or_default();
    Some(format!("waits for {}{since}{until}", safe(what)))
}

fn decided(step: &StepView) -> String {
    let who = step.actor.as_deref().map_or_else(|| "somebody".to_owned(), safe);
    let what = if step.state == StepState::Skipped { "skipped" } else { "decided" };
    let note = step.note.as_deref().map(|note| format!(": {}", safe(note))).unwrap_or_default();
    format!("{what} by {who}{note}")
}

/// A plugin in words.
pub(super) fn plugin_words(plugin: &PluginIdentity) -> String {
    format!("{} {} ({})", safe(&plugin.plugin), safe(&plugin.version), short_digest(&safe(&plugin.digest)))
}
