//! The write-ahead log of a database on disk, as far as its folder shows: which segments there are, and how large they are.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::statvfs;

use super::gate::{Bounds, CommitGate, Segments};
use super::sync::GroupSync;
use super::{EmbeddedOptions, LogKeeper};
use crate::Fault;

/// SurrealKV's own lock on the directory: it ends when the last write to the log is done.
const LOCK_FILE: &str = "LOCK";
/// Between two looks at the lock.
const LOCK_POLL: Duration = Duration::from_millis(5);
/// Looks at the lock: ten seconds.
const LOCK_POLLS: usize = 2_000;

/// The folder of segments, named by ascending numbers.
#[derive(Clone)]
pub(super) struct Log {
    keeper: Arc<dyn LogKeeper>,
    folder: PathBuf,
}

impl Log {
    /// Of a database on disk; none for any other.
    pub(super) fn of(options: &EmbeddedOptions) -> Option<Self> {
        let keeper = options.log.clone()?;
        Some(Self { folder: keeper.directory().join("wal"), keeper })
    }

    /// The database's directory.
    pub(super) fn directory(&self) -> &Path {
        self.keeper.directory()
    }

    /// Waits until whoever had the database open is done with its log.
    pub(super) async fn released(&self) -> Result<(), Fault> {
        let file = match File::open(self.keeper.directory().join(LOCK_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            file => file.map_err(|error| self.refuse(&error))?,
        };
        for _ in 0..LOCK_POLLS {
            match file.try_lock() {
                Ok(()) => return Ok(()),
                Err(TryLockError::WouldBlock) => tokio::time::sleep(LOCK_POLL).await,
                Err(TryLockError::Error(error)) => return Err(self.refuse(&error)),
            }
        }
        Err(Fault::Unavailable("the embedded database is still being closed".into()))
    }

    /// What the operating system said of the directory.
    pub(super) fn refuse(&self, error: &io::Error) -> Fault {
        Fault::Unavailable(format!("{}: {error}", self.keeper.directory().display()))
    }

    pub(super) fn distrust(&self) {
        self.keeper.distrust();
    }

    pub(super) fn repair(&self) -> Result<(), Fault> {
        self.keeper.repair()
    }

    pub(super) fn trusted(&self) -> Result<bool, Fault> {
        self.keeper.trusted()
    }

    pub(super) fn trust(&self) -> Result<(), Fault> {
        self.keeper.trust()
    }

    /// Whether all buffers can be written into tables.
    pub(super) fn has_room(&self, memtable_bytes: u64) -> bool {
        // What can't be asked is tried.
        let needed = self.bytes().unwrap_or(0).saturating_add(memtable_bytes);
        statvfs(self.keeper.directory()).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= needed)
    }

    /// Number and size of each segment.
    fn segments(&self) -> io::Result<Vec<(u64, u64)>> {
        let entries = match fs::read_dir(&self.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(number) = name.to_str().and_then(|name| name.strip_suffix(".wal")?.parse().ok()) {
                found.push((number, entry.metadata()?.len()));
            }
        }
        Ok(found)
    }

    /// Size of all segments together. After a close that wrote every buffer into a table it is zero.
    pub(super) fn bytes(&self) -> io::Result<u64> {
        Ok(self.segments()?.into_iter().map(|(_, bytes)| bytes).sum())
    }

    /// The gate of the database that was just opened, whose log had `log_bytes` before.
    pub(super) fn gate(&self, memtable_bytes: u64, log_bytes: u64, syncs: bool) -> io::Result<CommitGate> {
        let newest = self.segments()?.into_iter().map(|(number, _)| number).max();
        let newest = newest.ok_or_else(|| io::Error::other("the database was opened and has no log"))?;
        let path = |number: u64| self.folder.join(format!("{number:020}.wal"));
        let segments = Segments { active: path(newest), next: path(newest + 1) };
        let sync = syncs.then(|| GroupSync::start(&segments.active)).transpose()?;
        Ok(CommitGate::new(Bounds::of(memtable_bytes), log_bytes, segments, sync))
    }
}
