//! What a step answers.

use serde::Serialize;

use super::{StepError, StepOutput};
use crate::followup::{Outgoing, StreamEvent, json};
use crate::transport::{Block, Fault};

/// What a step answers with what it leaves behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Output<T> {
    data: T,
    messages: Vec<Outgoing>,
    events: Vec<StreamEvent>,
}

impl<T> From<T> for Output<T> {
    fn from(data: T) -> Self {
        Self { data, messages: Vec::new(), events: Vec::new() }
    }
}

impl<T> Output<T> {
    /// With a message to enqueue in the commit that records the step.
    #[must_use]
    pub fn with_message(mut self, message: Outgoing) -> Self {
        self.messages.push(message);
        self
    }

    /// With an event to append in that commit.
    #[must_use]
    pub fn with_event(mut self, event: StreamEvent) -> Self {
        self.events.push(event);
        self
    }
}

impl<T: Serialize> Output<T> {
    pub(super) fn into_answer(self) -> StepOutput {
        StepOutput {
            data: json(&self.data),
            content_type: None,
            messages: self.messages,
            events: self.events,
            attributes: Vec::new(),
        }
    }
}

/// How a step ended well.
#[derive(Clone, Debug, PartialEq)]
pub enum Done<T> {
    /// Done: the saga goes on with this output.
    Output(Output<T>),
    /// Accepted, not done yet: a signal of this name completes it, within so many milliseconds (none = the step's timeout). The
    /// value is what [`Undo`] gets if it never comes.
    Pending {
        /// Name of the signal.
        signal: String,
        /// Longest wait for the signal, in milliseconds; none = the step's timeout.
        timeout: Option<u32>,
        /// What is known so far; [`Undo`] gets it if the signal never comes.
        data: T,
    },
}

impl<T> From<T> for Done<T> {
    fn from(data: T) -> Self {
        Self::Output(data.into())
    }
}

impl<T> From<Output<T>> for Done<T> {
    fn from(output: Output<T>) -> Self {
        Self::Output(output)
    }
}

impl StepError {
    /// Try again later. Nothing has happened; if that isn't known, see [`StepError::unknown`].
    pub fn retryable(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Retryable(Fault::new(code, reason))
    }

    /// Try again later: it may have happened all the same (the request was sent, the answer is missing).
    pub fn unknown(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Retryable(Fault::new(code, reason).with_maybe_delivered(true))
    }

    /// Will never succeed: compensate.
    pub fn permanent(code: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Permanent(Fault::new(code, reason))
    }

    /// What the step needs is at fault: hold every step of this scope, count no attempt.
    pub fn blocked(scope: impl Into<String>, fault: Fault) -> Self {
        Self::Blocked(Block { scope: scope.into(), fault })
    }
}
