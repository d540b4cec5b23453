//! Callers that wait until a saga is at rest.

use std::collections::HashMap;

use tokio::sync::oneshot;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::shard::SagaShard;
use waybill_core::saga::state::SagaState;

type Waiting = oneshot::Sender<SagaState>;

/// Those who wait for the sagas of one shard. There are no more of them than there are requests, but for some that have hung
/// up: they go with the next who waits for the same saga, or when it rests.
#[derive(Default)]
pub(super) struct Watchers(HashMap<SagaKey, Vec<Waiting>>);

impl Watchers {
    /// Answers at once if the saga is at rest, and drops whoever waits for one that isn't in memory.
    pub fn add(&mut self, shard: &SagaShard, key: SagaKey, waiting: Waiting) {
        let Some(state) = shard.committed_state(&key) else { return };
        if let Some(state) = state.filter(|state| state.is_at_rest()) {
            let _gone = waiting.send(state);
            return;
        }
        let same = self.0.entry(key).or_default();
        same.retain(|other| !other.is_closed());
        same.push(waiting);
    }

    /// The saga is durably at rest.
    pub fn tell(&mut self, key: &SagaKey, state: SagaState) {
        for waiting in self.0.remove(key).unwrap_or_default() {
            let _gone = waiting.send(state);
        }
    }
}
