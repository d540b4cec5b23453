//! The readable columns of a message.

use waybill_core::annotation::Annotation;
use waybill_core::message::{Message, Payload};
use waybill_core::outbox::records::AttemptRecord;
use waybill_surreal::{Object, Value, array, bytes, from_json, int, millis, object, text};

/// All columns of a message. Absent fields are left out, as SurrealDB does with NONE.
pub fn of_message(message: &Message) -> Object {
    let mut columns = object([
        ("message_id", text(message.id.as_str())),
        ("tenant", text(message.tenant.as_str())),
        ("topic", text(message.topic.as_str())),
        ("event_type", text(&message.event_type)),
        ("event_version", int(i64::from(message.event_version))),
        ("created_at", millis(message.created_at.0)),
        ("occurred_at", millis(message.occurred_at.0)),
    ]);
    if let Some(key) = &message.key {
        columns.insert("dispatch_key", text(key.as_str()));
    }
    for (annotation, value) in message.annotations.iter() {
        columns.insert(annotation.name(), text(value));
    }
    if let Some(at) = message.not_before {
        columns.insert("not_before", millis(at.0));
    }
    if let Some(at) = message.expires_at {
        columns.insert("expires_at", millis(at.0));
    }
    if !message.headers.is_empty() {
        let pairs = message.headers.iter().map(|(name, value)| array([text(name), text(value)]));
        columns.insert("headers", array(pairs));
    }
    match &message.payload {
        Payload::Inline(payload) => {
            columns.insert("payload", readable(message.annotation(Annotation::ContentType), payload))
        }
        Payload::Blob { blob, .. } => columns.insert("payload_blob", text(blob)),
    };
    columns
}

/// A payload as an object where it is JSON, else as bytes.
fn readable(content_type: Option<&str>, payload: &bytes::Bytes) -> Value {
    let json = content_type.is_none_or(|kind| kind.contains("json"));
    match json.then(|| serde_json::from_slice(payload)) {
        Some(Ok(value)) => from_json(value),
        _ => bytes(payload.clone()),
    }
}

/// `CODE: reason` of the latest failure.
pub fn last_error(history: &[AttemptRecord]) -> Option<Value> {
    let failed = history.iter().rev().find(|attempt| attempt.code.is_some() || attempt.reason.is_some())?;
    Some(error_text(failed.code.as_deref().unwrap_or(""), failed.reason.as_deref().unwrap_or("")))
}

pub fn error_text(code: &str, reason: &str) -> Value {
    text(if code.is_empty() { reason.to_owned() } else { format!("{code}: {reason}") })
}
