//! Stamps of doorstep rows: what this process gives out only grows, so that of two transactions of one key the later one has
//! the later stamp, also when the clock was set back in between.

use std::sync::atomic::{AtomicU64, Ordering};

/// The latest stamp that was given out, or clock that a look at the doorstep went by, in nanoseconds since 1970.
#[derive(Debug, Default)]
pub struct Stamps(AtomicU64);

impl Stamps {
    /// A stamp: the clock's, or the one after the latest.
    pub fn next(&self, clock: u64) -> u64 {
        let after = |latest: u64| clock.max(latest.saturating_add(1));
        match self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |latest| Some(after(latest))) {
            Ok(latest) | Err(latest) => after(latest),
        }
    }

    /// No stamp is given out at or before this one: a row of an earlier process has it.
    pub fn begin_after(&self, newest: u64) {
        self.0.fetch_max(newest, Ordering::AcqRel);
    }

    /// The clock that a look at the doorstep goes by: not before the latest stamp, and no later stamp is before it. Else a row that is
    /// put there while the clock is set back lies before all that the next look reads, when the clock is right again by then.
    pub fn clock_of_look(&self, clock: u64) -> u64 {
        self.0.fetch_max(clock, Ordering::AcqRel).max(clock)
    }

    /// No stamp is given out at or before it.
    pub fn latest(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_back_gives_no_earlier_stamp() {
        let stamps = Stamps::default();
        let hour = 3_600_000_000_000;
        assert_eq!(stamps.next(10 * hour), 10 * hour);
        assert_eq!(stamps.next(10 * hour), 10 * hour + 1);
        assert_eq!(stamps.next(9 * hour), 10 * hour + 2);
        assert_eq!(stamps.clock_of_look(9 * hour), 10 * hour + 2);
        stamps.begin_after(12 * hour);
        assert_eq!(stamps.next(11 * hour), 12 * hour + 1);
        assert_eq!(stamps.latest(), 12 * hour + 1);
    }

    #[test]
    fn what_is_stamped_after_a_look_lies_behind_it() {
        let stamps = Stamps::default();
        let hour = 3_600_000_000_000;
        assert_eq!(stamps.clock_of_look(10 * hour), 10 * hour);
        assert_eq!(stamps.next(9 * hour), 10 * hour + 1, "the clock was set back");
        assert_eq!(stamps.clock_of_look(10 * hour), 10 * hour + 1, "and ahead again");
    }
}
