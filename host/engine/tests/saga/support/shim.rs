//! The memory store's sagas with trouble between them and the engine: each commit and read may be delayed, refused, made to
//! happen without a word, or to panic.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
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
use waybill_testkit::memory_store::MemoryStore;

/// A call as the hook sees it.
#[derive(Debug)]
pub enum Call<'a> {
    Commit(&'a SagaCommit),
    Record,
    Acquire,
}

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Act {
    Pass,
    Slow(Duration),
    /// Nothing happens and the caller hears this.
    Fail(StoreError),
    /// It happens, and the caller hears this.
    FailAfter(StoreError),
    Panic,
}

type Hook = dyn FnMut(Call<'_>) -> Act + Send;

pub struct SagaShim {
    inner: Arc<MemoryStore>,
    hook: Mutex<Box<Hook>>,
}

impl SagaShim {
    pub fn new(inner: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self { inner, hook: Mutex::new(Box::new(|_| Act::Pass)) })
    }
    /// From now on every call is decided by `hook`.
    pub fn on(&self, hook: impl FnMut(Call<'_>) -> Act + Send + 'static) {
        *self.hook.lock() = Box::new(hook);
    }
    /// From now on every call passes.
    pub fn calm(&self) {
        self.on(|_| Act::Pass);
    }
    async fn act(&self, call: Call<'_>) -> Result<Option<StoreError>, StoreError> {
        let act = (self.hook.lock())(call);
        match act {
            Act::Pass => Ok(None),
            Act::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            Act::Fail(error) => Err(error),
            Act::FailAfter(error) => Ok(Some(error)),
            Act::Panic => panic!("a test made the store panic"),
        }
    }
}

#[async_trait]
impl SagaStore for SagaShim {
    async fn acquire(&self, shard: ShardId, token: u64, nonce: u64) -> Result<Acquired, StoreError> {
        let after = self.act(Call::Acquire).await?;
        let acquired = self.inner.acquire(shard, token, nonce).await?;
        after.map_or(Ok(acquired), Err)
    }
    async fn saga_shard(&self, shard: ShardId) -> Result<SagaShardRecord, StoreError> {
        self.act(Call::Record).await?;
        self.inner.saga_shard(shard).await
    }
    async fn commit_sagas(&self, commit: SagaCommit) -> Result<(), StoreError> {
        let after = self.act(Call::Commit(&commit)).await?;
        self.inner.commit_sagas(commit).await?;
        after.map_or(Ok(()), Err)
    }
    async fn saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaRow>>, StoreError> {
        self.inner.saga(shard, key).await
    }
    async fn list_sagas(
        &self,
        table: SagaTable,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, StoreError> {
        self.inner.list_sagas(table, filter, cursor, limit).await
    }
    async fn count_sagas(&self, table: SagaTable, filter: &SagaFilter) -> Result<u64, StoreError> {
        self.inner.count_sagas(table, filter).await
    }
    async fn expire_sagas(
        &self,
        before: UnixMillis,
        derived_longer: Duration,
        limit: usize,
    ) -> Result<Expired, StoreError> {
        self.inner.expire_sagas(before, derived_longer, limit).await
    }
    async fn put_definition(&self, definition: &StoredDefinition) -> Result<DefinitionPut, StoreError> {
        self.inner.put_definition(definition).await
    }
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<Option<StoredDefinition>, StoreError> {
        self.inner.definition(name, version).await
    }
    async fn definition_by_hash(&self, hash: &DefinitionHash) -> Result<Option<StoredDefinition>, StoreError> {
        self.inner.definition_by_hash(hash).await
    }
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, StoreError> {
        self.inner.definitions(name, cursor, limit).await
    }
    async fn dead_saga(&self, shard: ShardId, key: &SagaKey) -> Result<Option<Arc<SagaDead>>, StoreError> {
        self.inner.dead_saga(shard, key).await
    }
    async fn dead_sagas(
        &self,
        filter: &Filter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<Arc<SagaDead>>, StoreError> {
        self.inner.dead_sagas(filter, cursor, limit).await
    }
    async fn mark_dead_saga(&self, shard: ShardId, key: &SagaKey, state: &DeadState) -> Result<bool, StoreError> {
        self.inner.mark_dead_saga(shard, key, state).await
    }
}
