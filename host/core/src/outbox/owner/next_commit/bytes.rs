//! Bytes past which a commit takes nothing further: as configured, half of it each time the store refused a commit as too large,
//! and twice that again when it has taken commits for a while.

use crate::limits::{COMMIT_BYTES_LEAST, COMMIT_GROWS_AFTER, COMMIT_GROWS_AFTER_MAX};

#[derive(Clone, Copy, Debug)]
pub(in super::super) struct CommitBytes {
    now: usize,
    max: usize,
    /// Commits that went in since it changed.
    taken: u32,
    /// It grows after so many: twice as many each time that growing was too much.
    grows_after: u32,
    /// It changed last by growing.
    has_grown: bool,
}

impl CommitBytes {
    pub fn new(max: usize) -> Self {
        Self { now: max, max, taken: 0, grows_after: COMMIT_GROWS_AFTER, has_grown: false }
    }

    pub fn get(self) -> usize {
        self.now
    }

    /// Whether the store refused a commit as large as configured, and none has been tried since.
    pub fn is_cut(self) -> bool {
        self.now < self.max
    }

    /// Whether commits aren't cut any further.
    pub fn is_least(self) -> bool {
        self.now <= COMMIT_BYTES_LEAST
    }

    /// The store refused a commit as too large.
    pub fn refused(&mut self) {
        if self.has_grown {
            self.grows_after = self.grows_after.saturating_mul(2).min(COMMIT_GROWS_AFTER_MAX);
        }
        (self.now, self.taken, self.has_grown) = (self.now / 2, 0, false);
    }

    /// A commit went in.
    pub fn went_in(&mut self) {
        if self.now >= self.max {
            return;
        }
        self.taken = self.taken.saturating_add(1);
        if self.taken >= self.grows_after {
            (self.now, self.taken, self.has_grown) = (self.now.saturating_mul(2).min(self.max), 0, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 1 << 22;

    /// As many commits as that to a store that takes so many bytes; how many of them it refused.
    fn commit(bytes: &mut CommitBytes, commits: u32, store: usize) -> u32 {
        let mut refused = 0;
        for _ in 0..commits {
            if bytes.get() > store {
                bytes.refused();
                refused += 1;
            } else {
                bytes.went_in();
            }
        }
        refused
    }

    #[test]
    fn a_store_that_takes_less_for_good_refuses_ever_fewer_commits() {
        let mut bytes = CommitBytes::new(MAX);
        let first = commit(&mut bytes, 1_000, MAX / 5);
        let later = commit(&mut bytes, 1_000_000, MAX / 5);
        assert!(first <= 7 && later <= 30, "{first} of the first thousand, {later} of the million behind them");
        assert!(bytes.get() <= MAX / 2);
    }

    #[test]
    fn commits_grow_as_large_as_they_were_and_no_larger() {
        let mut bytes = CommitBytes::new(MAX);
        assert_eq!(commit(&mut bytes, 3, MAX / 8), 3);
        commit(&mut bytes, 3 * COMMIT_GROWS_AFTER - 1, MAX);
        assert_eq!(bytes.get(), MAX / 2);
        commit(&mut bytes, 1_000, MAX);
        assert_eq!(bytes.get(), MAX);
    }
}
