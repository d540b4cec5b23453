//! For people: what is in memory.

use std::sync::Arc;

use super::SagaShard;
use crate::port::saga::SagaStats;
use crate::saga::definition::DefinitionSet;
use crate::saga::filter::SagaFilter;
use crate::saga::id::SagaKey;
use crate::saga::records::SagaSummary;
use crate::saga::state::{SagaState, Tree};

impl SagaShard {
    /// A tree in memory, by the id of its root or of a sub-saga, as it is now: it may be ahead of the store.
    pub fn tree(&self, key: &SagaKey) -> Option<(Arc<Tree>, Arc<DefinitionSet>)> {
        let running = self.running.get(self.slots.get(&key.root())?)?;
        Some((Arc::clone(&running.tree), Arc::clone(&running.definitions)))
    }

    /// State of a tree in memory, by the id of its root or of a sub-saga; `None` inside when it is ahead of the store.
    pub fn committed_state(&self, key: &SagaKey) -> Option<Option<SagaState>> {
        let slot = self.slots.get(&key.root())?;
        let is_out = self.flight.as_ref().is_some_and(|flight| flight.batch.has(*slot));
        let is_ahead = is_out || self.waiting.has(*slot);
        let running = self.running.get(slot)?;
        Some((!is_ahead && !running.too_large).then(|| running.tree.state()))
    }

    /// Those in memory that match, newest start first. Looks at all.
    pub fn list(&self, filter: &SagaFilter) -> Vec<SagaSummary> {
        let all = self.running.values().map(|running| running.tree.summary(&running.definitions));
        let mut list: Vec<SagaSummary> = all.filter(|saga| filter.takes(saga)).collect();
        list.sort_by(|a, b| (b.started_at, &b.key).cmp(&(a.started_at, &a.key)));
        list
    }

    /// Counts. Looks at all.
    pub fn stats(&self) -> SagaStats {
        let trees = || self.running.values().map(|running| &running.tree);
        SagaStats {
            running: self.running.len() as u64,
            running_bytes: self.weight as u64,
            paused: trees().filter(|tree| tree.paused.is_some() && tree.stuck().is_none()).count() as u64,
            stuck: trees().filter(|tree| tree.stuck().is_some()).count() as u64,
            timers: self.timers.len() as u64,
            uncommitted: self.waiting.entries.len() as u64,
        }
    }
}
