//! A folder that is laid out as it will be installed.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// Mode of programs and folders.
pub const EXECUTABLE: u32 = 0o755;
/// Mode of all other files.
pub const PLAIN: u32 = 0o644;

/// A folder of this name with nothing in it, whatever an earlier run left.
pub fn empty(place: &Path, name: &str) -> Result<PathBuf> {
    let folder = place.join(name);
    if folder.exists() {
        std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    }
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    Ok(folder)
}

/// The folder at a path below the root, made with all above it.
pub fn folder(root: &Path, path: &str) -> Result<PathBuf> {
    let folder = root.join(path);
    std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    // Whatever this machine's umask is, everybody may read what is installed.
    for part in folder.ancestors().take_while(|part| part.starts_with(root)) {
        set_mode(part, EXECUTABLE)?;
    }
    Ok(folder)
}

/// Writes a file at a path below the root, with the folders above it.
pub fn put(root: &Path, path: &str, bytes: &[u8], mode: u32) -> Result<()> {
    let (parent, name) = path.rsplit_once('/').context("a path without a folder")?;
    let file = folder(root, parent)?.join(name);
    std::fs::write(&file, bytes).with_context(|| format!("writing {}", file.display()))?;
    set_mode(&file, mode)
}

/// Gives a file or folder exactly these permissions.
pub fn set_mode(path: &Path, mode: u32) -> Result<()> {
    std::fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("giving {} its mode", path.display()))
}

/// What is directly in a folder, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Bytes of all files below.
pub fn size(folder: &Path) -> Result<u64> {
    let mut bytes = 0;
    for path in files(folder)? {
        let metadata = std::fs::metadata(&path).with_context(|| format!("looking at {}", path.display()))?;
        bytes += if metadata.is_dir() { size(&path)? } else { metadata.len() };
    }
    Ok(bytes)
}
