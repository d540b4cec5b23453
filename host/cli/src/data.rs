//! The folder of an embedded store, looked at before anything is put there.

use std::path::Path;

use crate::config::{Config, StoreKind};
use crate::exit::{CliError, Exit};

/// What to do about a folder that can't be used.
const FIX: &str = "choose another folder with --data or store.url";

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

/// Whether a configuration's data folder can be used, if it has one.
pub fn check(config: &Config) -> Result<(), CliError> {
    let StoreKind::Disk(folder) = &config.store.kind else { return Ok(()) };
    usable(folder).map_err(|cause| CliError::Host {
        code: "STORAGE.DIRECTORY",
        what: format!("the data folder {} can't be used: {cause}", folder.display()),
        exit: Exit::Failed,
    })
}
