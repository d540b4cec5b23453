//! Compiled components on disk, by the digest of their source and the engine that compiled them.
//!
//! An entry is a mark ([`crate::seal`]) and the machine code. The folder is the host's own ([`crate::own`]); an entry whose
//! mark is wrong is compiled again, because damaged or foreign machine code can't be told from good one. Beyond a bound, what was
//! used longest ago goes: entries of earlier versions, above all. What it doesn't do: take machine code from anybody else.

use std::hash::{Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::SandboxError;
use crate::limits::{COMPILED_BYTES_MAX, COMPILED_CACHE_BYTES_MAX};
use crate::own::OwnFolder;
use crate::seal::{SEAL_BYTES, Seal};

/// Where a component's machine code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeOrigin {
    Compiled,
    /// Taken from the cache.
    Cached,
}

/// How the names of entries end.
const ENDING: &str = ".cwasm";

/// A folder of compiled components.
#[derive(Debug)]
pub(crate) struct CompileCache {
    folder: OwnFolder,
    pub(crate) seal: Arc<Seal>,
}

impl CompileCache {
    /// Opens the folder; makes it if it is missing.
    pub(crate) fn open(folder: &Path, seal: Seal) -> Result<Self, SandboxError> {
        let own = OwnFolder::open(folder)
            .map_err(|error| SandboxError::Cache { path: folder.display().to_string(), cause: error.to_string() })?;
        Ok(Self { folder: own, seal: Arc::new(seal) })
    }

    /// File of one component for one engine.
    fn name(&self, engine: &Engine, digest: &str) -> String {
        let mut hash = Fnv::default();
        engine.precompile_compatibility_hash().hash(&mut hash);
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        format!("{digest}-{:016x}-{}{ENDING}", hash.finish(), self.seal.id())
    }

    /// Reads an entry; none if it is missing, damaged, or not this host's.
    pub(crate) fn read(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let name = self.name(engine, digest);
        let again = |why: String| {
            let path = self.folder.path(&name);
            tracing::warn!(path = %path.display(), why, "a compiled plugin can't be used and is compiled again");
        };
        let most = COMPILED_BYTES_MAX.saturating_add(SEAL_BYTES as u64);
        let bytes = self.folder.read(&name, most).map_err(|error| again(error.to_string())).ok()??;
        let sealed = bytes.split_at_checked(SEAL_BYTES).filter(|(mark, code)| self.seal.holds(mark, &name, code));
        let Some((_, code)) = sealed else {
            again("it isn't what this host wrote".to_owned());
            return None;
        };
        let component = machine_code(engine, code)
            .inspect_err(|error| tracing::debug!(%error, "a compiled plugin doesn't fit this engine"))
            .ok()?;
        if let Err(error) = self.folder.used(&name) {
            tracing::debug!(%error, "a compiled plugin's last use can't be noted");
        }
        Some(component)
    }

    /// Writes an entry. Not synced: after a power cut the mark tells, and it is compiled again.
    pub(crate) fn write(&self, engine: &Engine, digest: &str, code: &[u8]) -> std::io::Result<()> {
        let name = self.name(engine, digest);
        self.folder.write_unsynced(&name, &[&self.seal.mark(&name, code), code])?;
        let removed = self.folder.keep_within(|name| name.ends_with(ENDING), COMPILED_CACHE_BYTES_MAX)?;
        if removed > 0 {
            tracing::debug!(removed, "compiled plugins that weren't used for long made room");
        }
        Ok(())
    }
}

/// Loads machine code that this program made: out of the folder above, or answered by the child that it started to compile.
/// Both callers have checked that it arrived as it was made.
pub(crate) fn machine_code(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(unsafe_code, reason = "the only way to load machine code; see the safety comment")]
    // SAFETY: `deserialize` must only get bytes that `serialize` or `precompile_component` made. What comes out of the cache
    // bears the mark of a key that only this user can read, so that `CompileCache::write` wrote it, and lies in a folder that
    // this user alone can write to; a child is this same program, is fed by us, and answers through a pipe that nobody else
    // holds, with a checksum that shows that what arrived is what was written.
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// FNV-1a: the same value in every build of the host, which the standard library's hasher doesn't promise.
#[derive(Debug)]
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}
