//! Why requests to the outbox fail, and states of messages. What surfaces ask of event streams is in [`streams`].

pub mod streams;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use crate::code::Code;
use crate::error::InputError;
use crate::ids::Tenant;
use crate::outbox::filter::FilterError;
use crate::port::missing::Missing;
use crate::port::provision::ProvisionError;
use crate::port::saga::RetryMode;
use crate::port::store::StoreError;
use crate::saga::error::SagaError;
use crate::time::UnixMillis;
use streams::StreamError;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ServiceError {
    /// The caller's input is wrong. `index` names the message in the request, from 0.
    #[error("message {index}: {error}")]
    Message { index: usize, error: InputError },
    /// The caller's input is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The filter is wrong.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// An id is taken by another message.
    #[error(
        "id {id:?} of tenant {tenant:?} belongs to a different message: choose another id, or send exactly the same content again"
    )]
    IdTaken { tenant: String, id: String },
    /// A transaction's messages are there already, but not with its statements.
    #[error(
        "the messages of this transaction are there already ({id:?} of tenant {tenant:?} for one), but weren't committed with these \
         statements, so nothing was run: repeat exactly the same transaction, or give its messages new ids"
    )]
    OtherStatements {
        tenant: String,
        /// Id of one of them.
        id: String,
    },
    /// There is no such thing.
    #[error("there is no {what} {id:?}")]
    NotFound { what: Missing, id: String },
    /// It is in a state that doesn't allow this.
    #[error("{what} {id:?} is {state}: {fix}")]
    State {
        what: &'static str,
        id: String,
        state: String,
        /// What can be done.
        fix: &'static str,
    },
    /// The act isn't for dead letters of this kind, or the id names one of each.
    #[error("dead letter {id:?}: {fix}")]
    DeadKind {
        id: String,
        /// What it is, and what can be done.
        fix: &'static str,
    },
    /// A stuck saga can't be put back.
    #[error(transparent)]
    Saga(#[from] SagaError),
    /// A request about event streams can't be met.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// More match than a bulk act was planned with.
    #[error("{matched} match now, {planned} were planned: nothing was done; plan it again and look at what came")]
    SetGrew { planned: u64, matched: u64 },
    /// Somebody else has it.
    #[error("{what} {id:?} isn't this token's any more: it was finished, taken over, released, or its time is over")]
    LeaseLost { what: &'static str, id: String },
    /// Too much is waiting.
    #[error("{what} is full ({count} of {count_max}): try again after a moment")]
    Busy { what: &'static str, count: usize, count_max: usize },
    /// The plugin of a transport has no provisioning.
    #[error("transport {transport:?}: {error}")]
    NoProvisioning {
        transport: String,
        /// Whose plugin it is, and what to do.
        error: ProvisionError,
    },
    #[error("transport {transport:?}: {error}")]
    ProvisionFailed {
        transport: String,
        /// What the plugin said, or what became of it.
        error: ProvisionError,
    },
    /// There is no plan for what a source needs at its peer, or it wasn't applied.
    #[error("source {name:?}: {error}")]
    SourceProvision {
        /// Of the source.
        name: String,
        /// Whose plugin it is and what to do, or what the plugin said.
        error: ProvisionError,
    },
    /// The host drains or has lost the shard.
    #[error("this host doesn't take messages now: {0}")]
    Unavailable(String),
    /// The commit's outcome isn't known.
    #[error("the store didn't say whether the messages were committed: send them again with the same ids ({0})")]
    OutcomeUnknown(StoreError),
    /// It isn't known whether an act on an idempotency key was done.
    #[error("the store didn't say whether this was done: ask again the same way, done twice it is the same ({0})")]
    Unsure(StoreError),
    /// The store failed; nothing was committed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServiceError {
    pub fn code(&self) -> Code {
        match self {
            Self::Message { error, .. } | Self::Input(error) => error.code(),
            Self::Filter(_) => Code::SCHEMA_VALIDATION_FAILED,
            Self::IdTaken { .. } => Code::STORAGE_CONFLICT,
            Self::OtherStatements { .. } => Code::TX_OTHER_STATEMENTS,
            Self::NotFound { what, .. } => what.code(),
            Self::State { .. } => Code::OUTBOX_STATE,
            Self::DeadKind { .. } => Code::DEAD_KIND,
            Self::SetGrew { .. } => Code::OPERATION_SET_GREW,
            Self::Saga(error) => error.code(),
            Self::Stream(error) => error.code(),
            Self::LeaseLost { .. } => Code::TX_LEASE_LOST,
            Self::Busy { .. } => Code::OUTBOX_BUSY,
            Self::NoProvisioning { .. } => Code::PLUGIN_NO_PROVISIONING,
            Self::ProvisionFailed { .. } => Code::PLUGIN_PROVISION_FAILED,
            Self::SourceProvision { error: ProvisionError::NotOffered { .. }, .. } => Code::PLUGIN_NO_PROVISIONING,
            Self::SourceProvision { error: ProvisionError::Failed(_), .. } => Code::PLUGIN_PROVISION_FAILED,
            Self::Unavailable(_) => Code::PROVIDER_UNAVAILABLE,
            Self::OutcomeUnknown(StoreError::DiskFull(_)) | Self::Unsure(StoreError::DiskFull(_)) => {
                Code::STORAGE_DISK_FULL
            }
            Self::OutcomeUnknown(_) | Self::Unsure(_) => Code::TX_TIMEOUT,
            Self::Store(error) => error.code(),
        }
    }
}

/// State of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// Ready or waiting for a retry, its time or its key.
    Pending,
    /// Claimed by a worker; a send may be under way.
    Leased,
    /// Delivered.
    Done,
    /// A dead letter.
    Dead,
    /// A dead letter fenced off by an operator.
    Quarantined,
    /// Taken back before it was sent.
    Cancelled,
    /// Over before it could be sent.
    Expired,
    /// A dead letter that was deleted for good.
    Purged,
}

impl MessageState {
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Quarantined,
        Self::Cancelled,
        Self::Expired,
        Self::Purged,
    ];

    /// In a word, as in filters and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Quarantined => "quarantined",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Purged => "purged",
        }
    }
}

/// What a bulk act on dead letters was planned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Planned {
    /// Only what died until then; none, or one in the future = until it is asked for.
    pub before: Option<UnixMillis>,
    /// How many matched; with more it isn't begun. None = as many as there are.
    pub expect_count: Option<u64>,
    /// They were all counted, not the latest [`PLAN_READS_MAX`](crate::outbox::dead_plan::PLAN_READS_MAX) alone.
    pub exact: bool,
    /// Of a `replay`: so many messages are put back first, and the rest when all of these are delivered.
    pub trial: Option<u32>,
}

/// A request for a bulk act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationRequest {
    /// On dead letters `replay`, `quarantine` or `purge`; on sagas `pause`, `resume`, `cancel`, `kill`, `retry` or `accept`; on messages
    /// `cancel_messages` or `reschedule_messages`.
    pub kind: String,
    /// Filter of dead letters, of sagas or of messages.
    pub filter: String,
    /// Of a `retry`: from which step.
    pub step: Option<String>,
    /// Of a `retry`: which way stuck sagas go on.
    pub mode: Option<RetryMode>,
    /// Of a `reschedule_messages`: when they go.
    pub not_before: Option<UnixMillis>,
    pub planned: Planned,
    /// Confined to this tenant; none = all.
    pub tenant: Option<Tenant>,
    /// Most acts a second; none = 100.
    pub rate: Option<u32>,
    pub reason: String,
    pub actor: String,
}
