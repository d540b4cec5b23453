//! Words, marks and colours of sagas and steps.

use jiff::Timestamp;
use waybill_api::instant::Instant;
use waybill_api::saga_node::StepView;
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::state::{SagaState, StepState};
use waybill_core::time::UnixMillis;

/// How a word is painted where colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Good,
    Bad,
    /// Under way, or waiting.
    Busy,
    Faint,
    Strong,
}

impl Paint {
    /// The text with its colour, if there may be one.
    pub(super) fn on(self, text: &str, color: bool) -> String {
        let code = match self {
            _ if !color => return text.to_owned(),
            Self::Plain => return text.to_owned(),
            Self::Good => "32",
            Self::Bad => "31",
            Self::Busy => "33",
            Self::Faint => "2",
            Self::Strong => "1",
        };
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    }
}

/// A state of a saga in a word.
pub(super) fn state_word(state: SagaState) -> &'static str {
    match state {
        SagaState::Running => "running",
        SagaState::Compensating => "compensating",
        SagaState::Completed => "completed",
        SagaState::Cancelled => "cancelled",
        SagaState::Failed => "failed",
        SagaState::Paused => "paused",
    }
}

/// How a state of a saga is painted.
pub(super) fn state_paint(state: SagaState) -> Paint {
    match state {
        SagaState::Completed => Paint::Good,
        SagaState::Failed => Paint::Bad,
        SagaState::Cancelled => Paint::Plain,
        SagaState::Running | SagaState::Compensating | SagaState::Paused => Paint::Busy,
    }
}

/// Mark, word and paint of a step.
pub(super) fn step_words(step: &StepView) -> (&'static str, &'static str, Paint) {
    let back = step.direction == Some(StepDirection::Compensate);
    match step.state {
        StepState::Ready => ("○", "not begun", Paint::Faint),
        StepState::InFlight if back => ("●", "compensating", Paint::Busy),
        StepState::InFlight => ("●", "in flight", Paint::Busy),
        StepState::Succeeded => ("✓", "succeeded", Paint::Good),
        StepState::Failed => ("✗", "failed", Paint::Bad),
        StepState::Compensated => ("↺", "compensated", Paint::Plain),
        StepState::Skipped => ("-", "skipped", Paint::Plain),
        StepState::CompensationFailed => ("✗", "compensation failed", Paint::Bad),
    }
}

/// An instant to the second.
pub(super) fn at(instant: Instant) -> String {
    let UnixMillis(ms) = instant.0;
    let at = i64::try_from(ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| ms.to_string(), |at| format!("{at:.0}"))
}

/// Time between two instants in words.
pub(super) fn between(from: Instant, until: Instant) -> String {
    let ms = until.0.0.saturating_sub(from.0.0);
    crate::output::ago(&serde_json::json!({ "ms": ms }), "ms")
}
