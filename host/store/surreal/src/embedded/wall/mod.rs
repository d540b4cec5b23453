//! The wall in front of Waybill's tables.
//!
//! A caller's statement runs inside a transaction that also holds Waybill's own writes. While it runs, every key that SurrealDB
//! reads or writes for it is looked at here, below the query language: keys of closed tables, of other databases and of users are
//! refused, and of definitions nothing may be written but a table that isn't there yet. So it doesn't matter how a statement came
//! to name a table: what the guard (`waybill-store`) didn't understand, or SurrealDB evaluates in another way than its syntax tree
//! says, ends here. Both walls are tested alone.
//!
//! It costs a transaction that writes one more virtual call a key, and one that only reads nothing.
//!
//! Functions and events that the operator has defined run behind it too, with one exception: in a database that has any, they may
//! append to the doorstep, read it, and read settings by their ids, so that an event may enqueue. Then the guard alone keeps callers'
//! own statements from these. Every key and every range is judged by itself: nothing else is opened with them.
//!
//! It also counts what a caller's statements write and remove, and refuses large rows: past the bounds they fail like a transaction
//! that is too large for the store. And it counts what a statement reads, as it lies in memory: the guard says how much that may be, since it
//! knows how often the statement holds its rows, and what is past it isn't handed to SurrealDB.
//!
//! What it leaves open: definitions of tables may be read, because SurrealDB reads those of all tables when it deletes a record.
//! A transaction whose statement was refused can only be cancelled.

mod cursors;
mod factory;
mod map;
mod reads;
mod transaction;

use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use surrealdb_kvs::Error;

pub(super) use factory::{Walled, behind};
pub(super) use map::Map;
use map::Refusal;
use reads::memory_of;

/// Bytes that the statements of one transaction may write, keys and indexes included: as they lie in memory, since what is written is
/// answered as well. A key that is removed is kept until the commit, too.
const WRITTEN_MAX: u64 = 16 * 1024 * 1024;

/// The gate of one transaction: open while the host works on it, closed while a caller's statement does.
pub(super) struct Gate {
    map: Arc<Map>,
    closed: AtomicBool,
    refused: Mutex<Option<String>>,
    /// Bytes that callers' statements have written.
    written: AtomicU64,
    /// Bytes of memory that the statement may still read.
    readable: AtomicU64,
    /// Whether it wanted to read more.
    overread: AtomicBool,
    /// Whether the operator has defined functions or events, once that was looked at.
    doorstep_open: OnceLock<bool>,
}

impl Gate {
    pub(super) fn new(map: Arc<Map>) -> Arc<Self> {
        Arc::new(Self {
            map,
            closed: AtomicBool::new(false),
            refused: Mutex::new(None),
            written: AtomicU64::new(0),
            readable: AtomicU64::new(0),
            overread: AtomicBool::new(false),
            doorstep_open: OnceLock::new(),
        })
    }

    /// From here on keys are looked at, and rows may be read that take at most these bytes of memory.
    pub(super) fn close(&self, rows_bytes_max: u64) {
        self.readable.store(rows_bytes_max, Ordering::Relaxed);
        self.closed.store(true, Ordering::Release);
    }

    /// The statement is over, and nothing of it is at work any more.
    pub(super) fn open(&self) {
        self.closed.store(false, Ordering::Release);
    }

    /// Whether a statement is at work, or failed.
    pub(super) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// What a statement wanted to touch and may not.
    pub(super) fn refused(&self) -> Option<String> {
        self.refused.lock().clone()
    }

    /// Whether a statement wanted to read more than it may.
    pub(super) fn overread(&self) -> bool {
        self.overread.load(Ordering::Acquire)
    }

    /// Notes what was refused first; SurrealDB may lose an error's text on its way up, or do without the value.
    fn refuse(&self, what: &str) -> Error {
        self.refused.lock().get_or_insert_with(|| what.to_owned());
        Error::Datastore(format!("{what} isn't open to callers' statements"))
    }

    /// Notes a write or a removal of a caller's statement, and whether there is room for it: both stay in memory until the commit.
    fn takes(&self, bytes: u64) -> bool {
        if !self.is_closed() {
            return true;
        }
        let add = |written: u64| written.checked_add(bytes).filter(|all| *all <= WRITTEN_MAX);
        self.written.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Notes what a caller's statement reads, and refuses what is past its bound. What comes after it is refused as well, so that it
    /// doesn't matter whether the statement goes on.
    fn reads(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        if !self.is_closed() {
            return Ok(());
        }
        let bytes = memory_of(key, value);
        let take = |left: u64| left.checked_sub(bytes);
        if self.readable.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(());
        }
        self.readable.store(0, Ordering::Relaxed);
        self.overread.store(true, Ordering::Release);
        Err(Error::Datastore("the statement reads more than it may".to_owned()))
    }

    /// Judges by the map, if the gate is closed.
    fn judge(&self, judge: impl FnOnce(&Map) -> Result<(), Refusal>) -> Result<(), Refusal> {
        match self.closed.load(Ordering::Acquire) {
            true => judge(&self.map),
            false => Ok(()),
        }
    }
}
