//! How often look-ups read the store, by consumer and by who asked: what is remembered, and what a filter knows to be a stranger, costs no
//! read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use waybill_core::ids::ConsumerName;

/// Consumers that are counted, many more than a host has: asking for those of other names takes no memory.
const CONSUMERS_MAX: usize = 4_096;

/// Who wants to know whether an id was seen. What people ask says nothing of how messages fare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    Messages,
    People,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    messages: u64,
    people: u64,
}

#[derive(Debug, Default)]
pub struct SeenReads(Mutex<HashMap<ConsumerName, Counts>>);

impl SeenReads {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConsumerName, Counts>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more read of the store.
    pub fn count(&self, consumer: &ConsumerName, asker: Asker) {
        let mut all = self.lock();
        if all.len() >= CONSUMERS_MAX && !all.contains_key(consumer) {
            return;
        }
        let counts = all.entry(consumer.clone()).or_default();
        match asker {
            Asker::Messages => counts.messages += 1,
            Asker::People => counts.people += 1,
        }
    }

    pub fn of(&self, consumer: &ConsumerName, asker: Asker) -> u64 {
        let counts = self.lock().get(consumer).copied().unwrap_or_default();
        match asker {
            Asker::Messages => counts.messages,
            Asker::People => counts.people,
        }
    }
}
