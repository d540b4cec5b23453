//! What a shard's owner reads, first as functions of the tables, then as the port.

use std::collections::HashSet;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::idempotency::is_derived;
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::message::Payload;
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, HistoryKey, IdRecord, IdState, Parked, ShardRecord,
};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment};
use waybill_core::time::UnixMillis;

use super::tables::id_key;
use super::{MemoryStore, Tables};

/// What [`OwnerStore`] promises of the functions of the same names, on the tables themselves.
impl Tables {
    pub fn shard(&self, shard: ShardId) -> ShardRecord {
        self.shards.get(&shard).cloned().unwrap_or_default()
    }

    pub fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Vec<SegmentInfo> {
        let rows = self.segments.range((shard, from)..=(shard, Seq(u64::MAX)));
        rows.map(|((_, first), content)| content.info(*first)).take(limit).collect()
    }

    pub fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Vec<StoredSegment> {
        let found = firsts.iter().filter_map(|first| Some((*first, self.segments.get(&(shard, *first))?)));
        found.map(|(first, content)| StoredSegment { first, segment: content.decoded() }).collect()
    }

    pub fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Vec<Arc<Parked>> {
        let rows = self.parked.iter().filter(|((of, seq), _)| *of == shard && after.is_none_or(|after| *seq > after));
        rows.map(|(_, parked)| Arc::clone(parked)).take(limit).collect()
    }

    pub fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> DueScheduled {
        let mut found = DueScheduled::default();
        for ((of, due, _), scheduled) in &self.scheduled {
            if *of != shard {
                continue;
            }
            if *due > now || found.due.len() >= limit {
                found.next = Some(*due);
                break;
            }
            found.due.push(Arc::clone(scheduled));
        }
        found
    }

    pub fn door(&self, shard: ShardId, from: u64, until: u64, after: Option<&DoorKey>, limit: usize) -> Vec<DoorRow> {
        let rows = self.door.iter().filter(|((of, key), _)| {
            *of == shard && key.nanos >= from && key.nanos <= until && after.is_none_or(|after| key > after)
        });
        rows.map(|((_, key), content)| DoorRow { key: key.clone(), content: content.clone() }).take(limit).collect()
    }

    pub fn door_newest(&self, shard: ShardId) -> Option<u64> {
        let stamps = self.door.keys().filter(|(of, _)| *of == shard).map(|(_, key)| key.nanos);
        stamps.max()
    }

    pub fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Vec<Arc<HistoryChunk>> {
        let is_wanted = |chunk: &HistoryChunk| after.is_none_or(|after| chunk.key() > after) && chunk.at < before;
        let rows = self.history.iter().filter(|((of, ..), chunk)| *of == shard && is_wanted(chunk));
        let mut chunks: Vec<_> = rows.map(|(_, chunk)| Arc::clone(chunk)).collect();
        chunks.sort_by_key(|chunk| chunk.key());
        chunks.truncate(limit);
        chunks
    }

    pub fn purge_history(&mut self, chunks: &[Arc<HistoryChunk>], keep_derived: Duration, now: UnixMillis) {
        let mut blobs = HashSet::new();
        for chunk in chunks {
            self.history.remove(&(chunk.shard, chunk.segment, chunk.beat));
            for done in &chunk.entries {
                let key = id_key(&done.message.tenant, &done.message.id);
                let place = Place { shard: chunk.shard, segment: chunk.segment, index: done.index };
                // An id that was put back into the order meanwhile belongs to its new place.
                if self.ids.get(&key).is_some_and(|record| record.state == IdState::At(place)) {
                    let until = chunk.at.plus(keep_derived);
                    if is_derived(&key.1) && until > now {
                        self.ids_due.insert((until, key), place);
                    } else {
                        self.ids.remove(&key);
                    }
                }
                if let Payload::Blob { blob, .. } = &done.message.payload {
                    blobs.insert(blob.clone());
                }
            }
        }
        self.blobs.retain(|blob, _| !blobs.contains(blob));
    }

    pub fn purge_ids(&mut self, now: UnixMillis, limit: usize) -> usize {
        let due = self.ids_due.iter().take_while(|((until, _), _)| *until <= now).take(limit);
        let due: Vec<_> = due.map(|((until, key), place)| (*until, key.clone(), *place)).collect();
        for (until, key, place) in &due {
            self.ids_due.remove(&(*until, key.clone()));
            if self.ids.get(key).is_some_and(|record| record.state == IdState::At(*place)) {
                self.ids.remove(key);
            }
        }
        due.len()
    }
}

#[async_trait]
impl OwnerStore for MemoryStore {
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.shard(shard)))
    }

    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        self.commit_by_fate(commit)
    }

    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.directory(shard, from, limit)))
    }

    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.segments(shard, firsts)))
    }

    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.parked(shard, after, limit)))
    }

    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.scheduled_due(shard, now, limit)))
    }

    async fn door(
        &self,
        shard: ShardId,
        from_nanos: u64,
        until_nanos: u64,
        after: Option<DoorKey>,
        limit: usize,
    ) -> Result<Vec<DoorRow>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.door(shard, from_nanos, until_nanos, after.as_ref(), limit)))
    }

    async fn door_clock(&self) -> Result<u64, StoreError> {
        self.check()?;
        Ok(self.clock())
    }

    async fn door_newest(&self, shard: ShardId) -> Result<Option<u64>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.door_newest(shard)))
    }

    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| ids.iter().map(|(tenant, id)| tables.ids.get(&id_key(tenant, id)).cloned()).collect()))
    }

    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.blobs.get(blob).cloned()))
    }

    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.dead.get(&(shard, seq)).cloned()))
    }

    async fn dead_before(
        &self,
        shard: ShardId,
        after: Option<Seq>,
        before: UnixMillis,
        _now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let from = after.map_or(Bound::Included((shard, Seq(0))), |after| Bound::Excluded((shard, after)));
            let rows = tables.dead.range((from, Bound::Included((shard, Seq(u64::MAX)))));
            let old = rows.filter(|(_, dead)| dead.died_at < before);
            old.map(|(_, dead)| dead.place).take(limit).collect()
        }))
    }

    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let dead = tables.dead.iter().filter(|((of, _), dead)| *of == shard && dead.holds_key);
            dead.map(|(_, dead)| Arc::clone(dead)).collect()
        }))
    }

    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.history_before(shard, after, before, limit)))
    }

    async fn purge_history(
        &self,
        chunks: &[Arc<HistoryChunk>],
        keep_derived: Duration,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        self.check()?;
        self.write(|tables| tables.purge_history(chunks, keep_derived, now));
        Ok(())
    }

    async fn purge_ids(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| tables.purge_ids(now, limit)))
    }
}
