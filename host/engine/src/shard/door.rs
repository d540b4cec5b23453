//! The doorstep, where transactions and other hosts leave messages: when it is looked at, and who waits for that.

use tokio::sync::oneshot;
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch};
use waybill_core::time::Now;

use super::Context;
use super::actor::Actor;

/// The doorstep of one ownership, with those who wait until it is empty.
pub(super) type Door = DoorWatch<oneshot::Sender<()>>;

/// A watch that hasn't looked yet.
pub(super) fn watch(context: &Context) -> Door {
    let poll = (!context.config.exclusive).then_some(context.config.poll_interval);
    DoorWatch::new(DoorTimes { poll, ..DoorTimes::default() })
}

impl Actor {
    /// Whether a look for what isn't there may be answered without another read: nothing is on its way in, and nobody but this
    /// process leaves anything.
    pub(super) fn is_door_taken_in(&self, now: Now) -> bool {
        let is_idle = self.flight.is_idle() && !self.owner.in_flight() && !self.owner.has_waiting_directs();
        let is_alone = self.context.config.exclusive;
        is_idle
            && is_alone
            && self.door.is_taken_in(self.context.door.count(), now.mono, self.context.config.poll_interval)
    }

    pub(super) fn wants_door_pass(&self) -> bool {
        self.door.wants_pass(&self.owner, self.context.door.count(), self.now().mono)
    }

    /// Answers those who wait for a pass, when there is none and no commit that takes in what it read.
    pub(super) fn answer_door(&mut self) {
        for reply in self.door.taken_in(&self.owner) {
            let _gone = reply.send(());
        }
    }
}
