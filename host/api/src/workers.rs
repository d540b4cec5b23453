//! Workers outside: what they ask of the outbox and what they are told (`docs/external-workers.md`).

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::port::dedup::FirstDelivery;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::workers::{FlushResult, SettleWish};
use waybill_core::route::Pattern;

use crate::instant::Instant;
use crate::messages::{MessageView, ReceiptView};

/// A worker wants messages.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Claim)]
pub struct ClaimBody {
    /// Name of the worker, up to 128 bytes: shown with leases and attempts.
    pub worker_id: String,
    /// Most messages, 1 to 1,000; 10 if absent. Fewer come when they are large.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 1000)]
    pub limit: Option<usize>,
    /// How long the worker keeps them, 100 to 86,400,000; 60,000 if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
    /// The same in seconds; not beside `lease_ms`.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400)]
    pub lease_seconds: Option<u64>,
    /// Only topics that this pattern takes, as in a route: `bus:orders.**`.
    #[serde(default)]
    pub topic: Option<String>,
    /// Only this tenant's; all that the credential allows if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// How long to wait for the first message, up to 20,000; 0 if absent.
    #[serde(default)]
    #[schema(maximum = 20_000)]
    pub wait_ms: Option<u64>,
}

/// Messages handed to a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Claimed {
    /// Of each key the first unsettled one.
    pub items: Vec<ClaimedMessage>,
}

/// A message handed to a worker.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct ClaimedMessage {
    /// Names the lease: give it back when settling.
    pub token: String,
    /// End of the lease.
    pub lease_until: Instant,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// Definite failures so far.
    pub retry_count: u32,
    /// How often it was claimed since it was last settled; above 1, a worker let its lease end.
    pub claims: u32,
    /// Where to: the topic without its scheme.
    pub target: String,
    /// The message with its payload.
    #[serde(flatten)]
    pub message: MessageView,
}

/// What a worker wants to become of messages that it claimed.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Settle)]
pub struct SettleBody {
    /// Name of the worker, for the audit of conflicts.
    #[serde(default)]
    pub worker_id: Option<String>,
    /// Whose messages; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
    /// 1 to 1,000 messages, each on its own.
    #[schema(min_items = 1, max_items = 1000)]
    pub items: Vec<SettleItemBody>,
}

/// One message in a settlement.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = SettleItem)]
pub struct SettleItemBody {
    /// Id of the claimed message; also `outbox_id`.
    #[serde(alias = "outbox_id")]
    pub id: String,
    /// Whose, if not the request's.
    #[serde(default)]
    pub tenant: Option<String>,
    /// The token of the claim.
    pub token: String,
    /// What is to become of it.
    pub result: SettleWord,
    /// Why it failed, with `nack` and `dead` only: a text, or an object with a code.
    #[serde(default)]
    pub error: Option<WorkerError>,
    /// When it is tried again (`nack`, else the host's backoff decides) or given out again (`release`, else at once). With these two only.
    #[serde(default)]
    pub next_attempt_at: Option<Instant>,
    /// What the receiver gave back, with `ack` only, up to 1,024 bytes; also `memory_id`.
    #[serde(default, alias = "memory_id")]
    pub receipt: Option<String>,
    /// How much longer the worker keeps it, with `renew` only; as long as it asked for at first if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
    /// The same in seconds, with `renew` only; not beside `lease_ms`.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 86_400)]
    pub lease_seconds: Option<u64>,
}

/// What is to become of a claimed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SettleResult)]
pub enum SettleWord {
    /// The receiver has it: it is done.
    Ack,
    /// It failed and is tried again; the attempt counts.
    Nack,
    /// It failed for good.
    Dead,
    /// It wasn't tried: no attempt counts.
    Release,
    /// It takes longer: the lease runs anew from now on.
    Renew,
}

/// Why a worker could not deliver a message.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "error is a text, or an object with code and reason")]
pub enum WorkerError {
    /// A sentence for people; its code is then `EXTERNAL.FAILED`.
    Text(String),
    /// With a code by which dead letters are grouped.
    Coded {
        /// Upper case letters, digits, dots and underscores, at most 64.
        code: String,
        /// A sentence for people; empty if absent.
        #[serde(default)]
        reason: String,
    },
}

/// What became of a settlement.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct Settled {
    /// An answer for each message, in order.
    pub items: Vec<SettleAnswer>,
}

/// What became of one message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SettledItem)]
pub struct SettleAnswer {
    /// Id of the message, as in the request.
    pub id: String,
    /// It is done, and durable.
    pub applied: bool,
    /// Result code: `outbox_flush_success`, `_retry`, `_dead`, `_released`, `_renewed`; `_conflict`, `_db_timeout` or
    /// `_db_error` when it wasn't applied.
    #[schema(value_type = String)]
    pub result: FlushResult,
    /// Error code when it wasn't applied: `TX.LEASE_LOST` when the token isn't the message's current one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Why it wasn't applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// State of the message after a conflict; absent when there is no such message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<MessageState>,
    /// When it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_attempt_at: Option<Instant>,
    /// End of the renewed lease.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Instant>,
}

/// A worker asks whether a payload was delivered before.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CheckDedup {
    /// `target` of the claimed message.
    #[serde(alias = "target_space")]
    pub target: String,
    /// `payload_sha256` of the claimed message.
    #[serde(alias = "payload_sha256")]
    pub payload_sha: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// Whether a payload was delivered before.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct DedupChecked {
    /// The first delivery; null = none within the window.
    pub first: Option<FirstDeliveryView>,
}

/// The first delivery of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FirstDelivery)]
pub struct FirstDeliveryView {
    /// The message that was delivered.
    pub id: String,
    /// What the receiver gave back.
    pub receipt: ReceiptView,
    pub delivered_at: Instant,
}

impl From<FirstDelivery> for FirstDeliveryView {
    fn from(first: FirstDelivery) -> Self {
        Self { id: first.id, receipt: first.receipt.into(), delivered_at: first.at.into() }
    }
}

/// A worker wants messages.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Name of the worker, for people.
    pub worker: String,
    pub limit: usize,
    /// How long it keeps them.
    pub lease: Duration,
    /// Only messages whose topic it takes; none = all.
    pub topic: Option<Pattern>,
    /// Only of these tenants; none = all.
    pub tenants: Option<Vec<Tenant>>,
    /// How long it waits for the first one.
    pub wait: Duration,
}

/// One message in a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleItem {
    pub id: String,
    /// Whose, to find its state if the token is worth nothing any more.
    pub tenant: Tenant,
    /// The token that the claim gave.
    pub token: String,
    /// What is to become of it.
    pub wish: SettleWish,
}

#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// Name of the worker, for the audit.
    pub worker: Option<String>,
    pub actor: String,
    /// The tenants of the credential; none = all.
    pub tenants: Option<Vec<Tenant>>,
    pub items: Vec<SettleItem>,
}

/// The outbox for workers outside.
#[async_trait]
pub trait WorkerService: Send + Sync + 'static {
    /// Hands messages of the transport `external` to a worker.
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<ClaimedMessage>, ServiceError>;
    /// Does what a worker wants with messages it claimed: an answer for each, in order.
    async fn settle(&self, request: SettleRequest) -> Result<Vec<SettleAnswer>, ServiceError>;
    /// The first delivery of a payload by a worker outside, within the window of its route.
    async fn check_dedup(
        &self,
        tenant: &Tenant,
        target: &str,
        sha256: &str,
    ) -> Result<Option<FirstDeliveryView>, ServiceError>;
}
