//! The inbox: stored messages, whether a message was handled, how much waits.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::ids::{ConsumerName, InboundId, ShardId, Tenant};
use waybill_core::inbox::filter::StoredFilter;
use waybill_core::inbox::place::InboxPlace;
use waybill_core::inbox::records::{InboxDone, InboxEnd, InboxRow};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;

use crate::headers::HeadersJson;
use crate::instant::Instant;
use crate::messages::{Waiting, is_json, shown_payload};

/// A received message that its consumer hasn't finished, as shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = InboxMessage)]
pub struct InboxMessageView {
    /// Its sender's id; where it had none its position at the source, or one made by the host.
    pub id: String,
    /// Names it within the host: `inbox-<shard>-<seq>`. Null while it is only in memory.
    pub place: Option<String>,
    /// Consumer that has to handle it.
    pub consumer: String,
    /// Source that brought it.
    pub source: String,
    pub tenant: String,
    /// Subject, topic or routing key it came on.
    pub subject: String,
    /// First token of the subject, or the source's setting; counts are kept by it.
    pub context: String,
    /// Messages of one consumer, tenant and key are handled one at a time, in order.
    pub key: Option<String>,
    pub event_type: Option<String>,
    pub event_version: Option<u32>,
    /// Ties a reply to its request.
    pub correlation_id: Option<String>,
    /// Id of the message that caused it.
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    /// When it happened, as sender or broker says.
    pub occurred_at: Option<Instant>,
    /// When this host had it first.
    pub received_at: Instant,
    /// Where it lay at its source.
    pub position: Option<String>,
    /// Definite failures so far.
    pub attempts: u32,
    /// A handler may have had it before, or may have it now.
    pub maybe_handled: bool,
    /// Latest error, `CODE: reason`.
    pub last_error: Option<String>,
    /// Not handled before this instant.
    pub not_before: Option<Instant>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// As they came.
    pub headers: HeadersJson,
    /// Media type of the payload.
    pub content_type: Option<String>,
    /// Size of the payload, also where it was too large to carry.
    pub payload_bytes: u64,
    /// The payload, byte for byte, when it is JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub payload: Option<Box<RawValue>>,
    /// The payload in base64 when it isn't JSON; in single views only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub payload_base64: Option<String>,
}

impl InboxMessageView {
    /// Of a stored message, without its payload. What it waits for is its owner's to say.
    pub fn of(shard: ShardId, row: &InboxRow) -> Self {
        let message = &row.message;
        Self {
            id: message.id.to_string(),
            place: Some(InboxPlace { shard, seq: row.seq }.to_string()),
            consumer: row.consumer.to_string(),
            source: message.source.to_string(),
            tenant: message.tenant.to_string(),
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
            attempts: row.attempts,
            maybe_handled: row.maybe_handled,
            last_error: row.last_error.as_ref().map(|error| format!("{}: {}", error.code, error.reason)),
            not_before: Some(row.due.into()),
            waiting: None,
            headers: HeadersJson(message.headers.clone()),
            content_type: message.content_type.clone(),
            payload_bytes: message.omitted.unwrap_or(message.payload.len() as u64),
            payload: None,
            payload_base64: None,
        }
    }

    #[must_use]
    pub fn with_payload(mut self, bytes: &Bytes) -> Self {
        (self.payload, self.payload_base64) = shown_payload(is_json(self.content_type.as_deref()), bytes);
        self
    }
}

/// What is known of a message id at one consumer.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = InboxStatus)]
pub struct InboxStatusView {
    pub consumer: String,
    pub id: String,
    pub state: InboxState,
    /// Its id is final: if it comes again within `inbox.dedup_window`, it is acknowledged and not handled.
    pub seen: bool,
    /// The message, while it isn't finished: in memory or stored.
    pub message: Option<InboxMessageView>,
    /// How it ended, for as long as `inbox.keep_done`; the latest first, of messages that were replayed several.
    pub ended: Vec<InboxEndView>,
    /// Its dead letter, for `GET /v1/dead-letters/{id}`.
    pub dead_letter: Option<String>,
}

/// Where a message is on its way through a consumer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum InboxState {
    /// Nothing is known of it within the window.
    Unseen,
    /// In memory; its source still holds it.
    InHand,
    /// Stored here; it waits for its turn, its key or its next try.
    Stored,
    /// Finished: handled, a duplicate, or a dead letter that is gone.
    Seen,
    /// A dead letter.
    Dead,
    /// A dead letter fenced off by an operator.
    Quarantined,
}

/// How a message ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = InboxEnd)]
pub struct InboxEndView {
    /// `processed`, `duplicate` (its handler said that it was done before) or `dead`.
    #[schema(value_type = String)]
    pub end: InboxEnd,
    pub tenant: String,
    pub subject: String,
    pub received_at: Instant,
    /// Never before `received_at`.
    pub processed_at: Instant,
    /// Definite failures before.
    pub attempts: u32,
}

impl From<InboxDone> for InboxEndView {
    fn from(done: InboxDone) -> Self {
        Self {
            end: done.end,
            tenant: done.tenant.to_string(),
            subject: done.subject,
            received_at: done.received_at.into(),
            processed_at: done.processed_at.into(),
            attempts: done.attempts,
        }
    }
}

/// How much waits, by context and by consumer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InboxStats {
    pub contexts: Vec<ContextStats>,
    pub consumers: Vec<ConsumerStats>,
}

/// What waits in one context (document 5, QRY-050 and QRY-051).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ContextStats {
    /// First token of the subject, or the source's setting; `(other)` beyond 64 of them.
    pub context: String,
    /// Messages that were received and aren't processed.
    pub unprocessed: Waiters,
    /// Rows of outbox tables that aren't published, counted in the tables.
    pub unpublished: Waiters,
    /// Rows of outbox tables that stand failed.
    pub failed: u64,
}

/// How many wait, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Waiters {
    pub count: u64,
    /// When the oldest of them was received, or stamped; null = nothing waits, or the table doesn't tell.
    pub oldest_at: Option<Instant>,
}

/// How a consumer does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerStats {
    pub consumer: String,
    /// It is in the configuration. One that was taken out keeps what is stored for it.
    pub configured: bool,
    /// What its seen set and its order belong to.
    pub home: String,
    /// In memory, being handled among them.
    pub in_hand: u64,
    /// Being handled now.
    pub in_calls: u64,
    /// At most so many are.
    pub concurrency: u64,
    pub stored: u64,
    /// Past so many its sources wait.
    pub stored_max: u64,
    /// Places in the order that were taken before a crash and whose messages haven't come again.
    pub orphans: u64,
    /// Dead letters, quarantined ones too.
    pub dead: u64,
    /// Messages that were in a call at a crash and take their trial alone.
    pub suspects: u64,
    /// Reads of the store for one look-up in the seen set, on average since the start, times 100. What flows takes none, what came long
    /// ago one or two. Well above 100: ids have neither a time nor a counter, and there are more of them than `inbox.dedup_memory` has
    /// filters for.
    pub seen_reads_percent: u64,
    /// Why it handles nothing now: its handler asked for a pause, or can't be reached.
    pub held: Option<Waiting>,
}

/// In which order stored messages are listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StoredOrder {
    /// By shard and place: each shard as its messages came.
    #[default]
    Place,
    /// The latest received first.
    Newest,
}

/// The inbox of this host. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait InboxService: Send + Sync + 'static {
    /// Stored messages that match, at most `limit`, without payloads.
    async fn stored(
        &self,
        filter: &StoredFilter,
        order: StoredOrder,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<InboxMessageView>, ServiceError>;
    /// What is known of an id at a consumer, or of a place ([`InboxPlace`]); a message with its payload. With a tenant, a message of
    /// another one isn't found, and what the host remembers only as seen is told where the consumer takes messages of that tenant
    /// alone. A consumer that is neither configured nor has anything stored isn't found.
    async fn status_of(
        &self,
        tenant: Option<&Tenant>,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<InboxStatusView, ServiceError>;
    /// What waits; rows of tables as counted at most 10 s ago, for it is asked at every scrape. Confined to a tenant: its contexts, of
    /// consumers that take messages of that tenant alone.
    async fn inbox_stats(&self, tenant: Option<&Tenant>) -> Result<InboxStats, ServiceError>;
}
