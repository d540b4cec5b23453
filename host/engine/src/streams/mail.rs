//! What others ask of the task that owns a shard's streams.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use waybill_core::ids::RelayName;
use waybill_core::outbox::decide::Fate;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::StreamActed;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::StreamOwner;
use waybill_core::streams::records::{Append, Checkpoint};

use super::relay::RelayDriver;

/// What became of an append that came straight to the owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AppendReply {
    Numbered {
        seqs: Vec<u64>,
        /// Places of events that were there already.
        duplicates: Vec<usize>,
    },
    /// The id of the event at this place is another one's.
    IdTaken(usize),
    /// It was never in a commit: whoever asked puts it on the doorstep.
    Recalled,
}

/// An append to number at once.
pub(super) struct AppendAsk {
    pub append: Arc<Append>,
    pub reply: oneshot::Sender<Result<AppendReply, ServiceError>>,
}

/// An operator takes away the front of a stream.
pub(super) struct PurgeAsk {
    pub stream: StreamKey,
    /// Up to before this number; none = all.
    pub before: Option<u64>,
    pub reply: oneshot::Sender<Result<StreamActed, ServiceError>>,
}

/// An operator sets a relay's place in a stream.
pub(super) struct SeekAsk {
    pub relay: RelayName,
    pub stream: StreamKey,
    /// As it is stored.
    pub checkpoint: Checkpoint,
    pub upto: u64,
    /// Answers when it is durable.
    pub reply: oneshot::Sender<Result<(), ServiceError>>,
}

/// What became of an event that a relay sent.
pub(super) struct Sent {
    pub stream: StreamKey,
    pub seq: u64,
    pub generation: u64,
    pub fate: Fate,
}

/// A look at an owner.
pub(super) type OwnerLook = Box<dyn FnOnce(&StreamOwner, &[RelayDriver]) + Send>;

/// The mailbox has no bound of its own: appends are bounded by the callers that wait for them, of whom the API lets in so many at once,
/// and words of brokers by what relays have in flight.
pub(super) enum Mail {
    Append(AppendAsk),
    /// Something may lie on the doorstep.
    Door,
    /// Words of a broker, for the ownership with this number.
    Sent {
        epoch: u64,
        relay: RelayName,
        sent: Vec<Sent>,
    },
    Purge(PurgeAsk),
    Seek(SeekAsk),
    /// Dropped unanswered where nothing is in memory.
    Query(OwnerLook),
    /// A relay or a transport was paused or goes on.
    RelayChanged,
    /// Other settings are in force.
    Reconfigured,
    Release {
        timeout: Duration,
        reply: oneshot::Sender<()>,
    },
}
