//! Event streams: heads, chunks, the doorstep, the feed, ids, checkpoints.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::ids::{EventId, RelayName, ShardId, Tenant};
use waybill_core::outbox::records::{DeadState, DoorKey, Malformed};
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{
    DueStream, FeedSlice, PassFound, PassQuery, RelayFound, RelayPage, RelaySlice, ScanFrom, ScanQuery, ShardOf,
    StreamSlice, StreamStanding, StreamStore,
};
use waybill_core::streams::chunk::{Chunk, StoredChunk};
use waybill_core::streams::dead::{OvertakenRange, StoredDead, StreamDeadPlace};
use waybill_core::streams::exact::{self, ExactAnswer, ExactAppend, ExactRefusal, ExactView};
use waybill_core::streams::joint::{JointAppend, JointAppends};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{
    Append, Checkpoint, DoorAppend, DoorContent, EventIdKey, EventIdRecord, FeedRecord, RelayNote, RelayWord, Resource,
    StreamCommit, StreamCommitted, StreamDead, StreamDoorRow, StreamHead, StreamRest, StreamShardRecord, StreamView,
    StreamWrite,
};
use waybill_core::streams::rules::Rules;
use waybill_core::time::UnixMillis;

use super::MemoryStore;

/// Which record a write touches, as far as writers of different kinds meet in it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Touched {
    Head(StreamKey),
    Chunk(StreamKey, u64),
    Id(EventIdKey),
}

impl Touched {
    fn of(write: &StreamWrite) -> Option<Self> {
        match write {
            StreamWrite::PutHead { stream, .. } => Some(Self::Head(stream.clone())),
            StreamWrite::PutChunk { stream, key, .. } | StreamWrite::DeleteChunk { stream, key } => {
                Some(Self::Chunk(stream.clone(), *key))
            }
            StreamWrite::CreateId { id, .. } => Some(Self::Id(id.clone())),
            _ => None,
        }
    }
}

/// A transaction of anyone who isn't an owner: what it read its decision from, and what it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamTx {
    /// The store's version when it began.
    begun: u64,
    pub writes: Vec<StreamWrite>,
}

/// The tables of streams, each ordered by its key as in the database.
#[derive(Clone, Debug, Default)]
pub struct StreamTables {
    pub shards: BTreeMap<ShardId, StreamShardRecord>,
    pub heads: BTreeMap<StreamKey, StreamHead>,
    pub rests: BTreeMap<StreamKey, StreamRest>,
    /// Chunks as they come back from their bytes.
    pub chunks: BTreeMap<(StreamKey, u64), Result<Arc<Chunk>, String>>,
    /// Payloads beside them, by the numbers of their events.
    pub blobs: BTreeMap<(StreamKey, u64), Bytes>,
    pub door: BTreeMap<(ShardId, DoorKey), Result<DoorContent, Malformed>>,
    pub feed: BTreeMap<(ShardId, u64), FeedRecord>,
    pub ids: BTreeMap<EventIdKey, EventIdRecord>,
    pub nodes: BTreeSet<(Tenant, String, StreamName)>,
    pub types: BTreeSet<(Tenant, String, StreamName)>,
    pub resources: BTreeSet<(StreamKey, Resource, u64)>,
    pub due: BTreeSet<(ShardId, UnixMillis, StreamKey)>,
    pub checkpoints: BTreeMap<(RelayName, StreamKey), Checkpoint>,
    /// What operators said last of relays.
    pub notes: BTreeMap<RelayName, RelayNote>,
    pub dead: BTreeMap<StreamDeadPlace, StoredDead>,
    /// Rows of the doorstep that couldn't be read.
    pub quarantine: Vec<(ShardId, DoorKey, String)>,
    /// Ranges that retention took before a relay had them.
    pub overtaken: BTreeMap<(RelayName, StreamKey, u64), OvertakenRange>,
    /// Grows with each commit.
    version: u64,
    /// Rows that were ever put on a doorstep.
    door_rows: u64,
    /// When a record was written last, as far as transactions of others may have read it.
    written: BTreeMap<Touched, u64>,
}

impl StreamTables {
    pub fn shard(&self, shard: ShardId) -> StreamShardRecord {
        self.shards.get(&shard).cloned().unwrap_or_default()
    }

    pub fn head(&self, stream: &StreamKey) -> StreamHead {
        self.heads.get(stream).copied().unwrap_or_default()
    }

    pub fn rest(&self, stream: &StreamKey) -> StreamRest {
        self.rests.get(stream).copied().unwrap_or_default()
    }

    pub fn checkpoint(&self, relay: &RelayName, stream: &StreamKey) -> Checkpoint {
        self.checkpoints.get(&(relay.clone(), stream.clone())).cloned().unwrap_or_default()
    }

    /// Chunks under keys beyond a number, in order.
    pub fn chunks_after(&self, stream: &StreamKey, after: u64) -> impl Iterator<Item = StoredChunk> {
        let from = Bound::Excluded((stream.clone(), after));
        let to = Bound::Included((stream.clone(), u64::MAX));
        self.chunks.range((from, to)).map(|((_, last), chunk)| StoredChunk { last: *last, chunk: chunk.clone() })
    }

    /// Applies a commit of an owner, all or nothing.
    pub fn apply_owner(&mut self, commit: &StreamCommit, nanos: u64) -> Result<StreamCommitted, StoreError> {
        let stored = self.shard(commit.shard);
        if (stored.token, stored.beat) != (commit.expect_token, commit.expect_beat) {
            return Err(StoreError::Conflict(format!(
                "the streams of shard {} stand at token {} beat {}, the commit expected token {} beat {}",
                commit.shard, stored.token, stored.beat, commit.expect_token, commit.expect_beat
            )));
        }
        if commit.record.beat != commit.expect_beat + 1 {
            return Err(StoreError::Other("a commit of streams raises the beat by one".into()));
        }
        let moved = commit.heads.iter().map(|(stream, last)| (stream, *last, self.head(stream).last));
        let moved: Vec<_> = moved.filter(|(_, last, found)| last != found).collect();
        if !moved.is_empty() {
            return Ok(StreamCommitted::Moved(moved.into_iter().map(|(stream, _, at)| (stream.clone(), at)).collect()));
        }
        self.check_creates(&commit.writes)?;
        self.version += 1;
        self.shards.insert(commit.shard, commit.record.clone());
        for write in &commit.writes {
            self.write(commit.shard, write, nanos);
        }
        Ok(StreamCommitted::Applied)
    }

    /// What an exact append decides now, and the transaction that it would commit.
    pub fn begin_exact(
        &self,
        append: &ExactAppend,
        now: UnixMillis,
        rules: Rules,
    ) -> Result<(ExactAnswer, StreamTx), ExactRefusal> {
        let tenant = &append.append.stream.tenant;
        let id_of = |id: &EventId| self.ids.get(&(tenant.clone(), id.clone())).cloned();
        let events = append.append.events.iter();
        let ids = events.map(|event| event.is_indexed.then(|| id_of(&event.id)).flatten()).collect();
        let view = ExactView { head: self.head(&append.append.stream), ids };
        let decided = exact::decide(append, &view, now, rules)?;
        Ok((decided.answer, StreamTx { begun: self.version, writes: decided.writes }))
    }

    /// What the events of a transaction decide now, those that number themselves in order, and the transaction that they would commit.
    pub fn begin_joint(&self, appends: &JointAppends) -> Result<(Vec<Option<ExactAnswer>>, StreamTx), StoreError> {
        let (mut answers, mut refused) = (Vec::new(), Vec::new());
        let mut tx = StreamTx { begun: self.version, writes: Vec::new() };
        for (place, joint) in appends.list.iter().enumerate() {
            answers.push(match joint {
                JointAppend::Plain { .. } => None,
                JointAppend::Exact(exact) => match self.begin_exact(exact, appends.at, Rules::default()) {
                    Ok((answer, exact)) => {
                        tx.writes.extend(exact.writes);
                        Some(answer)
                    }
                    Err(refusal) => {
                        refused.push((place, refusal));
                        None
                    }
                },
            });
            tx.writes.extend(joint.door_row());
        }
        if refused.is_empty() { Ok((answers, tx)) } else { Err(StoreError::Appends(refused)) }
    }

    /// What the events of a group commit write, or why nothing of it goes in.
    pub fn begin_group(&self, appends: &JointAppends) -> Result<StreamTx, StoreError> {
        let (_, tx) = self.begin_joint(appends)?;
        self.check_creates(&tx.writes)?;
        Ok(tx)
    }

    /// A transaction that puts appends on doorsteps.
    pub fn begin_door(&self, appends: &[DoorAppend]) -> StreamTx {
        let put = |(shard, append): &DoorAppend| StreamWrite::PutDoor {
            shard: *shard,
            content: DoorContent::Append(Arc::clone(append)),
        };
        StreamTx { begun: self.version, writes: appends.iter().map(put).collect() }
    }

    /// Commits a transaction, all or nothing: it conflicts with whoever wrote what it writes since it began. Rows of the doorstep are
    /// stamped with when their statement ran.
    pub fn apply_tx(&mut self, tx: &StreamTx, nanos: u64) -> Result<(), StoreError> {
        let is_new = |touched: &Touched| self.written.get(touched).is_some_and(|at| *at > tx.begun);
        if let Some(touched) = tx.writes.iter().filter_map(Touched::of).find(is_new) {
            return Err(StoreError::Conflict(format!("{touched:?} was written meanwhile")));
        }
        self.check_creates(&tx.writes)?;
        self.version += 1;
        for write in &tx.writes {
            self.write(ShardId(0), write, nanos);
        }
        Ok(())
    }

    fn check_creates(&self, writes: &[StreamWrite]) -> Result<(), StoreError> {
        let mut seen = BTreeSet::new();
        for write in writes {
            if let StreamWrite::CreateId { id, .. } = write
                && (self.ids.contains_key(id) || !seen.insert(id))
            {
                return Err(StoreError::Exists(format!("event id {:?}", id.1)));
            }
        }
        Ok(())
    }

    /// Makes one change, without any guard.
    pub fn write(&mut self, shard: ShardId, write: &StreamWrite, nanos: u64) {
        if let Some(touched) = Touched::of(write) {
            self.written.insert(touched, self.version);
        }
        match write {
            StreamWrite::PutHead { stream, head } => {
                self.heads.insert(stream.clone(), *head);
            }
            StreamWrite::PutRest { stream, rest } => {
                self.rests.insert(stream.clone(), *rest);
            }
            StreamWrite::PutChunk { stream, key, chunk } => {
                let stored = Chunk::unpack(&chunk.pack()).map(Arc::new).map_err(|error| error.to_string());
                self.chunks.insert((stream.clone(), *key), stored);
            }
            StreamWrite::DeleteChunk { stream, key } => drop(self.chunks.remove(&(stream.clone(), *key))),
            StreamWrite::PutBlob { stream, seq, payload } => {
                self.blobs.insert((stream.clone(), *seq), payload.clone());
            }
            StreamWrite::DeleteBlob { stream, seq } => drop(self.blobs.remove(&(stream.clone(), *seq))),
            StreamWrite::CreateId { id, record } => drop(self.ids.insert(id.clone(), record.clone())),
            StreamWrite::PutFeed(record) => drop(self.feed.insert((shard, record.pos), record.clone())),
            StreamWrite::TrimFeed(pos) => self.feed.retain(|(of, at), _| *of != shard || at > pos),
            StreamWrite::PutDoor { shard, content } => self.put_door(*shard, content.clone(), nanos),
            StreamWrite::DeleteDoor(key) => drop(self.door.remove(&(shard, key.clone()))),
            StreamWrite::QuarantineDoor { key, reason } => {
                self.door.remove(&(shard, key.clone()));
                self.quarantine.push((shard, key.clone(), reason.clone()));
            }
            StreamWrite::PutDead(dead) => self.put_dead(shard, dead, nanos),
            // The audit trail isn't a table of the streams'.
            StreamWrite::PutTxEvents(_) => {}
            StreamWrite::PutNode { stream, node } => {
                self.nodes.insert((stream.tenant.clone(), node.clone(), stream.name.clone()));
            }
            StreamWrite::PutType { stream, resource_type } => {
                self.types.insert((stream.tenant.clone(), resource_type.clone(), stream.name.clone()));
            }
            StreamWrite::PutResource { stream, resource, seq } => {
                self.resources.insert((stream.clone(), resource.clone(), *seq));
            }
            StreamWrite::DeleteResource { stream, resource, seq } => {
                self.resources.remove(&(stream.clone(), resource.clone(), *seq));
            }
            StreamWrite::PutDue { shard, at, stream } => drop(self.due.insert((*shard, *at, stream.clone()))),
            StreamWrite::DeleteDue { shard, at, stream } => drop(self.due.remove(&(*shard, *at, stream.clone()))),
            StreamWrite::PutCheckpoint { relay, stream, checkpoint } => {
                self.checkpoints.insert((relay.clone(), stream.clone()), checkpoint.clone());
            }
            StreamWrite::NoteOvertaken { relay, stream, from, to } => {
                let at = UnixMillis(nanos / 1_000_000);
                let range = OvertakenRange { stream: stream.clone(), from: *from, to: *to, at };
                self.overtaken.insert((relay.clone(), stream.clone(), *from), range);
            }
        }
    }

    fn put_dead(&mut self, shard: ShardId, dead: &StreamDead, nanos: u64) {
        let beat = self.shard(shard).beat;
        let first = StreamDeadPlace { shard, beat, number: 0 };
        let same_commit = self.dead.range(first..=StreamDeadPlace { number: u32::MAX, ..first }).count();
        let place = StreamDeadPlace { number: u32::try_from(same_commit).unwrap_or(u32::MAX), ..first };
        let died_at = UnixMillis(nanos / 1_000_000);
        self.dead.insert(place, StoredDead { place, dead: dead.clone(), state: DeadState::Dead, died_at });
    }

    fn put_door(&mut self, shard: ShardId, content: DoorContent, nanos: u64) {
        let rows = self.door.range((shard, first_key(nanos))..(shard, first_key(nanos.saturating_add(1))));
        let ordinal = rows.last().map_or(0, |((_, key), _)| key.ordinal + 1);
        // No key comes again, also when a row at this stamp was taken in meanwhile.
        self.door_rows += 1;
        let key = DoorKey { nanos, ordinal, ulid: format!("{:026}", self.door_rows) };
        self.door.insert((shard, key), Ok(content));
    }

    /// What an owner reads before a commit.
    pub fn pass(&self, shard: ShardId, query: &PassQuery, clock: u64) -> PassFound {
        let mut found = PassFound { is_all: true, ..PassFound::default() };
        if let Some(door) = &query.door {
            let all = (shard, first_key(0))..(ShardId(shard.0.saturating_add(1)), first_key(0));
            let newest = self.door.range(all).next_back().map_or(0, |((_, key), _)| key.nanos);
            found.until = door.until.unwrap_or(clock.max(newest));
            let page = (shard, first_key(door.from))..(shard, first_key(found.until.saturating_add(1)));
            let mut rows = self.door.range(page);
            let taken = rows.by_ref().take(door.limit);
            found.rows =
                taken.map(|((_, key), content)| StreamDoorRow { key: key.clone(), content: content.clone() }).collect();
            found.is_all = rows.next().is_none();
        }
        self.look_at_streams(query, &mut found);
        let contents = found.rows.iter().filter_map(|row| row.content.as_ref().ok());
        let appends = contents.filter_map(|content| match content {
            DoorContent::Append(append) => Some(append),
            DoorContent::Look(_) => None,
        });
        let ids = appends.flat_map(|append| {
            let indexed = append.events.iter().filter(|event| event.is_indexed);
            indexed.map(|event| (append.stream.tenant.clone(), event.id.clone()))
        });
        let ids = ids.chain(query.ids.iter().cloned());
        found.ids = ids.filter_map(|id| self.ids.get(&id).map(|record| (id, record.clone()))).collect();
        found
    }

    /// Looks at the streams that the rows name and at those asked for, as far as their bytes allow.
    fn look_at_streams(&self, query: &PassQuery, found: &mut PassFound) {
        let (mut bytes, bytes_max) = (0, query.unnamed_bytes_total());
        let mut looked = 0;
        for row in &found.rows {
            if let Ok(content) = &row.content
                && !found.streams.contains_key(content.stream())
            {
                if bytes > bytes_max {
                    break;
                }
                let view = self.view(content.stream(), query.unnamed_bytes_max);
                bytes += view.bytes();
                found.streams.insert(content.stream().clone(), view);
            }
            looked += 1;
        }
        found.is_all &= looked == found.rows.len();
        found.rows.truncate(looked);
        for stream in &query.streams {
            if bytes <= bytes_max && !found.streams.contains_key(stream) {
                let view = self.view(stream, query.unnamed_bytes_max);
                bytes += view.bytes();
                found.streams.insert(stream.clone(), view);
            }
        }
    }

    fn view(&self, stream: &StreamKey, bytes_max: usize) -> StreamView {
        let (head, rest) = (self.head(stream), self.rest(stream));
        let (unnamed, _) = within(self.chunks_after(stream, rest.named_to(&head)), bytes_max);
        StreamView { head, rest, unnamed }
    }

    pub fn slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> StreamSlice {
        self.with_payloads(stream, after, bytes_max, self.bare_slice(stream, after, bytes_max))
    }

    /// For upkeep, which moves no payload.
    pub(super) fn bare_slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> StreamSlice {
        let (chunks, is_all) = within(self.chunks_after(stream, after), bytes_max);
        StreamSlice { head: self.head(stream), rest: self.rest(stream), chunks, is_all }
    }

    pub fn feed_slice(&self, shard: ShardId, pos: u64) -> Option<FeedSlice> {
        let record = self.feed.get(&(shard, pos))?.clone();
        let parts = record.parts.iter().map(|part| {
            let chunks = self.chunks_after(&part.stream, part.from.saturating_sub(1));
            // One chunk more than what reaches the range's end: nothing says that one ends there.
            let mut covered = false;
            let chunks = chunks.take_while(|chunk| !std::mem::replace(&mut covered, chunk.last >= part.to));
            let chunks = self.put_back(&part.stream, chunks.collect(), (part.from, part.to), usize::MAX);
            (self.rest(&part.stream), chunks)
        });
        let parts = parts.collect();
        Some(FeedSlice { record, parts })
    }

    pub fn scan(&self, query: &ScanQuery) -> Option<(StreamName, StreamSlice)> {
        let key = |name: &StreamName| StreamKey { tenant: query.tenant.clone(), name: name.clone() };
        match &query.from {
            ScanFrom::Within(name, after) => Some((name.clone(), self.selected_slice(&key(name), *after, query))),
            ScanFrom::Behind(behind) => {
                let mut names = self.heads.keys().filter(|stream| stream.tenant == query.tenant);
                let stream = names.find(|stream| {
                    behind.as_ref().is_none_or(|behind| stream.name > *behind)
                        && self.is_selected(stream, &query.selector)
                })?;
                let had = self.chunks_after(stream, 0).filter(|chunk| had(query, stream, chunk));
                let after = had.last().map_or(0, |chunk| chunk.last);
                Some((stream.name.clone(), self.selected_slice(stream, after, query)))
            }
        }
    }

    pub fn is_selected(&self, stream: &StreamKey, selector: &Selector) -> bool {
        let key = |text: &String| (stream.tenant.clone(), text.clone(), stream.name.clone());
        match selector {
            Selector::Prefix(_) => selector.may_take(&stream.name),
            Selector::Node(node) => self.nodes.contains(&key(node)),
            Selector::Resource { resource_type, .. } | Selector::OneResource { resource_type, .. } => {
                self.types.contains(&key(resource_type))
            }
        }
    }

    pub fn relay_slice(&self, relay: &RelayName, stream: &StreamKey, after: u64, bytes_max: usize) -> RelaySlice {
        let checkpoint = self.checkpoint(relay, stream);
        let slice = self.slice(stream, after.max(checkpoint.upto), bytes_max);
        RelaySlice { checkpoint, slice }
    }

    pub fn relay_streams(&self, relay: &RelayName, of: ShardOf, behind: Option<&StreamKey>, limit: usize) -> RelayPage {
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        let looked: Vec<_> = self.heads.range((from, Bound::Unbounded)).take(limit).collect();
        let last = looked.last().map(|(stream, _)| (*stream).clone());
        let ours = looked.into_iter().filter(|(stream, _)| stream.shard(of.count) == of.shard);
        let streams = ours.map(|(stream, head)| RelayFound {
            stream: stream.clone(),
            named_to: self.rest(stream).named_to(head),
            checkpoint: self.checkpoint(relay, stream),
        });
        RelayPage { streams: streams.collect(), last }
    }
}

/// Whether a reader that scans again had all of a chunk. What compaction emptied, and what can't be read, tells nothing of where it was in
/// the feed.
fn had(query: &ScanQuery, stream: &StreamKey, chunk: &StoredChunk) -> bool {
    let count = u16::try_from(query.since.len()).unwrap_or(u16::MAX);
    let Some(low) = query.since.get(usize::from(stream.shard(count).0)) else { return false };
    let Ok(chunk) = &chunk.chunk else { return false };
    !chunk.events.is_empty() && chunk.events.iter().all(|event| event.pos > 0 && event.pos <= *low)
}

/// Before all keys of a stamp.
fn first_key(nanos: u64) -> DoorKey {
    DoorKey { nanos, ordinal: 0, ulid: String::new() }
}

/// The first chunks up to so many bytes, one at least, and whether these are all.
pub(super) fn within(chunks: impl Iterator<Item = StoredChunk>, bytes_max: usize) -> (Vec<StoredChunk>, bool) {
    let (mut taken, mut bytes) = (Vec::new(), 0);
    for chunk in chunks {
        bytes += chunk.chunk.as_ref().map_or(0, |chunk| chunk.bytes());
        if bytes > bytes_max && !taken.is_empty() {
            return (taken, false);
        }
        taken.push(chunk);
    }
    (taken, true)
}

#[async_trait]
impl StreamStore for MemoryStore {
    async fn stream_shard(&self, shard: ShardId) -> Result<StreamShardRecord, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.shard(shard)))
    }

    async fn stream_pass(&self, shard: ShardId, query: &PassQuery) -> Result<PassFound, StoreError> {
        self.check()?;
        let clock = self.clock();
        Ok(self.read(|tables| tables.streams.pass(shard, query, clock)))
    }

    async fn commit_streams(&self, commit: StreamCommit) -> Result<StreamCommitted, StoreError> {
        self.commit_streams_by_fate(commit)
    }

    async fn append_at_door(&self, appends: &[(ShardId, Arc<Append>)]) -> Result<(), StoreError> {
        self.check()?;
        let nanos = self.clock();
        self.write(|tables| {
            let tx = tables.streams.begin_door(appends);
            tables.streams.apply_tx(&tx, nanos)
        })
    }

    async fn append_exact(
        &self,
        append: &ExactAppend,
        now: UnixMillis,
    ) -> Result<Result<ExactAnswer, ExactRefusal>, StoreError> {
        self.check()?;
        let nanos = self.clock();
        self.write(|tables| match tables.streams.begin_exact(append, now, Rules::default()) {
            Ok((answer, tx)) => tables.streams.apply_tx(&tx, nanos).map(|()| Ok(answer)),
            Err(refusal) => Ok(Err(refusal)),
        })
    }

    async fn forget_ids(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.check()?;
        Ok(self.write(|tables| tables.streams.forget_ids(before, limit)))
    }

    async fn stream_slice(&self, stream: &StreamKey, after: u64, bytes_max: usize) -> Result<StreamSlice, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.slice(stream, after, bytes_max)))
    }

    async fn streams_named(
        &self,
        tenant: &Tenant,
        prefix: &str,
        behind: Option<&StreamName>,
        limit: usize,
    ) -> Result<Vec<StreamStanding>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.named(tenant, prefix, behind, limit)))
    }

    async fn feed_ends(&self, shards: u16) -> Result<Vec<u64>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| (0..shards).map(|shard| tables.streams.shard(ShardId(shard)).pos).collect()))
    }

    async fn feed_slice(&self, shard: ShardId, pos: u64) -> Result<Option<FeedSlice>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.feed_slice(shard, pos)))
    }

    async fn feed(&self, shard: ShardId, after: u64, limit: usize) -> Result<Vec<FeedRecord>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let feed = tables.streams.feed.range((shard, after.saturating_add(1))..=(shard, u64::MAX));
            feed.map(|(_, record)| record.clone()).take(limit).collect()
        }))
    }

    async fn feed_before(&self, shard: ShardId, before: UnixMillis, limit: usize) -> Result<Option<u64>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let feed = tables.streams.feed.range((shard, 0)..=(shard, u64::MAX)).take(limit);
            feed.map(|(_, record)| record).take_while(|record| record.at < before).last().map(|record| record.pos)
        }))
    }

    async fn scan_streams(&self, query: &ScanQuery) -> Result<Option<(StreamName, StreamSlice)>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.scan(query)))
    }

    async fn is_selected(&self, stream: &StreamKey, selector: &Selector) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.is_selected(stream, selector)))
    }

    async fn relay_notes(&self) -> Result<Vec<(RelayName, RelayNote)>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.notes.iter().map(|(relay, note)| (relay.clone(), note.clone())).collect()))
    }

    async fn note_relay(&self, relay: &RelayName, word: &RelayWord) -> Result<RelayNote, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let note = tables.streams.notes.entry(relay.clone()).or_default();
            *note = std::mem::take(note).after(word);
            note.clone()
        }))
    }

    async fn relay_slice(
        &self,
        relay: &RelayName,
        stream: &StreamKey,
        after: u64,
        bytes_max: usize,
    ) -> Result<RelaySlice, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.relay_slice(relay, stream, after, bytes_max)))
    }

    async fn relay_streams(
        &self,
        relay: &RelayName,
        of: ShardOf,
        behind: Option<&StreamKey>,
        limit: usize,
    ) -> Result<RelayPage, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.relay_streams(relay, of, behind, limit)))
    }

    async fn overtaken(
        &self,
        relay: &RelayName,
        behind: Option<(&StreamKey, u64)>,
        limit: usize,
    ) -> Result<Vec<OvertakenRange>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let of_relay = tables.streams.overtaken.iter().filter(|((of, ..), _)| of == relay);
            let next = of_relay
                .filter(|((_, stream, from), _)| behind.is_none_or(|behind| (stream, *from) > behind))
                .map(|(_, range)| range.clone());
            next.take(limit).collect()
        }))
    }

    async fn stream_dead(
        &self,
        behind: Option<StreamDeadPlace>,
        limit: usize,
    ) -> Result<Vec<Arc<StoredDead>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
            let next = tables.streams.dead.range((from, Bound::Unbounded)).take(limit);
            next.map(|(_, letter)| Arc::new(letter.clone())).collect()
        }))
    }

    async fn stream_dead_letter(&self, place: StreamDeadPlace) -> Result<Option<Arc<StoredDead>>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.dead.get(&place).cloned().map(Arc::new)))
    }

    async fn mark_stream_dead(&self, place: StreamDeadPlace, state: &DeadState) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| {
            let letter = tables.streams.dead.get_mut(&place);
            letter.map(|letter| letter.state = state.clone()).is_some()
        }))
    }

    async fn remove_stream_dead(&self, place: StreamDeadPlace) -> Result<bool, StoreError> {
        self.check()?;
        Ok(self.write(|tables| tables.streams.dead.remove(&place).is_some()))
    }

    async fn streams_due(&self, shard: ShardId, limit: usize) -> Result<Vec<DueStream>, StoreError> {
        self.check()?;
        Ok(self.read(|tables| tables.streams.due(shard, limit)))
    }

    async fn upkeep_slice(
        &self,
        stream: &StreamKey,
        relays: &[RelayName],
        after: u64,
        bytes_max: usize,
    ) -> Result<(StreamSlice, Vec<Checkpoint>), StoreError> {
        self.check()?;
        Ok(self.read(|tables| {
            let checkpoints = relays.iter().map(|relay| tables.streams.checkpoint(relay, stream)).collect();
            (tables.streams.bare_slice(stream, after, bytes_max), checkpoints)
        }))
    }
}
