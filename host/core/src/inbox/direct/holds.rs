//! Part: aggregates that this host leaves out of its claims for a time.

use std::collections::BTreeMap;

use super::config::Aggregate;
use crate::time::Monotonic;

#[derive(Debug, Default)]
pub(super) struct Holds {
    until: BTreeMap<Aggregate, Monotonic>,
    /// How often in turn a row of it was locked by others.
    locked: BTreeMap<Aggregate, u32>,
}

impl Holds {
    pub fn hold(&mut self, aggregate: &Aggregate, until: Monotonic) {
        let held = self.until.entry(aggregate.clone()).or_insert(until);
        *held = (*held).max(until);
    }

    /// Forgets what is over.
    pub fn end(&mut self, now: Monotonic) {
        self.until.retain(|_, until| *until > now);
        if self.until.is_empty() && self.locked.len() > LOCKED_MAX {
            self.locked.clear();
        }
    }

    pub fn is_held(&self, aggregate: &Aggregate) -> bool {
        self.until.contains_key(aggregate)
    }

    pub fn all(&self) -> Vec<Aggregate> {
        self.until.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.until.len()
    }

    /// When the first of them ends.
    pub fn first_end(&self) -> Option<Monotonic> {
        self.until.values().min().copied()
    }

    /// A row of it was locked by others; how often before, in turn.
    pub fn note_locked(&mut self, aggregate: &Aggregate) -> u32 {
        let times = self.locked.entry(aggregate.clone()).or_default();
        *times += 1;
        *times - 1
    }

    pub fn note_free(&mut self, aggregate: &Aggregate) {
        self.locked.remove(aggregate);
    }
}

/// Aggregates whose count is remembered while nothing of them is held.
const LOCKED_MAX: usize = 10_000;
