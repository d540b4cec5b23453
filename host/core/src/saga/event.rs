//! What can happen to a saga. Its history is the list of these, and its state is what they add up to.
//!
//! The types derive serde without skipping or flattening anything, so that any codec can hold them; a store's codec adds a
//! version of its own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::id::{DefinitionRef, SagaId};
use super::json::Json;
use crate::backoff::RetryPolicy;
use crate::message::Headers;
use crate::one_line::one_line;
use crate::port::transport::PluginIdentity;
use crate::time::UnixMillis;

/// Number of a saga in its tree: 0 is the root, sub-sagas count in the order in which they began.
pub type SagaNumber = u16;
/// Number of a step in its definition, from 0.
pub type StepNumber = u16;

/// One thing that happened to one saga of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// When; never before the event in front of it.
    pub at: UnixMillis,
    /// To which saga of the tree.
    pub saga: SagaNumber,
    /// Who did it, if a person or a program from outside did.
    pub actor: Option<Arc<str>>,
    pub what: EventKind,
}

/// Whether a step is done or undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum StepDirection {
    #[default]
    Execute,
    Compensate,
}

impl StepDirection {
    /// As the participant port names it.
    pub fn direction(self) -> crate::port::participant::Direction {
        match self {
            Self::Execute => crate::port::participant::Direction::Execute,
            Self::Compensate => crate::port::participant::Direction::Compensate,
        }
    }
    pub fn as_str(self) -> &'static str {
        self.direction().as_str()
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: Arc<str>,
    pub reason: Arc<str>,
    /// It may have had its effect all the same.
    pub maybe_done: bool,
}

impl Failure {
    /// That certainly had no effect. The reason comes on one line and is cut at [`super::limits::REASON_BYTES_MAX`].
    pub fn new(code: impl AsRef<str>, reason: &str) -> Self {
        let reason = one_line(reason);
        let mut end = reason.len().min(super::limits::REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self {
            code: Arc::from(code.as_ref()),
            reason: Arc::from(reason.get(..end).unwrap_or_default()),
            maybe_done: false,
        }
    }
}

/// What a running saga was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    pub definition: DefinitionRef,
    /// The definitions of its sub-sagas, of theirs too, as they were resolved at the start: what a step names
    /// (`saga:<name>` or `saga:<name>@<version>`), and what that was then.
    pub pinned: Vec<(Arc<str>, DefinitionRef)>,
    /// Steps in the definition.
    pub steps: u16,
    /// The caller chose the id.
    pub caller_id: bool,
    pub input: Json,
    /// When the whole saga must be over; then it is compensated.
    pub deadline: Option<UnixMillis>,
    /// The caller's headers, handed to every step.
    pub headers: Headers,
    pub envelope_id: Option<Arc<str>>,
    /// Ties replies to the saga.
    pub correlation_id: Option<Arc<str>>,
    /// W3C trace context of the caller.
    pub traceparent: Option<Arc<str>>,
    /// Participants that its steps name, with the plugin that served each at the start.
    pub plugins: Vec<(Arc<str>, PluginIdentity)>,
    /// Retries of its steps, and of those of its sub-sagas, where their definitions don't say: as configured at the start.
    pub default_retry: RetryPolicy,
}

impl Started {
    /// Of a saga without sub-sagas, under an id that its caller didn't choose, and of which nothing else was said.
    pub fn new(definition: DefinitionRef, steps: u16, input: Json, default_retry: RetryPolicy) -> Self {
        Self {
            definition,
            pinned: Vec::new(),
            steps,
            caller_id: false,
            input,
            deadline: None,
            headers: Vec::new(),
            envelope_id: None,
            correlation_id: None,
            traceparent: None,
            plugins: Vec::new(),
            default_retry,
        }
    }
}

/// How a saga ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum End {
    /// Every step succeeded or was skipped.
    Completed,
    /// Everything that had an effect was compensated.
    Cancelled,
    /// An operator killed it: nothing was compensated.
    Killed,
    /// An operator accepted a compensation that got stuck.
    Accepted,
    /// Compensated but for what an operator skipped.
    Skipped,
}

/// Why a saga is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PauseCause {
    /// An operator asked for it.
    Asked,
    /// A step that isn't idempotent was called and its result is unknown.
    UnknownResult,
    /// The host died too often while it called this step.
    Suspect,
    /// The step's retry policy asked for it.
    Policy,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum EventKind {
    /// The root began. Always the first event of a tree.
    Started(Box<Started>),
    /// A step began a sub-saga, which gets the next number of the tree. `saga` of the event is the parent.
    ChildStarted {
        /// Step of the parent.
        step: StepNumber,
        id: SagaId,
        definition: DefinitionRef,
        /// Steps in the definition.
        steps: u16,
        input: Json,
        /// When it must be over.
        deadline: Option<UnixMillis>,
    },
    /// A step was begun: a call goes out, a message is enqueued, or it waits.
    StepBegan {
        step: StepNumber,
        way: StepDirection,
        /// Calls so far in this way, this one included.
        attempt: u32,
        /// What the mapping made; none = the saga's input, or as at the first attempt.
        input: Option<Json>,
        /// What it waits for.
        wait: Wait,
        /// Its result counts as unknown (of a call) or missing (of a signal) after this instant.
        until: Option<UnixMillis>,
    },
    /// A participant accepted a step whose result a signal brings.
    StepPending {
        step: StepNumber,
        signal: Arc<str>,
        /// Not later than this.
        until: Option<UnixMillis>,
        /// Given to the compensation as output if the signal never comes.
        data: Json,
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
    },
    /// A step succeeded, or a compensation did.
    StepSucceeded {
        step: StepNumber,
        way: StepDirection,
        /// The attempt that did.
        attempt: u32,
        /// Its output; none for a compensation.
        output: Option<Json>,
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
        /// The answer came after its time.
        late: bool,
    },
    StepFailed {
        step: StepNumber,
        way: StepDirection,
        /// The attempt that did.
        attempt: u32,
        failure: Failure,
        /// When the next one begins; none = this was the last.
        retry_at: Option<UnixMillis>,
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
    },
    /// An attempt was not made: what it needs is at fault or busy. It counts for nothing.
    StepReleased {
        step: StepNumber,
        way: StepDirection,
        /// What is at fault (`fn:<participant>`, an origin); none = no instance was free.
        scope: Option<Arc<str>>,
        failure: Failure,
        /// When it is tried again.
        retry_at: UnixMillis,
    },
    /// A call was under way when the host ended, so its result is unknown. Or it was lost before and is called later still.
    StepLost {
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        /// The host had begun to end, or its process lived on: whatever ended it, the call didn't.
        #[serde(default)]
        clean: bool,
        /// It is called again then; none = at once. Told anew by each host that ends before.
        #[serde(default)]
        until: Option<UnixMillis>,
    },
    /// The result of an attempt stays unknown, and the step isn't idempotent: an operator decides.
    StepUnknown {
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        failure: Failure,
    },
    /// A result came when it decided nothing any more. It is kept for the compensation that may still be to come.
    LateResult {
        step: StepNumber,
        way: StepDirection,
        attempt: u32,
        output: Option<Json>,
    },
    /// The step is left out.
    StepSkipped {
        step: StepNumber,
        /// The action, or the compensation.
        way: StepDirection,
        note: Option<Arc<str>>,
    },
    /// The step is begun anew: its attempts count from 0.
    StepReset {
        step: StepNumber,
        /// The action, or the compensation.
        way: StepDirection,
    },
    Signalled {
        name: Arc<str>,
        data: Json,
        /// The step that took it; none = kept until one waits for it.
        step: Option<StepNumber>,
    },
    /// A step took a signal that was kept.
    SignalTaken {
        name: Arc<str>,
    },
    Decided {
        step: StepNumber,
        approved: bool,
        note: Option<Arc<str>>,
    },
    CompensationStarted {
        failure: Failure,
    },
    /// It goes forward again from the step that failed; nothing had been compensated.
    ForwardAgain,
    /// A compensation gave up, and nothing else moves: an operator decides.
    Stuck {
        /// Step whose compensation failed.
        step: StepNumber,
    },
    /// Nothing new begins until it is resumed. Of the whole tree.
    Paused {
        cause: PauseCause,
        note: Option<Arc<str>>,
    },
    /// It goes on. Of the whole tree.
    Resumed,
    /// It ended. At the root this is the last event of the tree.
    Ended {
        end: End,
        note: Option<Arc<str>>,
    },
}

/// What a step that was begun waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wait {
    /// The answer to a call.
    Call,
    /// A correlated reply to a message.
    Reply,
    Signal(Arc<str>),
    Approval,
    Child,
}

impl EventKind {
    /// Bytes that an event is counted with against commit and memory bounds.
    pub fn weight(&self) -> usize {
        let json = |json: &Option<Json>| json.as_ref().map_or(0, Json::len);
        100 + match self {
            Self::Started(started) => {
                let headers: usize = started.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
                started.input.len() + headers + started.pinned.len() * 160 + started.plugins.len() * 160
            }
            Self::ChildStarted { input, .. } => input.len() + 160,
            Self::StepBegan { input, .. } => json(input),
            Self::StepPending { data, .. } | Self::Signalled { data, .. } => data.len(),
            Self::StepSucceeded { output, .. } | Self::LateResult { output, .. } => json(output),
            Self::StepFailed { failure, .. }
            | Self::StepReleased { failure, .. }
            | Self::StepUnknown { failure, .. }
            | Self::CompensationStarted { failure } => failure.reason.len(),
            _ => 0,
        }
    }
}
