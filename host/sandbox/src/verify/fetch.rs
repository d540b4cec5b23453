//! A component's bytes, read once, with the signature that lies beside them.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use sha2::{Digest, Sha256};

use crate::error::SandboxError;
use crate::limits::COMPONENT_BYTES_MAX;
use crate::text::hex;

/// Largest signature file read, in bytes.
pub const SIGNATURE_FILE_BYTES_MAX: u64 = 1_024;

/// Bytes of a component, with what is needed to judge them. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Fetched {
    bytes: Bytes,
    digest: String,
    signature: Option<String>,
}

#[derive(Clone)]
enum Bytes {
    Embedded(&'static [u8]),
    Read(Arc<[u8]>),
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded(bytes) => write!(f, "Embedded({} bytes)", bytes.len()),
            Self::Read(bytes) => write!(f, "Read({} bytes)", bytes.len()),
        }
    }
}

/// Where a component's signature lies: `<component>.sig`.
pub fn signature_path(component: &Path) -> PathBuf {
    let mut name = component.as_os_str().to_owned();
    name.push(".sig");
    name.into()
}

impl Fetched {
    /// A component with the text of its signature.
    pub fn new(bytes: impl Into<Arc<[u8]>>, signature: Option<String>) -> Self {
        let bytes = bytes.into();
        let digest = digest(&bytes);
        Self { bytes: Bytes::Read(bytes), digest, signature }
    }

    /// One that came with the host.
    pub fn bundled(bytes: &'static [u8]) -> Self {
        Self { bytes: Bytes::Embedded(bytes), digest: digest(bytes), signature: None }
    }

    /// Reads a file and the signature beside it, if there is one. Blocks; the file is read once and never again.
    pub fn read(path: &Path) -> Result<Self, SandboxError> {
        let bytes = read_bounded(path, COMPONENT_BYTES_MAX as u64)?;
        let signature = signature_path(path);
        let signature = match read_bounded(&signature, SIGNATURE_FILE_BYTES_MAX) {
            Ok(text) => Some(String::from_utf8_lossy(&text).into_owned()),
            Err(_) if !signature.exists() => None,
            Err(error) => return Err(error),
        };
        Ok(Self::new(bytes, signature))
    }

    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Embedded(bytes) => bytes,
            Bytes::Read(bytes) => bytes,
        }
    }

    /// `sha256:<hex>` of it.
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// The text of its signature.
    pub fn signature(&self) -> Option<&str> {
        self.signature.as_deref()
    }

    /// Whether it came with the host.
    pub fn is_bundled(&self) -> bool {
        matches!(self.bytes, Bytes::Embedded(_))
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("sha256:{}", hex(&Sha256::digest(bytes)))
}

fn read_bounded(path: &Path, bytes_max: u64) -> Result<Vec<u8>, SandboxError> {
    let failed =
        |error: std::io::Error| SandboxError::Read { path: path.display().to_string(), cause: error.to_string() };
    let file = std::fs::File::open(path).map_err(failed)?;
    if !file.metadata().map_err(failed)?.is_file() {
        let cause = "it isn't a file".to_owned();
        return Err(SandboxError::Read { path: path.display().to_string(), cause });
    }
    let mut bytes = Vec::new();
    // One byte more than may be: so that a file that grows while it is read is noticed too.
    file.take(bytes_max + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > bytes_max {
        let bytes_max = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        return Err(SandboxError::TooLarge { bytes: bytes.len(), bytes_max });
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_file_comes_with_the_signature_beside_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.wasm");
        std::fs::write(&path, b"component").unwrap();
        assert_eq!(Fetched::read(&path).unwrap().signature(), None);
        std::fs::write(folder.path().join("x.wasm.sig"), "ed25519 a b").unwrap();
        let fetched = Fetched::read(&path).unwrap();
        assert_eq!((fetched.bytes(), fetched.signature()), (b"component".as_slice(), Some("ed25519 a b")));
        assert!(fetched.digest().starts_with("sha256:") && !fetched.is_bundled());
    }

    #[test]
    fn folders_missing_files_and_endless_signatures_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Fetched::read(folder.path()).unwrap_err().code().as_str(), "PLUGIN.READ");
        assert_eq!(Fetched::read(&folder.path().join("none.wasm")).unwrap_err().code().as_str(), "PLUGIN.READ");
        let path = folder.path().join("x.wasm");
        std::fs::write(&path, b"component").unwrap();
        std::fs::write(folder.path().join("x.wasm.sig"), vec![b'x'; 2_000]).unwrap();
        assert_eq!(Fetched::read(&path).unwrap_err().code().as_str(), "PLUGIN.TOO_LARGE");
    }
}
