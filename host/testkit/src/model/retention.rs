//! Retention: it removes what finished long ago, with its ids, while owners go on. Nobody guards it.

use waybill_core::ids::ShardId;
use waybill_core::time::UnixMillis;

use super::ledger::number_of;
use super::setup::WALL_START;
use super::store::ModelStore;
use super::world::World;

/// How long history is kept, in steps.
const KEPT: u64 = 60;
/// Chunks removed at once.
const CHUNKS: usize = 3;

impl<S: ModelStore> World<S> {
    pub(super) fn retire(&mut self) {
        if !self.setup.retention || self.past.is_back || !self.rng.one_in(25) {
            return;
        }
        let shard = match self.setup.shards() {
            1 => ShardId(0),
            shards => ShardId(u16::try_from(self.rng.below(u64::from(shards))).unwrap_or(0)),
        };
        let chunks = self.store.history_before(shard, UnixMillis(WALL_START + self.now.saturating_sub(KEPT)), CHUNKS);
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
