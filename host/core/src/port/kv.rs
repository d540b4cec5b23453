//! The port for the small durable state of plugins (cursors, tokens, producer ids).
//!
//! A scope is one configured endpoint (`orders-nats`): its instances, generations and hosts share it, nobody else sees it.
//! What it doesn't do: transactions over several keys, expiry, notification.

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;

use crate::code::Code;

/// Longest key, in bytes: it becomes part of a record id.
pub const KV_KEY_BYTES_MAX: usize = 512;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KvEntry {
    pub value: Bytes,
    /// Opaque; changes with every write.
    pub revision: String,
}

/// What must hold for a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KvExpectation {
    Anything,
    Absent,
    /// The entry still has this revision.
    Revision(String),
}

/// What one scope may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KvQuota {
    /// Largest value, in bytes.
    pub value_bytes_max: usize,
    /// Keys and values of the scope together, in bytes.
    pub total_bytes_max: usize,
    /// Most entries of the scope.
    pub entries_max: usize,
}

impl Default for KvQuota {
    /// 64 KiB a value, 1 MiB and 1,000 entries in all: state of a client, not data of a business.
    fn default() -> Self {
        Self { value_bytes_max: 64 * 1024, total_bytes_max: 1024 * 1024, entries_max: 1_000 }
    }
}

/// Why a call failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum KvError {
    /// Key, value or total above the quota.
    #[error("{what} is above the quota of {max}: raise `allow.kv` or store less")]
    TooLarge { what: &'static str, max: usize },
    /// The revision wasn't the expected one.
    #[error("the entry was changed by somebody else: read it again")]
    Conflict,
    /// The store can't be reached now.
    #[error("the store can't be reached now: {0}")]
    Unavailable(String),
}

impl KvError {
    pub fn code(&self) -> Code {
        match self {
            Self::TooLarge { .. } => Code::PLUGIN_KV_TOO_LARGE,
            Self::Conflict => Code::STORAGE_CONFLICT,
            Self::Unavailable(_) => Code::PROVIDER_UNAVAILABLE,
        }
    }
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}

/// Small durable state by scope and key. Every write is durable when it is answered.
#[async_trait]
pub trait KvStore: Send + Sync + 'static {
    async fn get(&self, scope: &str, key: &str) -> Result<Option<KvEntry>, KvError>;
    /// Writes if `expect` holds and the scope stays within `quota`; answers the new revision.
    async fn put(
        &self,
        scope: &str,
        key: &str,
        value: Bytes,
        expect: KvExpectation,
        quota: KvQuota,
    ) -> Result<String, KvError>;
    /// Removes an entry; no entry is a success unless a revision was expected.
    async fn remove(&self, scope: &str, key: &str, expect: KvExpectation) -> Result<(), KvError>;
    /// Keys with `prefix`, in byte order, after `after`, at most `limit`.
    async fn keys(&self, scope: &str, prefix: &str, after: Option<&str>, limit: u32) -> Result<Vec<String>, KvError>;
}
