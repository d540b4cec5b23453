//! The storage port of event streams. Two adapters: SurrealDB (`waybill-store`) and the in-memory reference store
//! (`waybill-testkit`); both run one conformance suite.
//!
//! One owner a shard, fenced by `(token, beat)` as the outbox's owner is. Anyone appends beside it: to the doorstep, or with an expected
//! number into the stream itself; the two meet in the stream's head, which both write. Each read shows one snapshot, each write is one
//! commit.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;

use crate::ids::{RelayName, ShardId, Tenant};
use crate::outbox::records::DeadState;
use crate::port::store::StoreError;
use crate::streams::chunk::StoredChunk;
use crate::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use crate::streams::exact::{ExactAnswer, ExactAppend, ExactRefusal};
use crate::streams::name::{StreamKey, StreamName};
use crate::streams::reading::Selector;
use crate::streams::records::{
    Append, Checkpoint, EventIdKey, EventIdRecord, FeedRecord, RelayNote, RelayWord, StreamCommit, StreamCommitted,
    StreamDoorRow, StreamHead, StreamRest, StreamShardRecord, StreamView,
};
use crate::time::UnixMillis;

/// What an owner reads before a commit, in one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassQuery {
    /// A page of the doorstep; none = it isn't read.
    pub door: Option<DoorQuery>,
    /// Streams to look at besides those that the rows name.
    pub streams: Vec<StreamKey>,
    /// Ids to look up besides those in the rows.
    pub ids: Vec<EventIdKey>,
    /// Bytes of unnamed chunks of one stream; of all streams together [`Self::unnamed_bytes_total`].
    pub unnamed_bytes_max: usize,
}

impl PassQuery {
    /// Past so many bytes of unnamed chunks no other stream is looked at: rows that name one are left to the next page, with those behind
    /// them, and a stream that was asked for isn't answered.
    pub fn unnamed_bytes_total(&self) -> usize {
        self.unnamed_bytes_max.saturating_mul(4)
    }
}

/// A page of the doorstep, from its low end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorQuery {
    /// Upper stamp of the pass; none = the pass begins, and ends at the later of the clock and the doorstep's last key.
    pub until: Option<u64>,
    /// Stamps below this one are left out: 0, but in a mutation of the model.
    pub from: u64,
    pub limit: usize,
}

/// A row that says when the age of a stream is looked at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DueStream {
    pub at: UnixMillis,
    pub stream: StreamKey,
    /// Where its stream says that its row is: one that is elsewhere was left behind.
    pub noted: Option<UnixMillis>,
}

/// Where a stream stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamStanding {
    pub stream: StreamKey,
    pub head: StreamHead,
    pub rest: StreamRest,
}

/// What was found, all of one snapshot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassFound {
    /// Upper stamp of the pass.
    pub until: u64,
    /// In order of their keys.
    pub rows: Vec<StreamDoorRow>,
    /// There are no others up to `until`, and none was left to the next page; or the doorstep wasn't to be read.
    pub is_all: bool,
    /// The streams that the rows name and those asked for.
    pub streams: BTreeMap<StreamKey, StreamView>,
    /// Ids that are there, of indexed events in the rows and of those asked for.
    pub ids: BTreeMap<EventIdKey, EventIdRecord>,
}

/// A stream from a position on, as one snapshot shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamSlice {
    pub head: StreamHead,
    pub rest: StreamRest,
    /// The first chunks under keys beyond the position, in order: one at least where there is one.
    pub chunks: Vec<StoredChunk>,
    /// There are no others.
    pub is_all: bool,
}

/// Where a scan of streams by name goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScanFrom {
    /// Within this stream, after this number.
    Within(StreamName, u64),
    /// With the first stream behind this name; none = with the first of all.
    Behind(Option<StreamName>),
}

/// What a scan reads next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanQuery {
    pub tenant: Tenant,
    pub selector: Selector,
    pub from: ScanFrom,
    /// Of a stream that it begins with, only chunks with an event that the feed of its shard names beyond this place, or doesn't name:
    /// looked for from the stream's end backwards. By shard; empty = all chunks.
    pub since: Vec<u64>,
    pub bytes_max: usize,
}

/// A feed record with the events that it names, as one snapshot shows them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedSlice {
    pub record: FeedRecord,
    /// Of each part: what is kept of its stream, and the chunks that hold its events.
    pub parts: Vec<(StreamRest, Vec<StoredChunk>)>,
}

/// A relay's stream, as one snapshot shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelaySlice {
    pub checkpoint: Checkpoint,
    pub slice: StreamSlice,
}

/// A shard among all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardOf {
    pub shard: ShardId,
    pub count: u16,
}

/// A stream as a relay finds it that goes through all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayFound {
    pub stream: StreamKey,
    /// Up to where the feed names its events.
    pub named_to: u64,
    pub checkpoint: Checkpoint,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayPage {
    pub streams: Vec<RelayFound>,
    /// The last one that was looked at; none = there is no other.
    pub last: Option<StreamKey>,
}

/// What streams need of the store.
#[async_trait]
pub trait StreamStore: Send + Sync + 'static {
    /// The shard record; the default record when there is none yet.
    async fn stream_shard(&self, shard: ShardId) -> Result<StreamShardRecord, StoreError>;
    /// What an owner reads before a commit.
    async fn stream_pass(&self, shard: ShardId, query: &PassQuery) -> Result<PassFound, StoreError>;
    /// Applies a commit, all or nothing. `Err(Conflict)`, `Err(Exists)` and `Err(TooLarge)` prove that nothing was applied; after any
    /// other error the outcome is unknown and the caller reads the shard record.
    async fn commit_streams(&self, commit: StreamCommit) -> Result<StreamCommitted, StoreError>;

    /// Puts events on the doorsteps of their shards, in one commit.
    async fn append_at_door(&self, appends: &[(ShardId, Arc<Append>)]) -> Result<(), StoreError>;
    /// Appends at an expected number in one transaction ([`crate::streams::exact`]). A conflict is answered as what it is: the head is read
    /// again, and where it stands elsewhere that is the refusal.
    async fn append_exact(
        &self,
        append: &ExactAppend,
        now: UnixMillis,
    ) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError>;

    /// Forgets ids that were recorded before an instant, oldest first: about `limit` of them, for those of one commit may go together. Answers
    /// how many, or `limit` where there may be others.
    async fn forget_ids(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError>;

    /// A stream after a position: chunks of about `bytes_max`.
    async fn stream_slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, StoreError>;
    /// Where the streams of a tenant stand whose names begin with `prefix`, by name, the first `limit` behind a name. Their events aren't read.
    async fn streams_named(
        &self,
        tenant: &Tenant,
        prefix: &str,
        behind: Option<&StreamName>,
        limit: usize,
    ) -> Result<Vec<StreamStanding>, StoreError>;
    /// Numbers of the last feed records, by shard, for `shards` of them.
    async fn feed_ends(&self, shards: u16) -> Result<Vec<u64>, StoreError>;
    /// A feed record with its events; none when it was trimmed, or isn't there yet.
    async fn feed_slice(&self, shard: ShardId, pos: u64) -> Result<Option<FeedSlice>, StoreError>;
    /// Feed records after a number, in order, at most `limit`, without their events.
    async fn feed(&self, shard: ShardId, after: u64, limit: usize) -> Result<Vec<FeedRecord>, StoreError>;
    /// The last of the feed records written before an instant, of the oldest `limit`; none = there is none.
    async fn feed_before(&self, shard: ShardId, before: UnixMillis, limit: usize) -> Result<Option<u64>, StoreError>;
    /// The next stream of a scan: its name, and what is read of it; none = there is no other. For a selector of resources chunks are left out
    /// in which the index has none of them: the next one reaches back over those.
    async fn scan_streams(&self, query: &ScanQuery) -> Result<Option<(StreamName, StreamSlice)>, StoreError>;
    /// Whether a stream may have, or have had, events that a selector names.
    async fn is_selected(&self, stream: &StreamKey, selector: &Selector) -> Result<bool, StoreError>;

    /// What was said last of relays; one that was never paused or resumed, and never stopped, has none.
    async fn relay_notes(&self) -> Result<Vec<(RelayName, RelayNote)>, StoreError>;
    /// Notes for every host that a relay is paused, goes on, or has stopped. Answers what is noted then.
    async fn note_relay(&self, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError>;

    /// A stream of a relay, from its checkpoint on or after `after` where that is later.
    async fn relay_slice(
        &self,
        relay: &RelayName,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
    ) -> Result<RelaySlice, StoreError>;
    /// Streams behind this one, by tenant and name: it looks at `limit` and answers those of the shard. For a relay whose feed was trimmed.
    async fn relay_streams(
        &self,
        relay: &RelayName,
        of: ShardOf,
        behind: Option<&StreamKey>,
        limit: usize,
    ) -> Result<RelayPage, StoreError>;
    /// Ranges that retention took before a relay had them, by stream and number, behind one of them: at most `limit`.
    async fn overtaken(
        &self,
        relay: &RelayName,
        behind: Option<(&StreamKey, u64)>,
        limit: usize,
    ) -> Result<Vec<OvertakenRange>, StoreError>;
    /// Dead letters behind a place, in their order. Fewer than `limit` = there are no others.
    async fn stream_dead(
        &self,
        behind: Option<StreamDeadPlace>,
        limit: usize,
    ) -> Result<Vec<Arc<StoredDead>>, StoreError>;
    async fn stream_dead_letter(&self, place: StreamDeadPlace) -> Result<Option<Arc<StoredDead>>, StoreError>;
    /// Changes the condition of a dead letter. False when there is none. Not guarded: owners only add them.
    async fn mark_stream_dead(&self, place: StreamDeadPlace, state: &DeadState) -> Result<bool, StoreError>;
    /// Removes one for good. False when there is none.
    async fn remove_stream_dead(&self, place: StreamDeadPlace) -> Result<bool, StoreError>;
    /// The first rows of a shard that say when the age of a stream is looked at, by time.
    async fn streams_due(&self, shard: ShardId, limit: usize) -> Result<Vec<DueStream>, StoreError>;
    /// A stream from its front, and the checkpoints of these relays, for upkeep.
    async fn upkeep_slice(
        &self,
        stream: &StreamKey,
        relays: &[RelayName],
        after: u64,
        bytes_max: usize,
    ) -> Result<(StreamSlice, Vec<Checkpoint>), StoreError>;
}
