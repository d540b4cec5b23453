//! What this process has owned of a shard. Whoever takes the shard over from itself lives, so the end before was no crash; and the
//! death of an owner counts when a takeover from it is known to have gone in, not before.

use std::collections::VecDeque;

use parking_lot::Mutex;
use waybill_core::outbox::records::ShardRecord;

/// Takeovers remembered whose outcome nobody told, the latest ones. Of those tried on one record at most one goes in.
const TRIED_MAX: usize = 64;

/// What this process has owned, and may have come to own.
#[derive(Debug, Default)]
pub(super) struct Mine(Mutex<Ownerships>);

#[derive(Debug, Default)]
struct Ownerships {
    /// Token of the latest one.
    held: Option<u64>,
    /// Takeovers that were tried: each may have gone in without a word.
    tried: VecDeque<Tried>,
}

#[derive(Clone, Copy, Debug)]
struct Tried {
    token: u64,
    nonce: u64,
    /// The owner before it had died.
    died: bool,
}

impl Tried {
    fn wrote(self, record: &ShardRecord) -> bool {
        (self.token, self.nonce) == (record.token, record.nonce)
    }
}

impl Mine {
    /// Whether a record is of an ownership of this process.
    pub fn is(&self, record: &ShardRecord) -> bool {
        let mine = self.0.lock();
        mine.held == Some(record.token) || mine.tried.iter().any(|tried| tried.wrote(record))
    }

    /// A takeover is about to be tried; `died` = the process of the owner before died.
    pub fn tries(&self, takeover: &ShardRecord, died: bool) {
        let mut mine = self.0.lock();
        if mine.tried.len() >= TRIED_MAX {
            mine.tried.pop_front();
        }
        mine.tried.push_back(Tried { token: takeover.token, nonce: takeover.nonce, died });
    }

    /// This record stands, and it is of an ownership of this process. True when the owner before that had died and nobody has been
    /// told yet.
    pub fn holds(&self, taken: &ShardRecord) -> bool {
        let mut mine = self.0.lock();
        let died = mine.tried.iter().any(|tried| tried.died && tried.wrote(taken));
        mine.held = Some(taken.token);
        // Those on this record may still go in.
        mine.tried.retain(|tried| tried.token > taken.token);
        died
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(token: u64, nonce: u64) -> ShardRecord {
        ShardRecord { token, nonce, ..ShardRecord::default() }
    }

    #[test]
    fn a_death_counts_once_and_only_when_a_takeover_after_it_went_in() {
        let mine = Mine::default();
        mine.tries(&record(6, 1), true);
        // Refused: the owner lived, and gave the shard back.
        mine.tries(&record(6, 2), false);
        assert!(mine.is(&record(6, 2)) && !mine.holds(&record(6, 2)));
        assert!(!mine.is(&record(7, 1)), "another host's");
        mine.tries(&record(8, 3), true);
        mine.tries(&record(8, 4), true);
        assert!(mine.is(&record(8, 3)), "the first of two went in without a word, and late");
        assert!(mine.holds(&record(8, 3)) && !mine.holds(&record(8, 3)));
        assert!(mine.is(&record(8, 9)), "it goes on");
    }
}
