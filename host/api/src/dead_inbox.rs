//! Dead letters of the inbox: received messages that can't be handled.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::ids::ShardId;
use waybill_core::inbox::place::InboxPlace;
use waybill_core::inbox::records::InboxDead;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::service::MessageState;

use crate::headers::HeadersJson;
use crate::instant::Instant;
use crate::messages::{is_json, shown_payload};

/// A received message that can't be handled.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DeadInbox {
    /// `inbox-<shard>-<seq>`. Requests about it take the sender's id too, if no other dead letter has it.
    pub id: String,
    /// The sender's id.
    pub message_id: String,
    pub consumer: String,
    pub source: String,
    pub tenant: String,
    /// `dead`, or `quarantined` once an operator fenced it off.
    pub state: MessageState,
    /// Subject, topic or routing key it came on.
    pub subject: String,
    pub context: String,
    pub key: Option<String>,
    pub event_type: Option<String>,
    pub event_version: Option<u32>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When it happened, as sender or broker says.
    pub occurred_at: Option<Instant>,
    pub received_at: Instant,
    /// Where it lay at its source.
    pub position: Option<String>,
    /// How often its handler failed.
    pub attempts: u32,
    /// Code of the last error.
    pub code: String,
    /// Text of that error, for people.
    pub reason: String,
    /// Both, `CODE: reason`, as a message has it.
    pub last_error: String,
    /// When it became a dead letter.
    pub ended_at: Instant,
    /// Operator's note on a quarantined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// As they came.
    pub headers: HeadersJson,
    /// Media type of the payload.
    pub content_type: Option<String>,
    /// Size of the payload, also where it was too large to carry.
    pub payload_bytes: u64,
    /// The payload was too large to carry: it can only be fetched at its position.
    pub payload_omitted: bool,
    /// The payload, byte for byte, when it is JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64 when it isn't JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// The payload's bytes as they came, which its text isn't always; no part of the JSON.
    #[serde(skip)]
    pub bytes: Option<Bytes>,
}

impl DeadInbox {
    /// Of a dead letter of a shard, without its payload.
    pub fn of(shard: ShardId, dead: &InboxDead) -> Self {
        let message = &dead.message;
        let (state, note) = match &dead.state {
            DeadState::Dead => (MessageState::Dead, None),
            DeadState::Quarantined { note, .. } => (MessageState::Quarantined, Some(note.clone())),
        };
        Self {
            id: InboxPlace { shard, seq: dead.seq }.to_string(),
            message_id: message.id.to_string(),
            consumer: dead.consumer.to_string(),
            source: message.source.to_string(),
            tenant: message.tenant.to_string(),
            state,
            subject: message.subject.clone(),
            context: message.context.clone(),
            key: message.key.as_ref().map(ToString::to_string),
            event_type: message.event_type.clone(),
            event_version: message.event_version,
            correlation_id: message.correlation_id.clone(),
            causation_id: message.causation_id.clone(),
            reply_to: message.reply_to.clone(),
            occurred_at: message.occurred_at.map(Instant),
            received_at: message.received_at.into(),
            position: message.position.clone(),
            attempts: dead.attempts,
            code: dead.code.clone(),
            reason: dead.reason.clone(),
            last_error: format!("{}: {}", dead.code, dead.reason),
            ended_at: dead.died_at.into(),
            note,
            headers: HeadersJson(message.headers.clone()),
            content_type: message.content_type.clone(),
            payload_bytes: message.omitted.unwrap_or(message.payload.len() as u64),
            payload_omitted: message.omitted.is_some(),
            payload: None,
            payload_base64: None,
            bytes: None,
        }
    }

    /// The same with its payload, as far as there is one.
    #[must_use]
    pub fn with_payload(mut self, bytes: Bytes) -> Self {
        if !self.payload_omitted {
            (self.payload, self.payload_base64) = shown_payload(is_json(self.content_type.as_deref()), &bytes);
            self.bytes = Some(bytes);
        }
        self
    }
}
