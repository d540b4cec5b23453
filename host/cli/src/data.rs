//! The folder of an embedded store, looked at before anything is put there.

use std::path::{Path, PathBuf};

use waybill_core::code::Code;

use crate::config::{Config, StoreKind, data_folder};
use crate::exit::{CliError, Exit};
use crate::output::format_size;

/// What to do about a folder that can't be used.
const FIX: &str = "choose another folder with --data or store.url";

/// Name of the key's file.
const SEAL_KEY: &str = "seal.key";

/// Free space below which a host soon stops taking messages, in bytes.
pub const FREE_BYTES_MIN: u64 = 256 << 20;

/// Bytes that this user may still write there.
pub fn free_bytes(folder: &Path) -> std::io::Result<u64> {
    let stat = rustix::fs::statvfs(folder)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// The folder, or as much of the way to it as is there.
pub fn there(folder: &Path) -> &Path {
    folder.ancestors().find(|path| path.exists()).unwrap_or(folder)
}

/// Whether the folder can be written, or made. Makes nothing that stays.
pub fn usable(folder: &Path) -> Result<(), String> {
    let there = there(folder);
    if there.is_file() {
        return Err(format!("{} is a file: {FIX}", there.display()));
    }
    let probe = there.join(format!(".waybill-probe-{}", std::process::id()));
    std::fs::write(&probe, b"")
        .and_then(|()| std::fs::remove_file(&probe))
        .map_err(|error| format!("{} can't be written ({error}): check its owner, or {FIX}", there.display()))
}

/// File of the key that seals what the host keeps of plugins: in the folder of an embedded store, else in the platform's data
/// folder. None where there is neither: then it lies in the cache itself.
pub fn seal_key(config: &Config) -> Option<PathBuf> {
    match &config.store.kind {
        StoreKind::Disk(folder) => Some(folder.join(SEAL_KEY)),
        _ => platform_seal_key(),
    }
}

/// Whether a command that isn't the host may use that key, or make it: not where it would leave a folder of its own in the
/// place of the host's.
pub fn seal_is_ours(config: &Config) -> bool {
    match &config.store.kind {
        StoreKind::Disk(folder) => is_this_users(&folder.join(SEAL_KEY)),
        _ => true,
    }
}

/// Whether a file or folder is there and belongs to the user that this process runs as.
#[cfg(unix)]
pub fn is_this_users(file: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata(file).is_ok_and(|file| file.uid() == rustix::process::geteuid().as_raw())
}

#[cfg(not(unix))]
pub fn is_this_users(file: &Path) -> bool {
    file.exists()
}

/// The key of commands that read no configuration.
pub fn platform_seal_key() -> Option<PathBuf> {
    data_folder().map(|folder| folder.join(SEAL_KEY))
}

/// Whether a configuration's data folder can be used, if it has one.
pub fn check(config: &Config) -> Result<(), CliError> {
    let StoreKind::Disk(folder) = &config.store.kind else { return Ok(()) };
    usable(folder).map_err(|cause| CliError::Host {
        code: Code::STORAGE_DIRECTORY,
        what: format!("the data folder {} can't be used: {cause}", folder.display()),
        exit: Exit::Failed,
    })
}

/// What is wrong with the room for a configuration's data, if it is too little; none also where that isn't known.
pub fn shortage(config: &Config) -> Option<String> {
    let StoreKind::Disk(folder) = &config.store.kind else { return None };
    let folder = there(folder);
    too_little(free_bytes(folder).ok()?, folder)
}

fn too_little(free: u64, folder: &Path) -> Option<String> {
    let (size, least) = (format_size(free >> 20 << 20), format_size(FREE_BYTES_MIN));
    (free < FREE_BYTES_MIN).then(|| {
        format!("{size} free at {}: the host soon stops taking messages; free some, at least {least}", folder.display())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn too_little_room_is_told_with_how_much_is_needed() {
        let told = too_little(24 << 20, Path::new("/data")).unwrap();
        for words in ["24", "/data", "256"] {
            assert!(told.contains(words), "{told}");
        }
        assert_eq!(too_little(FREE_BYTES_MIN, Path::new("/data")), None);
    }
}
