//! The write-ahead log of a database on disk, as far as its folder shows: which segments there are, and how large they are.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of segments, named by ascending numbers.
pub(super) struct Log {
    folder: PathBuf,
    /// Every commit that saw a segment below this one as its newest is in tables.
    safe: AtomicU64,
}

impl Log {
    /// Of a `surrealkv://` URL; none for any other.
    pub(super) fn of_url(url: &str) -> Option<Self> {
        let path = url.strip_prefix("surrealkv://")?;
        let path = path.split_once('?').map_or(path, |(path, _)| path);
        Some(Self { folder: PathBuf::from(path).join("wal"), safe: AtomicU64::new(0) })
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
