//! `waybill plugin list, load, reload, rollback` on a running host.

use serde_json::{Value, json};
use waybill_sandbox::Fetched;

use super::Context;
use crate::args::Format;
use crate::args::generations::{Change, Load};
use crate::args::rest::Plugin;
use crate::client::Answer;
use crate::exit::{CliError, Exit};
use crate::output::{self, View, column, instant, short_digest, text};

/// A member of who serves.
fn live(item: &Value, name: &str) -> String {
    item.get("live").map_or("-".into(), |live| text(live, name))
}

/// How plugins are listed.
const VIEW: View<'_> = View {
    columns: &[
        column("TRANSPORT", |item| text(item, "transport")),
        column("PLUGIN", |item| format!("{} {}", live(item, "plugin"), live(item, "version"))),
        column("GENERATION", |item| live(item, "generation")),
        column("DIGEST", |item| short_digest(&live(item, "digest"))),
        column("SIGNATURE", |item| live(item, "signature")),
        column("SINCE", |item| item.get("live").map_or("-".into(), |live| instant(live, "since"))),
        column("STATE", state),
        column("SOURCE", |item| text(item, "source")),
    ],
    id: |item| text(item, "transport"),
    none: "no transport has a plugin",
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
    let refused = member("refused").and_then(|refused| refused.get("generation")).and_then(Value::as_u64);
    let serves = item.pointer("/live/generation").and_then(Value::as_u64);
    match (refused, serves) {
        (Some(refused), Some(serves)) if refused > serves => {
            format!("refused another: {}", item.pointer("/refused/code").map_or("-".into(), output::plain))
        }
        _ => "serves".into(),
    }
}

/// Runs one of them.
pub(super) async fn run(command: &Plugin, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Plugin::List(_) => list(context).await,
        Plugin::Load(args) => load(args, context).await,
        Plugin::Reload(args) => {
            let body = json!({ "sha256": args.change.sha256, "force": args.change.force });
            let answer = context.client.post(&["v1", "plugins", &args.transport, "reload"], &[], &body).await?;
            changed(&args.transport, &answer, context)
        }
        Plugin::Rollback(args) => {
            let body = json!({ "reason": args.reason });
            let answer = context.client.post(&["v1", "plugins", &args.transport, "rollback"], &[], &body).await?;
            changed(&args.transport, &answer, context)
        }
        // About this machine: run elsewhere.
        _ => Ok(()),
    }
}

async fn list(context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "plugins"], &[]).await?;
    let items = answer.need("items", Value::as_array)?.clone();
    if let (Format::Table, Some(Value::Array(refused))) = (context.format, answer.body.get("refused_files")) {
        for file in refused {
            context.term.say(&format!(
                "{} in the plugins folder can't be used: {}: {}",
                text(file, "file"),
                text(file, "code"),
                text(file, "reason")
            ));
        }
    }
    output::list(context.term, context.format, &items, &VIEW)
}

async fn load(args: &Load, context: &mut Context<'_>) -> Result<(), CliError> {
    let fetched = Fetched::read(&args.file).map_err(|error| CliError::Host {
        code: error.code(),
        what: error.to_string(),
        exit: Exit::Failed,
    })?;
    let Change { sha256, force } = &args.change;
    let force = force.to_string();
    let mut query = vec![("force", force.as_str())];
    query.extend(sha256.as_deref().map(|sha256| ("sha256", sha256)));
    let path = ["v1", "plugins", &args.transport, "component"];
    let headers: Vec<(&str, &str)> =
        fetched.signature().map(|signature| ("waybill-signature", signature.trim())).into_iter().collect();
    let answer = context.client.put_component(&path, &query, &headers, fetched.bytes().to_vec()).await?;
    changed(&args.transport, &answer, context)
}

/// Tells what a change led to.
fn changed(transport: &str, answer: &Answer, context: &mut Context<'_>) -> Result<(), CliError> {
    let did = answer.need("changed", Value::as_bool)?;
    let plugin = answer.need("plugin", Some)?.clone();
    let what =
        format!("{} {}, generation {}", live(&plugin, "plugin"), live(&plugin, "version"), live(&plugin, "generation"));
    context.term.say(&match did {
        true => format!("{transport} is served by {what}"),
        false => format!("{transport} is served by this very component already: {what}"),
    });
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        format => output::list(context.term, format, std::slice::from_ref(&plugin), &VIEW),
    }
}
