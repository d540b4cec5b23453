//! For people, and for plugins that are to take another's place: what is in memory.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::SagaShard;
use crate::port::saga::SagaStats;
use crate::saga::definition::DefinitionSet;
use crate::saga::event::StepDirection;
use crate::saga::filter::SagaFilter;
use crate::saga::id::SagaKey;
use crate::saga::records::SagaSummary;
use crate::saga::state::{SagaState, Tree};
use crate::step_address::StepAddress;

/// Steps that sagas in memory may still call, each with how many do and one of them.
pub type Needs = HashMap<(StepAddress, StepDirection), (u64, SagaKey)>;

/// Whether somebody has acted on a tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActKnown {
    /// Nothing in its history is theirs.
    None,
    /// There is, and the store doesn't have it all yet.
    Uncommitted,
    /// There is, and the store has it.
    Committed,
    /// It stands still, because it is larger than the store takes: what it holds in memory may never be committed.
    StandsStill,
}

impl SagaShard {
    /// A tree in memory, by the id of its root or of a sub-saga, as it is now: it may be ahead of the store.
    pub fn tree(&self, key: &SagaKey) -> Option<(Arc<Tree>, Arc<DefinitionSet>)> {
        let running = self.running.get(self.slots.get(&key.root())?)?;
        Some((Arc::clone(&running.tree), Arc::clone(&running.definitions)))
    }

    /// A tree in memory by the key of its root, as it is now, and how many of its events the store has. None there: it stands still, and is
    /// ahead of the store by what isn't known any more.
    pub fn history(&self, key: &SagaKey) -> Option<(Arc<Tree>, Arc<DefinitionSet>, Option<u32>)> {
        let slot = *self.slots.get(key)?;
        let running = self.running.get(&slot)?;
        let out = self.flight.as_ref().and_then(|flight| flight.batch.before(slot));
        let before = out.or_else(|| self.waiting.before(slot)).unwrap_or(running.tree.events);
        let committed = (!running.too_large).then_some(before);
        Some((Arc::clone(&running.tree), Arc::clone(&running.definitions), committed))
    }

    /// State of a tree in memory, by the id of its root or of a sub-saga; `None` inside when it is ahead of the store.
    pub fn committed_state(&self, key: &SagaKey) -> Option<Option<SagaState>> {
        let slot = self.slots.get(&key.root())?;
        let running = self.running.get(slot)?;
        Some((!self.is_ahead(*slot) && !running.too_large).then(|| running.tree.state()))
    }

    /// A tree in memory as it is now, and what is known of an act by this actor.
    pub fn act_of(&self, key: &SagaKey, actor: &str) -> Option<(SagaSummary, ActKnown)> {
        let slot = self.slots.get(&key.root())?;
        let running = self.running.get(slot)?;
        let has_acted = running.tree.events().any(|event| event.actor.as_deref() == Some(actor));
        let known = match has_acted {
            _ if running.too_large => ActKnown::StandsStill,
            false => ActKnown::None,
            true if self.is_ahead(*slot) => ActKnown::Uncommitted,
            true => ActKnown::Committed,
        };
        Some((running.tree.summary(&running.definitions), known))
    }

    /// Whether a tree is ahead of the store.
    fn is_ahead(&self, slot: u64) -> bool {
        self.waiting.has(slot) || self.flight.as_ref().is_some_and(|flight| flight.batch.has(slot))
    }

    /// How many in memory match. Looks at all.
    pub fn count(&self, filter: &SagaFilter) -> u64 {
        let all = self.running.values().map(|running| running.tree.summary(&running.definitions));
        all.filter(|saga| filter.takes(saga)).count() as u64
    }

    /// Those in memory that match, newest start first. Looks at all.
    pub fn list(&self, filter: &SagaFilter) -> Vec<SagaSummary> {
        let all = self.running.values().map(|running| running.tree.summary(&running.definitions));
        let mut list: Vec<SagaSummary> = all.filter(|saga| filter.takes(saga)).collect();
        list.sort_by(|a, b| (b.started_at, &b.key).cmp(&(a.started_at, &a.key)));
        list
    }

    /// What those in memory may still call of a participant, by steps that name it and by steps that name none. Looks at all.
    pub fn step_needs(&self, participant: &str) -> Needs {
        let mut needs = Needs::new();
        for running in self.running.values() {
            let mut of_tree = HashSet::new();
            running.tree.step_needs(&running.definitions, &mut |address, way| {
                if address.participant.as_ref().is_none_or(|name| name == participant) {
                    of_tree.insert((address.clone(), way));
                }
            });
            for need in of_tree {
                let (sagas, example) = needs.entry(need).or_insert_with(|| (0, running.tree.key.clone()));
                *sagas = sagas.saturating_add(1);
                // The same one whenever it is asked.
                if running.tree.key < *example {
                    example.clone_from(&running.tree.key);
                }
            }
        }
        needs
    }

    /// Counts. Looks at all.
    pub fn stats(&self) -> SagaStats {
        let trees = || self.running.values().map(|running| &running.tree);
        SagaStats {
            running: self.running.len() as u64,
            running_bytes: self.weight as u64,
            paused: trees().filter(|tree| tree.paused.is_some() && tree.stuck().is_none()).count() as u64,
            stuck: trees().filter(|tree| tree.stuck().is_some()).count() as u64,
            approvals: trees().filter(|tree| tree.asks()).count() as u64,
            timers: self.timers.len() as u64,
            uncommitted: self.waiting.entries.len() as u64,
        }
    }
}
