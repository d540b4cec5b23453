//! One saga of a tree with its steps.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::state::{Effect, SagaState, StepState};

use crate::instant::Instant;
use crate::sagas::FailureView;

/// A saga or sub-saga with its steps.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaNode)]
pub struct SagaNodeView {
    /// Id; a sub-saga's is `<id of the saga>~<step>`.
    pub id: String,
    /// Name of its definition.
    pub definition: String,
    /// Version of that definition, from 1.
    pub version: u32,
    /// Only the root is ever `paused`, with all below it.
    pub state: SagaState,
    /// How a failed one ended, or why it is one: `killed`, `accepted`, `skipped` or `compensation_failed`.
    pub cause: Option<String>,
    /// Why it went back.
    pub failure: Option<FailureView>,
    /// What its steps work on, as it was started.
    #[schema(value_type = serde_json::Value)]
    pub input: Box<RawValue>,
    /// Must be over by then.
    pub deadline: Option<Instant>,
    pub started_at: Instant,
    /// Null until it has ended; a stuck one hasn't.
    pub ended_at: Option<Instant>,
    /// In the order of the definition.
    pub steps: Vec<StepView>,
    /// Signals kept that nothing waited for yet.
    pub signals: Vec<String>,
}

/// A step of a saga, and how it stands.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaStep)]
pub struct StepView {
    /// Name in the definition.
    pub name: String,
    /// URI of its action: `http...`, `bus:`, `fn:`, `saga:` or `wait:`.
    pub action: String,
    /// URI that undoes it; null when the definition names none.
    pub compensation: Option<String>,
    /// Steps with the same number run together.
    pub group: u16,
    /// `in_flight` also while it is being compensated.
    pub state: StepState,
    /// Whether it is being done or undone, or was last.
    pub direction: Option<StepDirection>,
    /// Effect of its action: `none` (none, or undone), `unknown` or `done`.
    #[schema(value_type = String)]
    pub effect: Effect,
    /// Attempts in that direction.
    pub attempts: u32,
    /// How many of those attempts failed.
    pub failures: u32,
    /// What it waits for: `call`, `reply`, `signal`, `approval`, `saga`, `retry`, `blocked` or `operator`.
    pub waiting_for: Option<String>,
    /// The same in a sentence.
    pub waiting: Option<String>,
    /// Since when it waits; null when it waits for nothing.
    pub since: Option<Instant>,
    /// When the wait times out, or the next attempt is due.
    pub until: Option<Instant>,
    /// What its mapping made; absent = the saga's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<Box<RawValue>>,
    /// Output of its action; absent = none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<Box<RawValue>>,
    /// Latest error of its action, or later of its compensation.
    pub failure: Option<FailureView>,
    /// When its first attempt began.
    pub began_at: Option<Instant>,
    /// When its action, or later its compensation, ended.
    pub ended_at: Option<Instant>,
    /// The plugin that answered last.
    pub plugin: Option<PluginIdentity>,
    /// Who approved, rejected or skipped it.
    pub actor: Option<String>,
    /// What they gave as the reason.
    pub note: Option<String>,
    /// Idempotency key of its action; its compensation's ends in `/compensate`.
    pub idempotency_key: String,
    /// The sub-saga it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub saga: Option<Box<SagaNodeView>>,
}
