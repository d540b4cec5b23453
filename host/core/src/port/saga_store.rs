//! The storage port of sagas. Two adapters: SurrealDB (`waybill-store`) and the in-memory reference store
//! (`waybill-testkit`); both run one conformance suite.
//!
//! One writer a shard, fenced by `(token, beat)` as the outbox's owner is: every commit writes a higher beat and a fresh
//! nonce, so that of two commits built on one state at most one goes in. What runs is packed, many sagas a commit, in one
//! journal record; a saga becomes a row only when it rests or has ended.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::ids::ShardId;
use crate::port::query::Page;
use crate::port::store::StoreError;
use crate::saga::filter::SagaFilter;
use crate::saga::id::{DefinitionHash, SagaKey};
use crate::saga::records::{
    SagaCommit, SagaDead, SagaRow, SagaShardRecord, SagaSummary, SagaTakeover, StoredDefinition,
};
use crate::time::UnixMillis;

/// Outcome of taking a shard's sagas over.
#[derive(Clone, Debug, PartialEq)]
pub enum Acquired {
    Taken(Box<SagaTakeover>),
    /// A higher token stands.
    Lost {
        token: u64,
    },
}

/// Outcome of putting a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefinitionPut {
    Created,
    /// The same was there.
    Same(StoredDefinition),
    /// The version was there with other content; nothing changed.
    Taken(StoredDefinition),
}

/// What one call of [`SagaStore::expire_sagas`] did. Together they are at most its limit; fewer = nothing old is left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expired {
    /// Sagas that are gone.
    pub removed: u64,
    /// Sagas that were looked at and stay for longer. They aren't looked at again until then.
    pub put_off: u64,
}

/// Which table to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SagaTable {
    /// Rows of those that haven't ended. One that runs may have a row that is behind, or none: the writer knows better.
    Open,
    /// Those that have ended.
    Done,
}

/// What the writer of a shard's sagas and its readers need of the store.
#[async_trait]
pub trait SagaStore: Send + Sync + 'static {
    /// Makes `token` the token of the shard's sagas, with the next beat and this nonce, and answers what there is, read at the
    /// same moment. The token is the outbox shard's: one higher than stored wins, an equal one takes over from an earlier self,
    /// a lower one changes nothing and is [`Acquired::Lost`]. After an error the outcome is unknown; asking again is safe.
    async fn acquire(&self, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError>;
    /// The shard record; the default record when there is none yet.
    async fn saga_shard(&self, shard: ShardId) -> Result<SagaShardRecord, StoreError>;
    /// Applies a commit, all or nothing: record, journal, rows and doorstep messages. `Err(Conflict)` and
    /// `Err(TooLarge)` prove that nothing was applied; after any other error the outcome is unknown and the caller reads the shard record. Messages whose ids are
    /// there already are left out without failing the commit: they are repeats of one step.
    async fn commit_sagas(&self, commit: SagaCommit) -> Result<(), StoreError>;

    /// The row of a root: of one that rests (or a checkpoint of one that runs), else of one that ended.
    async fn saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaRow>>, StoreError>;
    /// Columns of those that match, newest start first (ties by tenant and id, descending), at most `limit`. It reads a
    /// bounded number of rows and then answers a cursor even when the page isn't full. `Err(Statement)` for a cursor that this
    /// store didn't make.
    async fn list_sagas(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, StoreError>;
    /// How many rows match. Reads as many.
    async fn count_sagas(&self, table: SagaTable, filter: &SagaFilter) -> Result<u64, StoreError>;
    /// Removes ended sagas that ended before `before`, oldest first, at most `limit`. One whose id was made from an idempotency key
    /// ([`crate::idempotency::is_derived`]) stays for `derived_longer` more, with all that is known of it: a repeat of its start finds
    /// it. Not guarded: ended ones belong to nobody. One whose end the journal holds behind the floor stays, and is removed some time
    /// after the floor has come that far: as long as a takeover reads its events, it has to hear of its end, also when that part of
    /// the journal is damaged.
    async fn expire_sagas(
        &self,
        before: UnixMillis,
        derived_longer: Duration,
        limit: usize,
    ) -> Result<Expired, StoreError>;

    /// Puts a definition under its hash and its version. A version never changes its content.
    async fn put_definition(&self, definition: &StoredDefinition) -> Result<DefinitionPut, StoreError>;
    /// By name; without a version the highest.
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<StoredDefinition>, StoreError>;
    async fn definition_by_hash(&self, hash: &DefinitionHash) -> Result<Option<StoredDefinition>, StoreError>;
    /// All versions of all definitions, or of one, by name and falling version, at most `limit`.
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, StoreError>;

    /// The dead letter of a saga.
    async fn dead_saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaDead>>, StoreError>;
    /// Dead letters of kind saga that match, by shard, tenant and id, at most `limit`.
    async fn dead_sagas(
        &self,
        filter: &crate::outbox::filter::Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError>;
    /// Changes the condition of a dead letter (quarantine with a note, and back). False when there is none. Not guarded: only
    /// the writer puts and deletes them, and it doesn't look at the condition.
    async fn mark_dead_saga(
        &self,
        shard: ShardId,
        key: &SagaKey,
        state: &crate::outbox::records::DeadState,
    ) -> Result<bool, StoreError>;
}
