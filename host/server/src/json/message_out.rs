//! Messages and dead letters as shown.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord};
use waybill_core::port::service::{MessageState, MessageView, Waiting};
use waybill_core::port::transport::{PluginIdentity, Receipt};

use super::headers::HeadersJson;
use super::instant::Instant;

/// A message as shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageOut {
    /// Id.
    pub id: String,
    /// Tenant.
    pub tenant: String,
    /// State.
    pub state: StateOut,
    /// Topic.
    pub topic: String,
    /// Transport that its topic is routed to; null = no route.
    pub transport: Option<String>,
    /// Dispatch key.
    pub key: Option<String>,
    /// Place in its shard's order; null before it has one.
    pub seq: Option<u64>,
    /// Shard.
    pub shard: u16,
    /// Definite failures (and the success, when done).
    pub attempts: u32,
    /// Crashes that it is held suspect for; lists say it of dead letters only.
    pub suspect: u32,
    /// When it was enqueued.
    pub created_at: Instant,
    /// When it happened.
    pub occurred_at: Instant,
    /// Not sent before.
    pub not_before: Option<Instant>,
    /// Of no use after.
    pub expires_at: Option<Instant>,
    /// Finished or dead since.
    pub ended_at: Option<Instant>,
    /// Latest error, `CODE: reason`.
    pub last_error: Option<String>,
    /// What the receiver gave back.
    pub receipt: Option<ReceiptOut>,
    /// What it waits for.
    pub waiting: Option<WaitingOut>,
    /// The worker outside that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseOut>,
    /// Attempts, oldest first.
    pub history: Vec<AttemptOut>,
    /// Event type.
    pub event_type: String,
    /// Version of the event type.
    pub event_version: u32,
    /// Aggregate type.
    pub aggregate_type: Option<String>,
    /// Aggregate id.
    pub aggregate_id: Option<String>,
    /// Trace chain.
    pub envelope_id: Option<String>,
    /// Correlation id.
    pub correlation_id: Option<String>,
    /// Id of the message that caused it; of the dead letter, when it is an edited copy.
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Headers.
    pub headers: HeadersJson,
    /// Media type of the payload.
    pub content_type: Option<String>,
    /// Size of the payload.
    pub payload_bytes: u64,
    /// SHA-256 of the payload in hex; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_sha256: Option<String>,
    /// The payload, byte for byte, when it is JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64 when it isn't JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Operator's note on a quarantined dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// State of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = MessageState)]
pub enum StateOut {
    /// Ready, or waiting for a retry, its time or its key.
    Pending,
    /// Claimed; a send may be under way.
    Leased,
    /// Delivered.
    Done,
    /// A dead letter.
    Dead,
    /// A dead letter fenced off by an operator.
    Quarantined,
    /// Taken back before it was sent.
    Cancelled,
    /// Over before it could be sent.
    Expired,
    /// A dead letter that was deleted for good.
    Purged,
}

/// Why a message waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Waiting)]
pub struct WaitingOut {
    /// `key`, `retry`, `schedule`, `destination`, `transport`, `no_route`, `paused`, `unclaimed` or `turn`.
    pub on: String,
    /// One sentence.
    pub reason: String,
    /// Since when, if known.
    pub since: Option<Instant>,
    /// Until when, if known.
    pub until: Option<Instant>,
}

/// The worker outside that has a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseOut {
    /// Its name.
    pub worker: String,
    /// Until when; past it, the next claim may take the message.
    pub until: Instant,
}

/// What the receiver gave back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Receipt)]
pub struct ReceiptOut {
    /// Sequence, offset, entry id, HTTP status, ...
    pub broker_ref: Option<String>,
    /// The receiver had it already.
    pub duplicate: bool,
    /// Further names and texts.
    pub attributes: HeadersJson,
}

/// One attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Attempt)]
pub struct AttemptOut {
    /// When its fate was known.
    pub at: Instant,
    /// How long the call took.
    pub took_ms: u64,
    /// How it ended.
    pub outcome: OutcomeOut,
    /// Host that tried, or the worker outside.
    pub worker: String,
    /// Transport it went through.
    pub transport: String,
    /// Plugin that served.
    pub plugin: Option<PluginOut>,
    /// Error code, if it failed.
    pub code: Option<String>,
    /// Error text, if it failed.
    pub reason: Option<String>,
    /// It may have been delivered all the same.
    pub maybe_delivered: bool,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = AttemptOutcome)]
pub enum OutcomeOut {
    /// The receiver has it.
    Delivered,
    /// Failed; tried again later.
    Retry,
    /// Failed for good.
    Dead,
    /// The destination was at fault; the attempt doesn't count.
    Blocked,
    /// Not tried.
    Released,
    /// The worker died or the call never ended.
    Unknown,
}

/// A plugin that serves or served.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Plugin)]
pub struct PluginOut {
    /// Name.
    pub plugin: String,
    /// Version.
    pub version: String,
    /// `sha256:<hex>` of the component.
    pub digest: String,
    /// Generation of the transport's plugin, from 1.
    pub generation: u32,
}

/// Whether a payload is shown as JSON.
fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_none_or(|text| {
        let media = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        media == "application/json" || media.ends_with("+json")
    })
}

impl From<MessageView> for MessageOut {
    fn from(view: MessageView) -> Self {
        let as_json = view.payload.as_ref().filter(|_| is_json(view.content_type.as_deref())).and_then(|bytes| {
            let text = std::str::from_utf8(bytes).ok()?;
            serde_json::from_str::<Box<RawValue>>(text).ok()
        });
        let as_base64 = view.payload.as_ref().filter(|_| as_json.is_none()).map(|bytes| STANDARD.encode(bytes));
        Self {
            id: view.id,
            tenant: view.tenant,
            state: view.state.into(),
            topic: view.topic,
            transport: view.transport,
            key: view.key,
            seq: view.seq,
            shard: view.shard,
            attempts: view.attempts,
            suspect: view.suspect,
            created_at: view.created_at.into(),
            occurred_at: view.occurred_at.into(),
            not_before: view.not_before.map(Instant),
            expires_at: view.expires_at.map(Instant),
            ended_at: view.ended_at.map(Instant),
            last_error: view.last_error,
            receipt: view.receipt.map(Into::into),
            waiting: view.waiting.map(Into::into),
            lease: view.lease.map(|lease| LeaseOut { worker: lease.worker, until: lease.until.into() }),
            history: view.history.into_iter().map(Into::into).collect(),
            event_type: view.event_type,
            event_version: view.event_version,
            aggregate_type: view.aggregate_type,
            aggregate_id: view.aggregate_id,
            envelope_id: view.envelope_id,
            correlation_id: view.correlation_id,
            causation_id: view.causation_id,
            reply_to: view.reply_to,
            traceparent: view.traceparent,
            headers: HeadersJson(view.headers),
            content_type: view.content_type,
            payload_bytes: view.payload_bytes,
            payload_sha256: view.payload_sha256,
            payload: as_json,
            payload_base64: as_base64,
            note: view.note,
        }
    }
}

impl From<MessageState> for StateOut {
    fn from(state: MessageState) -> Self {
        match state {
            MessageState::Pending => Self::Pending,
            MessageState::Leased => Self::Leased,
            MessageState::Done => Self::Done,
            MessageState::Dead => Self::Dead,
            MessageState::Quarantined => Self::Quarantined,
            MessageState::Cancelled => Self::Cancelled,
            MessageState::Expired => Self::Expired,
            MessageState::Purged => Self::Purged,
        }
    }
}

impl From<Waiting> for WaitingOut {
    fn from(waiting: Waiting) -> Self {
        Self {
            on: waiting.on,
            reason: waiting.reason,
            since: waiting.since.map(Instant),
            until: waiting.until.map(Instant),
        }
    }
}

impl From<Receipt> for ReceiptOut {
    fn from(receipt: Receipt) -> Self {
        Self {
            broker_ref: receipt.broker_ref,
            duplicate: receipt.duplicate,
            attributes: HeadersJson(receipt.attributes),
        }
    }
}

impl From<AttemptRecord> for AttemptOut {
    fn from(attempt: AttemptRecord) -> Self {
        Self {
            at: attempt.at.into(),
            took_ms: attempt.took_ms,
            outcome: match attempt.outcome {
                AttemptOutcome::Delivered => OutcomeOut::Delivered,
                AttemptOutcome::Retry => OutcomeOut::Retry,
                AttemptOutcome::Dead => OutcomeOut::Dead,
                AttemptOutcome::Blocked => OutcomeOut::Blocked,
                AttemptOutcome::Released => OutcomeOut::Released,
                AttemptOutcome::Unknown => OutcomeOut::Unknown,
            },
            worker: attempt.worker.to_string(),
            transport: attempt.transport.to_string(),
            plugin: attempt.plugin.map(|plugin| Arc::unwrap_or_clone(plugin).into()),
            code: attempt.code,
            reason: attempt.reason,
            maybe_delivered: attempt.maybe_delivered,
        }
    }
}

impl From<PluginIdentity> for PluginOut {
    fn from(plugin: PluginIdentity) -> Self {
        Self { plugin: plugin.plugin, version: plugin.version, digest: plugin.digest, generation: plugin.generation }
    }
}
