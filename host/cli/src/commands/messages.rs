//! Messages and dead letters as lists and one by one.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Context;
use super::lists::More;
use crate::args::Format;
use crate::client::Answer;
use crate::exit::CliError;
use crate::output::{self, Column, View, ago, column, instant, number, plain, short_digest, text};

/// Payload bytes shown in a table; more is left to `-o json`.
const PAYLOAD_SHOWN_MAX: usize = 2_000;

/// Columns of messages on their way.
pub(super) const FLOWING: &[Column] = &[
    column("ID", |item| text(item, "id")),
    column("TENANT", |item| text(item, "tenant")),
    column("STATE", |item| text(item, "state")),
    column("TOPIC", |item| text(item, "topic")),
    column("KEY", |item| text(item, "key")),
    column("ATTEMPTS", |item| text(item, "attempts")),
    column("CREATED", |item| instant(item, "created_at")),
    column("WAITS FOR", |item| item.pointer("/waiting/on").map_or("-".into(), plain)),
];

/// Columns of dead letters. What stands for the topic of a stuck saga is what its filter takes.
pub(super) const DEAD: &[Column] = &[
    column("ID", |item| text(item, "id")),
    column("TENANT", |item| text(item, "tenant")),
    column("STATE", |item| text(item, "state")),
    column("TOPIC", |item| match item.get("kind").and_then(Value::as_str) {
        Some("saga") => format!("saga:{}/{}", text(item, "definition"), text(item, "step")),
        _ => text(item, "topic"),
    }),
    column("KEY", |item| text(item, "key")),
    column("ATTEMPTS", |item| text(item, "attempts")),
    column("DIED", |item| instant(item, "ended_at")),
    column("ERROR", |item| text(item, "last_error")),
];

/// An id for a pipe: alone in the tenant that is assumed, else behind its tenant and a tab.
pub(super) fn piped_id(item: &Value) -> String {
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
    match item.get("tenant").and_then(Value::as_str) {
        None | Some("default") => id.to_owned(),
        Some(tenant) => format!("{tenant}\t{id}"),
    }
}

/// How messages on their way are listed.
pub(super) const FLOWING_VIEW: View<'_> = View { columns: FLOWING, id: piped_id, none: "no message matches" };

/// How dead letters are listed.
pub(super) const DEAD_VIEW: View<'_> = View { columns: DEAD, id: piped_id, none: "no dead letter matches" };

/// Writes one message with everything that is known of it.
pub(super) fn show(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let id = piped_id(item);
    if context.format != Format::Table {
        return output::one(context.term, context.format, &answer.text, &id, Vec::new());
    }
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| {
        if value != "-" {
            rows.push((name.to_owned(), value));
        }
    };
    row("id", text(item, "id"));
    row("tenant", text(item, "tenant"));
    row("state", text(item, "state"));
    if let Some(waiting) = item.get("waiting").filter(|waiting| !waiting.is_null()) {
        row("waits for", format!("{}: {}", text(waiting, "on"), text(waiting, "reason")));
        row("  since", instant(waiting, "since"));
        row("  until", instant(waiting, "until"));
    }
    row("note", text(item, "note"));
    row("last error", text(item, "last_error"));
    row("topic", text(item, "topic"));
    row(
        "transport",
        item.get("transport").map_or("-".into(), |name| match name {
            Value::Null => "none: no route takes this topic".into(),
            name => plain(name),
        }),
    );
    row("key", text(item, "key"));
    row("attempts", text(item, "attempts"));
    if item.get("suspect").and_then(Value::as_u64).is_some_and(|crashes| crashes > 0) {
        row("crashes", text(item, "suspect"));
    }
    for (title, name) in [
        ("created", "created_at"),
        ("occurred", "occurred_at"),
        ("not before", "not_before"),
        ("expires", "expires_at"),
        ("ended", "ended_at"),
    ] {
        row(title, instant(item, name));
    }
    row(
        "place",
        match (item.get("shard").and_then(Value::as_u64), item.get("seq").and_then(Value::as_u64)) {
            (Some(shard), Some(seq)) => format!("shard {shard}, seq {seq}"),
            _ => "-".into(),
        },
    );
    for name in [
        "event_type",
        "event_version",
        "aggregate_type",
        "aggregate_id",
        "envelope_id",
        "correlation_id",
        "causation_id",
        "reply_to",
        "traceparent",
    ] {
        row(&name.replace('_', " "), text(item, name));
    }
    if let Some(Value::Object(headers)) = item.get("headers") {
        for (name, value) in headers {
            row(&format!("header {}", plain(&Value::String(name.clone()))), plain(value));
        }
    }
    if let Some(receipt) = item.get("receipt").filter(|receipt| !receipt.is_null()) {
        row("receipt", text(receipt, "broker_ref"));
    }
    row("content type", text(item, "content_type"));
    row("payload", format!("{} bytes", text(item, "payload_bytes")));
    row("  sha-256", text(item, "payload_sha256"));
    if let Some(payload) = payload_of(answer) {
        row("  content", payload);
    }
    output::pairs(context.term, rows)?;
    history(context, item)
}

/// The payload as stored, on one line, cut where it gets long.
fn payload_of(answer: &Answer) -> Option<String> {
    #[derive(Deserialize)]
    struct Payload {
        payload: Option<Box<RawValue>>,
        payload_base64: Option<String>,
    }
    let message: Payload = serde_json::from_str(&answer.text).ok()?;
    let whole = match (message.payload, message.payload_base64) {
        (Some(json), _) => plain(&Value::String(json.get().to_owned())),
        (None, Some(base64)) => format!("base64:{base64}"),
        (None, None) => return None,
    };
    let cut: String = whole.chars().take(PAYLOAD_SHOWN_MAX).collect();
    Some(if cut.len() < whole.len() { format!("{cut}... (all of it: -o json)") } else { cut })
}

fn history(context: &mut Context<'_>, item: &Value) -> Result<(), CliError> {
    let Some(Value::Array(attempts)) = item.get("history") else { return Ok(()) };
    if attempts.is_empty() {
        return Ok(());
    }
    context.term.line("")?;
    let rows = attempts
        .iter()
        .map(|attempt| {
            let plugin = attempt.get("plugin").filter(|plugin| !plugin.is_null()).map_or("-".into(), |plugin| {
                format!(
                    "{} {} ({})",
                    text(plugin, "plugin"),
                    text(plugin, "version"),
                    short_digest(&text(plugin, "digest"))
                )
            });
            let maybe = attempt.get("maybe_delivered") == Some(&Value::Bool(true));
            let reason = match (text(attempt, "code"), text(attempt, "reason")) {
                (code, reason) if reason == "-" => code,
                (code, reason) => format!("{code}: {reason}"),
            };
            vec![
                instant(attempt, "at"),
                text(attempt, "outcome"),
                ago(attempt, "took_ms"),
                text(attempt, "transport"),
                plugin,
                text(attempt, "worker"),
                if maybe { format!("{reason} (may have been delivered)") } else { reason },
            ]
        })
        .collect();
    output::table(context.term, &["ATTEMPT", "OUTCOME", "TOOK", "TRANSPORT", "PLUGIN", "WORKER", "ERROR"], rows)
}

/// Tells that a list was cut, and how to go on.
pub(super) fn tell_more(context: &mut Context<'_>, shown: usize, more: More) {
    let shown = number(shown as u64, "is shown", "are shown");
    match more {
        More::Nothing => {}
        More::Rest(cursor) => {
            let on = go_on(cursor);
            context.term.say(&format!("only {shown}, there are more: raise --limit, or --all{on}"));
        }
        More::Unseen(cursor) => {
            let on = go_on(cursor);
            context.term.say(&format!(
                "{shown}, and not all was looked through: little of it matches; narrow the filter, or look through all of it with --all{on}"
            ));
        }
    }
}

fn go_on(cursor: Option<String>) -> String {
    cursor.map_or_else(String::new, |cursor| format!(", or go on with --cursor {cursor}"))
}
