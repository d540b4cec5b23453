//! What others ask of the task that writes a shard's sagas.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use waybill_core::saga::call::{Answer, CallRef};
use waybill_core::saga::definition::DefinitionSet;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::records::SagaSummary;
use waybill_core::saga::shard::{ActKnown, Needs, SagaCommand, SagaReply, SagaShard};
use waybill_core::saga::state::{SagaState, Tree};

/// What a caller hears.
pub(super) type Reply = oneshot::Sender<Result<SagaReply, SagaError>>;

/// A call that was answered.
pub(super) struct CallDone {
    /// Ownership that made it.
    pub epoch: u64,
    pub call: CallRef,
    pub answer: Answer,
}

/// A tree and the definitions that it runs on.
pub(super) type Known = (Arc<Tree>, Arc<DefinitionSet>);

/// A question about what is in memory, which changes nothing there.
pub(super) enum MemoryQuery {
    /// A tree, by the id of its root or of a sub-saga, as it is now: it may be ahead of the store.
    Tree { key: SagaKey, reply: oneshot::Sender<Option<Known>> },
    /// A tree by the key of its root, as it is now, and how many of its events the store has; none there = nobody knows.
    History { key: SagaKey, reply: oneshot::Sender<Option<(Known, Option<u32>)>> },
    /// A saga as it is now, and whether this actor has acted on it.
    Act { key: SagaKey, actor: String, reply: oneshot::Sender<Option<(SagaSummary, ActKnown)>> },
    /// Those of the keys whose trees are there.
    Present { keys: Vec<SagaKey>, reply: oneshot::Sender<Vec<SagaKey>> },
    /// What all of them may still call of a participant.
    Needs { participant: String, reply: oneshot::Sender<Needs> },
    /// How many sagas match.
    Count { filter: Box<SagaFilter>, reply: oneshot::Sender<u64> },
    /// Those that match, newest start first.
    List { filter: Box<SagaFilter>, reply: oneshot::Sender<Vec<SagaSummary>> },
}

impl MemoryQuery {
    pub fn answer(self, shard: &SagaShard) {
        match self {
            Self::Tree { key, reply } => answer(reply, shard.tree(&key)),
            Self::History { key, reply } => {
                let history = shard.history(&key);
                answer(reply, history.map(|(tree, definitions, committed)| ((tree, definitions), committed)));
            }
            Self::Act { key, actor, reply } => answer(reply, shard.act_of(&key, &actor)),
            Self::Present { keys, reply } => {
                answer(reply, keys.into_iter().filter(|key| shard.tree(key).is_some()).collect());
            }
            Self::Needs { participant, reply } => answer(reply, shard.step_needs(&participant)),
            Self::Count { filter, reply } => answer(reply, shard.count(&filter)),
            Self::List { filter, reply } => answer(reply, shard.list(&filter)),
        }
    }
}

fn answer<T>(reply: oneshot::Sender<T>, answer: T) {
    // Nobody listens when the caller hung up.
    let _gone = reply.send(answer);
}

/// The mailbox has no bound of its own, as that of a shard's actor. Answers are bounded by the calls that were made, each of which
/// has one, the rest by callers who wait for a `reply`: the API bounds those.
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
    /// Dropped unanswered where nothing is in memory.
    Query(MemoryQuery),
    /// The inbox left something at the door.
    Door,
    Release {
        timeout: Duration,
        reply: oneshot::Sender<()>,
    },
}
