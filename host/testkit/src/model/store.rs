//! The store under the model: any owner store, called synchronously.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use waybill_core::ids::{MessageId, Seq, ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, IdRecord, Malformed, Parked, ShardRecord,
};
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment, Write};
use waybill_core::time::UnixMillis;

use crate::memory_store::{MemoryStore, SegmentContent, Tables};

/// A row that a store is asked to spoil.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spoilt {
    /// The segment with this first seq.
    Segment(Seq),
    /// A doorstep row.
    Door(DoorKey),
}

/// The shard that the model is about.
pub(super) const SHARD: ShardId = ShardId(0);
/// A shard that nobody owns: its commits carry doorstep rows of clients with stamps of the model's choice.
const CLIENTS: ShardId = ShardId(1);
/// Read pages large enough for everything a run makes.
const ALL: usize = 100_000;
/// After everything that a run does.
const FAR: UnixMillis = UnixMillis(i64::MAX as u64 / 2);

/// Puts a store back to what it was.
pub type PutBack<S> = Box<dyn FnOnce(&S)>;

/// A store whose calls the model can wait for.
pub trait ModelStore: Sized {
    /// The port.
    type Port: OwnerStore;
    /// The port.
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
    /// First seqs of the model's segments that lie in quarantine.
    fn quarantined(&self) -> BTreeSet<Seq> {
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
            Spoilt::Segment(first) => tables.segments.get_mut(&(SHARD, *first)).is_some_and(|content| {
                *content = SegmentContent::Malformed(malformed());
                true
            }),
            Spoilt::Door(key) => tables.door.get_mut(&(SHARD, key.clone())).is_some_and(|content| {
                *content = Err(malformed());
                true
            }),
        })
    }
    fn quarantined(&self) -> BTreeSet<Seq> {
        self.read(|tables| {
            tables.quarantine.keys().filter(|(shard, _)| *shard == SHARD).map(|(_, first)| *first).collect()
        })
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

/// The calls that the model makes, all on its one shard. A failing read is a defect of the store: it is kept and ends the
/// run.
pub(super) struct Store<S> {
    inner: S,
    pub failure: Option<StoreError>,
    /// Parked rows that can't be read, until somebody writes over them.
    damaged: BTreeSet<Seq>,
    /// Of those, such as a read has set aside.
    aside: BTreeSet<Seq>,
    /// Of those, such as the world hasn't heard of.
    moved: Vec<Seq>,
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
                Write::PutParked(parked) => parked.place.seq(),
                Write::DeleteParked(seq) => *seq,
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
    pub fn quarantined(&self) -> BTreeSet<Seq> {
        self.inner.quarantined()
    }

    /// Spoils a parked row. Reads leave such rows out and set them aside, whatever store lies below.
    pub fn spoil_parked(&mut self, seq: Seq) {
        self.damaged.insert(seq);
    }
    /// Parked rows that reads have set aside since this was asked last.
    pub fn take_moved(&mut self) -> Vec<Seq> {
        std::mem::take(&mut self.moved)
    }

    /// Puts the rows of one client's transaction on the doorstep.
    pub fn put_door(&mut self, rows: Vec<(DoorKey, Vec<Arc<Message>>)>) {
        let result = self.inner.wait(self.inner.port().shard(CLIENTS));
        let before: ShardRecord = self.read(result);
        let record = ShardRecord { beat: before.beat + 1, nonce: before.beat + 1, ..before.clone() };
        let writes =
            rows.into_iter().map(|(key, messages)| Write::ForwardDoor { shard: SHARD, key, messages }).collect();
        let commit =
            OwnerCommit { shard: CLIENTS, expect_token: before.token, expect_beat: before.beat, record, writes };
        let result = self.inner.wait(self.inner.port().commit(commit));
        self.read(result);
    }

    pub fn shard(&mut self) -> ShardRecord {
        let result = self.inner.wait(self.inner.port().shard(SHARD));
        self.read(result)
    }
    pub fn directory(&mut self, from: Seq, limit: usize) -> Vec<SegmentInfo> {
        let result = self.inner.wait(self.inner.port().directory(SHARD, from, limit));
        self.read(result)
    }
    pub fn segments(&mut self, firsts: &[Seq]) -> Vec<StoredSegment> {
        let result = self.inner.wait(self.inner.port().segments(SHARD, firsts));
        self.read(result)
    }
    pub fn parked(&mut self) -> Vec<Arc<Parked>> {
        let result = self.inner.wait(self.inner.port().parked(SHARD, None, ALL));
        let rows = self.read(result);
        let (spoilt, fine): (Vec<_>, Vec<_>) =
            rows.into_iter().partition(|parked| self.damaged.contains(&parked.place.seq()));
        for parked in spoilt {
            if self.aside.insert(parked.place.seq()) {
                self.moved.push(parked.place.seq());
            }
        }
        fine
    }
    pub fn scheduled_due(&mut self, now: UnixMillis, limit: usize) -> DueScheduled {
        let result = self.inner.wait(self.inner.port().scheduled_due(SHARD, now, limit));
        self.read(result)
    }
    pub fn door(&mut self, from: u64, until: u64, after: Option<DoorKey>, limit: usize) -> Vec<DoorRow> {
        let result = self.inner.wait(self.inner.port().door(SHARD, from, until, after, limit));
        self.read(result)
    }
    pub fn door_newest(&mut self) -> Option<u64> {
        let result = self.inner.wait(self.inner.port().door_newest(SHARD));
        self.read(result)
    }
    pub fn ids(&mut self, ids: &[(Tenant, MessageId)]) -> Vec<Option<IdRecord>> {
        let result = self.inner.wait(self.inner.port().ids(ids));
        self.read(result)
    }
    pub fn dead_letter(&mut self, seq: Seq) -> Option<Arc<DeadLetter>> {
        let result = self.inner.wait(self.inner.port().dead_letter(SHARD, seq));
        self.read(result)
    }
    pub fn held_keys(&mut self) -> Vec<Arc<DeadLetter>> {
        let result = self.inner.wait(self.inner.port().held_keys(SHARD));
        self.read(result)
    }
    pub fn history_before(&mut self, before: UnixMillis, limit: usize) -> Vec<Arc<HistoryChunk>> {
        let result = self.inner.wait(self.inner.port().history_before(SHARD, None, before, limit));
        self.read(result)
    }
    pub fn purge_history(&mut self, chunks: &[Arc<HistoryChunk>]) {
        // No id of the model is made from an idempotency key: none outlives its history.
        let result = self.inner.wait(self.inner.port().purge_history(chunks, Duration::ZERO, FAR));
        self.read(result)
    }
    pub fn history(&mut self) -> Vec<Arc<HistoryChunk>> {
        let result = self.inner.wait(self.inner.port().history_before(SHARD, None, FAR, ALL));
        self.read(result)
    }
}
