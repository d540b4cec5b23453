//! A saga as people see it: all that `waybill saga show` draws.

mod build;
mod words;

use std::sync::Arc;

use serde::Serialize;
use serde_json::value::RawValue;

use super::event::{Event, Failure, Way};
use super::id::{DefinitionRef, SagaId};
use super::records::SagaSummary;
use super::state::{Effect, Pause, SagaState, StepState};
use crate::message::Headers;
use crate::port::transport::PluginIdentity;
use crate::time::UnixMillis;

/// A saga with all that is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct SagaView {
    /// Columns as in a list.
    #[serde(flatten)]
    pub summary: SagaSummary,
    /// What it waits for, in a sentence.
    pub waiting: Option<String>,
    /// Held.
    pub paused: Option<Pause>,
    /// The root with its steps, and sub-sagas below theirs.
    pub saga: SagaNodeView,
    /// Participants and the plugin that served each when it began.
    pub plugins: Vec<(Arc<str>, PluginIdentity)>,
    /// The caller's headers.
    pub headers: Headers,
    /// Trace chain.
    pub envelope_id: Option<Arc<str>>,
    /// Ties replies to the saga.
    pub correlation_id: Option<Arc<str>>,
    /// What happened, oldest first.
    pub history: Vec<HistoryLine>,
    /// Events in the middle of a long history that aren't kept.
    pub history_dropped: u32,
}

/// One saga of a tree, for people.
#[derive(Clone, Debug, Serialize)]
pub struct SagaNodeView {
    /// Id.
    pub id: SagaId,
    /// Definition.
    pub definition: DefinitionRef,
    /// State.
    pub state: SagaState,
    /// How a failed one ended, or why it is one: `killed`, `accepted`, `skipped`, `compensation_failed`.
    pub cause: Option<&'static str>,
    /// Why it went back.
    pub failure: Option<Failure>,
    /// Input.
    pub input: Box<RawValue>,
    /// Must be over by then.
    pub deadline: Option<UnixMillis>,
    /// Began.
    pub started_at: UnixMillis,
    /// Ended.
    pub ended_at: Option<UnixMillis>,
    /// Steps in order.
    pub steps: Vec<StepView>,
    /// Signals kept that nothing waited for yet.
    pub signals: Vec<Arc<str>>,
}

/// One step, for people.
#[derive(Clone, Debug, Serialize)]
pub struct StepView {
    /// Name.
    pub name: Arc<str>,
    /// URI.
    pub action: String,
    /// URI.
    pub compensation: Option<String>,
    /// Steps with the same number run together.
    pub group: u16,
    /// State.
    pub state: StepState,
    /// Whether it is being done or undone, or was last.
    pub way: Option<Way>,
    /// Whether its action has had its effect.
    pub effect: Effect,
    /// Attempts in that way.
    pub attempts: u32,
    /// Of them, failures.
    pub failures: u32,
    /// What it waits for, in one word as in a list.
    pub waiting_for: Option<Arc<str>>,
    /// The same in a sentence.
    pub waiting: Option<String>,
    /// Since when.
    pub since: Option<UnixMillis>,
    /// Until when.
    pub until: Option<UnixMillis>,
    /// What its mapping made; none = the saga's input.
    pub input: Option<Box<RawValue>>,
    /// Output.
    pub output: Option<Box<RawValue>>,
    /// Last error.
    pub failure: Option<Failure>,
    /// First begun.
    pub began_at: Option<UnixMillis>,
    /// Ended.
    pub ended_at: Option<UnixMillis>,
    /// Who answered last.
    pub plugin: Option<Arc<PluginIdentity>>,
    /// Who approved, rejected or skipped it.
    pub actor: Option<Arc<str>>,
    /// In their words.
    pub note: Option<Arc<str>>,
    /// Idempotency key of its action; its compensation's ends in `/compensate`.
    pub idempotency_key: String,
    /// The sub-saga it began.
    pub saga: Option<Box<SagaNodeView>>,
}

/// One event, for people.
#[derive(Clone, Debug, Serialize)]
pub struct HistoryLine {
    /// When.
    pub at: UnixMillis,
    /// Which saga of the tree.
    pub saga: SagaId,
    /// Step, if it is about one.
    pub step: Option<Arc<str>>,
    /// In one word, e.g. `step_failed`.
    pub kind: &'static str,
    /// In a sentence.
    pub text: String,
    /// Who, if a person did it.
    pub actor: Option<Arc<str>>,
    /// All of it.
    pub event: Event,
}

/// A definition with what is known of it.
#[derive(Clone, Debug, Serialize)]
pub struct DefinitionView {
    /// Name, version and hash.
    pub definition: DefinitionRef,
    /// Canonical form.
    pub document: Box<RawValue>,
    /// When it was put.
    pub created_at: UnixMillis,
    /// Who.
    pub created_by: String,
    /// Other versions there are.
    pub versions: Vec<u32>,
}
