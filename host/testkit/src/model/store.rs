//! The store under the model: any owner store, called synchronously.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use waybill_core::ids::{MessageId, Seq, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::owner::DoorPassRequest;
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, IdRecord, Malformed, Parked, ShardRecord,
};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment, Write};
use waybill_core::time::UnixMillis;

use super::ledger::{At, at};
use crate::memory_store::{MemoryStore, SegmentContent, Tables};

/// A row that a store is asked to spoil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// The segment of a shard with this first seq.
    Segment(ShardId, Seq),
    /// A row on a shard's doorstep.
    Door(ShardId, DoorKey),
}

/// Most shards of a run.
pub(super) const SHARDS_MAX: u16 = 3;
/// A shard that nobody owns: its commits carry doorstep rows of clients with stamps of the model's choice.
const CLIENTS: ShardId = ShardId(SHARDS_MAX);
/// Read pages large enough for everything a run makes.
const ALL: usize = 100_000;
/// After everything that a run does.
const FAR: UnixMillis = UnixMillis(i64::MAX as u64 / 2);

/// A row that a client puts on a doorstep.
pub(super) struct Row {
    pub shard: ShardId,
    pub key: DoorKey,
    pub messages: Vec<Arc<Message>>,
}

/// Puts a store back to what it was.
pub type PutBack<S> = Box<dyn FnOnce(&S)>;

/// A store whose calls the model can wait for.
pub trait ModelStore: Sized {
    type Port: OwnerStore;
    fn port(&self) -> &Self::Port;
    /// Runs one call to its end.
    fn wait<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError>;
    /// Keeps everything as it is now; the answer puts it back. None = this store can't.
    fn keep(&self) -> Option<PutBack<Self>> {
        None
    }
    /// Bounds the commits. A store that can't takes any.
    fn bound_commits(&self, _bytes_max: usize) {}
    /// Makes a row unreadable, as a bad disk would. False = this store can't, or there is no such row.
    fn spoil(&self, _row: &Spoilt) -> bool {
        false
    }
    /// The segments that lie in quarantine, each with its shard.
    fn quarantined(&self) -> BTreeSet<(ShardId, Seq)> {
        BTreeSet::new()
    }
    /// Applies a commit that leaves the beat as it is: only a mutation of the protocol makes one.
    fn commit_without_beat(&self, commit: &OwnerCommit) -> Result<(), StoreError> {
        Err(StoreError::Other(format!("shard {}: a commit has to raise the beat", commit.shard)))
    }
}

impl ModelStore for MemoryStore {
    type Port = Self;
    fn port(&self) -> &Self {
        self
    }
    fn wait<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        call.now_or_never().unwrap_or_else(|| Err(StoreError::Other("the in-memory store made its caller wait".into())))
    }
    fn keep(&self) -> Option<PutBack<Self>> {
        let kept = self.read(Tables::clone);
        Some(Box::new(move |store| store.write(|tables| *tables = kept)))
    }
    fn bound_commits(&self, bytes_max: usize) {
        MemoryStore::bound_commits(self, bytes_max);
    }
    fn spoil(&self, row: &Spoilt) -> bool {
        let malformed = || Malformed { reason: "the model spoilt it".to_owned(), raw: String::new() };
        self.write(|tables| match row {
            Spoilt::Segment(shard, first) => tables.segments.get_mut(&(*shard, *first)).is_some_and(|content| {
                *content = SegmentContent::Malformed(malformed());
                true
            }),
            Spoilt::Door(shard, key) => tables.door.get_mut(&(*shard, key.clone())).is_some_and(|content| {
                *content = Err(malformed());
                true
            }),
        })
    }
    fn quarantined(&self) -> BTreeSet<(ShardId, Seq)> {
        self.read(|tables| tables.quarantine.keys().copied().collect())
    }
    fn commit_without_beat(&self, commit: &OwnerCommit) -> Result<(), StoreError> {
        self.write(|tables| {
            let stored = tables.shard(commit.shard);
            if (stored.token, stored.beat) != (commit.expect_token, commit.expect_beat) {
                return Err(StoreError::Conflict("token or beat moved".into()));
            }
            tables.shards.insert(commit.shard, commit.record.clone());
            Ok(())
        })
    }
}

/// The calls that the model makes. A failing read is a defect of the store: it is kept and ends the
/// run.
pub(super) struct Store<S> {
    inner: S,
    pub failure: Option<StoreError>,
    /// Parked rows that can't be read, until somebody writes over them.
    damaged: BTreeSet<At>,
    /// Of those, such as a read has set aside.
    aside: BTreeSet<At>,
    /// Of those, such as the world hasn't heard of.
    moved: Vec<At>,
}

impl<S: ModelStore> Store<S> {
    pub fn new(inner: S) -> Self {
        Self { inner, failure: None, damaged: BTreeSet::new(), aside: BTreeSet::new(), moved: Vec::new() }
    }

    pub fn keep(&self) -> Option<PutBack<S>> {
        self.inner.keep()
    }

    pub fn put_back(&self, put_back: PutBack<S>) {
        put_back(&self.inner);
    }

    fn read<T: Default>(&mut self, result: Result<T, StoreError>) -> T {
        match result {
            Ok(value) => value,
            Err(error) => {
                self.failure.get_or_insert(error);
                T::default()
            }
        }
    }

    pub fn commit(&mut self, commit: &OwnerCommit) -> Result<(), StoreError> {
        if commit.record.beat <= commit.expect_beat {
            return self.inner.commit_without_beat(commit);
        }
        self.inner.wait(self.inner.port().commit(commit.clone()))?;
        for write in &commit.writes {
            let seq = match write {
                Write::PutParked(parked) => at(parked.place),
                Write::DeleteParked(seq) => (commit.shard, *seq),
                _ => continue,
            };
            self.damaged.remove(&seq);
            self.aside.remove(&seq);
        }
        Ok(())
    }

    /// Spoils a row. False when there is none, or the store can't.
    pub fn spoil(&self, row: &Spoilt) -> bool {
        self.inner.spoil(row)
    }
    pub fn quarantined(&self) -> BTreeSet<At> {
        self.inner.quarantined()
    }

    /// Spoils a parked row. Reads leave such rows out and set them aside, whatever store lies below.
    pub fn spoil_parked(&mut self, seq: At) {
        self.damaged.insert(seq);
    }
    /// Parked rows that reads have set aside since this was asked last.
    pub fn take_moved(&mut self) -> Vec<At> {
        std::mem::take(&mut self.moved)
    }

    /// Puts the rows of one client's transaction on their doorsteps.
    pub fn put_door(&mut self, rows: Vec<Row>) {
        let result = self.inner.wait(self.inner.port().shard(CLIENTS));
        let before: ShardRecord = self.read(result);
        let record = ShardRecord { beat: before.beat + 1, nonce: before.beat + 1, ..before.clone() };
        let writes =
            rows.into_iter().map(|Row { shard, key, messages }| Write::ForwardDoor { shard, key, messages }).collect();
        let commit =
            OwnerCommit { shard: CLIENTS, expect_token: before.token, expect_beat: before.beat, record, writes };
        let result = self.inner.wait(self.inner.port().commit(commit));
        self.read(result);
    }

    pub fn shard(&mut self, shard: ShardId) -> ShardRecord {
        let result = self.inner.wait(self.inner.port().shard(shard));
        self.read(result)
    }
    pub fn directory(&mut self, shard: ShardId, from: Seq, limit: usize) -> Vec<SegmentInfo> {
        let result = self.inner.wait(self.inner.port().directory(shard, from, limit));
        self.read(result)
    }
    pub fn segments(&mut self, shard: ShardId, firsts: &[Seq]) -> Vec<StoredSegment> {
        let result = self.inner.wait(self.inner.port().segments(shard, firsts));
        self.read(result)
    }
    pub fn parked(&mut self, shard: ShardId) -> Vec<Arc<Parked>> {
        let result = self.inner.wait(self.inner.port().parked(shard, None, ALL));
        let rows = self.read(result);
        let (spoilt, fine): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|parked| self.damaged.contains(&at(parked.place)));
        for parked in spoilt {
            if self.aside.insert(at(parked.place)) {
                self.moved.push(at(parked.place));
            }
        }
        fine
    }
    pub fn scheduled_due(&mut self, shard: ShardId, now: UnixMillis, limit: usize) -> DueScheduled {
        let result = self.inner.wait(self.inner.port().scheduled_due(shard, now, limit));
        self.read(result)
    }
    pub fn door(&mut self, shard: ShardId, page: DoorPassRequest) -> Vec<DoorRow> {
        let DoorPassRequest { from_nanos, until_nanos, after, limit } = page;
        let result = self.inner.wait(self.inner.port().door(shard, from_nanos, until_nanos, after, limit));
        self.read(result)
    }
    pub fn door_newest(&mut self, shard: ShardId) -> Option<u64> {
        let result = self.inner.wait(self.inner.port().door_newest(shard));
        self.read(result)
    }
    pub fn ids(&mut self, ids: &[(Tenant, MessageId)]) -> Vec<Option<IdRecord>> {
        let result = self.inner.wait(self.inner.port().ids(ids));
        self.read(result)
    }
    pub fn dead_letter(&mut self, (shard, seq): At) -> Option<Arc<DeadLetter>> {
        let result = self.inner.wait(self.inner.port().dead_letter(shard, seq));
        self.read(result)
    }
    pub fn held_keys(&mut self, shard: ShardId) -> Vec<Arc<DeadLetter>> {
        let result = self.inner.wait(self.inner.port().held_keys(shard));
        self.read(result)
    }
    pub fn history_before(&mut self, shard: ShardId, before: UnixMillis, limit: usize) -> Vec<Arc<HistoryChunk>> {
        let result = self.inner.wait(self.inner.port().history_before(shard, None, before, limit));
        self.read(result)
    }
    pub fn purge_history(&mut self, chunks: &[Arc<HistoryChunk>]) {
        // No id of the model is made from an idempotency key: none outlives its history.
        let result = self.inner.wait(self.inner.port().purge_history(chunks, Duration::ZERO, FAR));
        self.read(result)
    }
    pub fn history(&mut self, shard: ShardId) -> Vec<Arc<HistoryChunk>> {
        let result = self.inner.wait(self.inner.port().history_before(shard, None, FAR, ALL));
        self.read(result)
    }
}
