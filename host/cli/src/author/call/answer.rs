//! What a step answered, for people and as JSON.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use waybill_core::annotation::Annotation;
use waybill_core::code::Code;
use waybill_core::message::Headers;
use waybill_core::port::followup::{Outgoing, StreamEvent};
use waybill_core::port::participant::{StepDone, StepError, StepOutput};
use waybill_core::port::transport::{Fault, PluginIdentity};

use crate::exit::{CliError, Exit};
use crate::output::{self, Format, number, plain, short_digest};
use crate::term::Term;

/// An answer as it is shown.
pub(super) struct Answer {
    result: &'static str,
    plugin: Value,
    fields: Map<String, Value>,
    failed: Option<(Fault, Exit)>,
}

impl Answer {
    /// What doing a step answered.
    pub(super) fn executed(by: &PluginIdentity, result: Result<StepDone, StepError>) -> Self {
        match result {
            Ok(StepDone::Output(output)) => Self::of(by, "output", output_fields(output)),
            Ok(StepDone::Pending(pending)) => {
                let mut fields = Map::new();
                fields.insert("signal".into(), pending.signal.into());
                fields.insert("timeout_ms".into(), millis(pending.timeout));
                data(&mut fields, "data", None, &pending.data);
                Self::of(by, "pending", fields)
            }
            Err(error) => Self::failed(by, error),
        }
    }

    /// What undoing a step answered.
    pub(super) fn compensated(by: &PluginIdentity, result: Result<StepOutput, StepError>) -> Self {
        match result {
            Ok(output) => Self::of(by, "output", output_fields(output)),
            Err(error) => Self::failed(by, error),
        }
    }

    fn failed(by: &PluginIdentity, error: StepError) -> Self {
        let mut fields = Map::new();
        let (result, fault, exit) = match error {
            StepError::Retryable(fault) if fault.code == Code::PLUGIN_TIMED_OUT.as_str() => {
                ("retryable", fault, Exit::TimedOut)
            }
            StepError::Retryable(fault) => ("retryable", fault, Exit::Failed),
            StepError::Permanent(fault) => ("permanent", fault, Exit::Failed),
            StepError::Blocked { scope, fault } => {
                fields.insert("scope".into(), scope.into());
                ("blocked", fault, Exit::Unreachable)
            }
            StepError::Release(fault) => ("release", fault, Exit::Unreachable),
        };
        fields.insert(
            "fault".into(),
            json!({
                "code": fault.code,
                "reason": fault.reason,
                "after_ms": millis(fault.after),
                "effect_unknown": fault.maybe_delivered,
                "attributes": attributes(&fault.attributes),
            }),
        );
        Self { failed: Some((fault, exit)), ..Self::of(by, result, fields) }
    }

    fn of(by: &PluginIdentity, result: &'static str, fields: Map<String, Value>) -> Self {
        let plugin = json!({ "name": by.plugin, "version": by.version, "digest": by.digest });
        Self { result, plugin, fields, failed: None }
    }
}

/// Writes the answer. A step that failed is an error too, so that scripts notice.
pub(super) fn show(
    term: &mut Term,
    format: Format,
    answer: &Answer,
    address: &str,
    key: &str,
    took: Duration,
) -> Result<(), CliError> {
    let took_ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    let mut document = Map::new();
    document.insert("address".into(), address.into());
    document.insert("result".into(), answer.result.into());
    document.insert("idempotency_key".into(), key.into());
    document.extend(answer.fields.clone());
    document.insert("plugin".into(), answer.plugin.clone());
    document.insert("took_ms".into(), took_ms.into());
    let document = Value::Object(document);
    let text = if format == Format::Jsonl { document.to_string() } else { format!("{document:#}") };
    output::one(term, format, &text, answer.result, rows(&document))?;
    match &answer.failed {
        None => Ok(()),
        Some((fault, exit)) => Err(CliError::Step {
            code: fault.code.clone(),
            what: fault.reason.clone(),
            result: answer.result,
            exit: *exit,
        }),
    }
}

fn rows(document: &Value) -> Vec<(String, String)> {
    let member = |name: &str| document.get(name).filter(|value| !value.is_null());
    let mut rows = Vec::new();
    for (name, title) in [
        ("address", "step"),
        ("result", "result"),
        ("output", "output"),
        ("output_base64", "output (base64)"),
        ("content_type", "media type"),
        ("signal", "waits for signal"),
        ("timeout_ms", "at most (ms)"),
        ("data", "data"),
        ("data_base64", "data (base64)"),
        ("scope", "holds"),
    ] {
        if let Some(value) = member(name) {
            rows.push((title.to_owned(), plain(value)));
        }
    }
    for (name, one, many) in [("messages", "message", "messages"), ("events", "event", "events")] {
        let Some(list) = member(name).and_then(Value::as_array).filter(|list| !list.is_empty()) else { continue };
        let lines: Vec<String> = list.iter().map(ToString::to_string).collect();
        rows.push((number(list.len() as u64, one, many), lines.join("\n")));
    }
    if let Some(fault) = member("fault") {
        for (name, title) in [("code", "code"), ("reason", "reason"), ("after_ms", "not before (ms)")] {
            if let Some(value) = fault.get(name).filter(|value| !value.is_null()) {
                rows.push((title.to_owned(), plain(value)));
            }
        }
        let effect = if fault.get("effect_unknown") == Some(&Value::Bool(true)) { "unknown" } else { "none" };
        rows.push(("effect".to_owned(), effect.to_owned()));
    }
    rows.push(("idempotency key".to_owned(), member("idempotency_key").map(plain).unwrap_or_default()));
    if let Some(plugin) = member("plugin") {
        let part = |name: &str| plugin.get(name).map(plain).unwrap_or_default();
        rows.push((
            "plugin".to_owned(),
            format!("{} {} {}", part("name"), part("version"), short_digest(&part("digest"))),
        ));
    }
    rows.push(("took (ms)".to_owned(), member("took_ms").map(plain).unwrap_or_default()));
    rows
}

fn output_fields(output: StepOutput) -> Map<String, Value> {
    let mut fields = Map::new();
    data(&mut fields, "output", output.content_type.as_deref(), &output.data);
    fields.insert("content_type".into(), output.content_type.into());
    fields.insert("messages".into(), output.messages.iter().map(message).collect());
    fields.insert("events".into(), output.events.iter().map(event).collect());
    fields.insert("attributes".into(), attributes(&output.attributes));
    fields
}

fn message(message: &Outgoing) -> Value {
    let mut fields = Map::new();
    for (name, value) in [("id", &message.id), ("key", &message.key), ("event_type", &message.event_type)] {
        if let Some(value) = value {
            fields.insert(name.into(), value.as_str().into());
        }
    }
    for (annotation, text) in message.annotations.iter() {
        fields.insert(annotation.name().into(), text.into());
    }
    fields.insert("topic".into(), message.topic.as_str().into());
    headers(&mut fields, &message.headers);
    data(&mut fields, "payload", message.annotations.get(Annotation::ContentType), &message.payload);
    if let Some(at) = message.not_before {
        fields.insert("not_before".into(), at.to_string().into());
    }
    Value::Object(fields)
}

fn event(event: &StreamEvent) -> Value {
    let mut fields = Map::new();
    for (name, value) in [
        ("stream", &event.stream),
        ("resource_type", &event.resource_type),
        ("resource_id", &event.resource_id),
        ("op", &event.op),
    ] {
        fields.insert(name.into(), value.as_str().into());
    }
    headers(&mut fields, &event.headers);
    data(&mut fields, "payload", event.content_type.as_deref(), &event.payload);
    Value::Object(fields)
}

fn headers(fields: &mut Map<String, Value>, headers: &Headers) {
    if !headers.is_empty() {
        fields.insert("headers".into(), attributes(headers));
    }
}

fn attributes(pairs: &[(String, String)]) -> Value {
    pairs.iter().map(|(name, value)| json!([name, value])).collect()
}

/// JSON as JSON, other text as text, and bytes as base64 under another name.
fn data(fields: &mut Map<String, Value>, name: &str, content_type: Option<&str>, bytes: &[u8]) {
    let json = content_type.is_none_or(|kind| kind.contains("json"));
    let value = if bytes.is_empty() { Some(Value::Null) } else { serde_json::from_slice(bytes).ok().filter(|_| json) };
    match (value, std::str::from_utf8(bytes)) {
        (Some(value), _) => fields.insert(name.to_owned(), value),
        (None, Ok(text)) => fields.insert(name.to_owned(), text.into()),
        (None, Err(_)) => fields.insert(format!("{name}_base64"), STANDARD.encode(bytes).into()),
    };
}

fn millis(duration: Option<Duration>) -> Value {
    duration.map_or(Value::Null, |duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX).into())
}
