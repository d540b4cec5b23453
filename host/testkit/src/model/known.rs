//! What the model knows of each message, from the client's side and from what was committed.

use waybill_core::ids::{MessageId, Place, ShardId, Tenant};
use waybill_core::outbox::records::{DoneEnd, DoorKey};
use waybill_core::time::UnixMillis;

/// Where a message lies in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Spot {
    Nowhere,
    Door(ShardId, DoorKey),
    Scheduled(ShardId, UnixMillis),
    Segment(Place),
    /// Its done bit is set; its segment is still claimed.
    Acked(Place),
    Parked(Place),
    Dead(Place),
    Done(Place),
    /// A repeat of another message.
    Dropped,
    /// In a row that can't be read and was set aside.
    Quarantined,
}

impl Spot {
    /// The shard that it is of.
    pub fn shard(&self) -> Option<ShardId> {
        match self {
            Self::Door(shard, _) | Self::Scheduled(shard, _) => Some(*shard),
            Self::Segment(place) | Self::Acked(place) | Self::Parked(place) | Self::Dead(place) | Self::Done(place) => {
                Some(place.shard)
            }
            Self::Nowhere | Self::Dropped | Self::Quarantined => None,
        }
    }
}

/// How a message ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Finished(DoneEnd),
    Dead,
    /// A repeat of another message.
    Repeat,
    /// Its row can't be read and was set aside.
    Quarantined,
}

/// What the receiver answers to an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReceiverAnswer {
    Ack,
    Retry,
    Dead,
    Blocked,
    Released,
}

#[derive(Clone, Debug)]
pub(super) struct Attempt {
    pub token: u64,
    /// The lease under which a worker outside made it.
    pub lease: Option<u64>,
    /// None while it is under way, or when nobody heard it.
    pub answer: Option<ReceiverAnswer>,
}

#[derive(Clone, Debug)]
pub(super) struct Known {
    pub tenant: Tenant,
    pub id: Option<MessageId>,
    pub key: Option<u64>,
    /// When its enqueue began.
    pub begin: u64,
    /// When it was committed.
    pub commit: Option<u64>,
    /// Its transaction, and its number there.
    pub transaction: u64,
    pub index: u64,
    /// It joins the order of its key later than it was committed: scheduled, replayed, or left on the wrong doorstep.
    pub joins_late: bool,
    pub poison: bool,
    /// Hosts that died of it while it was named as a suspect.
    pub trial_kills: u32,
    /// What makes a repeat of the same id the same message.
    pub content: u64,
    pub spot: Spot,
    /// Its place in the order, once it has one.
    pub place: Option<Place>,
    pub end: Option<End>,
    pub attempts: Vec<Attempt>,
    /// Times it was replayed from the dead letters.
    pub replays: u32,
    /// Times it appears in the history.
    pub in_history: u32,
    /// Its history was removed after its time.
    pub purged: bool,
    pub via_door: bool,
    /// An owner has met its row and couldn't read it: it holds up nobody any more.
    pub unreadable: bool,
}

impl Known {
    /// Committed and not at its end.
    pub fn is_live(&self) -> bool {
        self.commit.is_some() && self.end.is_none()
    }
}
