//! What a shard's owner does with the store.

mod commit;
mod due;
pub mod history;
mod left;
mod purge;
pub mod read;
mod rebuild;

pub use due::DueFronts;
pub use left::left_of;
pub use purge::outlived;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, HistoryKey, IdOrigin, IdRecord, IdState, Parked, ShardRecord,
};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;

use crate::quarantine::Spoilt;
use crate::store::SurrealStore;
use crate::tables::{DEAD, DOOR, ID, id_key, seq_key};

/// The row of an id whose own row can't be read.
fn taken(tenant: &Tenant, id: &MessageId) -> IdRecord {
    let nowhere = Place { shard: ShardId(0), segment: Seq(0), index: 0 };
    IdRecord {
        tenant: tenant.clone(),
        id: id.clone(),
        state: IdState::At(nowhere),
        content: None,
        origin: IdOrigin::Unknown,
    }
}

#[async_trait]
impl OwnerStore for SurrealStore {
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError> {
        rebuild::shard(self, shard).await
    }

    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        commit::commit(self, &commit).await
    }

    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = read::directory(self.begin(false).await?.as_ref(), shard, from, limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError> {
        read::segments(self.begin(false).await?.as_ref(), shard, firsts).await
    }

    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = read::parked(self.begin(false).await?.as_ref(), shard, after, limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError> {
        let fronts = self.due_fronts();
        let (front, mark) = if self.is_embedded() { fronts.begin(shard) } else { (UnixMillis(0), 0) };
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let found = read::scheduled_due(transaction.as_ref(), shard, front, now, limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        let found = found?;
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
        let mut spoilt = Spoilt::default();
        let (transaction, range) = (self.begin(false).await?, (from_nanos, until_nanos));
        let found = read::door(transaction.as_ref(), shard, range, after.as_ref(), limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn door_clock(&self) -> Result<u64, StoreError> {
        Ok(self.stamps().clock_of_look(self.door_nanos().await?))
    }

    async fn door_newest(&self, shard: ShardId) -> Result<Option<u64>, StoreError> {
        read::door_newest(self.begin(false).await?.as_ref(), DOOR, shard, 0).await
    }

    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError> {
        let transaction = self.begin(false).await?;
        let (mut found, mut spoilt) = (Vec::with_capacity(ids.len()), Spoilt::default());
        for (tenant, id) in ids {
            let record = read::id(transaction.as_ref(), tenant, id).await;
            found.push(match spoilt.sift(ID, &id_key(tenant, id), record)? {
                Some(record) => record,
                // Taken, by nobody knows what: whoever uses it again is refused, and nobody else.
                None => Some(taken(tenant, id)),
            });
        }
        self.set_aside(spoilt).await;
        Ok(found)
    }

    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError> {
        let mut spoilt = Spoilt::default();
        let found = read::blob(self.begin(false).await?.as_ref(), blob, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError> {
        let mut spoilt = Spoilt::default();
        let read = read::dead_letter(self.begin(false).await?.as_ref(), shard, seq).await;
        let found = spoilt.note_corrupt(DEAD, &seq_key(shard, seq), read);
        self.set_aside(spoilt).await;
        found
    }

    async fn dead_before(
        &self,
        shard: ShardId,
        after: Option<Seq>,
        before: UnixMillis,
        now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        let mut spoilt = Spoilt::default();
        let transaction = self.begin(false).await?;
        let found = read::dead_before(transaction.as_ref(), shard, after, (before, now), limit, &mut spoilt).await;
        self.set_aside(spoilt).await;
        found
    }

    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
        let (mut held, mut after) = (Vec::new(), None);
        loop {
            let mut spoilt = Spoilt::default();
            // A transaction a page: one over all of a large table would have to give way whenever the database is opened again. Who
            // asks has taken the shard, so nobody else writes dead letters meanwhile.
            let found = read::held_keys(self.begin(false).await?.as_ref(), shard, after, &mut spoilt).await;
            self.set_aside(spoilt).await;
            let (of_page, last) = found?;
            held.extend(of_page);
            if last.is_none() {
                return Ok(held);
            }
            after = last;
        }
    }

    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
        history::before(self, shard, after, before, limit).await
    }

    async fn purge_history(
        &self,
        chunks: &[Arc<HistoryChunk>],
        keep_derived: Duration,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        purge::purge_history(self, chunks, keep_derived, now).await
    }

    async fn purge_ids(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        purge::purge_ids(self, now, limit).await
    }
}
