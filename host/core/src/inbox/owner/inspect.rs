//! Counts for people.

use super::InboxOwner;
use super::entry::Stage;
use crate::inbox::settings::{ConsumerId, SourceId};

/// What happened since this owner began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// Deliveries of what was finished before (`DUPLICATE_MESSAGE`), one a consumer.
    pub duplicates: u64,
    pub processed: u64,
    pub dead: u64,
    /// Of those, ids that were used for something else.
    pub reused: u64,
    /// Failed attempts that became rows.
    pub failed: u64,
    /// Rows of what hadn't failed.
    pub stored: u64,
    pub replayed: u64,
    /// Takes that were found without their messages.
    pub orphans: u64,
    /// Of those, such as gave their place up.
    pub orphans_expired: u64,
}

/// What is in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxDepths {
    /// Messages of consumers, rows and orphans included.
    pub messages: usize,
    pub rows: usize,
    pub orphans: usize,
    /// Those that a handler has.
    pub running: usize,
    /// Those whose fate waits for a commit.
    pub decided: usize,
}

impl InboxOwner {
    pub fn counts(&self) -> InboxCounts {
        self.counts
    }

    pub fn depths(&self) -> InboxDepths {
        let count = |is: &dyn Fn(&super::entry::Entry) -> bool| self.entries.iter().filter(|entry| is(entry)).count();
        InboxDepths {
            messages: self.entries.iter().count(),
            rows: count(&|entry| entry.is_row()),
            orphans: count(&|entry| entry.stage == Stage::Orphan),
            running: count(&|entry| entry.stage == Stage::Called),
            decided: self.decided.len(),
        }
    }

    /// Deliveries of a source that aren't settled.
    pub fn in_hand(&self, source: SourceId) -> usize {
        self.hand.count(source)
    }

    /// Rows of a consumer.
    pub fn rows(&self, consumer: ConsumerId) -> usize {
        self.consumers.get(consumer).map_or(0, |consumer| consumer.rows)
    }

    /// For how much longer a consumer is paused or held; none = it isn't.
    pub fn held_for(&self, consumer: ConsumerId) -> Option<std::time::Duration> {
        let consumer = self.consumers.get(consumer)?;
        consumer.is_held(self.clock).then(|| consumer.held_until() - self.clock)
    }
}
