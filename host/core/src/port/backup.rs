//! The port for backups of a host's data while it runs.
//!
//! What it doesn't do: encrypt; write a backup anywhere; put one back, which is done while no host runs.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use crate::code::Code;
use crate::port::store::StoreError;

/// A file that a backup holds or refers to.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BackupFile)]
pub struct HeldFile {
    /// Its folder and name below the data folder, e.g. `sstables/00000000000000000007.sst`.
    pub name: String,
    pub bytes: u64,
    /// SHA-256 of its content, 64 hex digits.
    pub sha256: String,
}

/// Why there is no backup.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum BackupError {
    /// The data isn't on this host's disk.
    #[error("{0}")]
    Elsewhere(&'static str),
    /// Another one is under way.
    #[error("another backup of this host is under way: wait until it is done")]
    Busy,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl BackupError {
    pub fn code(&self) -> Code {
        match self {
            Self::Elsewhere(_) => Code::STORAGE_BACKUP_ELSEWHERE,
            Self::Busy => Code::STORAGE_BACKUP_BUSY,
            Self::Store(error) => error.code(),
        }
    }
    /// Whether the same call may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::Elsewhere(_) => false,
            Self::Busy => true,
            Self::Store(error) => error.retryable(),
        }
    }
}

/// A backup as it is made, piece by piece. Nothing is made ahead of who takes it, but for a few pieces.
#[async_trait]
pub trait BackupPieces: Send + 'static {
    /// The next piece; none = that was all. After an error nothing comes, and what came is no backup.
    async fn next(&mut self) -> Option<Result<Bytes, String>>;
}

#[async_trait]
pub trait BackupStore: Send + Sync + 'static {
    /// Begins a backup of what is committed by now. Of files that an earlier backup has, with the same content, it holds the names only. `by` =
    /// who takes it, for the audit trail, without whose line nobody gets one.
    async fn back_up(&self, earlier: Vec<HeldFile>, by: &str) -> Result<Box<dyn BackupPieces>, BackupError>;
}
