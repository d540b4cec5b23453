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
//! append to the doorsteps, read them, and read settings by their ids, so that an event may enqueue, and append to a stream. Then the guard
//! alone keeps callers' own statements from these. Every key and every range is judged by itself: nothing else is opened with them.
//!
//! It also counts what a caller's statements write and remove, and refuses large rows: past the bounds they fail like a transaction
//! that is too large for the store. And it counts what a statement reads, as it lies in memory: the guard says how much that may be, since it
//! knows how often the statement holds its rows, and what is past it isn't handed to SurrealDB. Rows that a scan lets go
//! ([`crate::Scan`]) count for themselves: only a page of them is in memory at once.
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
use surrealdb_kvs::{Error, KeyRange};

use crate::{Holds, Reads, Scan};

pub(super) use factory::{Walled, behind};
pub(super) use map::Map;
use map::Refusal;
use reads::measured;

/// Bytes that the statements of one transaction may write, keys and indexes included: as they lie in memory, since what is written is
/// answered as well. A key that is removed is kept until the commit, too.
const WRITTEN_MAX: u64 = 16 * 1024 * 1024;

/// Bytes of memory of rows that the scans of one transaction may let go: they cost time, however little of them is in memory at once.
const SCANNED_MAX: u64 = 1024 * 1024 * 1024;
/// A row that takes more counts as held, even if a scan lets it go: a page of such rows would be too large, and aggregates copy their
/// fields of a whole page.
const LET_GO_MAX: u64 = 256 * 1024;

/// The gate of one transaction: open while the host works on it, closed while a caller's statement does.
pub(super) struct Gate {
    map: Arc<Map>,
    closed: AtomicBool,
    refused: Mutex<Option<String>>,
    /// Bytes that callers' statements have written.
    written: AtomicU64,
    /// Bytes of memory of rows that the statement may still read and hold.
    readable: AtomicU64,
    /// Whether it wanted to read more.
    overread: AtomicBool,
    /// A scan that doesn't hold all of its rows and hasn't begun.
    scan: Mutex<Option<Scan>>,
    /// Bytes of memory of rows that scans may still let go.
    scannable: AtomicU64,
    /// Whether it wanted to let go more.
    overscanned: AtomicBool,
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
            scan: Mutex::new(None),
            scannable: AtomicU64::new(SCANNED_MAX),
            overscanned: AtomicBool::new(false),
            doorstep_open: OnceLock::new(),
        })
    }

    /// From here on keys are looked at, and no more than this may be read.
    pub(super) fn close(&self, reads: Reads) {
        self.readable.store(reads.held_max, Ordering::Relaxed);
        *self.scan.lock() = reads.scan;
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

    /// Whether a statement wanted to read more than it may hold.
    pub(super) fn overread(&self) -> bool {
        self.overread.load(Ordering::Acquire)
    }

    /// Bytes that scans may let go, if they wanted to let go more.
    pub(super) fn overscanned(&self) -> Option<u64> {
        self.overscanned.load(Ordering::Acquire).then_some(SCANNED_MAX)
    }

    /// What a cursor holds that is about to be opened, if it is that of the statement's scan: the first over rows of its table.
    fn scan_of(&self, range: &KeyRange<'_>) -> Option<Holds> {
        if !self.is_closed() {
            return None;
        }
        let mut scan = self.scan.lock();
        let (start, end) = self.map.rows(&scan.as_ref()?.table);
        let whole = start.as_slice() <= range.start.as_slice() && range.end.as_slice() <= end.as_slice();
        if whole { scan.take().map(|scan| scan.holds) } else { None }
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
        if self.is_closed() {
            self.reads_beside(key);
        }
        self.scans(None, key, value).map(|_| ())
    }

    /// A statement that reads rows of its table by an index has no scan: the next cursor over them would be that of an event or a
    /// field of the operator.
    fn reads_beside(&self, key: &[u8]) {
        let mut scan = self.scan.lock();
        let Some(table) = scan.as_ref().map(|scan| &scan.table) else { return };
        let (start, end) = self.map.rows(table);
        if start.as_slice() <= key && key < end.as_slice() {
            *scan = None;
        }
    }

    /// The same of a row of a scan: what it lets go counts for itself. Answers the bytes that were counted.
    fn scans(&self, holds: Option<&Holds>, key: &[u8], value: &[u8]) -> Result<u64, Error> {
        if !self.is_closed() {
            return Ok(0);
        }
        let (bytes, row) = measured(key, value);
        let goes = bytes <= LET_GO_MAX && holds.is_some_and(|holds| holds.lets_go(row.as_ref()));
        let (room, over) = if goes { (&self.scannable, &self.overscanned) } else { (&self.readable, &self.overread) };
        let take = |left: u64| left.checked_sub(bytes);
        if room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
            return Ok(bytes);
        }
        self.readable.store(0, Ordering::Relaxed);
        self.scannable.store(0, Ordering::Relaxed);
        over.store(true, Ordering::Release);
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
