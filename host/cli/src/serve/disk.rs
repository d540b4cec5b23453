//! The disk of an embedded store, for the alert of a full one.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waybill_core::port::disk::Disk;

use crate::config::{Config, StoreKind};
use crate::data;

/// Name of the reserve's file in the folder of the store.
const RESERVE_FILE: &str = "alert.reserve";
/// It is written in blocks of so many bytes.
const BLOCK_BYTES: usize = 1 << 20;
/// Blocks of the reserve: far more than the commits that an alert takes.
const BLOCKS: u64 = 16;

/// The disk on which a folder lies.
struct StoreDisk {
    folder: PathBuf,
}

/// That of the store; none = it lies on another machine, or in memory.
pub fn of_store(config: &Config) -> Option<Arc<dyn Disk>> {
    match &config.store.kind {
        StoreKind::Disk(folder) => Some(Arc::new(StoreDisk::new(folder))),
        StoreKind::Memory | StoreKind::Server => None,
    }
}

impl StoreDisk {
    fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    fn reserve(&self) -> PathBuf {
        self.folder.join(RESERVE_FILE)
    }
}

impl Disk for StoreDisk {
    fn free_bytes(&self) -> io::Result<u64> {
        data::free_bytes(&self.folder)
    }

    fn keep_reserve(&self) -> io::Result<()> {
        let file = self.reserve();
        if fs::metadata(&file).is_ok_and(|found| found.len() == BLOCKS * BLOCK_BYTES as u64) {
            return Ok(());
        }
        write_blocks(&file).inspect_err(|_| {
            // Half a reserve is given back; the next round tries again.
            let _gone = fs::remove_file(&file);
        })
    }

    fn give_reserve(&self) -> io::Result<()> {
        match fs::remove_file(self.reserve()) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }
}

/// Written rather than made long: a file with holes in it keeps nothing back.
fn write_blocks(path: &Path) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    let block = vec![0_u8; BLOCK_BYTES];
    for _ in 0..BLOCKS {
        file.write_all(&block)?;
    }
    file.sync_all()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn the_reserve_is_kept_once_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        let disk = StoreDisk::new(folder.path());
        let length = || fs::metadata(folder.path().join(RESERVE_FILE)).map(|found| found.len()).ok();
        disk.give_reserve().unwrap();
        for _ in 0..2 {
            disk.keep_reserve().unwrap();
            assert_eq!(length(), Some(16 << 20));
        }
        fs::write(folder.path().join(RESERVE_FILE), "half").unwrap();
        disk.keep_reserve().unwrap();
        assert_eq!(length(), Some(16 << 20));
        disk.give_reserve().unwrap();
        assert_eq!(length(), None);
        assert!(disk.free_bytes().unwrap() > 0);
    }
}
