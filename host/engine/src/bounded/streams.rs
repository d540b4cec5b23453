//! Event streams.

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

use super::{Bounded, WALK_TIMES, within};

#[async_trait]
impl StreamStore for Bounded<dyn StreamStore> {
    async fn stream_shard(&self, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
        within!(self.stream_shard(shard))
    }
    async fn stream_pass(&self, shard: ShardId, query: &PassQuery) -> Result<PassFound, StoreError> {
        within!(self.stream_pass(shard, query))
    }
    async fn commit_streams(&self, commit: StreamCommit) -> Result<StreamCommitted, StoreError> {
        within!(self.commit_streams(commit))
    }
    async fn append_at_door(&self, appends: &[(ShardId, Arc<Append>)]) -> Result<(), StoreError> {
        within!(self.append_at_door(appends))
    }
    async fn append_exact(
        &self,
        append: &ExactAppend,
        now: UnixMillis,
    ) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError> {
        within!(self.append_exact(append, now))
    }
    async fn forget_ids(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        within!(self.forget_ids(before, limit))
    }
    async fn stream_slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, StoreError> {
        within!(self.stream_slice(stream, after, bytes_max))
    }
    async fn streams_named(
        &self,
        tenant: &Tenant,
        prefix: &str,
        behind: Option<&StreamName>,
        limit: usize,
    ) -> Result<Vec<StreamStanding>, StoreError> {
        within!(self.streams_named(tenant, prefix, behind, limit), WALK_TIMES)
    }
    async fn feed_ends(&self, shards: u16) -> Result<Vec<u64>, StoreError> {
        within!(self.feed_ends(shards))
    }
    async fn feed_slice(&self, shard: ShardId, pos: u64) -> Result<Option<FeedSlice>, StoreError> {
        within!(self.feed_slice(shard, pos))
    }
    async fn feed(&self, shard: ShardId, after: u64, limit: usize) -> Result<Vec<FeedRecord>, StoreError> {
        within!(self.feed(shard, after, limit))
    }
    async fn feed_before(&self, shard: ShardId, before: UnixMillis, limit: usize) -> Result<Option<u64>, StoreError> {
        within!(self.feed_before(shard, before, limit))
    }
    async fn scan_streams(&self, query: &ScanQuery) -> Result<Option<(StreamName, StreamSlice)>, StoreError> {
        within!(self.scan_streams(query))
    }
    async fn is_selected(&self, stream: &StreamKey, selector: &Selector) -> Result<bool, StoreError> {
        within!(self.is_selected(stream, selector))
    }
    async fn relay_notes(&self) -> Result<Vec<(RelayName, RelayNote)>, StoreError> {
        within!(self.relay_notes())
    }
    async fn note_relay(&self, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError> {
        within!(self.note_relay(relay, word))
    }
    async fn relay_slice(
        &self,
        relay: &RelayName,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
    ) -> Result<RelaySlice, StoreError> {
        within!(self.relay_slice(relay, stream, after, bytes_max))
    }
    async fn relay_streams(
        &self,
        relay: &RelayName,
        of: ShardOf,
        behind: Option<&StreamKey>,
        limit: usize,
    ) -> Result<RelayPage, StoreError> {
        within!(self.relay_streams(relay, of, behind, limit), WALK_TIMES)
    }
    async fn overtaken(
        &self,
        relay: &RelayName,
        behind: Option<(&StreamKey, u64)>,
        limit: usize,
    ) -> Result<Vec<OvertakenRange>, StoreError> {
        within!(self.overtaken(relay, behind, limit))
    }
    async fn stream_dead(
        &self,
        behind: Option<StreamDeadPlace>,
        limit: usize,
    ) -> Result<Vec<Arc<StoredDead>>, StoreError> {
        within!(self.stream_dead(behind, limit))
    }
    async fn stream_dead_letter(&self, place: StreamDeadPlace) -> Result<Option<Arc<StoredDead>>, StoreError> {
        within!(self.stream_dead_letter(place))
    }
    async fn mark_stream_dead(&self, place: StreamDeadPlace, state: &DeadState) -> Result<bool, StoreError> {
        within!(self.mark_stream_dead(place, state))
    }
    async fn remove_stream_dead(&self, place: StreamDeadPlace) -> Result<bool, StoreError> {
        within!(self.remove_stream_dead(place))
    }
    async fn streams_due(&self, shard: ShardId, limit: usize) -> Result<Vec<DueStream>, StoreError> {
        within!(self.streams_due(shard, limit), WALK_TIMES)
    }
    async fn upkeep_slice(
        &self,
        stream: &StreamKey,
        relays: &[RelayName],
        after: u64,
        bytes_max: usize,
    ) -> Result<(StreamSlice, Vec<Checkpoint>), StoreError> {
        within!(self.upkeep_slice(stream, relays, after, bytes_max))
    }
}
