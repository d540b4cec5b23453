//! The ports of idempotency keys: where entries are kept, and what the API asks of them. The rules are in
//! [`crate::idempotency`].

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::idempotency::{Answer, Applied, Begun, Entry, EntryFilter, EntryKey, Op, Settings};
use crate::ids::{HoldToken, RequestHash, Tenant};
use crate::port::query::Page;
use crate::port::service::{ServiceError, TransactionDone};
use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// An entry with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundEntry {
    /// Its key.
    pub of: EntryKey,
    /// The entry.
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
    /// Which key.
    pub of: EntryKey,
    /// The token that its begin gave.
    pub token: HoldToken,
}

/// A request to begin a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginRequest {
    /// Which key.
    pub of: EntryKey,
    /// Of what is going to be done.
    pub hash: RequestHash,
    /// How long it is remembered; none = `idempotency.ttl`.
    pub ttl: Option<Duration>,
    /// How long it is reserved; none = `idempotency.lease`.
    pub lease: Option<Duration>,
}

/// A key that a business transaction finishes ([`crate::port::service::OutboxService::transact`]).
#[derive(Clone)]
pub struct FinishWith {
    /// Who has it.
    pub hold: Hold,
    /// The answer to its caller, whole.
    pub answer: Arc<dyn Fn(&TransactionDone) -> Answer + Send + Sync>,
}

/// Idempotency keys as a service. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait IdempotencyService: Send + Sync + 'static {
    /// What is in force now.
    fn settings(&self) -> Settings;
    /// Reserves a key, or says how it stands.
    async fn begin(&self, request: BeginRequest) -> Result<Begun, ServiceError>;
    /// It is done; answers what is kept of the result.
    async fn finish(&self, hold: Hold, answer: Answer) -> Result<Answer, ServiceError>;
    /// It failed for good.
    async fn fail(&self, hold: Hold, error: &str) -> Result<(), ServiceError>;
    /// Nothing was done: the key is free.
    async fn release(&self, hold: Hold) -> Result<(), ServiceError>;
    /// It isn't known what was done: the next begin takes over at once, with the same origin.
    async fn give_up(&self, hold: Hold) -> Result<(), ServiceError>;
    /// It takes longer; answers the end of the lease. None = `idempotency.lease`.
    async fn renew(&self, hold: Hold, lease: Option<Duration>) -> Result<UnixMillis, ServiceError>;
    /// An entry.
    async fn entry(&self, of: &EntryKey) -> Result<FoundEntry, ServiceError>;
    /// Entries that match.
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, ServiceError>;
    /// An operator's release, audited: forgets what is in flight, and with `finished` also a known outcome. Answers what it
    /// was.
    async fn forget(
        &self,
        of: &EntryKey,
        finished: bool,
        reason: &str,
        actor: &str,
    ) -> Result<FoundEntry, ServiceError>;
}
