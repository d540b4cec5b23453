//! What waits to enter the order: direct requests, doorstep pages, scheduled messages that are due.

use std::sync::Arc;

use super::{Owner, Rule};
use crate::ids::{MessageId, Tenant};
use crate::new_message::Draft;
use crate::outbox::records::{DoorKey, DoorRow, IdRecord, Scheduled};
use crate::outbox::weight;
use crate::port::store::DueScheduled;
use crate::time::{Monotonic, Now, UnixMillis};

/// Settlements looked through for one that others wait for: a bound on the cost of asking.
const URGENT_SCAN: usize = 64;

/// Names a request, so that its answer finds the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Messages that a caller wants to enqueue directly. Its caller-made ids were looked up and are new, and none is
/// in it twice: such a commit could never go in.
#[derive(Clone, Debug)]
pub struct DirectRequest {
    /// Names it.
    pub ticket: Ticket,
    /// Checked messages in order.
    pub messages: Vec<Draft>,
    /// When it arrived.
    pub arrived: Monotonic,
}

#[derive(Debug)]
pub(super) struct WaitingDirect {
    pub request: DirectRequest,
    pub bytes: usize,
}

/// What the id index says of a doorstep message.
#[derive(Clone, Debug)]
pub struct ExistingId {
    /// The row found.
    pub record: IdRecord,
    /// The doorstep message has the same content.
    pub same: bool,
}

/// One page of a doorstep pass as read.
#[derive(Clone, Debug)]
pub struct DoorPage {
    /// Rows in key order.
    pub rows: Vec<DoorRow>,
    /// Fewer than asked for came: the pass is complete.
    pub complete: bool,
    /// For each message of `rows` (flattened): the id row that exists, if any.
    pub existing: Vec<Option<ExistingId>>,
}

/// The read that a pass needs next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorPassRequest {
    /// Lowest stamp.
    pub from_nanos: u64,
    /// Highest stamp, fixed when the pass began.
    pub until_nanos: u64,
    /// Only rows after this one; none but in a mutation: every page is read from the low end, for a transaction with an early stamp may have committed since
    /// the last page, and what was taken is gone.
    pub after: Option<DoorKey>,
    /// Page size.
    pub limit: usize,
}

#[derive(Clone, Debug)]
pub(super) struct Pass {
    pub began: Monotonic,
    pub from_nanos: u64,
    pub until_nanos: u64,
    /// The last row read: only a mutation goes on from there.
    pub after: Option<DoorKey>,
    pub page: Option<DoorPage>,
}

/// What a page did to its pass.
#[derive(Clone, Debug)]
pub(super) enum PassEnd {
    /// There is more.
    GoesOn(Pass),
    /// Everything up to this stamp was read.
    Over { until_nanos: u64 },
}

/// How the doorstep stands.
#[derive(Clone, Debug, Default)]
pub(super) struct DoorState {
    /// A pass is under way.
    pub pass: Option<Pass>,
    /// The last pass came to nothing, because its commit did: another one has to follow.
    pub owed: bool,
    /// Everything up to this stamp was read by passes that were completed, but for what committed later.
    pub drained_until: u64,
    /// Highest stamp seen, so that a clock set back doesn't hide rows.
    pub highest: u64,
}

/// How the schedule stands.
#[derive(Clone, Debug)]
pub(super) struct ScheduledState {
    /// Earliest instant known; an owner begins by looking.
    pub next: Option<UnixMillis>,
    /// Due ones read and not yet in a commit.
    pub due: Vec<Arc<Scheduled>>,
}

impl Default for ScheduledState {
    fn default() -> Self {
        Self { next: Some(UnixMillis(0)), due: Vec::new() }
    }
}

impl Owner {
    /// Queues a direct request. Its answer comes with the commit that takes it.
    pub fn enqueue(&mut self, request: DirectRequest) {
        let entering = request.messages.iter().map(|draft| weight::of_entering(&draft.message, !draft.needs_id));
        let bytes: usize = entering.sum();
        self.direct_bytes += bytes;
        self.pending_ids.add(&request);
        self.directs.push_back(WaitingDirect { request, bytes });
    }

    /// Direct messages and bytes that wait for a commit.
    pub fn waiting_directs(&self) -> (usize, usize) {
        (self.directs.iter().map(|direct| direct.request.messages.len()).sum(), self.direct_bytes)
    }

    /// Whether an id waits for a commit or is in the one that is out: a repeat has to wait for its fate.
    pub fn is_pending_id(&self, tenant: &Tenant, id: &MessageId) -> bool {
        self.pending_ids.contains(tenant, id)
    }

    /// Takes back the waiting requests that have callers' ids, so that those are looked up again: a commit failed
    /// because an id had been taken meanwhile.
    pub fn recall_identified(&mut self) -> Vec<DirectRequest> {
        let (recalled, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.directs)
            .into_iter()
            .partition(|direct| direct.request.messages.iter().any(|draft| !draft.needs_id));
        self.directs = kept.into();
        self.direct_bytes = self.directs.iter().map(|direct| direct.bytes).sum();
        recalled.iter().for_each(|direct| self.pending_ids.remove(&direct.request));
        recalled.into_iter().map(|direct| direct.request).collect()
    }

    /// Whether a commit should follow at once. Settlements alone may wait a moment for company, unless a message of
    /// their key or the end of a release waits for them.
    pub fn is_urgent(&self) -> bool {
        !self.directs.is_empty()
            || !self.commands.is_empty()
            || !self.want_parked.is_empty()
            || !self.want_segments.is_empty()
            || !self.corrupt.is_empty()
            || !self.scheduled.due.is_empty()
            || self.finish_more
            || self.in_door_pass()
            || self.releasing
            || self.wants_names()
            || self.outs.len() >= self.config.limits.settle_max / 8
            || self.outs.iter().take(URGENT_SCAN).any(|seq| {
                let key = self.slots.get(seq).and_then(|slot| slot.key);
                key.and_then(|key| self.keys.get(&key)).is_some_and(|queue| queue.seqs.len() > 1)
            })
    }

    /// Settlements that wait for a commit.
    pub fn waiting_settlements(&self) -> usize {
        self.outs.len()
    }

    /// Begins a pass over the doorstep, or goes on with the one under way. `from_nanos` is 0 for a full pass; the
    /// upper stamp of a new pass is `clock_nanos`. A pass begins no later than the same distance before the end of the
    /// last completed one, so that after a pause or a failed commit no older row is left behind. `now` is read before the
    /// clock. Call it only while no commit is out; the page read goes to
    /// [`Owner::door_page`] before the next [`Owner::build`].
    pub fn door_pass(&mut self, from_nanos: u64, clock_nanos: u64, now: Now) -> DoorPassRequest {
        let clock_nanos = clock_nanos.max(self.door.highest);
        let upper_fixed = self.is_rule_kept(Rule::PassUpperFixed);
        let from_low_end = self.is_rule_kept(Rule::PassFromLowEnd);
        let from_nanos = from_nanos.min(self.door.drained_until.saturating_sub(clock_nanos.saturating_sub(from_nanos)));
        self.door.owed = false;
        let pass = self.door.pass.get_or_insert(Pass {
            began: now.mono,
            from_nanos,
            until_nanos: clock_nanos,
            after: None,
            page: None,
        });
        if !upper_fixed {
            pass.until_nanos = clock_nanos;
        }
        if !from_low_end {
            pass.from_nanos = self.door.highest;
        }
        DoorPassRequest {
            from_nanos: pass.from_nanos,
            until_nanos: pass.until_nanos,
            after: if upper_fixed { None } else { pass.after.clone() },
            limit: self.config.limits.door_page,
        }
    }

    /// A page of a pass was taken for good.
    pub(super) fn end_page(&mut self, end: PassEnd) {
        match end {
            PassEnd::GoesOn(pass) => self.door.pass = Some(pass),
            PassEnd::Over { until_nanos } => {
                self.door.pass = None;
                self.door.drained_until = self.door.drained_until.max(until_nanos);
            }
        }
    }

    /// Whether a pass is under way, or came to nothing, so that the next commit should go on with it.
    pub fn in_door_pass(&self) -> bool {
        self.door.pass.is_some() || self.door.owed
    }

    /// Whether pages of a pass were taken and more are to come.
    pub fn has_door_pass(&self) -> bool {
        self.door.pass.is_some()
    }

    /// Takes the page that [`Owner::door_pass`] asked for.
    pub fn door_page(&mut self, page: DoorPage) {
        if let Some(row) = page.rows.last() {
            self.door.highest = self.door.highest.max(row.key.nanos);
        }
        if let Some(pass) = &mut self.door.pass {
            pass.page = Some(page);
        }
    }

    /// Says that nothing can be on the doorstep (embedded: no doorstep commit ended since the last pass began), so that
    /// an empty pass is complete at this instant without a read.
    pub fn door_is_empty(&mut self, now: Now) {
        if !self.in_door_pass() {
            let page = DoorPage { rows: Vec::new(), complete: true, existing: Vec::new() };
            self.door.pass =
                Some(Pass { began: now.mono, from_nanos: 0, until_nanos: 0, after: None, page: Some(page) });
        }
    }

    /// Whether scheduled messages are due and should be read before the next commit. Never while a commit is out: what
    /// that one takes would be read once more.
    pub fn wants_scheduled(&self, now: Now) -> bool {
        !self.in_flight() && self.scheduled.due.is_empty() && self.scheduled.next.is_some_and(|next| next <= now.wall)
    }

    /// Takes due scheduled messages.
    pub fn scheduled_page(&mut self, page: DueScheduled) {
        self.scheduled.next = page.next;
        self.scheduled.due = page.due;
    }
}
