//! What happened to a saga.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::event::StepDirection;

use crate::instant::Instant;
use crate::sagas::FailureView;

/// One event of a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaEvent)]
pub struct HistoryLine {
    pub at: Instant,
    /// Id of the saga or sub-saga.
    pub saga: String,
    /// Step, if it is about one.
    pub step: Option<String>,
    /// In one word, e.g. `step_failed`.
    pub kind: String,
    /// The same in a sentence, for people.
    pub text: String,
    /// Who did it, if somebody did.
    pub actor: Option<String>,
    /// Whether the step was done or undone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<StepDirection>,
    /// Attempt it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// How long the call took, in milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub took_ms: Option<u64>,
    /// Error of the attempt, or what the saga went back for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<FailureView>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Instant>,
    /// The plugin that answered.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<PluginIdentity>,
}
