//! Messages: as shown, sent, rescheduled.

use std::sync::Arc;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::annotation::Annotation;
use waybill_core::ids::Tenant;
use waybill_core::json_text::readable;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::{AttemptOutcome, AttemptRecord};
use waybill_core::port::query::{ListOrder, Page};
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::transact::Statement;
use waybill_core::port::transport::{PluginIdentity, Receipt};
use waybill_core::seq_json::SeqJson;
use waybill_core::streams::joint::JointEvent;
use waybill_core::time::UnixMillis;

use crate::annotations::AnnotationsView;
use crate::facets::FacetsView;
use crate::headers::HeadersJson;
use crate::idempotency::FinishWith;
use crate::instant::Instant;
use crate::neighbours::NeighboursView;

/// A message as shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Message)]
pub struct MessageView {
    /// As its sender chose it, else made by the host.
    pub id: String,
    /// Tenant it belongs to; `default` if its sender named none.
    pub tenant: String,
    pub state: MessageState,
    /// Where it goes: `http:<url>`, `https://...`, `bus:<subject>` or `custom:<name>`.
    pub topic: String,
    /// Transport that its topic is routed to; null = no route.
    pub transport: Option<String>,
    /// Messages of one tenant and key go one at a time, in order.
    pub key: Option<String>,
    /// Place in its shard's order; null before it has one.
    pub seq: Option<SeqJson>,
    /// Number of its shard, from 0; 0 while it has no place.
    pub shard: u16,
    /// Definite failures (and the success, when done).
    pub attempts: u32,
    /// Crashes that it is held suspect for; lists say it of dead letters only.
    pub suspect: u32,
    /// How often it was put back from the dead letters; its receiver is told.
    #[serde(default)]
    pub replays: u32,
    /// When it was enqueued.
    pub created_at: Instant,
    /// When it happened, as its sender said; else when it was enqueued.
    pub occurred_at: Instant,
    /// When a scheduled message or a retry is due; else null.
    pub not_before: Option<Instant>,
    /// Of no use after.
    pub expires_at: Option<Instant>,
    /// Finished or dead since.
    pub ended_at: Option<Instant>,
    /// Latest error, `CODE: reason`.
    pub last_error: Option<String>,
    /// What the receiver gave back.
    pub receipt: Option<ReceiptView>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// The worker outside that has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<LeaseView>,
    /// Attempts, oldest first; past 20 the first and the latest are kept.
    pub history: Vec<Attempt>,
    /// As its sender gave it, else taken from the topic.
    pub event_type: String,
    /// Version of the event type.
    pub event_version: u32,
    /// Its optional texts, each a member of its own.
    #[serde(flatten)]
    #[schema(value_type = BTreeMap<String, String>)]
    pub annotations: AnnotationsView,
    /// Sent with the message, as enqueued.
    pub headers: HeadersJson,
    /// Size of the payload.
    pub payload_bytes: u64,
    /// SHA-256 of the payload in hex; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_sha256: Option<String>,
    /// The payload, byte for byte, when it is JSON that every reader can read; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64 otherwise; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
    /// Operator's note on a quarantined dead letter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The payload's bytes as enqueued, which its text isn't always; no part of the JSON.
    #[serde(skip)]
    pub bytes: Option<Bytes>,
}

/// Why a message waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiting {
    /// `key`, `retry`, `schedule`, `destination`, `transport`, `no_route`, `paused`, `unclaimed`, `rate`, `trial` or `turn`.
    #[schema(value_type = String)]
    pub on: WaitKind,
    /// Explanation for people; of what is held `CODE: reason`.
    pub reason: String,
    /// Since when, if known.
    pub since: Option<Instant>,
    /// Until when, if known.
    pub until: Option<Instant>,
}

/// The worker outside that has a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Lease)]
pub struct LeaseView {
    /// The `worker_id` of its claim.
    pub worker: String,
    /// Until when; past it, the next claim may take the message.
    pub until: Instant,
}

/// What the receiver gave back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Receipt)]
pub struct ReceiptView {
    /// Sequence, offset, entry id, HTTP status, ...
    pub broker_ref: Option<String>,
    /// The receiver had it already.
    pub duplicate: bool,
    /// Further names and texts.
    pub attributes: HeadersJson,
}

/// One attempt to deliver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Attempt {
    /// When its fate was known.
    pub at: Instant,
    /// How long the call took.
    pub took_ms: u64,
    /// `blocked`: the destination was at fault; `released`: it wasn't tried.
    pub outcome: AttemptOutcome,
    /// Host that tried, or the worker outside.
    pub worker: String,
    /// Transport it went through.
    pub transport: String,
    /// Plugin that served the call; null if none did.
    pub plugin: Option<PluginIdentity>,
    /// Error code, if it failed.
    pub code: Option<String>,
    /// Error text, if it failed.
    pub reason: Option<String>,
    /// It may have been delivered all the same.
    pub maybe_delivered: bool,
}

/// Whether a payload is shown as JSON.
pub(crate) fn is_json(content_type: Option<&str>) -> bool {
    content_type.is_none_or(|text| {
        let media = text.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
        media == "application/json" || media.ends_with("+json")
    })
}

/// A payload as JSON if it is to be that and every reader can read it, else in base64.
pub fn shown_payload(is_json: bool, bytes: &Bytes) -> (Option<Box<RawValue>>, Option<String>) {
    let json = Some(bytes).filter(|_| is_json).and_then(|bytes| readable(bytes)).map(RawValue::to_owned);
    let base64 = json.is_none().then(|| STANDARD.encode(bytes));
    (json, base64)
}

impl MessageView {
    #[must_use]
    pub fn with_payload(mut self, bytes: Bytes) -> Self {
        let media = self.annotations.get(Annotation::ContentType);
        (self.payload, self.payload_base64) = shown_payload(is_json(media), &bytes);
        self.bytes = Some(bytes);
        self
    }
}

impl From<Receipt> for ReceiptView {
    fn from(receipt: Receipt) -> Self {
        let Receipt { broker_ref, duplicate, attributes } = receipt;
        Self { broker_ref, duplicate, attributes: HeadersJson(attributes) }
    }
}

impl From<AttemptRecord> for Attempt {
    fn from(attempt: AttemptRecord) -> Self {
        Self {
            at: attempt.at.into(),
            took_ms: attempt.took_ms,
            outcome: attempt.outcome,
            worker: attempt.worker.to_string(),
            transport: attempt.transport.to_string(),
            plugin: attempt.plugin.map(Arc::unwrap_or_clone),
            code: attempt.code,
            reason: attempt.reason,
            maybe_delivered: attempt.maybe_delivered,
        }
    }
}

/// Result of an enqueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Enqueued {
    /// Ids in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before with the same content.
    pub duplicates: Vec<String>,
}

/// Result of a business transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Transacted)]
pub struct TransactionDone {
    /// Ids of the messages in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before with the same content.
    pub duplicates: Vec<String>,
    /// What each statement answered, in order.
    pub results: Vec<serde_json::Value>,
    /// The events in the order of the request; none where it was a repeat of its messages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub events: Vec<AppendedEvent>,
}

/// An event that a transaction appended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AppendedEvent {
    /// Its `event_id`, chosen by the caller or made.
    pub id: String,
    /// Its number; absent = it gets one in a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<SeqJson>,
}

/// Another instant for a waiting message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Reschedule {
    /// Not before this instant; one in the past means now.
    #[serde(alias = "next_attempt_at", alias = "available_at")]
    pub not_before: Instant,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

#[async_trait]
pub trait EnqueueService: Send + Sync + 'static {
    /// Enqueues all or none and answers after the durable commit.
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Result<Enqueued, ServiceError>;
    /// Commits statements, messages and events together. Events without `expected_seq` never make it fail. With `finish` it also finishes an idempotency key, in the same commit: when
    /// the key isn't the caller's any more, nothing is committed ([`ServiceError::LeaseLost`]).
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<NewMessage>,
        events: Vec<JointEvent>,
        finish: Option<FinishWith>,
    ) -> Result<TransactionDone, ServiceError>;
}

/// The messages that a bulk act would concern.
#[derive(Clone, Debug, Default)]
pub struct WaitingView {
    /// How many there are; a lower bound where counting ended at its bound.
    pub matched: u64,
    /// Set where it did: when the last message was enqueued that was looked at.
    pub counted_since: Option<UnixMillis>,
    /// The first of them, without payload.
    pub sample: Vec<MessageView>,
}

/// Messages that were taken. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait MessageService: Send + Sync + 'static {
    /// One message with payload and attempts.
    async fn message(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError>;
    /// Messages that match. States: `pending`, `leased`, `done`, `cancelled`, `expired` by the filter's `state=`; dead ones are listed with dead letters.
    async fn messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        order: ListOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError>;
    /// Who goes before a message of its key, and who waits behind it.
    async fn neighbours(&self, tenant: &Tenant, id: &str) -> Result<NeighboursView, ServiceError>;
    /// How often each value stands in what matches, the newest first. At most 10,000 rows are looked at, for two seconds.
    async fn facets(&self, tenant: Option<&Tenant>, filter: &str) -> Result<FacetsView, ServiceError>;
    /// The messages that a bulk act would concern: those that wait, and with `moved_to` those that can be moved there. All are looked at.
    async fn waiting_messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        moved_to: Option<UnixMillis>,
        sample: usize,
    ) -> Result<WaitingView, ServiceError>;
    /// Takes a message back unless it is being sent.
    async fn cancel(&self, tenant: &Tenant, id: &str, reason: &str, actor: &str) -> Result<MessageView, ServiceError>;
    /// Moves a waiting message (scheduled or parked) to another instant.
    async fn reschedule(
        &self,
        tenant: &Tenant,
        id: &str,
        not_before: UnixMillis,
        reason: &str,
        actor: &str,
    ) -> Result<MessageView, ServiceError>;
}
