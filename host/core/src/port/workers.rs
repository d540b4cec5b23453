//! What workers outside want to become of messages, and what became of it (`docs/external-workers.md`).

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::port::transport::Fault;
use crate::time::UnixMillis;

/// Name of the transport whose messages workers claim.
pub const EXTERNAL: &str = "external";

/// What a worker wants to become of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettleWish {
    Ack {
        /// What the receiver gave back.
        receipt: Option<String>,
    },
    /// It failed; the attempt counts.
    Nack {
        fault: Fault,
        /// When it is tried again; none = as the host's backoff says.
        next_attempt_at: Option<UnixMillis>,
    },
    /// It failed for good.
    Dead { fault: Fault },
    /// It wasn't tried; no attempt.
    Release { not_before: Option<UnixMillis> },
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

/// What became of a worker's wish, by the source document's result code; what that has none for in the same style.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FlushResult {
    #[serde(rename = "outbox_flush_success")]
    Success,
    /// To be tried again.
    #[serde(rename = "outbox_flush_retry")]
    Retry,
    #[serde(rename = "outbox_flush_dead")]
    Dead,
    /// The token isn't the message's current one: nothing changed.
    #[serde(rename = "outbox_flush_conflict")]
    Conflict,
    #[serde(rename = "outbox_flush_released")]
    Released,
    #[serde(rename = "outbox_flush_renewed")]
    Renewed,
    /// The store didn't say.
    #[serde(rename = "outbox_flush_db_timeout")]
    DbTimeout,
    #[serde(rename = "outbox_flush_db_error")]
    DbError,
}
