//! What can go wrong, and the only place that reads SurrealDB's errors.
//!
//! Embedded, a conflict is a value. Over a connection it comes in three forms (measured on 3.3): kind `TransactionConflict`
//! of an autocommit text; a kind-less text "Transaction conflict: ... This transaction can be retried" of a client commit;
//! and "snapshot is older than the commit oracle's GC window" of a transaction held long.

use surrealdb::types::{AlreadyExistsError, Error, QueryError};
use surrealdb_kvs::Error as StorageError;
use thiserror::Error as ThisError;

#[derive(Clone, Debug, PartialEq, Eq, ThisError)]
pub enum Fault {
    /// Another transaction wrote the same first; nothing was written.
    #[error("another transaction came first: {0}")]
    Conflict(String),
    /// A record that must be new exists; nothing was written.
    #[error("the record exists: {0}")]
    Exists(String),
    /// No room on the disk.
    #[error("no space is left: {0}")]
    DiskFull(String),
    /// Not reachable, shut down, or timed out.
    #[error("not available: {0}")]
    Unavailable(String),
    /// The commit may or may not have gone in.
    #[error("it isn't known whether the commit went in: {0}")]
    Unknown(String),
    /// What is on the disk can't be read.
    #[error("what is on the disk can't be read: {0}")]
    Corrupt(String),
    /// The transaction writes more than the store takes at once; nothing was written.
    #[error("the transaction writes more than the store takes at once")]
    TooLarge,
    /// The statement is wrong or failed.
    #[error("{0}")]
    Statement(String),
    /// A caller's statement wanted to touch what isn't open to callers.
    #[error("callers' statements may not touch {0}")]
    Closed(String),
    /// Callers' statements aren't run here.
    #[error("callers' statements aren't run on a shared store")]
    Shared,
    #[error("{0}")]
    Other(String),
}

/// Texts of a full disk, as the operating system and SurrealDB write them.
const DISK_FULL: [&str; 4] =
    ["No space left on device", "os error 28", "StorageFull", "read-and-deletion-only mode due to disk space"];
/// Texts of damaged files.
const CORRUPT: [&str; 2] = ["checksum verification failed", "Corrupted"];
/// Texts of a conflict where its kind is lost.
const CONFLICT: [&str; 3] = [
    "This transaction can be retried",
    "Transaction write conflict",
    "snapshot is older than the commit oracle's GC window",
];

/// Text of a transaction that is too large.
const TOO_LARGE: &str = "The transaction is too large";

fn any(text: &str, of: &[&str]) -> bool {
    of.iter().any(|part| text.contains(part))
}

impl Fault {
    fn of_text(text: String) -> Self {
        if any(&text, &DISK_FULL) {
            Self::DiskFull(text)
        } else if any(&text, &CORRUPT) {
            Self::Corrupt(text)
        } else if any(&text, &CONFLICT) {
            Self::Conflict(text)
        } else if text.contains("commit outcome is unknown") {
            Self::Unknown(text)
        } else if text.contains(TOO_LARGE) {
            Self::TooLarge
        } else {
            Self::Other(text)
        }
    }

    /// Of a call on an embedded transaction.
    pub(crate) fn of_storage(error: &anyhow::Error) -> Self {
        let text = error.to_string();
        match surrealdb_datastore::storage_error(error) {
            Some(StorageError::TransactionConflict(_)) => Self::Conflict(text),
            Some(StorageError::TransactionKeyAlreadyExists | StorageError::TransactionConditionNotMet) => {
                Self::Exists(text)
            }
            Some(StorageError::ReadAndDeleteOnly) => Self::DiskFull(text),
            Some(StorageError::Shutdown | StorageError::ConnectionFailed(_)) => Self::Unavailable(text),
            Some(StorageError::CommitOutcomeUnknown(cause)) => Self::Unknown(cause.clone()),
            Some(StorageError::TransactionTooLarge) => Self::TooLarge,
            _ => Self::of_text(format!("{error:#}")),
        }
    }

    /// Whether a commit that failed so was refused before anything of it was written.
    pub(crate) fn wrote_nothing(error: &StorageError) -> bool {
        matches!(
            error,
            StorageError::TransactionConflict(_)
                | StorageError::TransactionFinished
                | StorageError::TransactionReadonly
        ) || any(&error.to_string(), &CONFLICT)
    }

    /// Of a commit that failed while it was written.
    pub(crate) fn of_failed_commit(error: &StorageError) -> Self {
        match Self::of_text(error.to_string()) {
            full @ Self::DiskFull(_) => full,
            _ => Self::Unknown(format!("a commit failed while it was written: {error}")),
        }
    }

    /// Of a statement or a call through the client library.
    pub fn of_query(error: &Error) -> Self {
        let text = error.message().to_owned();
        // Its text is whatever the statement's author chose: it says nothing of the store.
        if error.is_thrown() {
            return Self::Statement(text);
        }
        if let Some(kind) = error.query_details() {
            return match kind {
                QueryError::TransactionConflict => Self::Conflict(text),
                QueryError::TimedOut { .. } | QueryError::Cancelled => Self::Statement(text),
                _ => Self::of_text(text),
            };
        }
        if matches!(error.already_exists_details(), Some(AlreadyExistsError::Record { .. })) {
            return Self::Exists(text);
        }
        if error.is_connection() {
            return Self::Unavailable(text);
        }
        match Self::of_text(text) {
            Self::Other(text) => Self::Statement(text),
            fault => fault,
        }
    }

    /// Of a commit: an error that doesn't prove that nothing was written leaves it open, whatever it says of a statement.
    pub fn at_commit(self) -> Self {
        match self {
            Self::Statement(text) | Self::Other(text) => Self::Unknown(text),
            fault => fault,
        }
    }
}
