//! What a shard's owner does with the store.

mod commit;
mod due;
mod purge;
pub mod read;

pub use due::DueFronts;

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::ids::{MessageId, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{DeadLetter, DoorKey, DoorRow, HistoryChunk, IdRecord, Parked, ShardRecord};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;

use crate::store::SurrealStore;

#[async_trait]
impl OwnerStore for SurrealStore {
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError> {
        read::shard(self.begin(false).await?.as_ref(), shard).await
    }

    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        commit::commit(self, &commit).await
    }

    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError> {
        read::directory(self.begin(false).await?.as_ref(), shard, from, limit).await
    }

    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError> {
        read::segments(self.begin(false).await?.as_ref(), shard, firsts).await
    }

    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError> {
        read::parked(self.begin(false).await?.as_ref(), shard, after, limit).await
    }

    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError> {
        let fronts = self.due_fronts();
        let (front, mark) = if self.is_embedded() { fronts.begin(shard) } else { (UnixMillis(0), 0) };
        let found = read::scheduled_due(self.begin(false).await?.as_ref(), shard, front, now, limit).await?;
        let first = found.due.first().map(|scheduled| scheduled.due).or(found.next);
        fronts.found(shard, mark, first.unwrap_or(front));
        Ok(found)
    }

    async fn door(
        &self,
        shard: ShardId,
        from_nanos: u64,
        until_nanos: u64,
        after: Option<DoorKey>,
        limit: usize,
    ) -> Result<Vec<DoorRow>, StoreError> {
        read::door(self.begin(false).await?.as_ref(), shard, (from_nanos, until_nanos), after.as_ref(), limit).await
    }

    async fn door_clock(&self) -> Result<u64, StoreError> {
        self.door_nanos().await
    }

    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError> {
        let transaction = self.begin(false).await?;
        let mut found = Vec::with_capacity(ids.len());
        for (tenant, id) in ids {
            found.push(read::id(transaction.as_ref(), tenant, id).await?);
        }
        Ok(found)
    }

    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError> {
        read::blob(self.begin(false).await?.as_ref(), blob).await
    }

    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError> {
        read::dead_letter(self.begin(false).await?.as_ref(), shard, seq).await
    }

    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
        read::held_keys(self.begin(false).await?.as_ref(), shard).await
    }

    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<(Seq, u64)>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
        read::history_before(self.begin(false).await?.as_ref(), shard, after, before, limit).await
    }

    async fn purge_history(&self, chunks: &[Arc<HistoryChunk>]) -> Result<(), StoreError> {
        purge::purge_history(self, chunks).await
    }
}
