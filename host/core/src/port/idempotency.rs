//! Where entries of idempotency keys are kept. The rules are in [`crate::idempotency`].

use async_trait::async_trait;

use crate::idempotency::{Applied, Entry, EntryFilter, EntryKey, Op};
use crate::ids::{HoldToken, Tenant};
use crate::port::query::Page;
use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// An entry with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    pub of: EntryKey,
    pub entry: Entry,
}

/// Entries of idempotency keys. Each call is one transaction, durable when it is answered.
#[async_trait]
pub trait IdempotencyStore: Send + Sync + 'static {
    /// Does acts in order by [`crate::idempotency::decide`], all in one transaction: several on one key see each other. An act
    /// whose entry can't be read fails alone. After an error of the whole nobody knows whether it went in, but for
    /// [`StoreError::Conflict`]; doing all of it again with the same tokens is safe.
    async fn act(&self, ops: &[Op], now: UnixMillis) -> Result<Vec<Result<Applied, StoreError>>, StoreError>;
    /// An entry, unless it is over.
    async fn entry(&self, of: &EntryKey, now: UnixMillis) -> Result<Option<Entry>, StoreError>;
    /// Entries that match, in order of tenant and key, at most `limit`, without those that are over.
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &EntryFilter,
        now: UnixMillis,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, StoreError>;
    /// Removes entries that are over, at most `limit`; how many it looked at.
    async fn purge_idempotency(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError>;
}

/// Who has a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub of: EntryKey,
    /// The token that its begin gave.
    pub token: HoldToken,
}
