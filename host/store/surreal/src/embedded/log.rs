//! The write-ahead log of a database on disk, as far as its folder shows: which segments there are, and how large they are.

use std::fs::{self, File, TryLockError};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::fs::statvfs;

use super::{EmbeddedOptions, LogKeeper};
use crate::Fault;

/// SurrealKV's own lock on the directory: it ends when the last write to the log is done.
const LOCK_FILE: &str = "LOCK";
/// Between two looks at the lock.
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Looks at the lock: ten seconds.
const LOCK_POLLS: usize = 2_000;

/// The folder of segments, named by ascending numbers.
pub(super) struct Log {
    keeper: Arc<dyn LogKeeper>,
    folder: PathBuf,
    /// Every commit that saw a segment below this one as its newest is in tables.
    safe: AtomicU64,
}

impl Log {
    /// Of a database on disk; none for any other.
    pub(super) fn of(options: &EmbeddedOptions) -> Option<Self> {
        let keeper = options.log.clone()?;
        Some(Self { folder: keeper.directory().join("wal"), keeper, safe: AtomicU64::new(0) })
    }

    /// Waits until whoever had the database open is done with its log.
    pub(super) async fn released(&self) -> Result<(), Fault> {
        let refuse =
            |error: std::io::Error| Fault::Unavailable(format!("{}: {error}", self.keeper.directory().display()));
        let file = match File::open(self.keeper.directory().join(LOCK_FILE)) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(refuse)?,
        };
        for _ in 0..LOCK_POLLS {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
                Err(TryLockError::Error(error)) => return Err(refuse(error)),
            }
        }
        Err(Fault::Unavailable("the embedded database is still being closed".into()))
    }

    pub(super) fn doubt(&self) {
        self.keeper.doubt();
    }

    pub(super) fn mend(&self) -> Result<(), Fault> {
        self.keeper.mend()
    }

    /// Whether all buffers can be written into tables.
    pub(super) fn has_room(&self, memtable_bytes: u64) -> bool {
        let needed = self.bytes().saturating_add(memtable_bytes);
        // One that can't be asked is tried.
        statvfs(self.keeper.directory()).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= needed)
    }

    fn segments(&self) -> impl Iterator<Item = (u64, fs::DirEntry)> {
        let entries = fs::read_dir(&self.folder).ok();
        entries.into_iter().flatten().flatten().filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_suffix(".wal")?.parse().ok()?;
            Some((number, entry))
        })
    }

    /// Number of the newest segment.
    pub(super) fn newest(&self) -> Option<u64> {
        self.segments().map(|(number, _)| number).max()
    }

    /// Size of all segments together.
    pub(super) fn bytes(&self) -> u64 {
        self.segments().filter_map(|(_, entry)| entry.metadata().ok()).map(|file| file.len()).sum()
    }

    /// Whether the commits that saw this segment as the newest are in tables.
    pub(super) fn is_safe_past(&self, seen: Option<u64>) -> bool {
        seen.map_or(0, |number| number + 1) <= self.safe.load(Ordering::Acquire)
    }

    /// Notes that they are.
    pub(super) fn made_safe(&self, seen: Option<u64>) {
        self.safe.fetch_max(seen.map_or(0, |number| number + 1), Ordering::AcqRel);
    }
}
