//! What a tree of sagas is after its events.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::event::{End, Event, Failure, PauseCause, SagaNumber, Started, StepDirection, StepNumber, Wait};
use super::id::{DefinitionRef, SagaId, SagaKey};
use super::json::Json;
use crate::port::transport::PluginIdentity;
use crate::time::UnixMillis;

/// State of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum SagaState {
    /// Going forward, or waiting for something.
    Running,
    /// Undoing what was done.
    Compensating,
    /// Every step succeeded or was skipped.
    Completed,
    /// All compensated.
    Cancelled,
    /// Stuck in a compensation, killed, or accepted.
    Failed,
    /// Held.
    Paused,
}

impl SagaState {
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Compensating, Self::Completed, Self::Cancelled, Self::Failed, Self::Paused];

    /// It doesn't move by itself any more: it has ended, is stuck, or is held.
    pub fn is_at_rest(self) -> bool {
        !matches!(self, Self::Running | Self::Compensating)
    }

    pub fn word(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
            Self::Failed => "failed",
            Self::Paused => "paused",
        }
    }
}

/// State of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StepState {
    /// Not begun.
    #[default]
    Ready,
    /// Begun: called, waiting for its reply, its signal or its retry.
    InFlight,
    /// Done.
    Succeeded,
    /// Its action failed for good.
    Failed,
    /// Undone.
    Compensated,
    /// Left out by an operator.
    Skipped,
    /// Its compensation failed for good.
    CompensationFailed,
}

impl StepState {
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::InFlight => "in_flight",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Compensated => "compensated",
            Self::Skipped => "skipped",
            Self::CompensationFailed => "compensation_failed",
        }
    }
}

/// What is known of the effect of a step's action.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Effect {
    /// It has had none, or it has been undone.
    #[default]
    None,
    /// It may have had one.
    Unknown,
    /// It has had it.
    Done,
}

/// What an active step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepWait {
    /// What its beginning named.
    For(Wait),
    /// A signal that a participant named.
    Pending(Arc<str>),
    Retry,
    /// Another try at what wasn't tried: what is at fault.
    Released(Option<Arc<str>>),
    /// The result is unknown because the host ended; the next attempt begins as soon as it may.
    Lost,
    /// An operator: the result is unknown and the step isn't idempotent, or the host died of it too often.
    Operator,
}

/// One step of a saga.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StepRecord {
    /// Its state. While a compensation is active it is `in_flight` with `way` compensate.
    pub state: StepState,
    /// Which way `attempt`, `failures` and `wait` are about.
    pub way: Option<StepDirection>,
    /// What it waits for; none unless it is in flight.
    pub wait: Option<StepWait>,
    /// When that ends by itself: the timeout, or the next attempt.
    pub until: Option<UnixMillis>,
    /// Since when it waits for that.
    pub since: Option<UnixMillis>,
    /// Calls begun in this way.
    pub attempt: u32,
    /// Of them, those that failed.
    pub failures: u32,
    /// Crashes of the host during its calls, since the last answer.
    pub lost: u32,
    /// Tries in a row that weren't made.
    pub released: u32,
    /// Delay before the attempt that is due or under way, in milliseconds.
    pub delay_ms: u64,
    /// Effect of the action.
    pub effect: Effect,
    /// What was left out is the compensation.
    pub compensation_skipped: bool,
    /// Input that its mapping made; none = the saga's.
    pub input: Option<Json>,
    /// Output of the action.
    pub output: Option<Json>,
    pub began_at: Option<UnixMillis>,
    /// Action or compensation ended.
    pub ended_at: Option<UnixMillis>,
    pub failure: Option<Failure>,
    pub plugin: Option<Arc<PluginIdentity>>,
    /// Who approved, rejected or skipped it.
    pub actor: Option<Arc<str>>,
    pub note: Option<Arc<str>>,
}

/// Where a saga stands, apart from being paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    Forward,
    Back,
    /// A compensation gave up.
    Stuck,
    Ended(End),
}

/// One saga of a tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SagaNode {
    pub id: SagaId,
    /// The saga and the step that began it; none for the root.
    pub parent: Option<(SagaNumber, StepNumber)>,
    pub definition: DefinitionRef,
    pub input: Json,
    /// When it must be over.
    pub deadline: Option<UnixMillis>,
    pub phase: Phase,
    /// Why it goes back, if it does.
    pub failure: Option<Failure>,
    pub steps: Vec<StepRecord>,
    /// Signals that came before their wait, oldest first.
    pub signals: VecDeque<(Arc<str>, Json)>,
    pub started_at: UnixMillis,
    pub ended_at: Option<UnixMillis>,
}

/// Held: since when and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub at: UnixMillis,
    pub cause: PauseCause,
    pub actor: Option<Arc<str>>,
    pub note: Option<Arc<str>>,
}

/// A tree of sagas: a root with its sub-sagas. Serialised as it is for rows of the store.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tree {
    /// Key of the root.
    pub key: SagaKey,
    /// Events applied so far.
    pub events: u32,
    /// What it was started with; `input` is `null` here and lies with the root.
    pub started: Started,
    /// Sagas by number; the root is the first.
    pub sagas: Vec<SagaNode>,
    pub paused: Option<Pause>,
    /// When the last event happened.
    pub updated_at: UnixMillis,
    /// Bytes it is counted with against memory bounds.
    pub weight: usize,
    /// The first events: at most [`super::limits::HISTORY_FIRST_MAX`].
    pub history: Vec<Event>,
    /// Events between `history` and `latest` that aren't kept.
    pub dropped: u32,
    /// The latest events, oldest first: at most [`super::limits::HISTORY_LAST_MAX`].
    pub latest: VecDeque<Event>,
}
