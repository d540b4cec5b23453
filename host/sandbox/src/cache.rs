//! Compiled components on disk, by the digest of their source and the engine that compiled them.
//!
//! An entry is a checksum and the machine code. The folder is the host's own (mode 0700); an entry whose checksum is wrong
//! is compiled again, because damaged machine code can't be told from good one. What it doesn't do: take machine code from
//! anybody else, or clean up entries of earlier versions.

use std::fs;
use std::hash::{Hash, Hasher};
use std::io::Write;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::error::SandboxError;

const CHECKSUM_BYTES: usize = 32;

/// Where a component's machine code came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeOrigin {
    /// Compiled now.
    Compiled,
    /// Taken from the cache.
    Cached,
}

/// A folder of compiled components.
#[derive(Debug)]
pub(crate) struct CompileCache {
    folder: PathBuf,
}

impl CompileCache {
    /// Opens the folder; makes it if it is missing.
    pub(crate) fn open(folder: PathBuf) -> Result<Self, SandboxError> {
        let failed = |cause: String| SandboxError::Cache { path: folder.display().to_string(), cause };
        make_private(&folder).map_err(|error| failed(error.to_string()))?;
        let metadata = fs::metadata(&folder).map_err(|error| failed(error.to_string()))?;
        if !metadata.is_dir() {
            return Err(failed("it isn't a folder".to_owned()));
        }
        if writable_by_others(&metadata) {
            return Err(failed(
                "others may write to it, and it holds code that the host runs: chmod go-w, or name another folder"
                    .to_owned(),
            ));
        }
        Ok(Self { folder })
    }

    /// File of one component for one engine.
    pub(crate) fn path(&self, engine: &Engine, digest: &str) -> PathBuf {
        let mut hash = Fnv::default();
        engine.precompile_compatibility_hash().hash(&mut hash);
        let digest = digest.strip_prefix("sha256:").unwrap_or(digest);
        self.folder.join(format!("{digest}-{:016x}.cwasm", hash.finish()))
    }

    /// Reads an entry; none if it is missing or damaged.
    pub(crate) fn read(&self, engine: &Engine, digest: &str) -> Option<Component> {
        let path = self.path(engine, digest);
        let bytes = fs::read(&path).ok()?;
        let (checksum, code) = bytes.split_at_checked(CHECKSUM_BYTES)?;
        if Sha256::digest(code).as_slice() != checksum {
            tracing::warn!(path = %path.display(), "a compiled plugin is damaged and is compiled again");
            return None;
        }
        machine_code(engine, code)
            .inspect_err(|error| tracing::debug!(%error, "a compiled plugin doesn't fit this engine"))
            .ok()
    }

    /// Writes an entry: to a temporary file first, then renamed, so that a reader sees all of it or nothing.
    pub(crate) fn write(&self, engine: &Engine, digest: &str, code: &[u8]) -> std::io::Result<()> {
        let path = self.path(engine, digest);
        let temporary = self.folder.join(format!(".{}-{:x}", std::process::id(), unique()));
        let written = (|| {
            let mut file = private_file(&temporary)?;
            file.write_all(&Sha256::digest(code))?;
            file.write_all(code)?;
            // Not synced: after a power cut the checksum tells, and it is compiled again.
            fs::rename(&temporary, &path)
        })();
        if written.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        written
    }
}

/// Loads machine code that this program made: out of the folder above, or answered by the child that it started to compile.
/// Both callers have compared its checksum.
pub(crate) fn machine_code(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    #[expect(unsafe_code, reason = "the only way to load machine code; see the safety comment")]
    // SAFETY: `deserialize` must only get bytes that `serialize` or `precompile_component` made. The cache's folder is writable
    // by this user alone and is written by `CompileCache::write` alone; a child is this same program, is fed by us, and answers
    // through a pipe that nobody else holds. The checksum shows that what arrived is what was written.
    unsafe {
        Component::deserialize(engine, code)
    }
}

pub(crate) fn unique() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
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

#[cfg(unix)]
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)
}

#[cfg(unix)]
fn writable_by_others(metadata: &fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o022 != 0
}

#[cfg(unix)]
pub(crate) fn private_file(path: &Path) -> std::io::Result<fs::File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
pub(crate) fn make_private(folder: &Path) -> std::io::Result<()> {
    fs::create_dir_all(folder)
}

#[cfg(not(unix))]
fn writable_by_others(_: &fs::Metadata) -> bool {
    false
}

#[cfg(not(unix))]
pub(crate) fn private_file(path: &Path) -> std::io::Result<fs::File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}
