//! The in-memory reference store: every port of the store as plain maps under one lock, so short that it can be read
//! beside the contract. The model checker and the engine's tests run on it, and the conformance suite holds the
//! SurrealDB store to the same sentences.
//!
//! Every call is atomic: a commit applies as a whole or not at all, a read sees one moment. It never waits, spawns or
//! reads a clock unless [`MemoryStore::set_clock`] was left alone, so runs are deterministic. What it doesn't do: SurrealQL
//! (a transaction with a statement is refused, unless a test says what statements answer), durability, bounds on memory.

mod audit;
mod dedup;
mod faults;
mod idempotency;
mod inbox;
mod kv;
mod owner;
mod quarantine;
mod query;
mod sagas;
mod schedules;
mod statements;
mod stream_blobs;
mod stream_fates;
mod stream_lists;
mod streams;
mod tables;
mod tokens;
mod transact;

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::{DoorKey, Malformed};
use waybill_core::port::store::{OwnerCommit, StoreError};

pub use faults::Fate;
pub use inbox::InboxTables;
pub use sagas::SagaTables;
pub use streams::{StreamTables, StreamTx};
pub use tables::{DoorContent, SegmentContent, Tables};

use faults::Faults;
use statements::Statements;

#[derive(Debug, Default)]
pub struct MemoryStore {
    tables: Mutex<Tables>,
    faults: Mutex<Faults>,
    statements: Statements,
    calls: AtomicU64,
}

impl MemoryStore {
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at the tables at one moment.
    pub fn read<R>(&self, look: impl FnOnce(&Tables) -> R) -> R {
        look(&self.tables.lock())
    }

    /// Changes the tables directly: for tests that need a state no commit would make.
    pub fn write<R>(&self, change: impl FnOnce(&mut Tables) -> R) -> R {
        change(&mut self.tables.lock())
    }

    /// Applies a commit now, whatever fate is planned for the next one. `Conflict`, `Exists` and `TooLarge` mean that nothing
    /// changed.
    pub fn apply(&self, commit: &OwnerCommit) -> Result<(), StoreError> {
        self.tables.lock().apply(commit)
    }

    /// Puts a row on a doorstep, as a client's committed transaction would.
    pub fn put_door(&self, shard: ShardId, key: DoorKey, content: DoorContent) {
        self.tables.lock().door.insert((shard, key), content);
    }

    /// Replaces a segment with bytes that don't decode.
    pub fn spoil_segment(&self, shard: ShardId, first: Seq, malformed: Malformed) {
        self.tables.lock().segments.insert((shard, first), SegmentContent::Malformed(malformed));
    }

    /// Sets the clock that stamps doorstep rows; it stands still until set again. Without it the system's clock counts.
    pub fn set_clock(&self, nanos: u64) {
        self.tables.lock().clock = Some(nanos);
    }

    /// The clock that stamps doorstep rows, in nanoseconds since 1970.
    pub fn clock(&self) -> u64 {
        self.tables.lock().clock.unwrap_or_else(|| {
            let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
    }

    /// Bounds the commits of owners, as a store's write buffer does ([`OwnerCommit::weight`]); without this nothing does.
    pub fn bound_commits(&self, bytes_max: usize) {
        self.tables.lock().commit_bytes_max = Some(bytes_max);
    }

    /// What happens to the next commits, first to first. With none planned a commit is applied.
    pub fn plan(&self, fates: impl IntoIterator<Item = Fate>) {
        self.faults.lock().planned.extend(fates);
    }

    /// Makes every call fail with this error until it is taken away with `None`. A commit that fails so changes nothing.
    pub fn fail_all(&self, error: Option<StoreError>) {
        self.faults.lock().all = error;
    }

    /// Makes every line of the audit trail fail with this error until it is taken away with `None`.
    pub fn fail_audits(&self, error: Option<StoreError>) {
        self.faults.lock().audits = error;
    }

    /// How many commits are held back.
    pub fn held(&self) -> usize {
        self.faults.lock().held.len()
    }

    /// Lets the oldest commit that is held back go in now. None are held: `None`.
    pub fn release(&self) -> Option<Result<(), StoreError>> {
        let commit = self.faults.lock().held.pop_front()?;
        Some(self.apply(&commit))
    }

    /// Forgets the commits that are held back: they never happened.
    pub fn drop_held(&self) {
        let mut faults = self.faults.lock();
        faults.held.clear();
        faults.saga_held.clear();
        faults.inbox_held.clear();
        faults.streams_held.clear();
    }

    /// How often its ports were called: what does the same with more data calls no more often.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    /// The error that every call fails with at the moment.
    fn check(&self) -> Result<(), StoreError> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match &self.faults.lock().all {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    fn commit_by_fate(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        self.check()?;
        let fate = self.faults.lock().planned.pop_front().unwrap_or(Fate::Apply);
        let unknown = || StoreError::Unavailable("the connection broke before the answer came".into());
        match fate {
            Fate::Apply => self.apply(&commit),
            Fate::Refuse(error) => Err(error),
            Fate::ApplyUnknown => {
                // A conflict stays unknown too: the caller never heard of it.
                let _unheard = self.apply(&commit);
                Err(unknown())
            }
            Fate::ApplyAndBreak => {
                let _unheard = self.apply(&commit);
                self.fail_all(Some(unknown()));
                Err(unknown())
            }
            Fate::Lose => Err(unknown()),
            Fate::Hold => {
                self.faults.lock().held.push_back(commit);
                Err(unknown())
            }
        }
    }
}
