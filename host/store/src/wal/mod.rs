//! Repairs the write-ahead log of SurrealKV (0.21.4) before SurrealKV opens it.
//!
//! A process that is killed in the middle of a write leaves the beginning of a record at the end of the log. SurrealKV
//! takes that for the end, goes on writing *behind* it, and at the next start finds the log damaged there and
//! drops what follows; its repair puts a new file in place of the one that it is already writing to, so the commits of
//! that whole run are gone with the next crash. Acknowledged commits, that is: the kill -9 harness found it. So the torn
//! record, which was never acknowledged, is cut off here, and SurrealKV meets a whole log. What is cut off is kept beside the log.
//!
//! A power loss leaves less than was written: zeros where the disk hadn't come to it, with records behind them. When commits are
//! acknowledged after a sync, what lies behind such zeros was acknowledged to nobody, because a sync covers all that is before
//! it; when they aren't, a power loss may take them. So such a log is cut off too.
//!
//! Any other damage in the middle, with whole records behind it, is no crash's doing and isn't touched: the store isn't opened, and
//! the error says where. But for one case: after a commit that failed in the middle, on a full disk say, there may be records
//! behind the torn one. The host acknowledges none of them and removes a mark from the directory, so a log without
//! the mark is cut off at its first damage. What this doesn't do: look into records; check tables or value logs.

#[cfg(test)]
mod append;
mod scan;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_surreal::{Fault, LogKeeper};

use crate::config::OpenError;
use scan::{Scan, scan};

/// Folder of the log in the data directory.
const FOLDER: &str = "wal";
/// There while every commit succeeded. After one that failed it comes back when nothing of that log is left: a sync that failed may
/// have left pages of it that no later one writes, so a process that starts behind it doesn't append to it either. A new directory
/// has no log to distrust.
const MARK: &str = "waybill.log-trusted";
/// What was cut off: `SEGMENT.cut-MILLIS`, which SurrealKV passes over.
const CUT: &str = "cut-";
/// How many of those are kept.
const CUTS_KEPT: usize = 16;

/// The log of a data directory. The directory's lock has to be held.
pub struct LogFolder {
    directory: PathBuf,
    /// Commits are acknowledged before they are on the disk.
    lazy: bool,
    /// The largest record that there may be, in bytes.
    record_bytes_max: u64,
}

impl LogFolder {
    /// Of this data directory.
    pub fn new(directory: PathBuf, lazy: bool, record_bytes_max: u64) -> Self {
        Self { directory, lazy, record_bytes_max }
    }

    /// Cuts off what was acknowledged to nobody. Nothing may have it open.
    pub fn repair(&self) -> Result<(), OpenError> {
        let trusted = self.trusted()?;
        for segment in segments(&self.directory.join(FOLDER))? {
            self.repair_segment(&segment, trusted)?;
        }
        Ok(())
    }

    /// Whether the mark is there.
    fn trusted(&self) -> Result<bool, OpenError> {
        let mark = self.directory.join(MARK);
        fs::exists(&mark).map_err(|error| OpenError::Directory { dir: mark, cause: error.to_string() })
    }

    /// Makes the mark, durably.
    fn trust(&self) -> Result<(), OpenError> {
        if self.trusted()? {
            return Ok(());
        }
        let mark = self.directory.join(MARK);
        let made = File::create(&mark).and_then(|_| sync_folder(&self.directory));
        made.map_err(|error| OpenError::Directory { dir: mark, cause: error.to_string() })
    }

    fn repair_segment(&self, path: &Path, trusted: bool) -> Result<(), OpenError> {
        let refuse = |error: io::Error| OpenError::Directory { dir: path.to_owned(), cause: error.to_string() };
        let mut file = OpenOptions::new().read(true).write(true).open(path).map_err(refuse)?;
        let path = path.to_owned();
        let (whole, end) = match scan(&mut file).map_err(refuse)? {
            Scan::Whole => return Ok(()),
            Scan::Foreign { at } => return Err(OpenError::LogFormat { path, at }),
            // Behind a commit that failed there may be any number of others: all of them failed too.
            Scan::Torn { whole, end } if trusted && !self.lazy && end - whole > self.record_bytes_max => {
                return Err(OpenError::LogTail { path, whole, bytes: end - whole, record_max: self.record_bytes_max });
            }
            Scan::Torn { whole, end } => (whole, end),
            Scan::Damaged { whole, next, unwritten } if trusted && !self.lazy && !unwritten => {
                return Err(OpenError::Log { path, whole, next });
            }
            Scan::Damaged { whole, .. } => (whole, file.metadata().map_err(refuse)?.len()),
        };
        let kept = cut(&mut file, &path, whole, end).map_err(refuse)?;
        let lost = if self.lazy {
            "store.url has no sync=every, so it may have been acknowledged"
        } else {
            "nobody was told that it was committed"
        };
        tracing::warn!(
            bytes = end - whole,
            kept = kept.map(|path| path.display().to_string()),
            "cut off the log {} what had been left unfinished; {lost}",
            path.display()
        );
        Ok(())
    }
}

// A trait with one implementor, because the database calls back into the crate above its own: this one knows how the log is
// mended and what is told of that, and changes without the crate that compiles SurrealDB.
impl LogKeeper for LogFolder {
    fn directory(&self) -> &Path {
        &self.directory
    }

    fn distrust(&self) {
        match fs::remove_file(self.directory.join(MARK)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => {
                // With the mark still there, or back after a power loss, damage in the middle is refused at the next start.
                if let Err(error) = removed.and_then(|()| sync_folder(&self.directory)) {
                    tracing::warn!(%error, "{MARK} could not be removed");
                }
            }
        }
    }

    fn repair(&self) -> Result<(), Fault> {
        LogFolder::repair(self).map_err(fault)
    }

    fn trusted(&self) -> Result<bool, Fault> {
        LogFolder::trusted(self).map_err(fault)
    }

    fn trust(&self) -> Result<(), Fault> {
        LogFolder::trust(self).map_err(fault)
    }
}

fn fault(error: OpenError) -> Fault {
    match error {
        OpenError::Directory { .. } => Fault::DiskFull(error.to_string()),
        error => Fault::Unavailable(error.to_string()),
    }
}

/// Makes what was made, renamed or removed in a folder durable.
pub(crate) fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

/// Segments of the log, the newest last: names are numbers of twenty digits.
fn segments(folder: &Path) -> Result<Vec<PathBuf>, OpenError> {
    let refuse = |error: io::Error| OpenError::Directory { dir: folder.to_owned(), cause: error.to_string() };
    let mut found = files(folder).map_err(refuse)?;
    found.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    found.sort();
    Ok(found)
}

fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.map(|entry| entry.map(|entry| entry.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Moves what lies from `whole` to `end` into a file beside the log, and cuts the log off at `whole`.
fn cut(log: &mut File, path: &Path, whole: u64, end: u64) -> io::Result<Option<PathBuf>> {
    let mut kept = None;
    if end > whole {
        let millis = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        let beside = path.with_extension(format!("{CUT}{millis}"));
        if let Err(error) = copied(log, &beside, whole, end) {
            // A part of it helps nobody, and takes the room that is missing.
            let _ = fs::remove_file(&beside);
            return Err(error);
        }
        if let Some(folder) = path.parent() {
            forget_old_cuts(folder)?;
            sync_folder(folder)?;
        }
        kept = Some(beside);
    }
    log.set_len(whole)?;
    log.sync_all()?;
    Ok(kept)
}

fn copied(log: &mut File, beside: &Path, whole: u64, end: u64) -> io::Result<()> {
    let mut copy = File::create(beside)?;
    log.seek(SeekFrom::Start(whole))?;
    io::copy(&mut log.by_ref().take(end - whole), &mut copy)?;
    copy.sync_all()
}

fn forget_old_cuts(folder: &Path) -> io::Result<()> {
    let mut cuts = files(folder)?;
    let time = |path: &PathBuf| path.extension()?.to_str()?.strip_prefix(CUT)?.parse::<u64>().ok();
    cuts.retain(|path| time(path).is_some());
    cuts.sort_by_key(|path| std::cmp::Reverse(time(path)));
    cuts.iter().skip(CUTS_KEPT).try_for_each(fs::remove_file)
}
