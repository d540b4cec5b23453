//! What waits to enter the order: direct requests, doorstep pages, scheduled messages that are due.

use super::{DirectRequest, DoorPage, DoorPassRequest, Owner};
use crate::ids::{MessageId, Tenant};
use crate::port::store::DueScheduled;
use crate::time::{Monotonic, Now};

/// Settlements looked through for one that others wait for: a bound on the cost of asking.
const URGENT_SCAN: usize = 64;

impl Owner {
    /// Queues a direct request. Its answer comes with the commit that takes it.
    pub fn enqueue(&mut self, request: DirectRequest) {
        self.next.requests.push(request);
    }

    /// Whether an id waits for a commit or is in the one that is out: a repeat has to wait for its fate.
    pub fn is_pending_id(&self, tenant: &Tenant, id: &MessageId) -> bool {
        self.next.requests.is_pending(tenant, id)
    }

    /// Takes back the waiting requests that have callers' ids, so that those are looked up again: a commit failed
    /// because an id had been taken meanwhile.
    pub fn recall_identified(&mut self) -> Vec<DirectRequest> {
        self.next.requests.recall_identified()
    }

    /// Whether a commit should follow at once. Settlements alone may wait a moment for company, unless a message of
    /// their key or the end of a release waits for them.
    pub fn is_urgent(&self, now: Monotonic) -> bool {
        let settlements = self.next.settlements();
        self.next.is_urgent()
            || !self.scheduler.claims().is_empty()
            || !self.window.unreadable().is_empty()
            || self.releasing
            || self.wants_names(now)
            || settlements.len() >= self.config.limits.settle_max / 8
            || settlements.iter().take(URGENT_SCAN).any(|seq| {
                let key = self.slots.get(seq).and_then(|slot| slot.key);
                key.is_some_and(|key| self.keys.len_of(key) > 1)
            })
    }

    /// Settlements that wait for a commit.
    pub fn waiting_settlements(&self) -> usize {
        self.next.settlements().len()
    }

    /// Begins a pass over the doorstep, or goes on with the one under way. `from_nanos` is 0 for a full pass; the
    /// upper stamp of a new pass is `clock_nanos`. `now` is read before the clock. Call it only while no commit is out; the page
    /// read goes to [`Owner::door_page`] before the next [`Owner::build`].
    pub fn door_pass(&mut self, from_nanos: u64, clock_nanos: u64, now: Now) -> DoorPassRequest {
        self.next.doorstep.begin(from_nanos, clock_nanos, now, self.config.rules, self.config.limits.door_page)
    }

    /// Whether a pass is under way, or came to nothing, so that the next commit should go on with it.
    pub fn in_door_pass(&self) -> bool {
        self.next.doorstep.in_pass()
    }

    /// Whether pages of a pass were taken and more are to come.
    pub fn has_door_pass(&self) -> bool {
        self.next.doorstep.has_pass()
    }

    /// Takes the page that [`Owner::door_pass`] asked for.
    pub fn door_page(&mut self, page: DoorPage) {
        self.next.doorstep.take_page(page);
    }

    /// Says that nothing can be on the doorstep (embedded: no doorstep commit ended since the last pass began), so that
    /// an empty pass is complete at this instant without a read.
    pub fn door_is_empty(&mut self, now: Now) {
        self.next.doorstep.pass_unread(now);
    }

    /// Whether scheduled messages are due and should be read before the next commit. Never while a commit is out: what
    /// that one takes would be read once more.
    pub fn wants_scheduled(&self, now: Now) -> bool {
        !self.in_flight() && self.next.schedule.wants_read(now)
    }

    /// Takes due scheduled messages.
    pub fn scheduled_page(&mut self, page: DueScheduled) {
        self.next.schedule.take_page(page);
    }
}
