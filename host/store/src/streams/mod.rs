//! Event streams: the commit of a shard's owner, appends of anyone beside it, and what readers, relays and upkeep ask for.
//!
//! | file | holds |
//! |---|---|
//! | `commit` | the guarded commit of an owner |
//! | `changes` | what a commit writes |
//! | `exact` | appends at an expected number |
//! | `joint` | events in transactions of callers |
//! | `door` | the doorstep, and what an owner reads before a commit |
//! | `shard` | the shard record, and another one in its place when it can't be read |
//! | `heads` | where a stream stands |
//! | `chunks` | its events |
//! | `blobs` | their large payloads |
//! | `ids` | the index of events' ids |
//! | `feed` | what each commit added |
//! | `scan` | many streams by name |
//! | `resources` | a stream as far as a resource has events in it |
//! | `relay` | what relays and upkeep read |
//! | `dead` | dead letters, and what relays never had |
//! | `due` | when the age of streams is looked at |
//! | `pauses` | which relays operators paused |
//! | `incarnation` | which incarnation of its data a store is |
//! | `keys` | keys and ranges |
//!
//! Each read is of one snapshot, each write one commit. A chunk that can't be read stays where it is: who reads on through it gets an error at
//! its range. Of everything else what can't be read goes to quarantine.

mod blobs;
mod changes;
mod chunks;
mod commit;
mod dead;
mod door;
mod due;
mod exact;
mod feed;
mod heads;
mod ids;
mod incarnation;
mod joint;
pub mod keys;
mod pauses;
mod relay;
mod resources;
mod scan;
mod shard;

use std::sync::Arc;

use async_trait::async_trait;
use waybill_core::ids::{RelayName, ShardId, Tenant};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{
    DueStream, FeedSlice, PassFound, PassQuery, RelayPage, RelaySlice, ScanQuery, ShardOf, StreamSlice, StreamStanding,
    StreamStore,
};
use waybill_core::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use waybill_core::streams::exact::{ExactAnswer, ExactAppend, ExactRefusal};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{
    Append, Checkpoint, FeedRecord, RelayNote, RelayWord, StreamCommit, StreamCommitted, StreamShardRecord,
};
use waybill_core::time::UnixMillis;
use waybill_surreal::Bound;

use crate::fault::store_error;
use crate::store::SurrealStore;
use crate::tables::{STREAM_SHARD, shard_key, unsigned};
use heads::Snapshot;
pub use joint::Joint;

/// Reads of one snapshot: what couldn't be read is set aside behind it.
macro_rules! read {
    ($store:expr, |$snapshot:ident| $read:expr) => {{
        let transaction = $store.begin_snapshot().await?;
        let mut of_now = Snapshot::of($store, transaction.as_ref());
        let $snapshot = &mut of_now;
        let found = $read.await;
        let spoilt = of_now.spoilt;
        $store.end_snapshot(transaction).await;
        $store.set_aside(spoilt).await;
        found
    }};
}

#[async_trait]
impl StreamStore for SurrealStore {
    async fn stream_shard(&self, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
        shard::read_or_rebuild(self, shard).await
    }

    async fn stream_pass(&self, shard: ShardId, query: &PassQuery) -> Result<PassFound, StoreError> {
        door::pass(self, shard, query).await
    }

    async fn commit_streams(&self, commit: StreamCommit) -> Result<StreamCommitted, StoreError> {
        commit::commit(self, &commit).await
    }

    async fn append_at_door(&self, appends: &[(ShardId, Arc<Append>)]) -> Result<(), StoreError> {
        door::append(self, appends).await
    }

    async fn append_exact(
        &self,
        append: &ExactAppend,
        now: UnixMillis,
    ) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError> {
        exact::append(self, append, now).await
    }

    async fn forget_ids(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        ids::forget(self, before, limit).await
    }

    async fn stream_slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, StoreError> {
        read!(self, |snapshot| snapshot.slice(stream, after, bytes_max))
    }

    async fn streams_named(
        &self,
        tenant: &Tenant,
        prefix: &str,
        behind: Option<&StreamName>,
        limit: usize,
    ) -> Result<Vec<StreamStanding>, StoreError> {
        read!(self, |snapshot| scan::standing(snapshot, tenant, prefix, behind, limit))
    }

    async fn feed_ends(&self, shards: u16) -> Result<Vec<u64>, StoreError> {
        let transaction = self.begin(false).await?;
        let (from, until) = (Bound::Included(shard_key(ShardId(0))), Bound::Excluded(shard_key(ShardId(shards))));
        let rows = transaction.scan(STREAM_SHARD, from, until, usize::from(shards)).await.map_err(store_error)?;
        let mut ends = vec![0; usize::from(shards)];
        for row in rows {
            let end = unsigned(row.fields.get("pos"));
            let shard = match row.key {
                waybill_surreal::RecordIdKey::Number(number) => usize::try_from(number).ok(),
                _ => None,
            };
            if let (Some(slot), Some(end)) = (shard.and_then(|shard| ends.get_mut(shard)), end) {
                *slot = end;
            }
        }
        Ok(ends)
    }

    async fn feed_slice(&self, shard: ShardId, pos: u64) -> Result<Option<FeedSlice>, StoreError> {
        read!(self, |snapshot| feed::slice(snapshot, shard, pos))
    }

    async fn feed(&self, shard: ShardId, after: u64, limit: usize) -> Result<Vec<FeedRecord>, StoreError> {
        read!(self, |snapshot| feed::after(snapshot, shard, after, limit))
    }

    async fn feed_before(&self, shard: ShardId, before: UnixMillis, limit: usize) -> Result<Option<u64>, StoreError> {
        read!(self, |snapshot| feed::before(self, snapshot, shard, (before, limit)))
    }

    async fn scan_streams(&self, query: &ScanQuery) -> Result<Option<(StreamName, StreamSlice)>, StoreError> {
        read!(self, |snapshot| scan::next(snapshot, query))
    }

    async fn is_selected(&self, stream: &StreamKey, selector: &Selector) -> Result<bool, StoreError> {
        read!(self, |snapshot| scan::is_selected(snapshot, stream, selector))
    }

    async fn relay_notes(&self) -> Result<Vec<(RelayName, RelayNote)>, StoreError> {
        pauses::notes(self).await
    }

    async fn note_relay(&self, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError> {
        pauses::note(self, relay, word).await
    }

    async fn relay_slice(
        &self,
        relay: &RelayName,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
    ) -> Result<RelaySlice, StoreError> {
        read!(self, |snapshot| relay::slice(snapshot, relay, stream, (after, bytes_max)))
    }

    async fn relay_streams(
        &self,
        relay: &RelayName,
        of: ShardOf,
        behind: Option<&StreamKey>,
        limit: usize,
    ) -> Result<RelayPage, StoreError> {
        read!(self, |snapshot| relay::streams(snapshot, relay, of, behind, limit))
    }

    async fn overtaken(
        &self,
        relay: &RelayName,
        behind: Option<(&StreamKey, u64)>,
        limit: usize,
    ) -> Result<Vec<OvertakenRange>, StoreError> {
        read!(self, |snapshot| dead::overtaken(snapshot, relay, behind, limit))
    }

    async fn stream_dead(
        &self,
        behind: Option<StreamDeadPlace>,
        limit: usize,
    ) -> Result<Vec<Arc<StoredDead>>, StoreError> {
        read!(self, |snapshot| dead::page(snapshot, behind, limit))
    }

    async fn stream_dead_letter(&self, place: StreamDeadPlace) -> Result<Option<Arc<StoredDead>>, StoreError> {
        read!(self, |snapshot| dead::letter(snapshot, place))
    }

    async fn mark_stream_dead(&self, place: StreamDeadPlace, state: &DeadState) -> Result<bool, StoreError> {
        dead::change(self, place, Some(state)).await
    }

    async fn remove_stream_dead(&self, place: StreamDeadPlace) -> Result<bool, StoreError> {
        dead::change(self, place, None).await
    }

    async fn streams_due(&self, shard: ShardId, limit: usize) -> Result<Vec<DueStream>, StoreError> {
        read!(self, |snapshot| due::first(snapshot, shard, limit))
    }

    async fn upkeep_slice(
        &self,
        stream: &StreamKey,
        relays: &[RelayName],
        after: u64,
        bytes_max: usize,
    ) -> Result<(StreamSlice, Vec<Checkpoint>), StoreError> {
        read!(self, |snapshot| relay::with_checkpoints(snapshot, stream, relays, (after, bytes_max)))
    }
}
