//! The data directory is its owner's alone: payloads, headers with credentials and kept answers lie in it.

use std::fs::{self, DirBuilder};
use std::io;
use std::path::Path;

/// Permissions of the group and of others to do anything.
const OTHERS: u32 = 0o077;

/// Makes a directory and what is missing on the way to it, all of it closed to others.
pub fn make(dir: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// The permissions of a directory into which others than its owner may look; none = they may not, or it isn't there.
pub fn open_to_others(dir: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = fs::metadata(dir).ok()?.permissions().mode() & 0o7777;
        (mode & OTHERS != 0).then_some(mode)
    }
    #[cfg(not(unix))]
    {
        let _ = (dir, OTHERS);
        None
    }
}

/// Closes a directory that an earlier version or somebody else made, and says so in the log. One that can't be closed is used
/// as it is: it may be another user's on purpose.
pub fn close(dir: &Path) {
    let Some(mode) = open_to_others(dir) else { return };
    match without_others(dir, mode) {
        Ok(()) => tell_closed(dir, mode),
        Err(cause) => {
            let (folder, mode) = (dir.display(), format!("{mode:04o}"));
            tracing::warn!(%folder, mode, %cause, "others on this machine may look into the data directory: have its owner run chmod 700 on it");
        }
    }
}

/// The same for a folder of the host whose content is believed before the store takes the lock: one that can't be closed is passed
/// over, and nothing is said of it here.
pub fn close_ahead(dir: &Path) {
    if let Some(mode) = open_to_others(dir)
        && without_others(dir, mode).is_ok()
    {
        tell_closed(dir, mode);
    }
}

fn tell_closed(dir: &Path, mode: u32) {
    let (folder, before) = (dir.display(), format!("{mode:04o}"));
    tracing::warn!(%folder, before, "a folder of the host was open to others on this machine: now it is its owner's alone");
}

#[cfg(unix)]
fn without_others(dir: &Path, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(dir, fs::Permissions::from_mode(mode & !OTHERS))
}

#[cfg(not(unix))]
fn without_others(_: &Path, _: u32) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, unix))]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(dir: &Path) -> u32 {
        fs::metadata(dir).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn what_is_made_is_closed_and_what_was_open_is_closed_too() {
        let top = tempfile::tempdir().unwrap();
        let (way, dir) = (top.path().join("a"), top.path().join("a/b"));
        make(&dir).unwrap();
        assert_eq!((mode(&way), mode(&dir)), (0o700, 0o700));
        assert_eq!(open_to_others(&dir), None);
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o2755)).unwrap();
        assert_eq!(open_to_others(&dir), Some(0o2755));
        close(&dir);
        assert_eq!((mode(&dir), open_to_others(&dir)), (0o2700, None));
        make(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o775)).unwrap();
        close_ahead(&dir);
        assert_eq!(mode(&dir), 0o700);
        close_ahead(&dir.join("missing"));
        assert!(!dir.join("missing").exists());
    }
}
