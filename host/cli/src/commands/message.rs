//! One message, on its way or dead, with everything that is known of it.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;
use waybill_core::annotation::Annotation;
use waybill_core::seq_json::SeqJson;

use super::{Context, lists};
use crate::client::Answer;
use crate::exit::CliError;
use crate::output::{self, Format, Head, ago, instant, plain, plugin, safe, shortened, text, topic};

/// Payload bytes shown in a table; more is left to `-o json`.
const PAYLOAD_SHOWN_MAX: usize = 2_000;

/// Writes one message with everything that is known of it.
pub(super) fn show(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    if context.format != Format::Table {
        return output::one(context.term, context.format, &answer.text, &lists::piped_id(item), Vec::new());
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
    row("topic", topic(item, "topic"));
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
    if item.get("replays").and_then(Value::as_u64).is_some_and(|replays| replays > 0) {
        row("replays", text(item, "replays"));
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
        match (item.get("shard").and_then(Value::as_u64), item.get("seq").and_then(SeqJson::in_value)) {
            (Some(shard), Some(seq)) => format!("shard {shard}, seq {seq}"),
            _ => "-".into(),
        },
    );
    for name in ["event_type", "event_version"] {
        row(&name.replace('_', " "), text(item, name));
    }
    // The media type stands with the payload.
    for annotation in Annotation::ALL.into_iter().filter(|annotation| *annotation != Annotation::ContentType) {
        row(&annotation.name().replace('_', " "), text(item, annotation.name()));
    }
    if let Some(Value::Object(headers)) = item.get("headers") {
        for (name, value) in headers {
            row(&format!("header {}", safe(name)), plain(value));
        }
    }
    if let Some(receipt) = item.get("receipt").filter(|receipt| !receipt.is_null()) {
        row("receipt", text(receipt, "broker_ref"));
    }
    row("content type", text(item, Annotation::ContentType.name()));
    row("payload", format!("{} bytes", text(item, "payload_bytes")));
    row("  sha-256", text(item, "payload_sha256"));
    if let Some(payload) = payload_of(&answer.text) {
        row("  content", payload);
    }
    output::pairs(context.term, rows)?;
    history(context, item)
}

/// What all received messages have, as rows: where it came on, its fields, headers and payload. `json` is the host's text of it.
pub(super) fn received(json: &str, item: &Value) -> Vec<(String, String)> {
    let names = [
        "subject",
        "context",
        "key",
        "position",
        "event_type",
        "event_version",
        "correlation_id",
        "causation_id",
        "reply_to",
    ];
    let mut rows: Vec<(String, String)> = names.iter().map(|name| (name.replace('_', " "), text(item, name))).collect();
    rows.push(("occurred".to_owned(), instant(item, "occurred_at")));
    if let Some(Value::Object(headers)) = item.get("headers") {
        rows.extend(headers.iter().map(|(name, value)| (format!("header {}", safe(name)), plain(value))));
    }
    rows.push(("content type".to_owned(), text(item, "content_type")));
    let omitted = item.get("payload_omitted") == Some(&Value::Bool(true));
    let kept = if omitted { ", too large to keep" } else { "" };
    rows.push(("payload".to_owned(), format!("{} bytes{kept}", text(item, "payload_bytes"))));
    rows.extend(payload_of(json).map(|payload| ("  content".to_owned(), payload)));
    rows
}

/// The payload as stored, on one line, cut where it gets long.
fn payload_of(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Payload {
        payload: Option<Box<RawValue>>,
        payload_base64: Option<String>,
    }
    let message: Payload = serde_json::from_str(json).ok()?;
    let whole = match (message.payload, message.payload_base64) {
        (Some(json), _) => safe(json.get()),
        (None, Some(base64)) => format!("base64:{base64}"),
        (None, None) => return None,
    };
    Some(shortened(&whole, PAYLOAD_SHOWN_MAX))
}

fn history(context: &mut Context<'_>, item: &Value) -> Result<(), CliError> {
    let Some(Value::Array(attempts)) = item.get("history") else { return Ok(()) };
    if attempts.is_empty() {
        return Ok(());
    }
    context.term.line("")?;
    let rows: Vec<_> = attempts
        .iter()
        .map(|attempt| {
            let plugin = attempt.get("plugin").filter(|plugin| !plugin.is_null()).map_or("-".into(), plugin);
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
    let heads = [
        Head::whole("ATTEMPT"),
        Head::cut("OUTCOME"),
        Head::cut("TOOK").less(1),
        Head::cut("TRANSPORT").less(2),
        Head::cut("PLUGIN").less(3),
        Head::cut("WORKER").less(4),
        Head::prose("ERROR"),
    ];
    output::table(context.term, &heads, &rows)
}

/// After an act on one message a table would only repeat what was said; the other formats get the message.
pub(super) fn show_after(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    if context.format == Format::Table { Ok(()) } else { show(context, answer) }
}
