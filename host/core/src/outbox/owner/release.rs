//! Giving the shard back.

use super::Owner;
use crate::time::Now;

impl Owner {
    /// Begins to give the shard back: no new sends, claims or messages. Once nothing is being sent, the next commit
    /// closes everything and says so in the record. What workers have claimed is taken back.
    pub fn begin_release(&mut self, now: Now) {
        self.end_leases(now);
        self.releasing = true;
    }

    /// Sends of this host that are under way.
    pub fn sending(&self) -> usize {
        self.scheduler.sending()
    }

    /// Whether the shard was given back.
    pub fn is_released(&self) -> bool {
        self.record.released
    }
}
