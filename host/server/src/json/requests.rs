//! Bodies of requests other than messages, and the message object as clients write it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::headers::HeadersJson;
use super::instant::Instant;
use super::post::Messages;
use super::saga_requests::RetryModeJson;
use super::statements::Statements;

/// A message to enqueue, for clients and for the OpenAPI document. The server itself reads it with
/// [`super::message::MessageFields`], which takes the names of the source documents too.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub struct NewMessageJson {
    /// Where to: `http:<url>`, `https://...`, `bus:<subject>` or `custom:<name>`.
    pub topic: String,
    /// Any JSON; its bytes are sent as they are. Required unless `payload_base64` is given.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// Bytes instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Messages of one (tenant, key) are delivered one at a time, in commit order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whose; `default` if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Sent with the message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeadersJson>,
    /// Id of your choice (up to 128 bytes): enqueueing the same message again then changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Not sent before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// Not sent after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// Trace chain of the business operation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envelope_id: Option<String>,
    /// Ties a reply to its request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// Id of the message that caused this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reply_to: Option<String>,
    /// Media type; `application/json` for `payload`, `application/octet-stream` for `payload_base64`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
    /// When it happened; now if absent, at most a minute ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Instant>,
    /// Event type; taken from a subject `{context}.event.{name}.v{n}`, else the topic, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Version of the event type; 1 if absent and not in the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_version: Option<u32>,
    /// Type of the aggregate the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_type: Option<String>,
    /// Which aggregate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aggregate_id: Option<String>,
    /// W3C trace context; the request's `traceparent` header if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// One message, or many.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = PostMessages)]
pub enum PostMessagesJson {
    /// One.
    One(Box<NewMessageJson>),
    /// Up to 10,000, all or nothing.
    Many {
        /// In order.
        messages: Vec<NewMessageJson>,
    },
}

/// Fields of a dead letter to change; null takes one away. What is absent stays.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = EditMessage)]
pub struct EditJson {
    /// The fields of a message object, all optional, `causation_id` excepted.
    #[serde(flatten)]
    #[schema(value_type = Object)]
    pub fields: serde_json::Map<String, serde_json::Value>,
}

/// A business transaction.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionIn {
    /// Run in order, before the messages are put.
    #[serde(default)]
    pub statements: Statements,
    /// Messages.
    #[serde(default)]
    pub messages: Messages,
    /// Not supported yet; told apart from an unknown name so that the answer can say so.
    #[serde(default)]
    pub events: Option<Vec<serde::de::IgnoredAny>>,
}

/// A business transaction, for clients and for the OpenAPI document.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Transaction)]
pub struct TransactionJson {
    /// Run in order: SELECT, CREATE, INSERT, UPDATE, UPSERT, DELETE, RELATE, LET, RETURN, on tables of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub statements: Vec<StatementJson>,
    /// Committed with the statements, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub messages: Vec<NewMessageJson>,
}

/// One parameterised statement.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Statement)]
pub struct StatementJson {
    /// SurrealQL.
    pub query: String,
    /// Values of its `$names`.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = Object)]
    pub bindings: serde_json::Map<String, serde_json::Value>,
}

/// Another instant for a waiting message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// Not before this instant; one in the past means now.
    #[serde(alias = "next_attempt_at", alias = "available_at")]
    pub not_before: Instant,
}

/// How and why a dead letter is replayed.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Of a stuck saga: which way it goes on; `compensate` if absent. Not for messages.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RetryModeJson>,
    /// For the audit.
    #[serde(default)]
    pub reason: String,
}

/// Why a dead letter is fenced off.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// Kept with the dead letter.
    pub note: String,
}

/// Kinds of bulk acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Put back. Quarantined dead letters are left alone.
    Replay,
    /// Fence off; `reason` becomes the note.
    Quarantine,
    /// Delete.
    Purge,
}

impl OperationKind {
    /// As written.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Quarantine => "quarantine",
            Self::Purge => "purge",
        }
    }
}

/// A bulk act on dead letters.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// What to do.
    pub kind: OperationKind,
    /// Which: `tenant=acme code=NATS.* age>1h`. To take all, write `id=*`.
    pub filter: String,
    /// Confined to this tenant; absent = all that the credential allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Most acts a second, 1 to 10,000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub rate: Option<u32>,
    /// For the audit.
    #[serde(default)]
    pub reason: String,
    /// Only count and show a sample.
    #[serde(default)]
    pub dry_run: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aliases::Field;
    use utoipa::PartialSchema;

    #[test]
    fn the_documented_message_object_has_the_fields_that_are_read() {
        let schema = serde_json::to_value(NewMessageJson::schema()).unwrap();
        let mut documented: Vec<&str> = schema["properties"].as_object().unwrap().keys().map(String::as_str).collect();
        let mut read = Field::NAMES.to_vec();
        documented.sort_unstable();
        read.sort_unstable();
        assert_eq!(documented, read);
        assert_eq!(schema["required"], serde_json::json!(["topic"]));
    }

    #[test]
    fn what_a_client_writes_is_read_back() {
        let message = NewMessageJson {
            topic: "bus:a".into(),
            payload: Some(RawValue::from_string("{\"n\":1.0}".into()).unwrap()),
            key: Some("k".into()),
            not_before: Some(Instant(waybill_core::time::UnixMillis(1_700_000_000_000))),
            ..NewMessageJson::default()
        };
        let body = serde_json::to_string(&PostMessagesJson::Many { messages: vec![message.clone()] }).unwrap();
        let many = super::super::post::json(&body).unwrap();
        let one = super::super::post::json(&serde_json::to_string(&PostMessagesJson::One(Box::new(message))).unwrap())
            .unwrap();
        assert_eq!(many, one);
        assert_eq!((one[0].payload.as_ref(), one[0].key.as_deref()), (b"{\"n\":1.0}".as_slice(), Some("k")));
    }
}
