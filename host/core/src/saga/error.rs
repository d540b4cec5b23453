//! What can be wrong with a request about a saga, with stable codes.

use thiserror::Error;

use super::definition::problem::Problems;
use crate::code::Code;
use crate::error::InputError;
use crate::port::store::StoreError;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum SagaError {
    /// The caller's input is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// A filter is wrong.
    #[error(transparent)]
    Filter(#[from] crate::outbox::filter::FilterError),
    /// The definition is wrong.
    #[error(transparent)]
    Definition(#[from] Problems),
    #[error("there is no saga definition {name:?}: define it first (`waybill saga define`), or check the name")]
    NoDefinition { name: String },
    #[error("definition {name:?} has no version {version}: the latest is {latest}")]
    NoVersion {
        name: String,
        version: u32,
        /// The highest there is.
        latest: u32,
    },
    /// A version that is there with other content.
    #[error("definition {name:?} version {version} exists with other content: give the changed one a higher version")]
    VersionTaken { name: String, version: u32 },
    /// The input is too large.
    #[error(
        "the input has {bytes} bytes, at most {bytes_max} are taken: keep large data elsewhere and pass a reference"
    )]
    InputTooLarge { bytes: usize, bytes_max: usize },
    /// The data of a signal or reply is too large.
    #[error("{what} has {bytes} bytes, at most {bytes_max} are taken: keep large data elsewhere and pass a reference")]
    DataTooLarge {
        /// `the data of signal "x"`, `the output`.
        what: String,
        bytes: usize,
        bytes_max: usize,
    },
    /// The id belongs to another saga.
    #[error(
        "id {id:?} belongs to a saga with another definition or input: choose another id, or send exactly the same again"
    )]
    IdTaken { id: String },
    #[error("there is no saga {id:?}: check id and tenant; ended ones are kept for `saga.keep_done`")]
    NotFound { id: String },
    #[error("saga {id} has no step {step:?}: its steps are {known}")]
    NoStep { id: String, step: String, known: String },
    #[error("saga {id} has ended ({state}): nothing can be done to it any more; start a new one")]
    Ended { id: String, state: String },
    /// Its state doesn't allow this.
    #[error("saga {id} is {state}: {fix}")]
    State {
        id: String,
        /// Its state in words.
        state: String,
        /// What can be done.
        fix: String,
    },
    /// No step waits for this decision or signal.
    #[error("step {step:?} of saga {id} isn't waiting for this: it is {state}")]
    NotWaiting {
        id: String,
        step: String,
        /// Its state, and who decided if somebody did.
        state: String,
    },
    /// The approval came too late.
    #[error("the approval of step {step:?} of saga {id} expired at {at}: it counts as rejected")]
    ApprovalExpired { id: String, step: String, at: crate::time::UnixMillis },
    /// It acts on a sub-saga what only a root takes.
    #[error("saga {id} is part of {root}: act on that one")]
    NotRoot { id: String, root: String },
    /// Too many signals wait.
    #[error("saga {id} keeps {count} signals that nothing waited for yet: try again when it has got on")]
    SignalsFull { id: String, count: usize },
    /// Too much is running.
    #[error("this host's sagas are full ({what}: {count} of {count_max}): try again after a moment")]
    Busy { what: &'static str, count: usize, count_max: usize },
    /// The store has to be asked again whether the id is taken.
    #[error("other sagas ended while the id was looked up: look it up again")]
    LookAgain,
    /// The host drains or has lost the shard.
    #[error("this host doesn't take sagas now: {0}")]
    Unavailable(String),
    /// The commit's outcome isn't known.
    #[error("the store didn't say whether it was committed: ask for the saga, or send the same again with an id ({0})")]
    OutcomeUnknown(StoreError),
    /// The store failed; nothing was committed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SagaError {
    pub fn code(&self) -> Code {
        match self {
            Self::Input(error) => error.code(),
            Self::Filter(_) => Code::SCHEMA_VALIDATION_FAILED,
            Self::Definition(_) => Code::SAGA_DEFINITION,
            Self::NoDefinition { .. } => Code::SAGA_NO_DEFINITION,
            Self::NoVersion { .. } => Code::SAGA_NO_VERSION,
            Self::VersionTaken { .. } => Code::SAGA_VERSION_TAKEN,
            Self::InputTooLarge { .. } => Code::SAGA_INPUT_TOO_LARGE,
            Self::DataTooLarge { .. } => Code::SAGA_DATA_TOO_LARGE,
            Self::IdTaken { .. } => Code::STORAGE_CONFLICT,
            Self::NotFound { .. } => Code::SAGA_NOT_FOUND,
            Self::NoStep { .. } => Code::SAGA_NO_STEP,
            Self::Ended { .. } => Code::SAGA_ENDED,
            Self::State { .. } => Code::SAGA_STATE,
            Self::NotWaiting { .. } => Code::SAGA_NOT_WAITING,
            Self::ApprovalExpired { .. } => Code::SAGA_APPROVAL_EXPIRED,
            Self::NotRoot { .. } => Code::SAGA_NOT_ROOT,
            Self::SignalsFull { .. } => Code::SAGA_SIGNALS_FULL,
            Self::Busy { .. } => Code::SAGA_BUSY,
            Self::LookAgain | Self::Unavailable(_) => Code::PROVIDER_UNAVAILABLE,
            Self::OutcomeUnknown(StoreError::DiskFull(_)) => Code::STORAGE_DISK_FULL,
            Self::OutcomeUnknown(_) => Code::TX_TIMEOUT,
            Self::Store(error) => error.code(),
        }
    }

    /// Whether the same request may succeed later.
    pub fn retryable(&self) -> bool {
        match self {
            Self::SignalsFull { .. } | Self::Busy { .. } | Self::LookAgain | Self::Unavailable(_) => true,
            Self::OutcomeUnknown(_) => true,
            Self::Store(error) => error.retryable(),
            _ => false,
        }
    }
}
