//! What survives a restart: digests that were rolled back, and each transport's last good component.
//!
//! ```text
//! <folder>/<transport>-<seal>.json     bad digests, and which component is the last good one
//! <folder>/<sha-256 hex>-<seal>.wasm   last good components that aren't bundled
//! ```
//! Hosts with different data folders may share this one, with transports of the same name: each has its files by the name of its own key
//! ([`crate::seal`]), and neither reads nor changes those of another. Bounds: a file and a component a transport,
//! [`crate::slot::BAD_MAX`] digests each; components that no transport names any more are removed. Of what others keep, that which was used
//! longest ago goes beyond a bound: a data folder may be gone for good, as that of a demo is. Every `.json` bears the host's mark: one that
//! the host didn't write counts as empty. Components are checked by the digest it names, and by their signature like anything else.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use waybill_core::time::UnixMillis;

use crate::error::SandboxError;
use crate::limits::COMPONENT_BYTES_MAX;
use crate::load::LoadedPlugin;
use crate::own::OwnFolder;
use crate::seal::Seal;
use crate::slot::{BAD_MAX, BadDigest, SlotMemory, Why};
use crate::text::hex;
use crate::verify::Fetched;

/// How the names of what is remembered of a transport end, and those of components.
const FILE: &str = ".json";
const COMPONENT: &str = ".wasm";
/// Largest `.json` file read, in bytes.
const FILE_BYTES_MAX: u64 = 256 * 1024;
/// What other hosts keep in the folder, in bytes: some thousands of files, and the components that they name.
const OTHERS_BYTES_MAX: OthersBytes = OthersBytes { files: 4 << 20, components: 1 << 30 };

#[derive(Clone, Copy)]
pub(super) struct OthersBytes {
    pub files: u64,
    pub components: u64,
}

/// A file of the folder.
#[derive(Debug, Serialize, Deserialize)]
struct Sealed {
    /// Mark of `kept`, in hex.
    mark: String,
    kept: Kept,
}

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
#[derive(Clone, Debug)]
pub struct StateFolder {
    folder: OwnFolder,
    seal: Arc<Seal>,
    kept: Arc<Mutex<BTreeMap<String, Kept>>>,
    /// One writer at a time, and the latest state last.
    writing: Arc<Mutex<()>>,
}

impl StateFolder {
    /// Opens it; makes it if it is missing. A file of this host's that can't be read is told to the log and counts as empty.
    pub(crate) fn open(folder: &Path, seal: Arc<Seal>) -> Result<Self, SandboxError> {
        let failed = |error: std::io::Error| SandboxError::Cache {
            path: folder.display().to_string(),
            cause: error.to_string(),
        };
        let own = OwnFolder::open(folder).map_err(failed)?;
        let mut kept = BTreeMap::new();
        let ending = file("", &seal);
        for name in own.names().map_err(failed)? {
            let Some(transport) = name.strip_suffix(&ending) else { continue };
            match read(&own, &seal, &name) {
                Ok(found) => drop(kept.insert(transport.to_owned(), found)),
                Err(error) => {
                    tracing::warn!(path = %own.path(&name).display(), %error, "what was remembered of a transport's plugins can't be read and is forgotten");
                }
            }
        }
        let state = Self { folder: own, seal, kept: Arc::new(Mutex::new(kept)), writing: Arc::default() };
        if let Err(error) = state.note_use() {
            tracing::debug!(%error, "the last use of what was remembered of plugins can't be noted");
        }
        Ok(state)
    }

    /// Notes that this host uses what is its own, so that other hosts don't take it for what is left of one that is gone.
    fn note_use(&self) -> std::io::Result<()> {
        let ours: Vec<String> = {
            let kept = self.kept.lock();
            let files = kept.keys().map(|transport| file(transport, &self.seal));
            files.chain(self.components_of(&kept)).collect()
        };
        ours.iter().try_for_each(|name| self.folder.used(name))
    }

    /// Files of the components that are named, but for those in the binary.
    fn components_of(&self, kept: &BTreeMap<String, Kept>) -> Vec<String> {
        let named = kept.values().filter_map(|kept| kept.good.as_ref().filter(|good| !good.bundled));
        named.filter_map(|good| component(&good.digest, &self.seal)).collect()
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
        let bytes = self.folder.read(&component(&good.digest, &self.seal)?, COMPONENT_BYTES_MAX as u64).ok()??;
        let fetched = Fetched::new(bytes, good.signature);
        (fetched.digest() == good.digest).then_some(fetched)
    }

    fn change(&self, transport: &str, component: Option<Fetched>, change: impl FnOnce(&mut Kept)) {
        change(self.kept.lock().entry(transport.to_owned()).or_default());
        let (this, transport) = (self.clone(), transport.to_owned());
        let write = move || {
            if let Err(error) = this.write(&transport, component.as_ref()) {
                tracing::warn!(%transport, folder = %this.folder.path("").display(), %error, "what is to be remembered of a transport's plugins couldn't be written");
            }
        };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(write)),
            Err(_) => write(),
        }
    }

    fn write(&self, transport: &str, component: Option<&Fetched>) -> std::io::Result<()> {
        let _one = self.writing.lock();
        if let Some(fetched) = component
            && let Some(name) = self::component(fetched.digest(), &self.seal)
            && self.folder.read(&name, COMPONENT_BYTES_MAX as u64).ok().flatten().is_none()
        {
            self.folder.write(&name, fetched.bytes())?;
        }
        let kept = self.kept.lock().get(transport).cloned().unwrap_or_default();
        let name = file(transport, &self.seal);
        let mark = hex(&self.seal.mark(&name, &serde_json::to_vec(&kept).map_err(std::io::Error::other)?));
        let text = serde_json::to_vec_pretty(&Sealed { mark, kept }).map_err(std::io::Error::other)?;
        self.folder.write(&name, &text)?;
        self.sweep(OTHERS_BYTES_MAX)
    }

    /// Removes this host's components that no transport names, and what is too much of other hosts.
    pub(super) fn sweep(&self, others_max: OthersBytes) -> std::io::Result<()> {
        let named = self.components_of(&self.kept.lock());
        let (our_file, our_component) = (file("", &self.seal), format!("-{}{COMPONENT}", self.seal.id()));
        for name in self.folder.names()? {
            if name.ends_with(&our_component) && !named.contains(&name) {
                self.folder.remove(&name)?;
            }
        }
        self.folder.keep_within(|name| name.ends_with(FILE) && !name.ends_with(&our_file), others_max.files)?;
        self.folder
            .keep_within(|name| name.ends_with(COMPONENT) && !name.ends_with(&our_component), others_max.components)?;
        Ok(())
    }
}

/// File of what a host remembers of a transport.
pub(super) fn file(transport: &str, seal: &Seal) -> String {
    format!("{transport}-{}{FILE}", seal.id())
}

/// File of a component of a host.
pub(super) fn component(digest: &str, seal: &Seal) -> Option<String> {
    let hex = digest.strip_prefix("sha256:")?;
    let is_hex = hex.len() == 64 && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_hex.then(|| format!("{hex}-{}{COMPONENT}", seal.id()))
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

fn read(folder: &OwnFolder, seal: &Seal, name: &str) -> std::io::Result<Kept> {
    let text = folder.read(name, FILE_BYTES_MAX)?.ok_or(std::io::ErrorKind::NotFound)?;
    let Sealed { mark, kept } = serde_json::from_slice(&text).map_err(std::io::Error::other)?;
    let bytes = serde_json::to_vec(&kept).map_err(std::io::Error::other)?;
    if hex(&seal.mark(name, &bytes)) != mark {
        return Err(std::io::Error::other("it isn't what this host wrote"));
    }
    Ok(kept)
}
