//! The host's mark on what it keeps and believes later: HMAC-SHA256 with a key that nobody else can read.
//!
//! The key lies apart from what it marks, with the data: who can write to a cache but not read the key can put nothing there
//! that would be run.

use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

use crate::error::SandboxError;
use crate::own;
use crate::text::hex;

/// Bytes of the key, and of a mark.
pub(crate) const SEAL_BYTES: usize = 32;

pub(crate) struct Seal {
    key: hmac::Key,
    id: String,
    file: PathBuf,
    /// The bytes of a new key, until they are written.
    unwritten: Mutex<Option<[u8; SEAL_BYTES]>>,
}

impl std::fmt::Debug for Seal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seal").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Seal {
    /// Reads the key from its file, which must be this user's and closed to everybody else; its folder may be as it is, for the
    /// data lies there and may be another's on purpose. If there is none, a new one is used, which [`Seal::keep`] writes: a host
    /// that is refused its start leaves nothing behind.
    pub(crate) fn open(file: &Path) -> Result<Self, SandboxError> {
        let failed = |cause: String| unusable(file, &cause);
        let found = own::read_private(file, SEAL_BYTES as u64).map_err(|error| failed(error.to_string()))?;
        let (key, unwritten) = match found {
            Some(key) => {
                let bytes = key.len();
                let key = key.try_into();
                (key.map_err(|_| failed(format!("it has {bytes} bytes instead of {SEAL_BYTES}: remove it")))?, None)
            }
            None => {
                let mut key = [0_u8; SEAL_BYTES];
                SystemRandom::new().fill(&mut key).map_err(|_| failed("the system gave no random bytes".to_owned()))?;
                (key, Some(key))
            }
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
        let id = hex(hmac::sign(&key, b"id").as_ref().get(..4).unwrap_or_default());
        Ok(Self { key, id, file: file.to_owned(), unwritten: Mutex::new(unwritten) })
    }

    /// Writes a new key, mode 0600. Where another process was faster, its key is that of the next start: what was sealed with this
    /// one is made again then.
    pub(crate) fn keep(&self) -> Result<(), SandboxError> {
        let mut unwritten = self.unwritten.lock();
        if let Some(key) = &*unwritten {
            let written = own::make_private(folder_of(&self.file)).and_then(|()| own::write_new(&self.file, key));
            written.map_err(|error| unusable(&self.file, &error.to_string()))?;
            *unwritten = None;
        }
        Ok(())
    }

    /// Tells it from other keys: hosts with different ones may share a cache.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// The mark of some bytes that are kept under a name.
    pub(crate) fn mark(&self, name: &str, bytes: &[u8]) -> Vec<u8> {
        self.begin(name, bytes).sign().as_ref().to_vec()
    }

    /// Whether a mark is that of the bytes under this name.
    pub(crate) fn holds(&self, mark: &[u8], name: &str, bytes: &[u8]) -> bool {
        let expected = self.mark(name, bytes);
        // Marks of the marks are compared: that takes the same time wherever they differ.
        hmac::verify(&self.key, &expected, hmac::sign(&self.key, mark).as_ref()).is_ok()
    }

    fn begin(&self, name: &str, bytes: &[u8]) -> hmac::Context {
        let mut context = hmac::Context::with_key(&self.key);
        context.update(&(name.len() as u64).to_be_bytes());
        context.update(name.as_bytes());
        context.update(bytes);
        context
    }
}

fn unusable(file: &Path, cause: &str) -> SandboxError {
    let cause = format!("the key that seals it can't be used: {cause}");
    SandboxError::Cache { path: file.display().to_string(), cause }
}

/// Folder of a file; of a relative name the working directory.
fn folder_of(file: &Path) -> &Path {
    file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_mark_is_of_one_key_one_name_and_these_bytes() {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        let open = |name: &str| Seal::open(&data.join(name)).unwrap();
        let (seal, other) = (open("a.key"), open("b.key"));
        assert!(!data.exists() && open("a.key").id() != seal.id(), "nothing is written yet");
        seal.keep().unwrap();
        seal.keep().unwrap();
        let mark = seal.mark("name", b"bytes");
        assert_eq!(mark.len(), SEAL_BYTES);
        assert!(seal.holds(&mark, "name", b"bytes") && open("a.key").holds(&mark, "name", b"bytes"));
        assert!(!seal.holds(&mark, "nam", b"ebytes") && !seal.holds(&mark, "name", b"byte"));
        assert!(!other.holds(&mark, "name", b"bytes") && !seal.holds(b"", "name", b"bytes"));
        assert!(seal.id() != other.id() && seal.id().len() == 8);
    }

    #[test]
    fn a_key_that_isnt_one_is_told() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("short.key");
        assert!(own::write_new(&file, b"short").unwrap());
        let error = Seal::open(&file).unwrap_err();
        assert_eq!(error.code().as_str(), "PLUGIN.CACHE");
        assert!(error.to_string().contains("5 bytes"), "{error}");
    }

    /// A volume of a cluster belongs to root and a group, a workspace to whoever started the container.
    #[cfg(unix)]
    #[test]
    fn the_keys_folder_may_be_open_and_the_key_may_not() {
        use std::os::unix::fs::PermissionsExt;
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        mode(place.path(), 0o2775);
        let file = place.path().join("seal.key");
        let seal = Seal::open(&file).unwrap();
        seal.keep().unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o7777, 0o600);
        assert_eq!(Seal::open(&file).unwrap().id(), seal.id());
        mode(&file, 0o640);
        let error = Seal::open(&file).unwrap_err();
        assert!(error.code().as_str() == "PLUGIN.CACHE" && error.to_string().contains("640"), "{error}");
    }
}
