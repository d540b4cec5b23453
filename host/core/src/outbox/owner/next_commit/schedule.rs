//! Scheduled messages that are due: read ahead of the commit that puts them into the order.

use std::sync::Arc;

use crate::outbox::records::Scheduled;
use crate::port::store::DueScheduled;
use crate::time::{Now, UnixMillis};

/// How the schedule stands. No scheduled message in the store is due before `next` that isn't in `due` or in the commit that is out.
#[derive(Clone, Debug)]
pub(in super::super) struct Schedule {
    /// Earliest instant known; an owner begins by looking.
    next: Option<UnixMillis>,
    /// Due ones read and not yet in a commit.
    due: Vec<Arc<Scheduled>>,
}

impl Default for Schedule {
    fn default() -> Self {
        Self { next: Some(UnixMillis(0)), due: Vec::new() }
    }
}

impl Schedule {
    /// The next instant at which something is due.
    pub fn next(&self) -> Option<UnixMillis> {
        self.next
    }

    /// Whether some are due that were not read.
    pub fn wants_read(&self, now: Now) -> bool {
        self.due.is_empty() && self.next.is_some_and(|next| next <= now.wall)
    }

    /// Takes those that were read.
    pub fn take_page(&mut self, page: DueScheduled) {
        self.next = page.next;
        self.due = page.due;
    }

    /// Another one came to be scheduled.
    pub fn note(&mut self, scheduled: &Scheduled) {
        let due = scheduled.due;
        if self.next.is_none_or(|next| due < next) {
            self.next = Some(due);
        }
    }

    /// Whether some wait for a commit.
    pub fn has_due(&self) -> bool {
        !self.due.is_empty()
    }

    /// Whether this one does.
    pub fn is_due(&self, scheduled: &Scheduled) -> bool {
        let (id, tenant) = (&scheduled.message.id, &scheduled.message.tenant);
        self.due.iter().any(|due| due.message.id == *id && due.message.tenant == *tenant)
    }

    /// Those that wait for a commit; what it has no room for is put back.
    pub fn take_due(&mut self) -> Vec<Arc<Scheduled>> {
        std::mem::take(&mut self.due)
    }

    /// These wait for a commit, before all that do.
    pub fn put_back(&mut self, due: Vec<Arc<Scheduled>>) {
        let behind = std::mem::replace(&mut self.due, due);
        self.due.extend(behind);
    }
}
