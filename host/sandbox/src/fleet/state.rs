//! What survives a restart: digests that were rolled back, and each transport's last good component.
//!
//! ```text
//! <folder>/<transport>.json     bad digests, and which component is the last good one
//! <folder>/<sha-256 hex>.wasm   last good components that aren't bundled
//! ```
//! Bounds: a file and a component a transport, [`crate::slot::BAD_MAX`] digests each. Components that no transport names any
//! more are removed. What is read is checked by its digest and its signature like anything else.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use waybill_core::time::UnixMillis;

use crate::cache::{make_private, private_file, unique};
use crate::error::SandboxError;
use crate::load::LoadedPlugin;
use crate::slot::{BAD_MAX, BadDigest, SlotMemory, Why};
use crate::verify::Fetched;

/// Largest `.json` file read, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Kept {
    #[serde(default)]
    bad: Vec<KeptBad>,
    #[serde(default)]
    good: Option<KeptGood>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptBad {
    digest: String,
    code: String,
    reason: String,
    at: UnixMillis,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct KeptGood {
    digest: String,
    plugin: String,
    version: String,
    signature: Option<String>,
    /// It came with the binary, and isn't kept beside this.
    #[serde(default)]
    bundled: bool,
}

/// The folder. It belongs to the host alone.
#[derive(Debug)]
pub struct StateFolder {
    folder: PathBuf,
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
    /// One writer at a time, and the latest state last.
    writing: Arc<Mutex<()>>,
}

impl StateFolder {
    /// Opens it; makes it if it is missing. A file that can't be read is told to the log and counts as empty.
    pub fn open(folder: PathBuf) -> Result<Self, SandboxError> {
        let failed = |error: std::io::Error| SandboxError::Cache {
            path: folder.display().to_string(),
            cause: error.to_string(),
        };
        make_private(&folder).map_err(failed)?;
        let mut kept = BTreeMap::new();
        for entry in std::fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) =
                path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(".json"))
            else {
                continue;
            };
            match read(&path) {
                Ok(found) => drop(kept.insert(name.to_owned(), found)),
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "what was remembered of a transport's plugins can't be read and is forgotten");
                }
            }
        }
        Ok(Self { folder, kept: Arc::new(Mutex::new(kept)), writing: Arc::default() })
    }

    /// What a digest of a transport did, if it was rolled back.
    pub fn find_bad(&self, transport: &str, digest: &str) -> Option<BadDigest> {
        self.bad(transport).into_iter().find(|bad| bad.digest == digest)
    }

    /// A transport's last good component, if it is there, or in this binary, and what it was. Blocks.
    pub fn read_good(&self, transport: &str, bundled: &[&'static [u8]]) -> Option<Fetched> {
        let good = self.kept.lock().get(transport)?.good.clone()?;
        if good.bundled {
            let mut bundled = bundled.iter().map(|component| Fetched::bundled(component));
            return bundled.find(|component| component.digest() == good.digest);
        }
        let bytes = std::fs::read(self.component(&good.digest)?).ok()?;
        let fetched = Fetched::new(bytes, good.signature);
        (fetched.digest() == good.digest).then_some(fetched)
    }

    fn component(&self, digest: &str) -> Option<PathBuf> {
        let hex = digest.strip_prefix("sha256:")?;
        let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hex.then(|| self.folder.join(format!("{hex}.wasm")))
    }

    fn change(&self, transport: &str, component: Option<Fetched>, change: impl FnOnce(&mut Kept)) {
        change(self.kept.lock().entry(transport.to_owned()).or_default());
        let this =
            Self { folder: self.folder.clone(), kept: Arc::clone(&self.kept), writing: Arc::clone(&self.writing) };
        let transport = transport.to_owned();
        let write = move || {
            if let Err(error) = this.write(&transport, component.as_ref()) {
                tracing::warn!(%transport, folder = %this.folder.display(), %error, "what is to be remembered of a transport's plugins couldn't be written");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }

    fn write(&self, transport: &str, component: Option<&Fetched>) -> std::io::Result<()> {
        let _one = self.writing.lock();
        if let Some(component) = component
            && let Some(path) = self.component(component.digest())
            && !path.exists()
        {
            write_whole(&path, component.bytes())?;
        }
        let kept = self.kept.lock().get(transport).cloned().unwrap_or_default();
        let text = serde_json::to_vec_pretty(&kept).map_err(std::io::Error::other)?;
        write_whole(&self.folder.join(format!("{transport}.json")), &text)?;
        self.sweep()
    }

    /// Removes components that nobody names.
    fn sweep(&self) -> std::io::Result<()> {
        let named: Vec<PathBuf> = {
            let kept = self.kept.lock();
            kept.values().filter_map(|kept| self.component(&kept.good.as_ref()?.digest)).collect()
        };
        for entry in std::fs::read_dir(&self.folder)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") && !named.contains(&path) {
                std::fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl SlotMemory for StateFolder {
    fn bad(&self, transport: &str) -> Vec<BadDigest> {
        let kept = self.kept.lock();
        let bad = kept.get(transport).map(|kept| kept.bad.as_slice()).unwrap_or_default();
        let of =
            |bad: &KeptBad| BadDigest { digest: bad.digest.clone(), why: Why::new(&bad.code, &bad.reason), at: bad.at };
        bad.iter().map(of).collect()
    }

    fn now_bad(&self, transport: &str, bad: &BadDigest) {
        let (code, reason) = (bad.why.code.clone(), bad.why.reason.clone());
        let new = KeptBad { digest: bad.digest.clone(), code, reason, at: bad.at };
        self.change(transport, None, |kept| {
            kept.bad.retain(|bad| bad.digest != new.digest);
            kept.bad.push(new);
            let over = kept.bad.len().saturating_sub(BAD_MAX);
            kept.bad.drain(..over);
        });
    }

    fn bad_no_more(&self, transport: &str, digest: &str) {
        self.change(transport, None, |kept| kept.bad.retain(|bad| bad.digest != digest));
    }

    fn good(&self, transport: &str, plugin: &LoadedPlugin) {
        let component = plugin.component();
        let good = KeptGood {
            digest: component.digest().to_owned(),
            plugin: plugin.manifest().name.clone(),
            version: plugin.manifest().version.clone(),
            signature: component.signature().map(str::to_owned),
            bundled: component.is_bundled(),
        };
        let to_keep = (!good.bundled).then(|| component.clone());
        self.change(transport, to_keep, |kept| kept.good = Some(good));
    }
}

fn read(path: &Path) -> std::io::Result<Kept> {
    if std::fs::metadata(path)?.len() > FILE_BYTES_MAX {
        return Err(std::io::Error::other("it is larger than anything written here"));
    }
    serde_json::from_slice(&std::fs::read(path)?).map_err(std::io::Error::other)
}

/// Writes a file so that a reader, or a crash, sees all of it or what was there before.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    let temporary = folder.join(format!(".{}-{:x}", std::process::id(), unique()));
    let written = (|| {
        let mut file = private_file(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    })();
    if written.is_err() {
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
