//! One saga of a tree with its steps, as an answer.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::event::Way;
use waybill_core::saga::state::{Effect, StepState};
use waybill_core::saga::view::{SagaNodeView, StepView};

use super::instant::Instant;
use super::message_out::PluginOut;
use super::sagas::{FailureOut, SagaStateOut};

/// A saga or sub-saga with its steps.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaNode)]
pub struct SagaNodeOut {
    /// Id; a sub-saga's is `<id of the saga>~<step>`.
    pub id: String,
    /// Name of its definition.
    pub definition: String,
    /// Version of that.
    pub version: u32,
    /// State.
    pub state: SagaStateOut,
    /// How a failed one ended, or why it is one: `killed`, `accepted`, `skipped` or `compensation_failed`.
    pub cause: Option<String>,
    /// Why it went back.
    pub failure: Option<FailureOut>,
    /// Input.
    #[schema(value_type = serde_json::Value)]
    pub input: Box<RawValue>,
    /// Must be over by then.
    pub deadline: Option<Instant>,
    /// Began.
    pub started_at: Instant,
    /// Ended.
    pub ended_at: Option<Instant>,
    /// Steps in order.
    pub steps: Vec<StepOut>,
    /// Signals kept that nothing waited for yet.
    pub signals: Vec<String>,
}

impl From<SagaNodeView> for SagaNodeOut {
    fn from(node: SagaNodeView) -> Self {
        Self {
            id: node.id.to_string(),
            definition: node.definition.name.to_string(),
            version: node.definition.version,
            state: node.state.into(),
            cause: node.cause.map(str::to_owned),
            failure: node.failure.as_ref().map(FailureOut::from),
            input: node.input,
            deadline: node.deadline.map(Instant),
            started_at: node.started_at.into(),
            ended_at: node.ended_at.map(Instant),
            steps: node.steps.into_iter().map(StepOut::from).collect(),
            signals: node.signals.iter().map(ToString::to_string).collect(),
        }
    }
}

/// State of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
#[schema(as = StepState)]
pub enum StepStateOut {
    /// Not begun.
    Ready,
    /// Begun, to be done or to be undone: called, or waiting.
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

impl From<StepState> for StepStateOut {
    fn from(state: StepState) -> Self {
        match state {
            StepState::Ready => Self::Ready,
            StepState::InFlight => Self::InFlight,
            StepState::Succeeded => Self::Succeeded,
            StepState::Failed => Self::Failed,
            StepState::Compensated => Self::Compensated,
            StepState::Skipped => Self::Skipped,
            StepState::CompensationFailed => Self::CompensationFailed,
        }
    }
}

/// Whether a step is done or undone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = StepDirection)]
pub enum DirectionJson {
    /// Done.
    #[default]
    Execute,
    /// Undone.
    Compensate,
}

impl From<Way> for DirectionJson {
    fn from(way: Way) -> Self {
        match way {
            Way::Execute => Self::Execute,
            Way::Compensate => Self::Compensate,
        }
    }
}

impl From<DirectionJson> for Way {
    fn from(direction: DirectionJson) -> Self {
        match direction {
            DirectionJson::Execute => Self::Execute,
            DirectionJson::Compensate => Self::Compensate,
        }
    }
}

/// One step.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaStep)]
pub struct StepOut {
    /// Name.
    pub name: String,
    /// What does it.
    pub action: String,
    /// What undoes it.
    pub compensation: Option<String>,
    /// Steps with the same number run together.
    pub group: u16,
    /// State.
    pub state: StepStateOut,
    /// Whether it is being done or undone, or was last.
    pub direction: Option<DirectionJson>,
    /// Effect of its action: `none` (none, or undone), `unknown` or `done`.
    pub effect: String,
    /// Attempts in that direction.
    pub attempts: u32,
    /// Of them, failures.
    pub failures: u32,
    /// What it waits for: `call`, `reply`, `signal`, `approval`, `saga`, `retry`, `blocked` or `operator`.
    pub waiting_for: Option<String>,
    /// The same in a sentence.
    pub waiting: Option<String>,
    /// Since when.
    pub since: Option<Instant>,
    /// Until when.
    pub until: Option<Instant>,
    /// What its mapping made; absent = the saga's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub input: Option<Box<RawValue>>,
    /// Output of its action; absent = none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub output: Option<Box<RawValue>>,
    /// Last error.
    pub failure: Option<FailureOut>,
    /// First begun.
    pub began_at: Option<Instant>,
    /// Ended.
    pub ended_at: Option<Instant>,
    /// The plugin that answered last.
    pub plugin: Option<PluginOut>,
    /// Who approved, rejected or skipped it.
    pub actor: Option<String>,
    /// In their words.
    pub note: Option<String>,
    /// Idempotency key of its action; its compensation's ends in `/compensate`.
    pub idempotency_key: String,
    /// The sub-saga it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(no_recursion)]
    pub saga: Option<Box<SagaNodeOut>>,
}

impl From<StepView> for StepOut {
    fn from(step: StepView) -> Self {
        let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
        let effect = match step.effect {
            Effect::None => "none",
            Effect::Unknown => "unknown",
            Effect::Done => "done",
        };
        Self {
            name: step.name.to_string(),
            action: step.action,
            compensation: step.compensation,
            group: step.group,
            state: step.state.into(),
            direction: step.way.map(DirectionJson::from),
            effect: effect.to_owned(),
            attempts: step.attempts,
            failures: step.failures,
            waiting_for: text(step.waiting_for),
            waiting: step.waiting,
            since: step.since.map(Instant),
            until: step.until.map(Instant),
            input: step.input,
            output: step.output,
            failure: step.failure.as_ref().map(FailureOut::from),
            began_at: step.began_at.map(Instant),
            ended_at: step.ended_at.map(Instant),
            plugin: step.plugin.map(|plugin| PluginOut::from(PluginIdentity::clone(&plugin))),
            actor: text(step.actor),
            note: text(step.note),
            idempotency_key: step.idempotency_key,
            saga: step.saga.map(|saga| Box::new(SagaNodeOut::from(*saga))),
        }
    }
}
