//! How often look-ups read the store, by consumer: what is remembered, and what a filter knows to be a stranger, costs no read.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use waybill_core::ids::ConsumerName;

/// Consumers that are counted, many more than a host has: asking for those of other names takes no memory.
const CONSUMERS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct SeenReads(Mutex<HashMap<ConsumerName, u64>>);

impl SeenReads {
    fn lock(&self) -> MutexGuard<'_, HashMap<ConsumerName, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts one more read of the store.
    pub fn count(&self, consumer: &ConsumerName) {
        let mut counts = self.lock();
        if let Some(count) = counts.get_mut(consumer) {
            *count += 1;
        } else if counts.len() < CONSUMERS_MAX {
            counts.insert(consumer.clone(), 1);
        }
    }

    pub fn of(&self, consumer: &ConsumerName) -> u64 {
        self.lock().get(consumer).copied().unwrap_or(0)
    }
}
