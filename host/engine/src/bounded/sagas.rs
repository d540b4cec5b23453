//! Sagas.

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

use super::{Bounded, WALK_TIMES, within};

#[async_trait]
impl SagaStore for Bounded<dyn SagaStore> {
    async fn acquire(&self, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
        within!(self.acquire(shard, token, nonce), WALK_TIMES)
    }
    async fn saga_shard(&self, shard: ShardId) -> Result<SagaShardRecord, StoreError> {
        within!(self.saga_shard(shard))
    }
    async fn commit_sagas(&self, commit: SagaCommit) -> Result<(), StoreError> {
        within!(self.commit_sagas(commit))
    }
    async fn saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaRow>>, StoreError> {
        within!(self.saga(shard, key))
    }
    async fn list_sagas(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, StoreError> {
        within!(self.list_sagas(table, filter, cursor, limit))
    }
    async fn count_sagas(&self, table: SagaTable, filter: &SagaFilter) -> Result<u64, StoreError> {
        within!(self.count_sagas(table, filter), WALK_TIMES)
    }
    async fn expire_sagas(
        &self,
        before: UnixMillis,
        derived_longer: Duration,
        limit: usize,
    ) -> Result<Expired, StoreError> {
        within!(self.expire_sagas(before, derived_longer, limit))
    }
    async fn put_definition(&self, definition: &StoredDefinition) -> Result<DefinitionPut, StoreError> {
        within!(self.put_definition(definition))
    }
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<StoredDefinition>, StoreError> {
        within!(self.definition(name, version))
    }
    async fn definition_by_hash(&self, hash: &DefinitionHash) -> Result<Option<StoredDefinition>, StoreError> {
        within!(self.definition_by_hash(hash))
    }
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, StoreError> {
        within!(self.definitions(name, cursor, limit))
    }
    async fn dead_saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaDead>>, StoreError> {
        within!(self.dead_saga(shard, key))
    }
    async fn dead_sagas(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError> {
        within!(self.dead_sagas(filter, cursor, limit))
    }
    async fn mark_dead_saga(&self, shard: ShardId, key: &SagaKey, state: &DeadState) -> Result<bool, StoreError> {
        within!(self.mark_dead_saga(shard, key, state))
    }
}
