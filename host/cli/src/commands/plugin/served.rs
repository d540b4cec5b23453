//! Plugins that a host serves, and what a change of them led to.

use clap::Args;
use serde_json::Value;

use crate::client::Answer;
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{self, View, column, instant, less, moment, safe, short_digest, text, whole};

/// How strictly a component is judged.
#[derive(Debug, Args)]
pub struct Change {
    /// Digest that the component must have
    #[arg(long, value_name = "HEX")]
    pub sha256: Option<String>,
    /// Take one that was rolled back before, one whose peer can't be reached, one that serves already, and one that lacks a step which
    /// running sagas still call
    #[arg(long)]
    pub force: bool,
}

/// A member of who serves.
fn live(item: &Value, name: &str) -> String {
    item.get("live").map_or("-".into(), |live| text(live, name))
}

/// How they are listed.
pub(in crate::commands) const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "transport")),
        column("PLUGIN", |item| format!("{} {}", live(item, "plugin"), live(item, "version"))),
        less(2, column("GENERATION", |item| live(item, "generation"))),
        less(3, column("DIGEST", |item| short_digest(&live(item, "digest")))),
        less(4, column("SIGNATURE", |item| live(item, "signature"))),
        moment("SINCE", |item| item.get("live").map_or("-".into(), |live| instant(live, "since"))),
        column("STATE", state),
        less(1, column("SOURCE", |item| text(item, "source"))),
    ],
    id: |item| text(item, "transport"),
    none: "nothing has a plugin",
};

/// What an operator should know at a glance.
fn state(item: &Value) -> String {
    let member = |name: &str| item.get(name).filter(|value| !value.is_null());
    if member("fallback").is_some() {
        return "last good one serves".into();
    }
    if let Some(until) = member("probation").map(|trial| instant(trial, "until")) {
        return format!("on probation until {until}");
    }
    match failed(item) {
        Some((what, generation)) => format!("{what} another: {}", text(generation, "code")),
        None => "serves".into(),
    }
}

/// The candidate that failed last, if none has taken over since: what became of it, and its generation.
fn failed(item: &Value) -> Option<(&'static str, &Value)> {
    let number = |generation: &Value| generation.get("generation").and_then(Value::as_u64);
    let serves = item.get("live").and_then(number);
    let refused = item.get("refused").filter(|refused| number(refused) > serves);
    let rolled_back = item.get("rolled_back").filter(|generation| !generation.is_null());
    match (refused, rolled_back) {
        (Some(refused), _) => Some(("refused", refused)),
        (None, Some(generation)) => Some(("rolled back", generation)),
        (None, None) => None,
    }
}

/// What went wrong with a plugin and hasn't been made good: a candidate that failed with its reason, or that the last good one serves.
pub fn trouble(item: &Value) -> Option<String> {
    let name = text(item, "transport");
    if let Some(fallback) = item.get("fallback").and_then(Value::as_str) {
        return Some(format!("{name}: {}", safe(fallback)));
    }
    let (what, generation) = failed(item)?;
    let number = text(generation, "generation");
    let (code, reason) = (text(generation, "code"), text(generation, "reason"));
    let when = if what == "refused" { instant(generation, "since") } else { instant(generation, "until") };
    Some(format!("{name}: generation {number} was {what} at {when}: {code}: {reason}"))
}

/// Tells what a change led to.
pub(super) fn changed(transport: &str, answer: &Answer, context: &mut Context<'_>) -> Result<(), CliError> {
    let did = answer.need("changed", Value::as_bool)?;
    let plugin = answer.need("plugin", Some)?.clone();
    let what =
        format!("{} {}, generation {}", live(&plugin, "plugin"), live(&plugin, "version"), live(&plugin, "generation"));
    context.term.say(&match did {
        true => format!("{transport} is served by {what}"),
        false => format!("{transport} is served by this very component already: {what}"),
    });
    output::listed(context.term, context.format, &answer.text, &plugin, &VIEW)
}
