//! Files that hold secrets, and whom the file system lets read them.

use std::path::Path;

use super::reader::{Reader, Section};

/// Permissions of the group and of others to do anything.
const NOT_OWNER: u32 = 0o077;
/// Permission of others to write.
const OTHERS_WRITE: u32 = 0o002;

/// The permissions of a file, if this system has such and the file is there.
fn mode(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(path).ok().map(|found| found.permissions().mode() & 0o7777)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

impl Section<'_, '_> {
    /// Warns of a secret's file that others than its owner may read.
    pub fn warn_if_open(&mut self, key: &str, path: &Path) {
        let key = format!("{}.{key}", self.path);
        self.reader.warn_if_open(&key, path);
    }
}

impl Reader<'_> {
    /// Warns of a file that others than its owner may read; `what` is the setting whose secret it holds.
    pub fn warn_if_open(&mut self, what: &str, path: &Path) {
        let Some(mode) = mode(path).filter(|mode| mode & NOT_OWNER != 0) else { return };
        self.warn(format!(
            "{what}: others on this machine may read {path} (mode {mode:04o}): chmod 600 {path}",
            path = path.display()
        ));
    }

    /// Warns of a configuration that anybody may write: it decides what code the host runs.
    pub fn warn_if_written_by_others(&mut self, path: &Path) {
        let Some(mode) = mode(path).filter(|mode| mode & OTHERS_WRITE != 0) else { return };
        self.warn(format!(
            "everybody on this machine may write {path} (mode {mode:04o}), and so choose what the host runs: chmod 600 {path}",
            path = path.display()
        ));
    }

    fn warn(&mut self, warning: String) {
        if !self.warnings.contains(&warning) {
            self.warnings.push(warning);
        }
    }
}
