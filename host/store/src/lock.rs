//! The lock on a data directory, which names its holder.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use waybill_core::time::UnixMillis;

use crate::config::OpenError;
use crate::private;
use crate::wal::sync_folder;

/// Name of the lock file in the directory.
pub const LOCK_FILE: &str = "waybill.lock";

/// Holds the directory as long as it lives. The operating system lets go of it when the process ends, however it ends.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Makes the directory if need be and takes it. Others have no business in it: one that is open to them is closed.
    pub fn take(dir: &Path) -> Result<Self, OpenError> {
        let refuse = |error: std::io::Error| OpenError::Directory { dir: dir.to_owned(), cause: error.to_string() };
        create(dir).map_err(refuse)?;
        let path = dir.join(LOCK_FILE);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(path).map_err(refuse)?;
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
        private::close(dir);
        Ok(Self { _file: file })
    }
}

/// Makes the directory with what is missing above it, so that a power loss takes none of them back.
fn create(dir: &Path) -> std::io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|folder| !folder.exists()).collect();
    private::make(dir)?;
    missing.iter().filter_map(|folder| folder.parent()).try_for_each(|parent| {
        // The parent of a relative name is the working directory.
        sync_folder(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })
    })
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
        assert_eq!(error.code().as_str(), "STORAGE.LOCKED");
        assert!(error.to_string().contains(&format!("process {}", std::process::id())), "{error}");
        drop(held);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
            let _held = DirectoryLock::take(dir.path()).unwrap();
            let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
            assert_eq!((mode(dir.path()), mode(&dir.path().join(LOCK_FILE))), (0o700, 0o600));
        }
        DirectoryLock::take(dir.path()).unwrap();
    }
}
