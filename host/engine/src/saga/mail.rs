//! What others ask of the task that writes a shard's sagas.

use std::time::Duration;

use tokio::sync::oneshot;
use waybill_core::saga::call::{Answer, CallRef};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::shard::{SagaCommand, SagaReply, SagaShard};
use waybill_core::saga::state::SagaState;

/// What a caller hears.
pub(super) type Reply = oneshot::Sender<Result<SagaReply, SagaError>>;

/// A call that was answered.
pub(super) struct CallDone {
    /// Ownership that made it.
    pub epoch: u64,
    pub call: CallRef,
    pub answer: Answer,
}

/// The mailbox has no bound of its own, as that of a shard's actor. Answers are bounded by the calls under way, the rest by callers
/// who wait for a `reply`: the API bounds those.
pub(super) enum Mail {
    /// A command with its waiting caller.
    Command {
        command: Box<SagaCommand>,
        reply: Reply,
    },
    Answered(Box<CallDone>),
    /// Somebody waits until a tree is at rest. Dropped unanswered if it isn't in memory.
    Watch {
        key: SagaKey,
        reply: oneshot::Sender<SagaState>,
    },
    /// A look at what is in memory.
    Visit(Box<dyn FnOnce(&SagaShard) + Send>),
    Release {
        timeout: Duration,
        reply: oneshot::Sender<()>,
    },
}
