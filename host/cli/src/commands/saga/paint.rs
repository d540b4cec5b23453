//! Words, marks and colours of sagas and steps.

use jiff::Timestamp;
use serde_json::Value;
use waybill_core::time::UnixMillis;
use waybill_server::json::instant::Instant;
use waybill_server::json::saga_node::{DirectionJson, StepOut, StepStateOut};
use waybill_server::json::sagas::SagaStateOut;

use crate::output::plain;

/// How a word is painted where colours may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    /// As it is.
    Plain,
    /// Went well.
    Good,
    /// Went wrong.
    Bad,
    /// Under way, or waiting.
    Busy,
    /// Less important.
    Faint,
    /// A heading.
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
pub(super) fn state_word(state: SagaStateOut) -> &'static str {
    match state {
        SagaStateOut::Running => "running",
        SagaStateOut::Compensating => "compensating",
        SagaStateOut::Completed => "completed",
        SagaStateOut::Cancelled => "cancelled",
        SagaStateOut::Failed => "failed",
        SagaStateOut::Paused => "paused",
    }
}

/// How a state of a saga is painted.
pub(super) fn state_paint(state: SagaStateOut) -> Paint {
    match state {
        SagaStateOut::Completed => Paint::Good,
        SagaStateOut::Failed => Paint::Bad,
        SagaStateOut::Cancelled => Paint::Plain,
        SagaStateOut::Running | SagaStateOut::Compensating | SagaStateOut::Paused => Paint::Busy,
    }
}

/// Mark, word and paint of a step.
pub(super) fn step_words(step: &StepOut) -> (&'static str, &'static str, Paint) {
    let back = step.direction == Some(DirectionJson::Compensate);
    match step.state {
        StepStateOut::Ready => ("○", "ready", Paint::Faint),
        StepStateOut::InFlight if back => ("●", "compensating", Paint::Busy),
        StepStateOut::InFlight => ("●", "in flight", Paint::Busy),
        StepStateOut::Succeeded => ("✓", "succeeded", Paint::Good),
        StepStateOut::Failed => ("✗", "failed", Paint::Bad),
        StepStateOut::Compensated => ("↺", "compensated", Paint::Plain),
        StepStateOut::Skipped => ("-", "skipped", Paint::Plain),
        StepStateOut::CompensationFailed => ("✗", "compensation failed", Paint::Bad),
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

/// A stored text that draws nothing on the terminal.
pub(super) fn safe(text: &str) -> String {
    plain(&Value::String(text.to_owned()))
}
