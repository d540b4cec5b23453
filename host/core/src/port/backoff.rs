//! The port for retry policies: what follows a failed attempt. The built-in formula is [`crate::backoff::RetryPolicy`];
//! a policy component may decide instead, and falls back to the formula when it has no opinion or breaks.

use std::time::Duration;

use async_trait::async_trait;

use crate::port::transport::Fault;
use crate::time::UnixMillis;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkKind {
    /// Delivery of an outbox message.
    Delivery,
    Step,
    Compensation,
    /// Handling of an inbox message.
    Inbox,
}

/// Class of the failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The plugin said so, or an HTTP status did.
    Retryable,
    /// The plugin says it will never succeed.
    Permanent,
    Unavailable,
    /// The peer asked for less.
    Throttled,
    /// The call's time was over.
    TimedOut,
    /// The plugin trapped or broke the contract.
    Trapped,
}

/// One failed attempt, as a policy sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct FailedAttempt {
    pub work: WorkKind,
    pub kind: FailureKind,
    /// Code, reason, the peer's wish (`after`), attributes.
    pub fault: Fault,
    /// 1-based number of the attempt that failed.
    pub number: u32,
    /// The limit configured; a delay at or past it is a dead letter.
    pub max_attempts: u32,
    /// Since the first attempt.
    pub elapsed: Duration,
    /// Since it was enqueued or started.
    pub age: Duration,
    /// Delay before this attempt; none at the first.
    pub previous_delay: Option<Duration>,
    pub tenant: String,
    /// Topic URI, or `saga:<definition>/<step>`.
    pub topic: String,
    /// Transport, participant, source or consumer.
    pub endpoint: String,
    /// Now, by the store's clock.
    pub now: UnixMillis,
    /// After this instant there is no point.
    pub deadline: Option<UnixMillis>,
    /// Uniform in [0, 1): jitter that can be replayed.
    pub random: f64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackoffDecision {
    /// Try again after this; the host applies its own lower and upper bound.
    Delay(Duration),
    /// Dead letter now, with this reason.
    Dead(String),
    /// Hold the endpoint for an operator, with this reason; the attempt doesn't count.
    Pause(String),
    /// No opinion: the configured built-in formula.
    Fallback,
}

/// Decides what follows a failure. Same arguments, same answer.
#[async_trait]
pub trait BackoffPolicy: Send + Sync + 'static {
    /// Name from the configuration.
    fn name(&self) -> &str;
    /// Decides, within a few tens of milliseconds. A defect counts as [`BackoffDecision::Fallback`].
    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision;
}
