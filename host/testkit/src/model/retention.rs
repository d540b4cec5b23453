//! Retention: it removes what finished long ago, with its ids, while owners go on. Nobody guards it.

use waybill_core::time::UnixMillis;

use super::ledger::number_of;
use super::store::ModelStore;
use super::world::{WALL_START, World};

/// How long history is kept, in steps.
const KEPT: u64 = 60;
/// Chunks removed at once.
const CHUNKS: usize = 3;

impl<S: ModelStore> World<S> {
    pub(super) fn retire(&mut self) {
        if !self.setup.retention || self.past.is_back || !self.rng.one_in(25) {
            return;
        }
        let chunks = self.store.history_before(UnixMillis(WALL_START + self.now.saturating_sub(KEPT)), CHUNKS);
        if chunks.is_empty() {
            return;
        }
        self.store.purge_history(&chunks);
        let numbers: Vec<usize> =
            chunks.iter().flat_map(|chunk| &chunk.entries).map(|done| number_of(&done.message)).collect();
        self.note(|_| format!("history of {numbers:?} is removed"));
        self.stats.purged += numbers.len() as u64;
        for number in numbers {
            self.ledger.purge(number);
        }
    }
}
