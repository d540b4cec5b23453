//! What others ask of the task that owns a shard's inbox.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use waybill_core::ids::{ConsumerName, InboundId, Seq};
use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::owner::{InMemory, InboxOwner, Settle};
use waybill_core::inbox::records::InboxDead;
use waybill_core::inbox::settings::{ConsumerId, SourceId};
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::service::ServiceError;
use waybill_core::port::source::{LaneNotices, Pulled, Settled, Source};
use waybill_core::port::transport::CallError;

use super::holds::HoldNotes;
use super::settings::HomeSettings;

/// What became of a source's calls.
pub(super) enum SourceEvent {
    Opened {
        source: usize,
        result: Result<Arc<dyn Source>, CallError>,
    },
    /// The same of what was opened beside a source that went on.
    OpenedBeside {
        source: usize,
        result: Result<(), CallError>,
    },
    /// It has fetched its last.
    Quiesced {
        source: usize,
    },
    Closed {
        source: usize,
    },
    Pulled {
        id: SourceId,
        took: Duration,
        result: Result<Pulled, CallError>,
    },
    Settled {
        id: SourceId,
        orders: Vec<Settle>,
        result: Result<Vec<Settled>, CallError>,
    },
    Noticed {
        source: usize,
        notices: LaneNotices,
    },
}

/// A handler's word on one message.
pub(super) struct Answered {
    pub seq: Seq,
    pub consumer: ConsumerId,
    pub verdict: Verdict,
    pub took: Duration,
}

/// A dead letter that an operator wants to be handled again.
pub(super) struct ReplayAsk {
    pub dead: Arc<InboxDead>,
    /// Its message, or an edited one.
    pub message: Arc<InboundMessage>,
    /// Answers when it is stored; with what is in memory of it, if it still is.
    pub reply: oneshot::Sender<Result<Option<InMemory>, ServiceError>>,
}

/// A look at an owner.
pub(super) type OwnerLook = Box<dyn FnOnce(&InboxOwner, &HomeSettings, &HoldNotes) + Send>;

/// The mailbox has no bound of its own: answers are bounded by the calls that were made, the rest by callers who wait for a `reply`,
/// of whom the API lets in so many at once.
pub(super) enum Mail {
    /// Of the ownership with this number.
    Source {
        epoch: u64,
        event: SourceEvent,
    },
    /// Of the same.
    Answered {
        epoch: u64,
        answers: Vec<Answered>,
    },
    Replay(ReplayAsk),
    /// Removes a dead letter.
    Purge {
        dead: Seq,
        reply: oneshot::Sender<Result<(), ServiceError>>,
    },
    /// Dropped unanswered where nothing is in memory.
    Query(OwnerLook),
    /// The message at a consumer, if it is in memory.
    Find {
        consumer: ConsumerName,
        id: InboundId,
        reply: oneshot::Sender<Option<InMemory>>,
    },
    /// Something about a source's seat has changed: whether it is paused.
    SeatChanged,
    /// Closes a source in good order and opens it again. `go_on`: at the earliest that is kept.
    Reopen {
        source: String,
        go_on: bool,
        reply: oneshot::Sender<Result<(), CallError>>,
    },
    /// Another configuration is in force.
    Reconfigured,
    Release {
        timeout: Duration,
        reply: oneshot::Sender<()>,
    },
}
