//! Where a component comes from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use waybill_api::plugins::RefusedFile;
use waybill_core::code::Code;

use super::Fleet;
use crate::error::SandboxError;
use crate::load::inspect;
use crate::verify::{Fetched, Trust, signature_path, verify};

/// Files of the plugins folder that are looked at.
const FOLDER_FILES_MAX: usize = 256;

/// Where a component comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComponentSource {
    Bundled {
        name: String,
        component: &'static [u8],
    },
    /// A file; its signature may lie beside it.
    File(PathBuf),
}

impl ComponentSource {
    /// In words: `bundled:NAME` or the path from the root, which means the same to who reads it elsewhere.
    pub fn words(&self) -> String {
        match self {
            Self::Bundled { name, .. } => format!("bundled:{name}"),
            Self::File(path) => std::path::absolute(path).as_ref().unwrap_or(path).display().to_string(),
        }
    }

    /// Its file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Bundled { .. } => None,
        }
    }

    /// Reads it, once. Blocks.
    pub fn fetch(&self) -> Result<Fetched, SandboxError> {
        match self {
            Self::Bundled { component, .. } => Ok(Fetched::bundled(component)),
            Self::File(path) => Fetched::read(path),
        }
    }
}

impl Fleet {
    /// What lies in the plugins folder and can't be used. It stops nothing: only what a transport names is loaded.
    pub(super) async fn refused_files(&self) -> Vec<RefusedFile> {
        let Some(folder) = self.0.folder.read().clone() else { return Vec::new() };
        let trust = self.0.trust.read().clone();
        let fleet = self.clone();
        let looking = move || look_through(&folder, &trust, &mut fleet.0.looked.lock());
        tokio::task::spawn_blocking(looking).await.unwrap_or_default()
    }
}

/// What was found in the plugins folder, by file: nothing is read and verified again before it changes.
pub(super) type Looked = BTreeMap<PathBuf, (Stamp, Option<RefusedFile>)>;

/// Tells that a component or its signature was changed: their sizes and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp([Option<(u64, SystemTime)>; 2]);

impl Stamp {
    fn of(path: &Path) -> Self {
        let one = |path: &Path| {
            let metadata = std::fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()?))
        };
        Self([one(path), one(&signature_path(path))])
    }
}

fn look_through(folder: &Path, trust: &Trust, looked: &mut Looked) -> Vec<RefusedFile> {
    let whole = |error: &std::io::Error| RefusedFile {
        file: ".".to_owned(),
        code: Code::PLUGIN_READ.into(),
        reason: format!("can't list {}: {error}", folder.display()),
    };
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => return vec![whole(&error)],
    };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| !is_beside(path)).collect();
    paths.sort();
    paths.truncate(FOLDER_FILES_MAX);
    looked.retain(|path, _| paths.binary_search(path).is_ok());
    for path in paths {
        let stamp = Stamp::of(&path);
        if looked.get(&path).is_none_or(|(before, _)| *before != stamp) {
            let judged = judge(&path, trust);
            looked.insert(path, (stamp, judged));
        }
    }
    looked.values().filter_map(|(_, refused)| refused.clone()).collect()
}

/// What belongs to a component, or is being written.
fn is_beside(path: &Path) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.starts_with('.') || name.ends_with(".sig")
}

fn judge(path: &Path, trust: &Trust) -> Option<RefusedFile> {
    let file = path.file_name()?.to_string_lossy().into_owned();
    let refused = |code: Code, reason: String| Some(RefusedFile { file: file.clone(), code: code.into(), reason });
    if path.extension().is_none_or(|extension| extension != "wasm") {
        let reason = "its name doesn't end in .wasm: it is left alone".to_owned();
        return refused(Code::PLUGIN_NOT_A_COMPONENT, reason);
    }
    let fetched = match Fetched::read(path) {
        Ok(fetched) => fetched,
        Err(error) => return refused(error.code(), error.to_string()),
    };
    if let Err(error) = verify(&fetched, trust, None) {
        return refused(error.code(), error.to_string());
    }
    match inspect(fetched.bytes()) {
        Ok(_) => None,
        Err(error) => refused(error.code(), error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn junk_is_named_with_a_code_and_stops_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).unwrap();
        write("notes.txt", b"hello");
        write("core.wasm", b"\0asm\x01\0\0\0");
        write("text.wasm", b"not wasm");
        write(".hidden.wasm", b"being written");
        write("core.wasm.sig", b"ed25519 a b");
        std::fs::create_dir(folder.path().join("folder.wasm")).unwrap();
        let mut looked = Looked::default();
        let refused = look_through(folder.path(), &Trust::default(), &mut looked);
        let codes: Vec<(&str, &str)> = refused.iter().map(|file| (file.file.as_str(), file.code.as_str())).collect();
        assert_eq!(
            codes,
            [
                ("core.wasm", "PLUGIN.SIGNATURE_BAD"),
                ("folder.wasm", "PLUGIN.READ"),
                ("notes.txt", "PLUGIN.NOT_A_COMPONENT"),
                ("text.wasm", "PLUGIN.NOT_A_COMPONENT"),
            ]
        );
        assert_eq!(look_through(&folder.path().join("none"), &Trust::default(), &mut looked).len(), 1);

        // What changes is looked at again, and what is gone is forgotten.
        assert_eq!(look_through(folder.path(), &Trust::default(), &mut looked), refused);
        write("text.wasm", b"\0asm\x01\0\0\0 and more");
        std::fs::remove_file(folder.path().join("notes.txt")).unwrap();
        let after = look_through(folder.path(), &Trust::default(), &mut looked);
        assert_eq!(after.len(), 3);
        assert_ne!(after.last().unwrap().reason, refused.last().unwrap().reason);
    }
}
