//! `secrets`: values by the name that the manifest asks for and the operator granted.

use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use async_trait::async_trait;
use thiserror::Error;
use waybill_bindings::api::secrets::{Host, Secret, SecretError};
use waybill_core::time::UnixMillis;

use super::state::InstanceState;
use crate::limits::SECRET_BYTES_MAX;

/// A secret as its source has it now.
#[derive(Clone)]
pub struct SecretValue {
    pub bytes: Vec<u8>,
    /// After this instant it no longer holds.
    pub expires_at: Option<UnixMillis>,
}

impl std::fmt::Debug for SecretValue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SecretValue").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

/// Why there is no value. The texts name the source, never the value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum SecretFailure {
    /// The source has no such value.
    #[error("{0} holds no value: set it")]
    NotFound(String),
    /// The source can't be read now.
    #[error("{0}")]
    Unavailable(String),
    #[error("{0:?} isn't a source: use env:NAME or file:/path")]
    NoSource(String),
}

/// Reads secrets from where the operator keeps them.
#[async_trait]
pub trait SecretProvider: Send + Sync + 'static {
    /// The current value of a source such as `env:NATS_TOKEN`.
    async fn read(&self, source: &str) -> Result<SecretValue, SecretFailure>;
}

/// The host process's own sources: `env:NAME` and `file:/path` (one final line break is left out).
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessSecrets;

#[async_trait]
impl SecretProvider for ProcessSecrets {
    async fn read(&self, source: &str) -> Result<SecretValue, SecretFailure> {
        let mut bytes = match source.split_once(':') {
            Some(("env", name)) => {
                std::env::var(name).map_err(|_| SecretFailure::NotFound(source.to_owned())).map(String::into_bytes)?
            }
            Some(("file", path)) => tokio::fs::read(path).await.map_err(|error| match error.kind() {
                std::io::ErrorKind::NotFound => SecretFailure::NotFound(source.to_owned()),
                _ => SecretFailure::Unavailable(format!("{source}: {error}")),
            })?,
            _ => return Err(SecretFailure::NoSource(source.to_owned())),
        };
        if bytes.last() == Some(&b'\n') {
            bytes.pop();
            if bytes.last() == Some(&b'\r') {
                bytes.pop();
            }
        }
        if bytes.is_empty() {
            return Err(SecretFailure::NotFound(source.to_owned()));
        }
        if bytes.len() > SECRET_BYTES_MAX {
            let why = format!("{source} has {} bytes, at most {SECRET_BYTES_MAX} are taken", bytes.len());
            return Err(SecretFailure::Unavailable(why));
        }
        Ok(SecretValue { bytes, expires_at: None })
    }
}

/// Keyed with a number of this process, so that a revision in a log can't be used to guess the value.
static REVISIONS: LazyLock<RandomState> = LazyLock::new(RandomState::new);

impl Host for InstanceState {
    async fn get(&mut self, name: String) -> wasmtime::Result<Result<Secret, SecretError>> {
        let context = &self.context;
        let Some(source) = context.secrets.get(&name) else {
            // No warning: a plugin asks for secrets that it can do without, and finds out here which it has.
            let name = crate::text::cut(&name, 64);
            tracing::debug!(
                target: "waybill::plugin",
                transport = %context.name,
                "secret {name:?} isn't granted: the manifest must ask for it, and the endpoint needs `secrets.{name} = \"env:...\"`"
            );
            return Ok(Err(SecretError::Denied));
        };
        Ok(match context.secret_provider.read(source).await {
            Ok(value) => {
                context.redactor.remember(&value.bytes);
                Ok(Secret {
                    revision: format!("{:016x}", REVISIONS.hash_one(&value.bytes)),
                    value: value.bytes,
                    expires_at: value.expires_at.map(|at| at.0),
                })
            }
            Err(failure) => {
                tracing::warn!(target: "waybill::plugin", transport = %context.name, "secret {name:?} can't be read: {failure}");
                Err(match failure {
                    SecretFailure::NotFound(_) => SecretError::NotFound,
                    SecretFailure::Unavailable(_) | SecretFailure::NoSource(_) => SecretError::Unavailable,
                })
            }
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[tokio::test]
    async fn a_file_is_read_without_its_final_line_break() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "s3cret\r\n").unwrap();
        let source = format!("file:{}", file.path().display());
        assert_eq!(ProcessSecrets.read(&source).await.unwrap().bytes, b"s3cret");
    }

    #[tokio::test]
    async fn what_is_missing_or_no_source_is_told_apart() {
        assert!(matches!(ProcessSecrets.read("file:/no/such/file").await, Err(SecretFailure::NotFound(_))));
        assert!(matches!(ProcessSecrets.read("env:WAYBILL_NO_SUCH_VARIABLE").await, Err(SecretFailure::NotFound(_))));
        assert!(matches!(ProcessSecrets.read("plain text").await, Err(SecretFailure::NoSource(_))));
    }

    #[test]
    fn a_value_is_not_shown_by_debug() {
        let value = SecretValue { bytes: b"hunter2".to_vec(), expires_at: None };
        assert!(!format!("{value:?}").contains("hunter2"));
    }
}
