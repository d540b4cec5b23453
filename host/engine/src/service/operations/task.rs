//! What an operation does, and to what.

use waybill_core::code::Code;
use waybill_core::outbox::dead_groups::DeadCause;
use waybill_core::port::missing::Missing;
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::saga::{ActedBy, SagaAct};
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::Operation;
use waybill_core::time::UnixMillis;

use super::dead::{DeadAct, DeadLetters};
use super::messages::{CANCEL, RESCHEDULE, WaitingMessages};
use super::sagas::OpenSagas;
use super::{Outbox, REPLAY};

/// An act on many, as the runner takes it.
pub(super) trait Task {
    /// One that is acted on.
    type Item: Send + Sync;

    /// An act that has to wait is tried so often before its page is read again.
    const TRIES: u32;

    /// How many match now. Of dead letters `reads` of each kind are looked at.
    async fn count(&self, outbox: &Outbox, reads: usize) -> Result<Counted<u64>, ServiceError>;
    async fn page(&self, outbox: &Outbox, cursor: Option<&str>) -> Result<Page<Self::Item>, ServiceError>;
    /// Acts on one. An error means that the whole operation has to wait.
    async fn act(&self, outbox: &Outbox, item: &Self::Item) -> Result<Outcome, ServiceError>;
    fn id(item: &Self::Item) -> &str;
    /// What no other one has: ids are those of a tenant and a kind.
    fn identity(item: &Self::Item) -> String;
    /// When it came to be what is acted on: what is younger than the operation isn't taken.
    fn since(item: &Self::Item) -> UnixMillis;
    /// Where the operation goes on behind an item of the page that was read from `cursor`. None = at the page's beginning: what
    /// is done is gone from there.
    fn cursor_behind(cursor: Option<&str>, item: &Self::Item) -> Result<Option<String>, ServiceError>;
    /// Of a dead letter: its group.
    fn cause(_: &Self::Item) -> Option<DeadCause> {
        None
    }
}

/// What became of one.
pub(super) enum Outcome {
    /// What comes of it, if anything does, is counted elsewhere.
    Done,
    /// It was put back, and is delivered by that.
    Delivered,
    /// It was put back, and nobody counts what comes of it.
    NotFollowed,
    /// It was so already.
    Unchanged,
    Refused {
        code: Code,
        detail: String,
    },
    /// It has moved since its page was read, and the filter doesn't take it any more.
    MatchesNoMore,
}

impl Outcome {
    /// Whether it was done to this one now.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done | Self::Delivered | Self::NotFollowed)
    }

    /// What of the store's troubles isn't the caller's business goes to the log alone.
    pub fn refused(error: &ServiceError) -> Self {
        let code = error.code();
        if code.status() == 500 {
            tracing::warn!(code = code.as_str(), %error, "a bulk act is refused");
            return Self::Refused { code, detail: "it failed in the host, whose log has the reason".to_owned() };
        }
        Self::Refused { code, detail: error.to_string() }
    }
}

/// The tasks that there are.
pub(super) enum Work {
    DeadLetters(DeadLetters),
    Sagas(OpenSagas),
    Messages(WaitingMessages),
}

impl Work {
    /// Reads an operation. None = it can be about nothing, because its filter names another tenant than it is confined to.
    pub fn of(outbox: &Outbox, operation: &Operation) -> Result<Option<Self>, ServiceError> {
        let dead = |act| DeadLetters::of(operation, act).map(|task| task.map(Self::DeadLetters));
        let sagas = |act| OpenSagas::of(outbox, operation, act).map(|task| task.map(Self::Sagas));
        match operation.kind.as_str() {
            REPLAY => dead(DeadAct::Replay),
            "quarantine" => dead(DeadAct::Quarantine),
            "purge" => dead(DeadAct::Purge),
            "pause" => sagas(SagaAct::Pause),
            "resume" => sagas(SagaAct::Resume),
            "cancel" => sagas(SagaAct::Cancel),
            "kill" => sagas(SagaAct::Kill),
            "retry" => sagas(SagaAct::Retry { step: operation.step.clone(), mode: operation.mode.unwrap_or_default() }),
            "accept" => sagas(SagaAct::Accept),
            CANCEL | RESCHEDULE => WaitingMessages::of(operation).map(|task| task.map(Self::Messages)),
            kind => Err(ServiceError::NotFound { what: Missing::OperationKind, id: kind.to_owned() }),
        }
    }

    pub async fn count(&self, outbox: &Outbox, reads: usize) -> Result<Counted<u64>, ServiceError> {
        match self {
            Self::DeadLetters(task) => task.count(outbox, reads).await,
            Self::Sagas(task) => task.count(outbox, reads).await,
            Self::Messages(task) => task.count(outbox, reads).await,
        }
    }
}

/// Who acts on sagas: by the operation's id its acts are known in their histories.
pub(super) fn acted_by(operation: &Operation) -> ActedBy {
    let actor = match operation.actor.as_str() {
        "" => format!("operation {}", operation.id),
        actor => format!("{actor} (operation {})", operation.id),
    };
    ActedBy { actor, note: Some(operation.reason.clone()).filter(|reason| !reason.trim().is_empty()) }
}
