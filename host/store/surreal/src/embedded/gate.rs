//! The gate that every commit of a database on disk passes: callers' and the host's, and those that SurrealDB makes by itself.
//!
//! SurrealKV (0.21.4) appends a commit to the log and then puts it into the write buffer. When the buffer is full, log and buffer
//! are rotated between the two: the commit lies in the new buffer and in the old segment, which is deleted with the old buffer.
//! Killed before the new buffer is in a table, an acknowledged commit would be gone. It also appends behind a record that a
//! failed write has torn, and shows a commit to others before its sync is known to have failed. So here
//!
//! * no commit rotates the log: what a transaction writes is counted, what can't fit is refused before it is appended, and the
//!   database is closed and opened again before its buffer is full (`Core::refresh`);
//! * commits are appended one by one, and none behind one that failed;
//! * the sync is the host's own ([`GroupSync`]): when one has failed, that is known before anybody is answered.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use surrealdb_kvs::{Error, Result};
use tokio::sync::Mutex;

use super::sync::GroupSync;
use crate::Fault;

/// Largest write buffer that SurrealKV can have: places in it are 32 bits.
const BUFFER_BYTES_MAX: u64 = u32::MAX as u64;
/// Of the write buffer, what it needs for itself.
const SLACK: u64 = 64 * 1024;
/// The most that an entry takes beside its key and value: a node as high as can be, its alignment, how the value is stored. Before
/// a commit SurrealKV asks for this much room.
const ENTRY_BYTES_MAX: u64 = 192 + 7 + 9;
/// What an entry really takes beside its key and value: 52 bytes on average, by the height of its node.
const ENTRY_BYTES: u64 = 80;
/// Entries of a log that is read take at most this many times their bytes in the log.
const REPLAYED: u64 = 3;

/// What a transaction writes. Counted again when it is written again, and not taken back with a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    pub(super) entries: u64,
    /// Of keys and values.
    pub(super) bytes: u64,
}

impl Size {
    fn most(self) -> u64 {
        self.bytes.saturating_add(self.entries.saturating_mul(ENTRY_BYTES_MAX))
    }

    fn expected(self) -> u64 {
        self.bytes.saturating_add(self.entries.saturating_mul(ENTRY_BYTES))
    }
}

/// How large things may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// SurrealKV's buffer. Twice what is configured: so there is room while the database can't be closed yet, and memory that
    /// nothing was written to costs nothing.
    pub(super) buffer: u64,
    /// From here on the database is to be opened again. Also the largest transaction.
    pub(super) full: u64,
}

impl Bounds {
    pub(super) fn of(memtable_bytes: u64) -> Self {
        let buffer = memtable_bytes.saturating_mul(2).min(BUFFER_BYTES_MAX);
        Self { buffer, full: buffer.saturating_sub(SLACK) / 2 }
    }

    /// Whether so large a transaction is refused.
    pub(super) fn exceeded_by(&self, size: Size) -> bool {
        size.most() > self.full
    }
}

/// The segment of the log that is written to, and the one that SurrealKV would begin.
pub(super) struct Segments {
    pub(super) active: PathBuf,
    pub(super) next: PathBuf,
}

impl Segments {
    fn rotated(&self) -> bool {
        // What can't be told counts as rotated.
        !matches!(std::fs::exists(&self.next), Ok(false)) || !matches!(std::fs::exists(&self.active), Ok(true))
    }
}

/// The gate of a database that is open.
pub(super) struct CommitGate {
    bounds: Bounds,
    segments: Segments,
    /// None: commits are answered before they are on the disk.
    sync: Option<GroupSync>,
    /// Held while a commit is appended.
    state: Mutex<AppendState>,
    /// Why nothing may be appended any more until the database was opened again.
    failed: OnceLock<Fault>,
    is_full: AtomicBool,
}

/// What appending a commit reads and changes, one commit at a time.
struct AppendState {
    /// Bytes of the write buffer that are in use.
    used: u64,
    closed: bool,
}

impl CommitGate {
    /// Of a database whose log had this many bytes when it was opened.
    pub(super) fn new(bounds: Bounds, log_bytes: u64, segments: Segments, sync: Option<GroupSync>) -> Self {
        // What was replayed fits, however much it is reckoned to be: there is always room for a start.
        let state = AppendState { used: log_bytes.saturating_mul(REPLAYED).min(bounds.full), closed: false };
        let is_full = AtomicBool::new(state.used >= bounds.full);
        Self { bounds, segments, sync, state: Mutex::new(state), failed: OnceLock::new(), is_full }
    }

    pub(super) fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Whether the database has to be opened again because its buffer is full.
    pub(super) fn is_full(&self) -> bool {
        self.is_full.load(Ordering::Acquire)
    }

    /// Lets one commit through, and answers when it is as durable as it is configured.
    pub(super) async fn pass(&self, size: Size, append: impl Future<Output = Result<()>> + Send) -> Result<()> {
        if size.entries == 0 {
            return append.await;
        }
        self.append(size, append).await?;
        match &self.sync {
            Some(sync) => sync.wait().await.map_err(|fault| {
                let cause = fault.to_string();
                // The first failure is the one that counts.
                let _ = self.failed.set(fault);
                Error::CommitOutcomeUnknown(cause)
            }),
            None => Ok(()),
        }
    }

    async fn append(&self, size: Size, append: impl Future<Output = Result<()>> + Send) -> Result<()> {
        let mut state = self.state.lock().await;
        let failed = self.failed.get().cloned().or_else(|| self.sync.as_ref().and_then(GroupSync::failed));
        if let Some(fault) = failed {
            return Err(Error::ConnectionFailed(format!("the database has to be opened again: {fault}")));
        }
        if state.closed {
            return Err(Error::Shutdown);
        }
        if self.bounds.exceeded_by(size) {
            return Err(Error::TransactionTooLarge);
        }
        if state.used.saturating_add(size.most()).saturating_add(SLACK) > self.bounds.buffer {
            self.is_full.store(true, Ordering::Release);
            return Err(Error::TransactionConflict("the write buffer is full and is just being emptied".into()));
        }
        // Beforehand: whoever waits may go away while it is appended.
        state.used = state.used.saturating_add(size.expected());
        match append.await {
            Ok(()) => {}
            Err(refused) if Fault::wrote_nothing(&refused) => {
                state.used = state.used.saturating_sub(size.expected());
                return Err(refused);
            }
            Err(error) => {
                let fault = Fault::of_failed_commit(&error);
                let _ = self.failed.set(fault.clone());
                // What of it is in the log may still be read when the database is opened again.
                return Err(if matches!(fault, Fault::Unknown(_)) {
                    Error::CommitOutcomeUnknown(error.to_string())
                } else {
                    error
                });
            }
        }
        if state.used >= self.bounds.full {
            self.is_full.store(true, Ordering::Release);
        }
        let used = state.used;
        // Looked at while nothing can close the database, which removes the segment in good order.
        if self.segments.rotated() {
            let cause = format!(
                "the log was rotated beside {}, which must not happen: {used} bytes were counted, {} are the bound",
                self.segments.active.display(),
                self.bounds.buffer
            );
            tracing::error!("{cause}; the commit's outcome isn't known, and the database is opened again");
            let _ = self.failed.set(Fault::Unknown(cause.clone()));
            return Err(Error::CommitOutcomeUnknown(cause));
        }
        drop(state);
        Ok(())
    }

    /// Lets nothing more through. Returns when nothing is being appended.
    pub(super) async fn close(&self) {
        self.state.lock().await.closed = true;
    }
}
