//! Sagas: the commit of a shard's writer, what a new writer finds, and what readers ask for.
//!
//! | file | holds |
//! |---|---|
//! | `acquire` | taking a shard's sagas over |
//! | `commit` | the guarded commit |
//! | `place` | where the row of a saga lies |
//! | `list` | lists and counts, newest first |
//! | `expire` | the end of ended ones |
//! | `forgotten` | what is known of those of which nothing is left |
//! | `dead` | stuck ones |
//! | `define` | definitions |
//!
//! A completed saga costs its share of the journal records and one row; of what a commit ended there is one record more, by
//! which the background finds what is old.

mod acquire;
mod commit;
mod dead;
mod define;
mod expire;
mod forgotten;
mod list;
mod place;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use waybill_core::ids::ShardId;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::query::Page;
use waybill_core::port::saga_store::{Acquired, DefinitionPut, Expired, SagaStore, SagaTable};
use waybill_core::port::store::StoreError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{DefinitionHash, SagaKey};
use waybill_core::saga::records::{SagaCommit, SagaDead, SagaRow, SagaShardRecord, SagaSummary, StoredDefinition};
use waybill_core::time::UnixMillis;

use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::{SAGA_START, saga_start_key};

pub(crate) use acquire::journal_record;
pub(crate) use define::by_hash as definition_by_hash;
pub(crate) use expire::ended;
pub(crate) use forgotten::{begin as begin_forgetting, dropped, forgotten_until, mark_dropped, wall};
pub(crate) use place::{find as find_saga, floor, needs_start, of_start, start_in_id, started};

/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

#[async_trait]
impl SagaStore for SurrealStore {
    async fn acquire(&self, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
        acquire::acquire(self, shard, token, nonce).await
    }

    async fn saga_shard(&self, shard: ShardId) -> Result<SagaShardRecord, StoreError> {
        Ok(place::shard(self.begin(false).await?.as_ref(), shard).await?.0)
    }

    async fn commit_sagas(&self, commit: SagaCommit) -> Result<(), StoreError> {
        commit::commit(self, &commit).await
    }

    async fn saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaRow>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = place::saga(self.begin(false).await?.as_ref(), shard, key, &mut spoilt).await;
        if let Err(StoreError::Corrupt(_)) = &found {
            // What says when it began, of whichever kind: one that can be read stays.
            for ended in [false, true] {
                spoilt.note(SAGA_START, &saga_start_key(shard, key, ended));
            }
        }
        self.set_aside(spoilt).await;
        found
    }

    async fn list_sagas(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = list::list(self, table, filter, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn count_sagas(&self, table: SagaTable, filter: &SagaFilter) -> Result<u64, StoreError> {
        let mut spoilt = Spoilt::default();
        let counted = list::count(self.begin(false).await?.as_ref(), table, filter, &mut spoilt).await;
        self.set_aside(spoilt).await;
        counted
    }

    async fn expire_sagas(
        &self,
        before: UnixMillis,
        derived_longer: Duration,
        limit: usize,
    ) -> Result<Expired, StoreError> {
        expire::expire(self, before, derived_longer, limit).await
    }

    async fn put_definition(&self, definition: &StoredDefinition) -> Result<DefinitionPut, StoreError> {
        define::put(self, definition).await
    }

    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<StoredDefinition>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = define::by_name(self.begin(false).await?.as_ref(), name, version, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn definition_by_hash(&self, hash: &DefinitionHash) -> Result<Option<StoredDefinition>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = define::by_hash(self.begin(false).await?.as_ref(), hash, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = define::list(self.begin(false).await?.as_ref(), name, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn dead_saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaDead>>, StoreError> {
        dead::one(self.begin(false).await?.as_ref(), shard, key).await
    }

    async fn dead_sagas(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = dead::list(self.begin(false).await?.as_ref(), filter, (cursor, limit), &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn mark_dead_saga(&self, shard: ShardId, key: &SagaKey, state: &DeadState) -> Result<bool, StoreError> {
        dead::mark(self, shard, key, state).await
    }
}
