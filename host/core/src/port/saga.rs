//! What is asked of sagas and what comes of it, and what the engine needs to call steps that aren't served by a participant.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::ids::Tenant;
use crate::message::Headers;
use crate::port::participant::{StepDone, StepError};
use crate::saga::definition::problem::Problem;
use crate::saga::event::{Failure, StepDirection};
use crate::saga::id::{DefinitionRef, SagaId};
use crate::saga::json::Json;
use crate::saga::state::SagaState;
use crate::time::UnixMillis;

/// How a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DefinitionFormat {
    Toml,
    Json,
}

/// A definition to put.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Define {
    pub text: String,
    pub format: DefinitionFormat,
    /// Check only: say what would happen.
    pub dry_run: bool,
    /// For a check: definitions that would be there by then, as names with versions.
    pub given: Vec<(String, u32)>,
    pub actor: String,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Defined {
    /// Name, version and hash.
    pub definition: DefinitionRef,
    /// It is new; false = the same was there.
    pub created: bool,
    pub dry_run: bool,
    /// What somebody should look at.
    pub warnings: Vec<Problem>,
    /// Running sagas that stay on other versions of this definition, oldest first, at most 1,000.
    pub running: Vec<RunningElsewhere>,
    /// How many there are in all.
    pub running_count: u64,
}

/// A running saga on another version of a definition.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunningElsewhere {
    pub tenant: Tenant,
    /// Id of its root.
    pub id: SagaId,
    /// What it runs on.
    pub definition: DefinitionRef,
    pub state: SagaState,
    /// Whether it could go on with the new one: what it has begun is the same there.
    pub could_move: bool,
    pub reason: Option<String>,
}

/// A saga to start (`POST /v1/sagas`).
#[derive(Clone, Debug, PartialEq)]
pub struct StartSaga {
    /// Whose; the edge puts `default` where the caller names none.
    pub tenant: Tenant,
    /// Name of the definition.
    pub definition: String,
    /// Its version; none = the latest.
    pub version: Option<u32>,
    /// The caller's id; none = made by the host.
    pub id: Option<String>,
    pub input: Json,
    /// Time for the whole saga from now; none = the definition's.
    pub deadline: Option<Duration>,
    /// Handed to every step.
    pub headers: Headers,
    pub envelope_id: Option<String>,
    /// Ties replies to the saga; none = its id.
    pub correlation_id: Option<String>,
    pub traceparent: Option<String>,
    pub actor: String,
}

/// A saga that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StartedSaga {
    pub id: SagaId,
    /// It was there: the same id with the same definition and input was sent before.
    pub duplicate: bool,
}

/// Which way a stuck saga goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum RetryMode {
    /// Tries the failed compensation again.
    #[default]
    Compensate,
    /// Goes forward again from the step that failed; only as long as nothing was compensated.
    Retry,
}

/// What an operator does to a saga.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SagaAct {
    /// Begins nothing new until resumed; calls under way end. Of the root.
    Pause,
    /// Goes on. Of the root.
    Resume,
    /// Compensates what was done. Of the root.
    Cancel,
    /// Ends it as it is, with nothing compensated. Of the root.
    Kill,
    /// Tries again: what is waiting for its next attempt or for an operator, or a stuck compensation. With a step (of a
    /// paused saga): that one and everything behind it anew, under the same idempotency keys.
    Retry {
        step: Option<String>,
        /// Of a stuck one: which way.
        mode: RetryMode,
    },
    /// Leaves a step out that isn't being called, or a stuck compensation.
    Skip { step: String },
    /// Approves a waiting step; without a name the only one that waits.
    Approve {
        step: Option<String>,
        /// Only the wait that began then; none = whichever there is.
        since: Option<UnixMillis>,
    },
    /// Rejects it: the saga compensates.
    Reject {
        step: Option<String>,
        /// Only the wait that began then; none = whichever there is.
        since: Option<UnixMillis>,
    },
    /// Accepts a stuck compensation as it is: the tree ends failed.
    Accept,
}

impl SagaAct {
    /// Its name in the API and in the audit.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Cancel => "cancel",
            Self::Kill => "kill",
            Self::Retry { .. } => "retry",
            Self::Skip { .. } => "skip",
            Self::Approve { .. } => "approve",
            Self::Reject { .. } => "reject",
            Self::Accept => "accept",
        }
    }
}

/// Who acts, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActedBy {
    /// Name of the token, or `local`.
    pub actor: String,
    /// In their words, at most [`crate::saga::limits::NOTE_BYTES_MAX`] bytes.
    pub note: Option<String>,
}

/// What became of an act or a signal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Acted {
    pub id: SagaId,
    /// State of the tree now.
    pub state: SagaState,
    /// Nothing had to be done: it was so already.
    pub unchanged: bool,
}

/// A correlated reply to a `bus:` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepReply {
    /// Saga, root or sub-saga.
    pub id: SagaId,
    pub step: String,
    pub way: StepDirection,
    /// The attempt it answers; none = whichever waits.
    pub attempt: Option<u32>,
    /// The output, or why it failed. A failure with `maybe_done` may be retried, any other is permanent unless
    /// `retryable`.
    pub result: Result<Json, ReplyFailure>,
}

/// A reply that tells of a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyFailure {
    pub failure: Failure,
    /// It makes sense to try again.
    pub retryable: bool,
}

/// Counts of the sagas in memory, for metrics and status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SagaStats {
    pub running: u64,
    /// Bytes of the inputs and outputs of the sagas in memory.
    pub running_bytes: u64,
    pub paused: u64,
    pub stuck: u64,
    /// Those that wait for a person's decision.
    pub approvals: u64,
    pub timers: u64,
    /// Transitions that wait for a commit.
    pub uncommitted: u64,
}

/// A call of an `http:` step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpStep {
    pub url: Arc<str>,
    /// `Idempotency-Key`, saga context, the caller's headers.
    pub headers: Headers,
    /// What the participant gets, as JSON.
    pub body: Bytes,
    pub timeout: Duration,
    /// Largest answer taken; a larger one is `SAGA.OUTPUT_TOO_LARGE`, permanent.
    pub answer_bytes_max: usize,
}

/// Calls `http:` steps. 2xx = done with the answer's body as output; 408, 425, 429, 5xx = retryable (Retry-After honoured);
/// 401, 403, TLS and connect failures = the origin is blocked; others are permanent. Whatever may have reached the other side
/// has `maybe_delivered`.
#[async_trait]
pub trait HttpSteps: Send + Sync + 'static {
    async fn post(&self, step: HttpStep) -> Result<StepDone, StepError>;
}
