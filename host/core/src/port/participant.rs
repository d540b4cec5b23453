//! The participant port: saga steps served by one configured plugin, called by name as `fn:<participant>/<step>`.
//!
//! An implementation keeps its instances by itself. By default an instance serves one call at a time and is used again only
//! for the tenant it has served. Every call is answered: a trap or a missed deadline is a [`StepError::Retryable`] whose fate
//! is unknown, and what no guest was asked is [`StepError::Release`].

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::followup::{Outgoing, StreamEvent};
use super::transport::{Fault, HealthReport, PluginIdentity};
use crate::ids::Tenant;
use crate::message::Headers;
use crate::time::UnixMillis;

/// One step that a participant serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepInfo {
    /// Its name in `fn:<participant>/<name>`.
    pub name: String,
    /// It has a compensation.
    pub compensates: bool,
    /// Repeating it with one idempotency key has one effect.
    pub idempotent: bool,
    /// One line for people.
    pub summary: String,
    /// Registered extras: `input-schema`, `output-schema`, `timeout-ms`.
    pub attributes: Vec<(String, String)>,
}

/// Whether a step is done or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    Execute,
    Compensate,
}

impl Direction {
    /// Its name in idempotency keys.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Execute => "execute",
            Self::Compensate => "compensate",
        }
    }
}

/// In which saga a step is called, and for which of its steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepContext {
    /// Instance of the saga.
    pub saga_id: String,
    pub definition: String,
    /// Version of the definition.
    pub definition_version: u32,
    /// Whose saga it is. An instance that has served one tenant never serves another.
    pub tenant: String,
    /// Name of the step in the definition; several may use one function.
    pub step: String,
    /// 1 on the first attempt.
    pub attempt: u32,
    pub envelope_id: Option<String>,
    /// Ties replies to the saga.
    pub correlation_id: Option<String>,
    /// When the whole saga must be over.
    pub saga_deadline: Option<UnixMillis>,
    /// W3C trace context of the host's span for this call.
    pub traceparent: Option<String>,
    pub headers: Headers,
    pub attributes: Vec<(String, String)>,
}

impl StepContext {
    /// The first attempt of a step, with nothing optional.
    pub fn new(saga_id: impl Into<String>, definition: impl Into<String>, step: impl Into<String>) -> Self {
        Self {
            saga_id: saga_id.into(),
            definition: definition.into(),
            definition_version: 1,
            tenant: "default".to_owned(),
            step: step.into(),
            attempt: 1,
            envelope_id: None,
            correlation_id: None,
            saga_deadline: None,
            traceparent: None,
            headers: Vec::new(),
            attributes: Vec::new(),
        }
    }

    /// What a step passes on as Idempotency-Key, see [`idempotency_key`].
    pub fn idempotency_key(&self, direction: Direction) -> String {
        idempotency_key(&self.tenant, &self.saga_id, &self.step, direction)
    }
}

/// The idempotency key of a step: made of saga, step and direction, so it is the same on every attempt, after a crash and by
/// every generation of the plugin. The ids of sagas are unique within a tenant, so every tenant but `default` is in front, behind a `~`,
/// with which no id begins.
pub fn idempotency_key(tenant: &str, saga_id: &str, step: &str, direction: Direction) -> String {
    let key = format!("{saga_id}/{step}/{}", direction.as_str());
    if tenant == Tenant::UNNAMED { key } else { format!("~{tenant}/{key}") }
}

/// What a step answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepOutput {
    /// Result, kept with the saga and given to the compensation.
    pub data: Bytes,
    /// Media type; none = `application/json`, which input mappings need.
    pub content_type: Option<String>,
    /// Messages to enqueue in the commit that records the step.
    pub messages: Vec<Outgoing>,
    /// Events to append in that commit.
    pub events: Vec<StreamEvent>,
    pub attributes: Vec<(String, String)>,
}

/// The step goes on elsewhere; a signal completes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// Name of the signal that ends it.
    pub signal: String,
    /// Give up after this; none = the step's timeout.
    pub timeout: Option<Duration>,
    /// Kept, and given to the compensation as output if the signal never comes.
    pub data: Bytes,
}

/// How a step ended well.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepDone {
    Output(StepOutput),
    /// Accepted, not done yet.
    Pending(Pending),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepError {
    /// Try again by the step's backoff; the attempt counts. `fault.maybe_delivered` tells that its effect is unknown: a trap,
    /// a missed deadline, or the step's own word.
    Retryable(Fault),
    /// Won't succeed: compensate; from a compensation: a stuck saga for an operator.
    Permanent(Fault),
    /// What the step needs is at fault: hold steps of this scope, count no attempt. The host's own scope is
    /// `fn:<participant>`: it can't be opened, or its breaker is open.
    Blocked {
        /// What stops: a service, an account, `fn:<participant>`.
        scope: String,
        /// Why; `after` = when another try makes sense.
        fault: Fault,
    },
    /// No guest was asked: no instance was free, or the participant is ending. The attempt doesn't count; try again after
    /// `fault.after`.
    Release(Fault),
}

impl StepError {
    pub fn fault(&self) -> &Fault {
        match self {
            Self::Retryable(fault) | Self::Permanent(fault) | Self::Release(fault) | Self::Blocked { fault, .. } => {
                fault
            }
        }
    }
}

/// An answer and who gave it: the very generation that ran the call, also when another has taken over meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answered<T> {
    /// Plugin, version, digest, generation.
    pub by: PluginIdentity,
    /// What came of it.
    pub result: Result<T, StepError>,
}

#[async_trait]
pub trait Participant: Send + Sync + 'static {
    /// Name from the configuration, e.g. `orders`.
    fn name(&self) -> &str;
    fn identity(&self) -> PluginIdentity;
    /// The steps served now, in the plugin's order.
    fn steps(&self) -> Vec<StepInfo>;
    /// Does a step. `input` is JSON made by the definition's mapping. Waits at most `timeout`, for a free instance included. A
    /// name that isn't served is a [`StepError::Blocked`]: the plugin was changed, and may be changed again.
    async fn execute(&self, name: &str, context: &StepContext, input: Bytes, timeout: Duration) -> Answered<StepDone>;
    /// Undoes it. `output` is what `execute` answered; none = unknown, it may or may not have had an effect.
    async fn compensate(
        &self,
        name: &str,
        context: &StepContext,
        input: Bytes,
        output: Option<Bytes>,
        timeout: Duration,
    ) -> Answered<StepOutput>;
    /// How it is, without calling a guest.
    fn health(&self) -> HealthReport;
    /// Ends all instances in good order, within `timeout`; calls under way may end by themselves until then.
    async fn close(&self, timeout: Duration);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_idempotency_key_is_the_same_on_every_attempt_and_differs_by_step_and_direction() {
        let first = StepContext::new("s-1", "order", "reserve");
        let again = StepContext { attempt: 7, traceparent: Some("x".to_owned()), ..first.clone() };
        let key = first.idempotency_key(Direction::Execute);
        assert_eq!(key, again.idempotency_key(Direction::Execute));
        assert_eq!(key, "s-1/reserve/execute");
        assert_ne!(key, first.idempotency_key(Direction::Compensate));
        assert_ne!(key, StepContext { step: "charge".to_owned(), ..first }.idempotency_key(Direction::Execute));
    }

    #[test]
    fn tenants_whose_sagas_have_the_same_id_have_other_keys() {
        let first = StepContext::new("s-1", "order", "reserve");
        let other = StepContext { tenant: "acme".to_owned(), ..first.clone() };
        assert_eq!(other.idempotency_key(Direction::Compensate), "~acme/s-1/reserve/compensate");
        assert_eq!(first.idempotency_key(Direction::Compensate), "s-1/reserve/compensate");
    }
}
