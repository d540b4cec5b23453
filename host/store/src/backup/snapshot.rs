//! The files of a closed database, held by hard links while a backup is made of them.
//!
//! SurrealKV (0.21.4) never changes a table and puts a new file in the manifest's place, so a link keeps what it named. Its log is
//! appended to: but of a database that was closed with all of it in tables the segments are empty, and only their names count, because
//! the manifest has the number of the next one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use tokio::sync::OwnedMutexGuard;

use super::archive::FOLDERS;
use crate::private;

/// Folder of snapshots in the data folder. What a process that ended left there is removed at the next start.
const FOLDER: &str = "waybill.snapshots";
/// Folder of the log, whose segments are empty.
const LOG: &str = "wal";
/// Folders of data that changes in place: a store has them from an earlier build, or by its URL.
const UNLINKED: [&str; 2] = ["vlog", "versioned_index"];

/// Files of one instant, until it is dropped.
pub struct Snapshot {
    folder: PathBuf,
    /// Folder and name of each, and its size.
    files: Vec<(String, u64)>,
    /// Only one backup is under way.
    _alone: OwnedMutexGuard<()>,
}

impl Snapshot {
    /// Of a database that nothing has open, whose log is empty.
    pub fn take(data: &Path, alone: OwnedMutexGuard<()>) -> io::Result<Self> {
        for folder in UNLINKED {
            if !files_of(&data.join(folder))?.is_empty() {
                let cause = format!(
                    "{folder} holds files, which change in place: such a store is backed up by a copy of its folder while no host runs"
                );
                return Err(io::Error::new(io::ErrorKind::Unsupported, cause));
            }
        }
        clear(data)?;
        let folder = data.join(FOLDER);
        private::make(&folder)?;
        // From here on it is removed whatever happens.
        let mut snapshot = Self { folder, files: Vec::new(), _alone: alone };
        for folder in FOLDERS {
            snapshot.link(data, folder)?;
        }
        Ok(snapshot)
    }

    fn link(&mut self, data: &Path, folder: &str) -> io::Result<()> {
        let to = self.folder.join(folder);
        private::make(&to)?;
        for name in files_of(&data.join(folder))? {
            let from = data.join(folder).join(&name);
            let bytes = if folder == LOG {
                if !name.ends_with(".wal") {
                    // What was cut off of a log, kept for people.
                    continue;
                }
                0
            } else {
                fs::hard_link(&from, to.join(&name))?;
                from.metadata()?.len()
            };
            self.files.push((format!("{folder}/{name}"), bytes));
        }
        Ok(())
    }

    /// Each with its size.
    pub fn files(&self) -> impl Iterator<Item = (&str, u64)> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// Opens one; none = it is empty.
    pub fn open(&self, name: &str, bytes: u64) -> io::Result<Option<fs::File>> {
        if bytes == 0 { Ok(None) } else { fs::File::open(self.folder.join(name)).map(Some) }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.folder) {
            // The next backup or start tries again; until then it takes room.
            tracing::warn!(folder = %self.folder.display(), %error, "the links of a backup could not be removed");
        }
    }
}

/// Removes what an earlier process or a failed removal left. Nothing makes a backup.
pub fn clear(data: &Path) -> io::Result<()> {
    match fs::remove_dir_all(data.join(FOLDER)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// Names of the files in a folder but for hidden ones, which SurrealKV leaves when it is killed; of one that isn't there, none.
fn files_of(folder: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| {
            io::Error::other(format!("{} holds {name:?}, which is no file of a store", folder.display()))
        })?;
        if entry.file_type()?.is_file() && !name.starts_with('.') {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}
