//! What happened to a saga, as an answer.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::event::What;
use waybill_core::saga::view::HistoryLine;

use super::instant::Instant;
use super::message_out::PluginOut;
use super::saga_node::DirectionJson;
use super::sagas::FailureOut;

/// One event of a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaEvent)]
pub struct HistoryOut {
    /// When.
    pub at: Instant,
    /// Id of the saga or sub-saga.
    pub saga: String,
    /// Step, if it is about one.
    pub step: Option<String>,
    /// In one word, e.g. `step_failed`.
    pub kind: String,
    /// In a sentence.
    pub text: String,
    /// Who did it, if somebody did.
    pub actor: Option<String>,
    /// Whether the step was done or undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<DirectionJson>,
    /// Attempt it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long the call took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Why it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureOut>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Instant>,
    /// The plugin that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginOut>,
}

impl From<HistoryLine> for HistoryOut {
    fn from(line: HistoryLine) -> Self {
        let mut out = Self {
            at: line.at.into(),
            saga: line.saga.to_string(),
            step: line.step.map(|step| step.to_string()),
            kind: line.kind.to_owned(),
            text: line.text,
            actor: line.actor.map(|actor| actor.to_string()),
            direction: None,
            attempt: None,
            took_ms: None,
            failure: None,
            retry_at: None,
            plugin: None,
        };
        out.detail(&line.event.what);
        out
    }
}

impl HistoryOut {
    fn detail(&mut self, what: &What) {
        match what {
            What::StepBegan { way, attempt, .. }
            | What::StepLost { way, attempt, .. }
            | What::LateResult { way, attempt, .. } => {
                self.direction = Some((*way).into());
                self.attempt = Some(*attempt);
            }
            What::StepPending { plugin, took_ms, .. } => {
                self.took_ms = Some(*took_ms);
                self.plugin = plugin.as_ref().map(|plugin| PluginOut::from(PluginIdentity::clone(plugin)));
            }
            What::StepSucceeded { way, attempt, plugin, took_ms, .. } => {
                self.direction = Some((*way).into());
                self.attempt = Some(*attempt);
                self.took_ms = Some(*took_ms);
                self.plugin = plugin.as_ref().map(|plugin| PluginOut::from(PluginIdentity::clone(plugin)));
            }
            What::StepFailed { way, attempt, failure, retry_at, plugin, took_ms, .. } => {
                self.direction = Some((*way).into());
                self.attempt = Some(*attempt);
                self.took_ms = Some(*took_ms);
                self.failure = Some(failure.into());
                self.retry_at = retry_at.map(Instant);
                self.plugin = plugin.as_ref().map(|plugin| PluginOut::from(PluginIdentity::clone(plugin)));
            }
            What::StepReleased { way, failure, retry_at, .. } => {
                self.direction = Some((*way).into());
                self.failure = Some(failure.into());
                self.retry_at = Some((*retry_at).into());
            }
            What::StepUnknown { way, attempt, failure, .. } => {
                self.direction = Some((*way).into());
                self.attempt = Some(*attempt);
                self.failure = Some(failure.into());
            }
            What::StepSkipped { way, .. } | What::StepReset { way, .. } => self.direction = Some((*way).into()),
            What::CompensationStarted { failure } => self.failure = Some(failure.into()),
            _ => {}
        }
    }
}
