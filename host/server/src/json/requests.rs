//! Bodies of requests other than messages, and the message object as clients write it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_api::events;
use waybill_api::headers::HeadersJson;
use waybill_api::instant::Instant;
use waybill_api::joint_events::JointEventBody;
use waybill_core::port::saga::RetryMode;

use super::post::Messages;
use super::statements::Statements;

// For clients and for the document. The server itself reads it with `super::message::MessageFields`, which takes the names of
// the source documents too.
/// A message to enqueue, with either `payload` or `payload_base64`.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewMessage)]
pub struct NewMessageJson {
    /// Where to: `http:<url>`, `https://...`, `bus:<subject>` or `custom:<name>`.
    pub topic: String,
    /// Any JSON that all readers read alike (numbers within 64-bit floating point, no half surrogate pairs, each name once in an
    /// object); its bytes are sent as they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// Bytes instead of `payload`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Messages of one (tenant, key) are delivered one at a time, in commit order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Sent with the message. Names are those of HTTP headers, at most 64, with texts without control characters; together 16 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeadersJson>,
    /// Id of your choice (up to 128 bytes): enqueueing the same message again then changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// Earliest instant it is sent; at once if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// From then on it isn't sent any more and ends `expired`. It lies in the future, and after `not_before`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Instant>,
    /// When it happened; now if absent, at most a minute ahead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurred_at: Option<Instant>,
    /// Event type; taken from a subject `{context}.event.{name}.v{n}`, else the topic, or `waybill.message` where that is a URL, if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<String>,
    /// Version of the event type; 1 if absent and not in the subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_version: Option<u32>,
    /// Its optional texts by their names, each a member of its own.
    #[serde(flatten)]
    pub annotations: BTreeMap<&'static str, String>,
}

/// One message, or many.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = PostMessages)]
pub enum PostMessagesJson {
    /// A message by itself.
    One(Box<NewMessageJson>),
    /// Up to 10,000, all or nothing.
    Many {
        /// They enter the order as they are listed.
        #[schema(min_items = 1, max_items = 10_000)]
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

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransactionIn {
    /// Run in order, before the messages are put.
    #[serde(default)]
    pub statements: Statements,
    #[serde(default)]
    pub messages: Messages,
    #[serde(default, deserialize_with = "events::bounded")]
    pub events: Vec<JointEventBody>,
}

/// A business transaction: statements, messages and events, at least one of them: lists that are all empty are refused.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Transaction)]
pub struct TransactionJson {
    /// Run in order: SELECT, CREATE, INSERT, UPDATE, UPSERT, DELETE, RELATE, LET, RETURN, on tables of your own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 1000)]
    pub statements: Vec<StatementJson>,
    /// Committed with the statements, or not at all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 10_000)]
    pub messages: Vec<NewMessageJson>,
    /// Appended with them, or not at all; 4,096 at most. Without `expected_seq` they never make the transaction fail.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(max_items = 4096)]
    pub events: Vec<JointEventBody>,
}

/// A statement of a business transaction, with its parameters.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Statement)]
pub struct StatementJson {
    /// SurrealQL; `$names` in it stand for values of `bindings`.
    pub query: String,
    /// Values of its `$names`; `docs/transactions.md` says how much they may take.
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty")]
    #[schema(value_type = Object)]
    pub bindings: serde_json::Map<String, serde_json::Value>,
}

/// Kinds of bulk acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OperationKind {
    /// Of dead letters: put back. Quarantined ones are left alone.
    Replay,
    /// Of dead letters: fence off; `reason` becomes the note.
    Quarantine,
    /// Of dead letters: delete.
    Purge,
    /// Of sagas: begin nothing new until resumed.
    Pause,
    /// Of sagas: go on.
    Resume,
    /// Of sagas: compensate what was done.
    Cancel,
    /// Of sagas: end as they are, with nothing compensated.
    Kill,
    /// Of sagas: try again what waits for its next attempt or for an operator, or a stuck compensation.
    Retry,
    /// Of sagas: accept a stuck compensation as it is; takes a `reason`.
    Accept,
    /// Of messages that wait: take back.
    #[serde(rename = "cancel_messages")]
    CancelMessages,
    /// Of messages that wait for a retry or for their time: move to the instant `not_before`.
    #[serde(rename = "reschedule_messages")]
    RescheduleMessages,
}

/// What bulk acts are done to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concern {
    DeadLetters,
    Sagas,
    Messages,
}

impl OperationKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Replay => "replay",
            Self::Quarantine => "quarantine",
            Self::Purge => "purge",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Kill => "kill",
            Self::Retry => "retry",
            Self::Accept => "accept",
            Self::CancelMessages => "cancel_messages",
            Self::RescheduleMessages => "reschedule_messages",
        }
    }

    /// What it is done to.
    pub fn concern(self) -> Concern {
        match self {
            Self::Replay | Self::Quarantine | Self::Purge => Concern::DeadLetters,
            Self::CancelMessages | Self::RescheduleMessages => Concern::Messages,
            Self::Pause | Self::Resume | Self::Cancel | Self::Kill | Self::Retry | Self::Accept => Concern::Sagas,
        }
    }
}

/// A bulk act on dead letters, on sagas or on messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct StartOperation {
    /// What is done to each that matches. `accept` and `quarantine` need a `reason`, `reschedule_messages` needs `not_before`.
    pub kind: OperationKind,
    /// Which: `tenant=acme code=NATS.* age>1h`; of sagas those that haven't ended, of messages those that wait, by the conditions of
    /// their lists. To take all, write `id=*`.
    #[schema(min_length = 1)]
    pub filter: String,
    /// Only with `retry`: from which step, of paused sagas.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Only with `retry`: which way stuck sagas go on; `compensate` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RetryMode>,
    /// Only with `reschedule_messages`, which needs it: the instant; one in the past means now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// Only on dead letters: those alone that died until then, by which ages count too; now if absent or later. Take it from the plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Instant>,
    /// Only on dead letters, and only with `before`: how many the plan counted. If more match, nothing is done (`OPERATION.SET_GREW`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expect_count: Option<u64>,
    /// Only on dead letters: a dry run counts all of them, not the latest 10,000 alone; with `expect_count`: the plan did. Past 100,000 it is a
    /// lower bound all the same.
    #[serde(default)]
    pub exact: bool,
    /// Only with `replay`: so many messages are put back first, 1 to 1,000, and the rest only when all of these are delivered. One that dies again
    /// stops it. It takes messages only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 1000)]
    pub trial: Option<u32>,
    /// Confined to this tenant; absent = all that the credential allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// Most acts a second, 1 to 10,000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000)]
    pub rate: Option<u32>,
    /// Why, for the audit; up to 2,000 bytes, on sagas 1,024.
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

    #[test]
    fn the_documented_message_object_has_the_fields_that_are_read() {
        let document = serde_json::to_value(crate::openapi::document()).unwrap();
        let schema = &document["components"]["schemas"]["NewMessage"];
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
