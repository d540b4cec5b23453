//! The doorstep, where transactions and other hosts leave messages: the reads of a look at it ([`DoorWatch`] says when).

use std::sync::Arc;

use tokio::sync::oneshot;
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch};
use waybill_core::outbox::owner::DoorPage;
use waybill_core::port::store::StoreError;
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
        let is_idle = self.pending.is_none() && !self.owner.in_flight() && !self.owner.has_waiting_directs();
        let is_alone = self.context.config.exclusive;
        is_idle
            && is_alone
            && self.door.is_taken_in(self.context.door.count(), now.mono, self.context.config.poll_interval)
    }

    pub(super) fn wants_door_pass(&self) -> bool {
        self.door.wants_pass(&self.owner, self.context.door.count(), self.now().mono)
    }

    pub(super) async fn look_at_door(&mut self) -> Result<(), StoreError> {
        // Before the clock is read: what is on the doorstep by now is covered.
        let (bell, now) = (self.context.door.count(), self.now());
        let Some(look) = self.door.look(&mut self.owner, bell, now) else { return Ok(()) };
        let store = Arc::clone(&self.context.stores.owner);
        let shard = self.owner.shard();
        let clock = store.door_clock().await?;
        let newest = if look.full { store.door_newest(shard).await? } else { None };
        let request = self.door.begin(&mut self.owner, look, clock, newest);
        let after = request.after.clone();
        let rows = store.door(shard, request.from_nanos, request.until_nanos, after, request.limit).await?;
        let ids = DoorPage::ids(&rows);
        let found = if ids.is_empty() { Vec::new() } else { store.ids(&ids).await? };
        self.door.page(&mut self.owner, DoorPage::of(&request, rows, found));
        Ok(())
    }

    /// Answers those who wait for a pass, when there is none and no commit that takes in what it read.
    pub(super) fn answer_door(&mut self) {
        for reply in self.door.taken_in(&self.owner) {
            let _gone = reply.send(());
        }
    }
}
