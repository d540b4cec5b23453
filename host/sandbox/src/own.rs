//! Folders and files that nobody but this user can have written.
//!
//! What lies in them is believed: machine code, what is remembered of plugins, the key that seals both. A folder has to belong
//! to the user that the host runs as, and nobody else may write to it; every folder above belongs to that user or to root,
//! and others may write to it only where they can't touch what isn't theirs (`/tmp`). Files are opened without following a
//! link, and looked at once they are open.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ring::rand::{SecureRandom, SystemRandom};

use crate::text::hex;

/// Random bytes in the name of a file that is being written.
const TEMPORARY_BYTES: usize = 16;

/// A folder of this user's own, by its path without links.
#[derive(Clone, Debug)]
pub(crate) struct OwnFolder(PathBuf);

impl OwnFolder {
    /// Makes it, for this user alone, if it is missing; says whose it is if it isn't this user's own.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        make_private(path)?;
        let path = fs::canonicalize(path)?;
        let metadata = fs::symlink_metadata(&path)?;
        if !metadata.is_dir() {
            return Err(io::Error::other("it isn't a folder"));
        }
        rights::own(&metadata).map_err(io::Error::other)?;
        for above in path.ancestors().skip(1) {
            let metadata = fs::symlink_metadata(above)?;
            let fine = rights::safe_above(&metadata);
            fine.map_err(|why| io::Error::other(format!("{} above it: {why}", above.display())))?;
        }
        Ok(Self(path))
    }

    /// Path of something in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Names of what is in it.
    pub(crate) fn names(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            names.extend(entry?.file_name().into_string());
        }
        Ok(names)
    }

    /// The bytes of one of its files; none if there is no such file. An error if it isn't a file of this user's own, or is
    /// larger than `bytes_max`.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
        read_checked(&self.path(name), bytes_max, rights::own)
    }

    /// Writes a file of it, synced, so that a reader, or a crash, sees all of it or what was there before.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        write_whole(&self.path(name), &[bytes], true)
    }

    /// The same of several parts and not synced: for what can be told from damage and made again.
    pub(crate) fn write_unsynced(&self, name: &str, parts: &[&[u8]]) -> io::Result<()> {
        write_whole(&self.path(name), parts, false)
    }

    /// Notes that one of its files was used just now, for [`OwnFolder::keep_within`].
    pub(crate) fn used(&self, name: &str) -> io::Result<()> {
        rights::open_unfollowed(&self.path(name))?.set_modified(SystemTime::now())
    }

    /// Removes those of its files, among the ones with such a name, that were used longest ago, until the others have at most `bytes_max`
    /// bytes together. Returns how many went.
    pub(crate) fn keep_within(&self, is_meant: impl Fn(&str) -> bool, bytes_max: u64) -> io::Result<usize> {
        let mut files = Vec::new();
        for name in self.names()?.iter().filter(|name| is_meant(name)) {
            // One that another host has just removed needs no place.
            let Ok(metadata) = fs::symlink_metadata(self.path(name)) else { continue };
            files.push((metadata.modified()?, metadata.len(), self.path(name)));
        }
        files.sort_unstable();
        let mut room = bytes_max;
        let fit =
            files.iter().rev().take_while(|(_, bytes, _)| room.checked_sub(*bytes).map(|left| room = left).is_some());
        let leave = files.len() - fit.count();
        for (_, _, path) in files.iter().take(leave) {
            fs::remove_file(path).or_else(|error| match error.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            })?;
        }
        Ok(leave)
    }

    /// Removes one of its files.
    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }
}

/// The bytes of a file that nobody but this user may read or write, in whatever folder it lies; none if there is no such file. An
/// error if others may, or it is larger than `bytes_max`.
pub(crate) fn read_private(path: &Path, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    read_checked(path, bytes_max, rights::private)
}

fn read_checked(
    path: &Path,
    bytes_max: u64,
    fine: impl FnOnce(&fs::Metadata) -> Result<(), String>,
) -> io::Result<Option<Vec<u8>>> {
    let file = match rights::open_unfollowed(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it isn't a file"));
    }
    fine(&metadata).map_err(io::Error::other)?;
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        return Err(io::Error::other("it is larger than anything written here"));
    }
    Ok(Some(bytes))
}

/// Writes a file, synced, unless there is one of its name; answers whether it did.
pub(crate) fn write_new(path: &Path, bytes: &[u8]) -> io::Result<bool> {
    let temporary = temporary_beside(path)?;
    fill(&temporary, &[bytes], true)?;
    let linked = fs::hard_link(&temporary, path);
    let _ = fs::remove_file(&temporary);
    match linked {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        done => done.map(|()| true),
    }
}

/// Writes a file by another name first, then renames it.
pub(crate) fn write_whole(path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    fill(&temporary, parts, sync)?;
    let renamed = fs::rename(&temporary, path);
    if renamed.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    renamed
}

/// Makes a file and fills it. One that was there already is left alone, with an error.
fn fill(path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
    let mut file = rights::create_private(path)?;
    let written = parts.iter().try_for_each(|part| file.write_all(part));
    let written = written.and_then(|()| if sync { file.sync_all() } else { Ok(()) });
    if written.is_err() {
        let _ = fs::remove_file(path);
    }
    written
}

/// A name in the same folder that no other writer has: hosts in containers of their own may share the folder, and there many
/// processes have the same number.
fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    let mut random = [0_u8; TEMPORARY_BYTES];
    SystemRandom::new().fill(&mut random).map_err(|_| io::Error::other("the system gave no random bytes"))?;
    Ok(path.parent().unwrap_or(Path::new(".")).join(format!(".{}", hex(&random))))
}

/// Makes a folder and what is missing above it, for this user alone. One that is there stays as it is.
#[cfg(unix)]
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(not(unix))]
pub(crate) fn make_private(folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(unix)]
mod rights {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    use std::path::Path;

    use rustix::fs::OFlags;
    use rustix::process::geteuid;

    const BY_GROUP: u32 = 0o020;
    const BY_OTHERS: u32 = 0o002;
    const STICKY: u32 = 0o1000;
    const NOT_THE_OWNER: u32 = 0o077;

    /// It is this user's, and nobody else may write to it.
    pub(super) fn own(metadata: &Metadata) -> Result<(), String> {
        let (user, mode) = (geteuid().as_raw(), metadata.mode());
        if metadata.uid() != user {
            return Err(format!("it belongs to user {}, and the host runs as user {user}", metadata.uid()));
        }
        if mode & (BY_GROUP | BY_OTHERS) != 0 {
            return Err(format!("others may write to it (mode {:o}): chmod go-w", mode & 0o7777));
        }
        Ok(())
    }

    /// It is this user's, and nobody else may read it, write to it or run it.
    pub(super) fn private(metadata: &Metadata) -> Result<(), String> {
        own(metadata)?;
        let mode = metadata.mode();
        if mode & NOT_THE_OWNER != 0 {
            return Err(format!("others may read it (mode {:o}): remove it, and another is made", mode & 0o7777));
        }
        Ok(())
    }

    /// Nobody else can put something in the place of what is in it.
    pub(super) fn safe_above(metadata: &Metadata) -> Result<(), String> {
        let (user, mode) = (geteuid().as_raw(), metadata.mode());
        if metadata.uid() != user && metadata.uid() != 0 {
            return Err(format!("it belongs to user {}, and the host runs as user {user}", metadata.uid()));
        }
        // Where each user has a group of its own, of the same number, folders are often open to that group.
        let by_group = mode & BY_GROUP != 0 && metadata.gid() != user;
        if (by_group || mode & BY_OTHERS != 0) && mode & STICKY == 0 {
            return Err(format!("others may write to it (mode {:o})", mode & 0o7777));
        }
        Ok(())
    }

    pub(super) fn open_unfollowed(path: &Path) -> io::Result<File> {
        // Not blocking: a pipe in the file's place must not hold the host up.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path)
    }

    pub(super) fn create_private(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    }
}

#[cfg(not(unix))]
mod rights {
    use std::fs::{File, Metadata, OpenOptions};
    use std::io;
    use std::path::Path;

    pub(super) fn own(_: &Metadata) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn private(_: &Metadata) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn safe_above(_: &Metadata) -> Result<(), String> {
        Ok(())
    }

    pub(super) fn open_unfollowed(path: &Path) -> io::Result<File> {
        File::open(path)
    }

    pub(super) fn create_private(path: &Path) -> io::Result<File> {
        OpenOptions::new().write(true).create_new(true).open(path)
    }
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn what_it_makes_is_for_this_user_alone() {
        let place = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(&place.path().join("a/b")).unwrap();
        folder.write("file", b"one").unwrap();
        folder.write_unsynced("file", &[b"t", b"wo"]).unwrap();
        assert!(
            !write_new(&folder.path("file"), b"three").unwrap() && write_new(&folder.path("new"), b"four").unwrap()
        );
        assert_eq!(folder.read("file", 3).unwrap().unwrap(), b"two");
        assert!(folder.read("none", 3).unwrap().is_none() && folder.read("file", 2).is_err());
        let rights = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((rights(&place.path().join("a")), rights(&folder.path("."))), (0o700, 0o700));
        assert_eq!((rights(&folder.path("file")), rights(&folder.path("new"))), (0o600, 0o600));
        assert_eq!(folder.names().unwrap().len(), 2, "nothing temporary stays");
        folder.remove("file").unwrap();
    }

    #[test]
    fn beyond_a_bound_what_was_used_longest_ago_goes() {
        let place = tempfile::tempdir().unwrap();
        let folder = OwnFolder::open(place.path()).unwrap();
        let old = SystemTime::now() - std::time::Duration::from_secs(1_000);
        for name in ["a.code", "b.code", "c.code", "key"] {
            folder.write_unsynced(name, &[&[0; 100]]).unwrap();
            rights::open_unfollowed(&folder.path(name)).unwrap().set_modified(old).unwrap();
        }
        folder.used("a.code").unwrap();
        assert_eq!(folder.keep_within(|name| name.ends_with(".code"), 300).unwrap(), 0);
        assert_eq!(folder.keep_within(|name| name.ends_with(".code"), 199).unwrap(), 2);
        let mut names = folder.names().unwrap();
        names.sort();
        assert_eq!(names, ["a.code", "key"]);
    }

    #[test]
    fn what_others_may_write_to_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        let folder = OwnFolder::open(&inner).unwrap();
        mode(&inner, 0o770);
        assert!(OwnFolder::open(&inner).unwrap_err().to_string().contains("770"));
        mode(&inner, 0o700);
        mode(&place.path().join("a"), 0o777);
        let refused = OwnFolder::open(&inner).unwrap_err().to_string();
        assert!(refused.contains("/a above it: others may write"), "{refused}");
        // As in /tmp: who may write to it can't rename what isn't theirs.
        mode(&place.path().join("a"), 0o1777);
        assert!(OwnFolder::open(&inner).is_ok());

        folder.write("file", b"x").unwrap();
        mode(&folder.path("file"), 0o620);
        assert!(folder.read("file", 9).is_err());
        mode(&folder.path("file"), 0o640);
        assert!(folder.read("file", 9).is_ok());
        symlink(folder.path("file"), folder.path("link")).unwrap();
        assert!(folder.read("link", 9).is_err());
        assert!(OwnFolder::open(&folder.path("file")).is_err());
    }

    #[test]
    fn what_another_writer_left_is_in_nobodys_way() {
        let place = tempfile::tempdir().unwrap();
        // As hosts in containers name them, which all are process 1 there: by number of the process and of the file.
        let taken = |number: u32| place.path().join(format!(".{}-{number:x}", std::process::id()));
        (0..4_096).for_each(|number| fs::write(taken(number), b"theirs").unwrap());
        assert!(write_new(&place.path().join("key"), b"mine").unwrap());
        write_whole(&place.path().join("entry"), &[b"mine"], false).unwrap();
        assert_eq!(fs::read(place.path().join("key")).unwrap(), b"mine");
        assert!((0..4_096).all(|number| fs::read(taken(number)).unwrap() == b"theirs"));
        // A file that is there isn't filled, and not removed.
        assert!(fill(&taken(0), &[b"mine"], false).is_err() && taken(0).exists());
    }

    #[test]
    fn a_private_file_is_judged_by_itself() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("key");
        mode(place.path(), 0o2775);
        assert!(read_private(&file, 9).unwrap().is_none());
        assert!(write_new(&file, b"x").unwrap());
        assert_eq!(read_private(&file, 9).unwrap().unwrap(), b"x");
        for open in [0o640, 0o660, 0o604] {
            mode(&file, open);
            let refused = read_private(&file, 9).unwrap_err().to_string();
            assert!(refused.contains(&format!("{open:o}")), "{refused}");
        }
    }

    /// Only root can give files away.
    #[test]
    fn what_belongs_to_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            eprintln!("not checked: not root");
            return;
        }
        let place = tempfile::tempdir().unwrap();
        let inner = place.path().join("a/b");
        let folder = OwnFolder::open(&inner).unwrap();
        folder.write("file", b"x").unwrap();
        let nobody = Some(65_534);
        std::os::unix::fs::chown(folder.path("file"), nobody, None).unwrap();
        assert!(folder.read("file", 9).unwrap_err().to_string().contains("65534"));
        assert!(read_private(&folder.path("file"), 9).unwrap_err().to_string().contains("65534"));
        std::os::unix::fs::chown(place.path().join("a"), nobody, None).unwrap();
        assert!(OwnFolder::open(&inner).unwrap_err().to_string().contains("above it: it belongs to user 65534"));
        std::os::unix::fs::chown(place.path().join("a"), Some(0), None).unwrap();
        std::os::unix::fs::chown(&inner, nobody, None).unwrap();
        let refused = OwnFolder::open(&inner).unwrap_err().to_string();
        assert_eq!(refused, "it belongs to user 65534, and the host runs as user 0");
    }
}
