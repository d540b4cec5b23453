//! A data folder made of a backup, and of earlier ones that it refers to, while no host runs.
//!
//! The folder has a mark while it is made. Renaming the mark is the last step: a folder that has the first mark isn't opened, and may be
//! made anew; one that has the second is whole, and the store that opens it begins a new incarnation.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use thiserror::Error;
use waybill_core::code::Code;
use waybill_core::port::backup::HeldFile;

use super::archive::{ArchiveError, FOLDERS, Sink, hex, read};
use crate::config::OpenError;
use crate::lock::{DirectoryLock, LOCK_FILE};
use crate::private;
use crate::wal::sync_folder;

/// There while the folder is made.
const UNFINISHED: &str = "waybill.restoring";
/// There from then on until a store has opened it.
const RESTORED: &str = "waybill.restored";
/// The root of a file system has it.
const LOST_AND_FOUND: &str = "lost+found";

/// Why nothing was restored.
#[derive(Debug, Error)]
pub enum RestoreError {
    #[error("{} isn't empty ({found:?} is in it), and nothing is overwritten: name a new folder", .dir.display())]
    Used {
        dir: PathBuf,
        /// A name in it.
        found: String,
    },
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("backup {number} of those that were given can't be read: {cause}")]
    Unreadable {
        /// 1 is the backup itself, then the earlier ones in order.
        number: usize,
        cause: ArchiveError,
    },
    #[error("{count} files lie in an earlier backup that wasn't given, {example} among them: give it as well")]
    Missing { count: usize, example: String },
    #[error("{name} was written and reads otherwise now: is the disk well?")]
    Changed { name: String },
    #[error("the data folder can't be written: {0}")]
    Io(#[from] io::Error),
}

impl RestoreError {
    pub fn code(&self) -> Code {
        match self {
            Self::Used { .. } | Self::Io(_) => Code::STORAGE_DIRECTORY,
            Self::Open(error) => error.code(),
            Self::Unreadable { .. } | Self::Missing { .. } => Code::STORAGE_BACKUP_UNREADABLE,
            Self::Changed { .. } => Code::STORAGE_CORRUPT,
        }
    }
}

/// What was restored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub files: u64,
    pub bytes: u64,
}

/// Makes a data folder of a backup. Files that it only names are taken from the earlier ones. With `verify` all of them are read again from the
/// folder.
pub fn restore(
    backup: impl Read,
    earlier: Vec<Box<dyn Read>>,
    dir: &Path,
    verify: bool,
) -> Result<Restored, RestoreError> {
    refuse_used(dir)?;
    let _lock = DirectoryLock::take(dir)?;
    refuse_used(dir)?;
    begin(dir)?;
    let mut into = Filling { dir, wanted: Wanted::All, file: None, done: Vec::new(), missing: HashMap::new() };
    read(backup, &mut into).map_err(|cause| RestoreError::Unreadable { number: 1, cause })?;
    for (place, backup) in earlier.into_iter().enumerate() {
        into.wanted = Wanted::Missing;
        read(backup, &mut into).map_err(|cause| RestoreError::Unreadable { number: place + 2, cause })?;
    }
    let Filling { done, missing, .. } = into;
    if let Some(example) = missing.keys().min() {
        return Err(RestoreError::Missing { count: missing.len(), example: example.clone() });
    }
    if verify {
        for file in &done {
            check(dir, file)?;
        }
    }
    for folder in FOLDERS {
        sync_folder(&dir.join(folder))?;
    }
    sync_folder(dir)?;
    fs::rename(dir.join(UNFINISHED), dir.join(RESTORED))?;
    sync_folder(dir)?;
    Ok(Restored { files: done.len() as u64, bytes: done.iter().map(|file| file.bytes).sum() })
}

/// The files that a backup holds or refers to: what another one may leave out.
pub fn held_files(backup: impl Read) -> Result<Vec<HeldFile>, ArchiveError> {
    let mut held = Held(Vec::new());
    read(backup, &mut held)?;
    Ok(held.0)
}

/// Whether a restore of this folder was cut off.
pub fn is_unfinished(dir: &Path) -> io::Result<bool> {
    fs::exists(dir.join(UNFINISHED))
}

/// The mark of a restored folder that no store has opened yet.
pub fn restored_mark(dir: &Path) -> io::Result<Option<PathBuf>> {
    let mark = dir.join(RESTORED);
    Ok(fs::exists(&mark)?.then_some(mark))
}

/// A folder that is there has to be empty, or left by a restore that was cut off.
fn refuse_used(dir: &Path) -> Result<(), RestoreError> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    if is_unfinished(dir)? {
        return Ok(());
    }
    for entry in entries {
        let name = entry?.file_name();
        if name != LOCK_FILE && name != LOST_AND_FOUND {
            return Err(RestoreError::Used { dir: dir.to_owned(), found: name.to_string_lossy().into_owned() });
        }
    }
    Ok(())
}

/// Marks the folder, and removes what a restore that was cut off left.
fn begin(dir: &Path) -> io::Result<()> {
    File::create(dir.join(UNFINISHED))?.sync_all()?;
    sync_folder(dir)?;
    for folder in FOLDERS {
        let folder = dir.join(folder);
        if fs::exists(&folder)? {
            fs::remove_dir_all(&folder)?;
        }
        private::make(&folder)?;
    }
    Ok(())
}

/// Reads a file again.
fn check(dir: &Path, file: &HeldFile) -> Result<(), RestoreError> {
    let mut sum = Sha256::new();
    let bytes = io::copy(&mut File::open(dir.join(&file.name))?, &mut sum)?;
    if bytes != file.bytes || hex(&sum.finalize()) != file.sha256 {
        return Err(RestoreError::Changed { name: file.name.clone() });
    }
    Ok(())
}

/// Which files of a backup are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    All,
    /// Those that a later one refers to.
    Missing,
}

/// Writes files into a folder.
struct Filling<'d> {
    dir: &'d Path,
    wanted: Wanted,
    /// The one that is being written; none = it isn't wanted.
    file: Option<File>,
    done: Vec<HeldFile>,
    /// Files that earlier backups hold, by name.
    missing: HashMap<String, HeldFile>,
}

impl Sink for Filling<'_> {
    fn begin(&mut self, name: &str, bytes: u64) -> io::Result<()> {
        let is_wanted =
            self.wanted == Wanted::All || self.missing.get(name).is_some_and(|missing| missing.bytes == bytes);
        self.file = if is_wanted { Some(create(&self.dir.join(name))?) } else { None };
        Ok(())
    }

    fn data(&mut self, piece: &[u8]) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), |file| file.write_all(piece))
    }

    fn end(&mut self, file: HeldFile) -> io::Result<()> {
        let Some(written) = self.file.take() else { return Ok(()) };
        written.sync_all()?;
        if self.wanted == Wanted::Missing {
            if self.missing.get(&file.name) != Some(&file) {
                // Another file of the same name and size.
                return fs::remove_file(self.dir.join(&file.name));
            }
            self.missing.remove(&file.name);
        }
        self.done.push(file);
        Ok(())
    }

    fn earlier(&mut self, file: HeldFile) -> io::Result<()> {
        if self.wanted == Wanted::All {
            self.missing.insert(file.name.clone(), file);
        }
        Ok(())
    }
}

/// Makes a file that isn't there, for its owner alone.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Notes which files there are.
struct Held(Vec<HeldFile>);

impl Sink for Held {
    fn begin(&mut self, _: &str, _: u64) -> io::Result<()> {
        Ok(())
    }
    fn data(&mut self, _: &[u8]) -> io::Result<()> {
        Ok(())
    }
    fn end(&mut self, file: HeldFile) -> io::Result<()> {
        self.0.push(file);
        Ok(())
    }
    fn earlier(&mut self, file: HeldFile) -> io::Result<()> {
        self.0.push(file);
        Ok(())
    }
}
