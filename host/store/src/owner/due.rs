//! Where the scheduled messages of a shard begin. Rows that were delivered leave tombstones at the front of the range until
//! the database compacts them, and reading over 100,000 of them takes 30 ms; so the front is remembered where this process
//! is the only writer.

use std::collections::HashMap;
use std::sync::Mutex;

use waybill_core::ids::ShardId;
use waybill_core::port::store::Write;
use waybill_core::time::UnixMillis;

/// Fronts by shard. A shard that isn't in it is read from its beginning.
#[derive(Debug, Default)]
pub struct DueFronts(Mutex<HashMap<ShardId, Front>>);

#[derive(Clone, Copy, Debug)]
struct Front {
    /// Nothing lies before this instant.
    from: UnixMillis,
    /// Grows with every write of the shard: a front found by an older read isn't taken.
    writes: u64,
}

impl DueFronts {
    /// Says that these writes are about to be committed, and once more that the commit has ended: a read in between may have
    /// seen the state before it.
    pub fn around_commit(&self, shard: ShardId, writes: &[Write]) {
        let earliest = writes.iter().filter_map(|write| match write {
            Write::PutScheduled(scheduled) => Some(scheduled.due),
            _ => None,
        });
        if let Some(earliest) = earliest.min()
            && let Ok(mut fronts) = self.0.lock()
        {
            let front = fronts.entry(shard).or_insert(Front { from: UnixMillis(0), writes: 0 });
            front.from = front.from.min(earliest);
            front.writes += 1;
        }
    }

    /// Where to begin to read, and a mark for [`DueFronts::found`].
    pub fn begin(&self, shard: ShardId) -> (UnixMillis, u64) {
        let front = self.0.lock().ok().and_then(|fronts| fronts.get(&shard).copied());
        front.map_or((UnixMillis(0), 0), |front| (front.from, front.writes))
    }

    /// Says what a read that began at `mark` found first.
    pub fn found(&self, shard: ShardId, mark: u64, first: UnixMillis) {
        if let Ok(mut fronts) = self.0.lock() {
            let front = fronts.entry(shard).or_insert(Front { from: UnixMillis(0), writes: 0 });
            if front.writes == mark {
                front.from = front.from.max(first);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use waybill_testkit::conformance::samples::{SHARD, scheduled};

    #[test]
    fn a_write_that_began_after_a_read_keeps_its_front() {
        let fronts = DueFronts::default();
        let (_, mark) = fronts.begin(SHARD);
        fronts.found(SHARD, mark, UnixMillis(50));
        assert_eq!(fronts.begin(SHARD).0, UnixMillis(50));
        let (_, mark) = fronts.begin(SHARD);
        fronts.around_commit(SHARD, &[Write::PutScheduled(Arc::new(scheduled(UnixMillis(20), "a")))]);
        fronts.found(SHARD, mark, UnixMillis(70));
        assert_eq!(fronts.begin(SHARD).0, UnixMillis(20));
    }

    #[test]
    fn a_read_during_a_commit_does_not_hide_what_it_writes() {
        let fronts = DueFronts::default();
        let writes = [Write::PutScheduled(Arc::new(scheduled(UnixMillis(20), "a")))];
        fronts.around_commit(SHARD, &writes);
        let (_, mark) = fronts.begin(SHARD);
        fronts.found(SHARD, mark, UnixMillis(70));
        fronts.around_commit(SHARD, &writes);
        assert_eq!(fronts.begin(SHARD).0, UnixMillis(20));
    }
}
