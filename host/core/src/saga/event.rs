//! What can happen to a saga. Its history is the list of these, and its state is what they add up to.
//!
//! The types derive serde without skipping or flattening anything, so that any codec can hold them; a store's codec adds a
//! version of its own.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

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
    /// What.
    pub what: What,
}

/// Whether a step is done or undone. As [`crate::port::participant::Direction`], for storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Way {
    /// Does it.
    Execute,
    /// Undoes it.
    Compensate,
}

impl Way {
    /// As the participant port names it.
    pub fn direction(self) -> crate::port::participant::Direction {
        match self {
            Self::Execute => crate::port::participant::Direction::Execute,
            Self::Compensate => crate::port::participant::Direction::Compensate,
        }
    }
    /// `execute` or `compensate`.
    pub fn as_str(self) -> &'static str {
        self.direction().as_str()
    }
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    /// Stable code.
    pub code: Arc<str>,
    /// One sentence.
    pub reason: Arc<str>,
    /// It may have had its effect all the same.
    pub maybe_done: bool,
}

impl Failure {
    /// That certainly had no effect. The reason comes on one line and is cut at [`super::limits::REASON_BYTES_MAX`].
    pub fn new(code: &str, reason: &str) -> Self {
        let reason = one_line(reason);
        let mut end = reason.len().min(super::limits::REASON_BYTES_MAX);
        while !reason.is_char_boundary(end) {
            end -= 1;
        }
        Self { code: Arc::from(code), reason: Arc::from(reason.get(..end).unwrap_or_default()), maybe_done: false }
    }
}

/// What a running saga was started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Started {
    /// Its definition.
    pub definition: DefinitionRef,
    /// The definitions of its sub-sagas, of theirs too, as they were resolved at the start: what a step names
    /// (`saga:<name>` or `saga:<name>@<version>`), and what that was then.
    pub pinned: Vec<(Arc<str>, DefinitionRef)>,
    /// Steps in the definition.
    pub steps: u16,
    /// The caller chose the id.
    pub caller_id: bool,
    /// Input.
    pub input: Json,
    /// When the whole saga must be over; then it is compensated.
    pub deadline: Option<UnixMillis>,
    /// The caller's headers, handed to every step.
    pub headers: Headers,
    /// Trace chain.
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

/// What happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// The root began. Always the first event of a tree.
    Started(Box<Started>),
    /// A step began a sub-saga, which gets the next number of the tree. `saga` of the event is the parent.
    ChildStarted {
        /// Step of the parent.
        step: StepNumber,
        /// Its id.
        id: SagaId,
        /// Its definition.
        definition: DefinitionRef,
        /// Steps in the definition.
        steps: u16,
        /// Input.
        input: Json,
        /// When it must be over.
        deadline: Option<UnixMillis>,
    },
    /// A step was begun: a call goes out, a message is enqueued, or it waits.
    StepBegan {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
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
        /// Step.
        step: StepNumber,
        /// The signal.
        signal: Arc<str>,
        /// Not later than this.
        until: Option<UnixMillis>,
        /// Given to the compensation as output if the signal never comes.
        data: Json,
        /// Who answered.
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
    },
    /// A step succeeded, or a compensation did.
    StepSucceeded {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// The attempt that did.
        attempt: u32,
        /// Its output; none for a compensation.
        output: Option<Json>,
        /// Who answered.
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
        /// The answer came after its time.
        late: bool,
    },
    /// An attempt failed.
    StepFailed {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// The attempt that did.
        attempt: u32,
        /// Why.
        failure: Failure,
        /// When the next one begins; none = this was the last.
        retry_at: Option<UnixMillis>,
        /// Who answered.
        plugin: Option<Arc<PluginIdentity>>,
        /// How long the call took, in milliseconds.
        took_ms: u64,
    },
    /// An attempt was not made: what it needs is at fault or busy. It counts for nothing.
    StepReleased {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// What is at fault (`fn:<participant>`, an origin); none = no instance was free.
        scope: Option<Arc<str>>,
        /// Why.
        failure: Failure,
        /// When it is tried again.
        retry_at: UnixMillis,
    },
    /// A call was under way when the host ended, so its result is unknown. Or it was lost before and is called later still.
    StepLost {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// The attempt.
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
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// The attempt.
        attempt: u32,
        /// Why.
        failure: Failure,
    },
    /// A result came when it decided nothing any more. It is kept for the compensation that may still be to come.
    LateResult {
        /// Step.
        step: StepNumber,
        /// Done or undone.
        way: Way,
        /// The attempt.
        attempt: u32,
        /// Its output.
        output: Option<Json>,
    },
    /// The step is left out.
    StepSkipped {
        /// Step.
        step: StepNumber,
        /// The action, or the compensation.
        way: Way,
        /// Why.
        note: Option<Arc<str>>,
    },
    /// The step is begun anew: its attempts count from 0.
    StepReset {
        /// Step.
        step: StepNumber,
        /// The action, or the compensation.
        way: Way,
    },
    /// A signal came.
    Signalled {
        /// Its name.
        name: Arc<str>,
        /// Its data.
        data: Json,
        /// The step that took it; none = kept until one waits for it.
        step: Option<StepNumber>,
    },
    /// A step took a signal that was kept.
    SignalTaken {
        /// Its name.
        name: Arc<str>,
    },
    /// A person decided.
    Decided {
        /// Step.
        step: StepNumber,
        /// Approved, or rejected.
        approved: bool,
        /// Why.
        note: Option<Arc<str>>,
    },
    /// Compensating began.
    CompensationStarted {
        /// Why.
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
        /// Why.
        cause: PauseCause,
        /// The operator's words.
        note: Option<Arc<str>>,
    },
    /// It goes on. Of the whole tree.
    Resumed,
    /// It ended. At the root this is the last event of the tree.
    Ended {
        /// How.
        end: End,
        /// The operator's words.
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
    /// A signal.
    Signal(Arc<str>),
    /// A person's decision.
    Approval,
    /// A sub-saga.
    Child,
}

impl What {
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
