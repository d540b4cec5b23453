//! Workers outside: what they ask of the outbox and what they are told (`docs/external-workers.md`).

use std::time::Duration;

use crate::ids::Tenant;
use crate::port::service::{MessageState, MessageView};
use crate::port::transport::Fault;
use crate::route::Pattern;
use crate::time::UnixMillis;

/// Name of the transport whose messages workers claim.
pub const EXTERNAL: &str = "external";

/// A worker wants messages.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// Name of the worker, for people.
    pub worker: String,
    /// Most messages.
    pub limit: usize,
    /// How long it keeps them.
    pub lease: Duration,
    /// Only such topics.
    pub topic: Option<Pattern>,
    /// Only of these tenants; none = all.
    pub tenants: Option<Vec<Tenant>>,
    /// How long it waits for the first one.
    pub wait: Duration,
}

/// A message handed to a worker.
#[derive(Clone, Debug, PartialEq)]
pub struct ClaimedMessage {
    /// The message with its payload.
    pub message: MessageView,
    /// Names the lease: needed to settle.
    pub token: String,
    /// End of the lease.
    pub lease_until: UnixMillis,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// How often it was claimed since it was last settled.
    pub claims: u32,
    /// The topic without its scheme.
    pub target: String,
}

/// What a worker wants to become of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleWish {
    /// It is delivered.
    Ack {
        /// What the receiver gave back.
        receipt: Option<String>,
    },
    /// It failed; the attempt counts.
    Nack {
        /// Why.
        fault: Fault,
        /// When it is tried again; none = as the host's backoff says.
        next_attempt_at: Option<UnixMillis>,
    },
    /// It failed for good.
    Dead {
        /// Why.
        fault: Fault,
    },
    /// It wasn't tried; no attempt.
    Release {
        /// Not again before.
        not_before: Option<UnixMillis>,
    },
    /// It takes longer.
    Renew {
        /// From now on; none = as long as it asked for at first.
        lease: Option<Duration>,
    },
}

impl SettleWish {
    /// In a word, as in the API.
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Ack { .. } => "ack",
            Self::Nack { .. } => "nack",
            Self::Dead { .. } => "dead",
            Self::Release { .. } => "release",
            Self::Renew { .. } => "renew",
        }
    }
}

/// One message in a settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleItem {
    /// Message id.
    pub id: String,
    /// Whose, to find its state if the token is worth nothing any more.
    pub tenant: Tenant,
    /// The token that the claim gave.
    pub token: String,
    /// What is to become of it.
    pub wish: SettleWish,
}

/// A worker's settlement.
#[derive(Clone, Debug)]
pub struct SettleRequest {
    /// Name of the worker, for the audit.
    pub worker: Option<String>,
    /// Who asks.
    pub actor: String,
    /// The tenants of the credential; none = all.
    pub tenants: Option<Vec<Tenant>>,
    /// The messages.
    pub items: Vec<SettleItem>,
}

/// What became of a worker's wish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushResult {
    /// Delivered.
    Success,
    /// To be tried again.
    Retry,
    /// A dead letter.
    Dead,
    /// The token isn't the message's current one: nothing changed.
    Conflict,
    /// Given back.
    Released,
    /// Kept.
    Renewed,
    /// The store didn't say.
    DbTimeout,
    /// The store failed.
    DbError,
}

impl FlushResult {
    /// The source document's result code; what it has none for in the same style.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Success => "outbox_flush_success",
            Self::Retry => "outbox_flush_retry",
            Self::Dead => "outbox_flush_dead",
            Self::Conflict => "outbox_flush_conflict",
            Self::Released => "outbox_flush_released",
            Self::Renewed => "outbox_flush_renewed",
            Self::DbTimeout => "outbox_flush_db_timeout",
            Self::DbError => "outbox_flush_db_error",
        }
    }
}

/// The answer to one item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettleAnswer {
    /// Message id.
    pub id: String,
    /// It is done, durably where that matters.
    pub applied: bool,
    /// What became of it.
    pub result: FlushResult,
    /// Error code, if it wasn't applied.
    pub code: Option<String>,
    /// Why it wasn't applied.
    pub reason: Option<String>,
    /// The message's state where the token was worth nothing; none = there is no such message.
    pub state: Option<MessageState>,
    /// When it is tried again.
    pub next_attempt_at: Option<UnixMillis>,
    /// End of the renewed lease.
    pub lease_until: Option<UnixMillis>,
}
