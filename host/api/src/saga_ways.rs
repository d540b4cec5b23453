//! Ways out of a saga that waits for an operator.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::saga::{RetryMode, SagaAct};
use waybill_core::saga::event::End;
use waybill_core::saga::ways::WayOut;

/// An act that is allowed now, and what it leads to. Steps are named `<step>`, or `<sub-saga's path>/<step>`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaWayOut)]
pub struct WayOutView {
    /// `resume`, `retry`, `skip`, `cancel`, `accept` or `kill`: the last part of its address.
    pub act: String,
    /// The saga that it is done to: the root, or the sub-saga of `step`.
    pub saga: String,
    /// Step that is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Which way a retry goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RetryMode>,
    /// Steps that are called again at once, forward or back.
    pub again: Vec<String>,
    /// Steps whose effect is undone, the last first.
    pub undone: Vec<String>,
    /// Steps whose effect stays.
    pub stays: Vec<String>,
    /// Steps that may have had an effect, which stays if they had.
    pub unclear: Vec<String>,
    /// How it ends if nothing else fails: `completed`, `cancelled`, `killed`, `accepted`, or `skipped`, which is undone but for what was
    /// left out. Null = it waits for an operator still.
    #[schema(value_type = Option<String>)]
    pub ends: Option<End>,
    /// It ends by the act itself, with nothing called any more.
    pub at_once: bool,
}

impl From<WayOut> for WayOutView {
    fn from(way: WayOut) -> Self {
        let WayOut { act, saga, again, undone, stays, unclear, end, at_once } = way;
        let name = act.name().to_owned();
        let (step, mode) = match act {
            SagaAct::Skip { step } => (Some(step), None),
            SagaAct::Retry { step, mode } => (step, Some(mode)),
            _ => (None, None),
        };
        Self { act: name, saga: saga.to_string(), step, mode, again, undone, stays, unclear, ends: end, at_once }
    }
}
