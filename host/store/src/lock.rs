//! The lock on a data directory, which names its holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::time::UnixMillis;

use crate::config::OpenError;

/// Name of the lock file in the directory.
const LOCK_FILE: &str = "waybill.lock";

/// Holds the directory as long as it lives. The operating system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Makes the directory if need be and takes it.
    pub fn take(dir: &Path) -> Result<Self, OpenError> {
        let refuse = |error: std::io::Error| OpenError::Directory { dir: dir.to_owned(), cause: error.to_string() };
        fs::create_dir_all(dir).map_err(refuse)?;
        let path = dir.join(LOCK_FILE);
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path).map_err(refuse)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(refuse)?;
                let holder = match holder.trim() {
                    "" => "another process".to_owned(),
                    holder => holder.to_owned(),
                };
                return Err(OpenError::Locked { dir: dir.to_owned(), holder });
            }
            Err(TryLockError::Error(error)) => return Err(refuse(error)),
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let started = UnixMillis(u64::try_from(now.as_millis()).unwrap_or(u64::MAX));
        let holder = format!("process {} on {}, started {started}", std::process::id(), host_name());
        file.set_len(0).map_err(refuse)?;
        file.seek(SeekFrom::Start(0)).map_err(refuse)?;
        writeln!(file, "{holder}").map_err(refuse)?;
        Ok(Self { _file: file })
    }
}

fn host_name() -> String {
    let name = fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| fs::read_to_string("/etc/hostname"));
    name.map_or_else(|_| "this machine".to_owned(), |name| name.trim().to_owned())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_taken_directory_names_its_holder_and_is_free_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let held = DirectoryLock::take(dir.path()).unwrap();
        let error = DirectoryLock::take(dir.path()).unwrap_err();
        assert_eq!(error.code(), "STORAGE.LOCKED");
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        DirectoryLock::take(dir.path()).unwrap();
    }
}
