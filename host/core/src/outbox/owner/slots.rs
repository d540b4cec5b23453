//! A message in memory.

use std::sync::Arc;
use std::time::Duration;

use super::settle::Settlement;
use super::{HoldKey, TransportId};
use crate::ids::{KeyHash, Place, Seq};
use crate::message::Message;
use crate::outbox::records::{AttemptOutcome, AttemptRecord, Parked};
use crate::time::{Monotonic, Now, UnixMillis};

/// Where a message in memory lies in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Segment,
    Parked,
}

/// What a message in memory is doing.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum SlotState {
    /// Behind another of its key, or not due.
    Waiting,
    /// Its destination or transport is held.
    Held(HoldKey),
    /// Too many messages of its tenant wait for retries.
    Stalled,
    /// May be sent once it is claimed.
    WantClaim,
    /// A suspect that may be sent once it is put on trial.
    WantTrial,
    /// Claimed; may be sent.
    Ready {
        lane: u32,
    },
    Sending,
    /// Its fate waits for a commit.
    Out(Box<Settlement>),
    /// Its fate is in the commit that is out.
    Settling(Box<Settlement>),
}

/// A message in memory.
#[derive(Debug)]
pub(super) struct Slot {
    pub place: Place,
    pub message: Arc<Message>,
    pub key: Option<KeyHash>,
    pub transport: Option<TransportId>,
    /// Under which of the owner's routings that was found.
    pub routed: u32,
    /// Workers claim it from outside. A crash of this host says nothing about it, so it needs no durable claim.
    pub outside: bool,
    pub origin: Origin,
    pub attempts: u32,
    /// Not before this instant, as its row says.
    pub due: UnixMillis,
    /// The same by the boot-time clock, which nobody sets: this is what wakes it.
    pub wakes: Monotonic,
    pub delay: Duration,
    pub first_attempt_at: Option<UnixMillis>,
    /// Parked messages only: the row says that a send may be under way.
    pub claimed: bool,
    pub history: Vec<AttemptRecord>,
    pub state: SlotState,
}

impl Slot {
    pub fn seq(&self) -> Seq {
        self.place.seq()
    }
    /// Nothing was begun that has to end first.
    pub fn is_idle(&self) -> bool {
        !matches!(self.state, SlotState::Sending | SlotState::Out(_) | SlotState::Settling(_))
    }
    /// It keeps its segment claimed while it is ready, being sent or settled.
    pub fn pins_segment(&self) -> bool {
        self.origin == Origin::Segment && !self.outside
    }
    /// Goes alone in its batch: its last call ended with an unknown fate.
    pub fn goes_alone(&self) -> bool {
        !self.outside && self.history.last().is_some_and(|last| last.outcome == AttemptOutcome::Unknown)
    }
    /// When it is due, by the wall clock as it stands now.
    pub fn due_at(&self, now: Now) -> UnixMillis {
        let at = now.wall_at(self.wakes);
        // One clock is read to the millisecond, the other isn't.
        let is_same = self.wakes <= now.mono || at.0.abs_diff(self.due.0) <= 1;
        if is_same { self.due } else { at }
    }
    /// The row of this message, parked until `due`.
    pub fn parked(&self, claimed: bool) -> Parked {
        Parked {
            place: self.place,
            message: Arc::clone(&self.message),
            attempts: self.attempts,
            due: self.due,
            delay: self.delay,
            first_attempt_at: self.first_attempt_at.unwrap_or(self.due),
            claimed,
            history: self.history.clone(),
        }
    }
}
