//! Reads and commits of a shard's owner.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, HistoryKey, IdRecord, Parked, ShardRecord,
};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;

use super::{Bounded, WALK_TIMES, within};

#[async_trait]
impl OwnerStore for Bounded<dyn OwnerStore> {
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError> {
        within!(self.shard(shard))
    }
    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        within!(self.commit(commit))
    }
    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError> {
        within!(self.directory(shard, from, limit))
    }
    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError> {
        within!(self.segments(shard, firsts))
    }
    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError> {
        within!(self.parked(shard, after, limit))
    }
    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError> {
        within!(self.scheduled_due(shard, now, limit))
    }
    async fn door(
        &self,
        shard: ShardId,
        from_nanos: u64,
        until_nanos: u64,
        after: Option<DoorKey>,
        limit: usize,
    ) -> Result<Vec<DoorRow>, StoreError> {
        within!(self.door(shard, from_nanos, until_nanos, after, limit))
    }
    async fn door_clock(&self) -> Result<u64, StoreError> {
        within!(self.door_clock())
    }
    async fn door_newest(&self, shard: ShardId) -> Result<Option<u64>, StoreError> {
        within!(self.door_newest(shard))
    }
    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError> {
        within!(self.ids(ids))
    }
    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError> {
        within!(self.blob(blob))
    }
    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError> {
        within!(self.dead_letter(shard, seq))
    }
    async fn dead_before(
        &self,
        shard: ShardId,
        after: Option<Seq>,
        before: UnixMillis,
        now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        within!(self.dead_before(shard, after, before, now, limit))
    }
    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
        within!(self.held_keys(shard), WALK_TIMES)
    }
    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
        within!(self.history_before(shard, after, before, limit))
    }
    async fn purge_history(
        &self,
        chunks: &[Arc<HistoryChunk>],
        keep_derived: Duration,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        within!(self.purge_history(chunks, keep_derived, now))
    }
    async fn purge_ids(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.purge_ids(now, limit))
    }
}
