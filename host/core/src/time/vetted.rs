//! A wall clock whose jumps ahead aren't believed at once.

use std::time::Duration;

use super::{Monotonic, Now};

/// A wall clock that gets ahead of the boot-time clock by more than this at once isn't believed before it has stood so for
/// as long as [`AHEAD_CONFIRMED`].
pub const AHEAD_MAX: Duration = Duration::from_secs(5 * 60);
/// How long a jump ahead has to stand before it counts.
pub const AHEAD_CONFIRMED: Duration = Duration::from_secs(5 * 60);

/// Readings of a host's clocks, but that a wall clock that jumps ahead counts only when it stays there: one bad reading would
/// let every message and key expire, and every saga's timeout pass. What it is set back by counts at once, and nothing that
/// waits goes by it ([`Now::mono`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct VettedClock {
    /// The latest reading that was believed.
    believed: Option<Now>,
    /// A jump that isn't believed yet.
    jump: Option<Jump>,
}

/// A jump ahead that isn't believed yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// When it was first seen.
    pub since: Monotonic,
    /// By how much the wall clock is ahead.
    pub ahead: Duration,
}

impl VettedClock {
    /// What is believed of a reading: the wall clock as read, or, while it is too far ahead, as it would be without the jump.
    pub fn vet(&mut self, read: Now) -> Now {
        let Some(believed) = self.believed else {
            self.believed = Some(read);
            return read;
        };
        let expected = believed.wall.plus(read.mono - believed.mono);
        let ahead = read.wall.since(expected);
        if ahead <= AHEAD_MAX {
            self.jump = None;
            // A reading that another thread overtook must not bring the earlier instant back.
            if read.mono >= believed.mono {
                self.believed = Some(read);
            }
            return read;
        }
        let jump = match self.jump {
            Some(jump) if jump.ahead.abs_diff(ahead) <= AHEAD_MAX => jump,
            _ => Jump { since: read.mono, ahead },
        };
        if read.mono - jump.since >= AHEAD_CONFIRMED {
            (self.believed, self.jump) = (Some(read), None);
            return read;
        }
        self.jump = Some(jump);
        Now { wall: expected, mono: read.mono }
    }

    /// The jump that isn't believed yet, if there is one.
    pub fn jump(&self) -> Option<Jump> {
        self.jump
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::UnixMillis;

    const YEAR: u64 = 365 * 24 * 3600;

    /// Both clocks in seconds.
    fn now(wall: u64, mono: u64) -> Now {
        Now { wall: UnixMillis(wall * 1_000), mono: Monotonic(Duration::from_secs(mono)) }
    }

    #[test]
    fn one_bad_reading_is_not_believed() {
        let mut clock = VettedClock::default();
        clock.vet(now(1_000, 10));
        assert_eq!(clock.vet(now(1_001 + YEAR, 11)), now(1_001, 11));
        assert_eq!(clock.jump().map(|jump| jump.ahead), Some(Duration::from_secs(YEAR)));
        assert_eq!(clock.vet(now(1_002, 12)), now(1_002, 12));
        assert_eq!(clock.jump(), None);
        // A second one, five minutes later, isn't confirmed by the first.
        assert_eq!(clock.vet(now(1_400 + YEAR, 410)), now(1_400, 410));
    }

    #[test]
    fn a_jump_that_stays_is_believed() {
        let mut clock = VettedClock::default();
        clock.vet(now(1_000, 10));
        for second in 1..=300 {
            assert_eq!(clock.vet(now(1_000 + YEAR + second, 10 + second)), now(1_000 + second, 10 + second));
        }
        assert_eq!(clock.vet(now(1_301 + YEAR, 311)), now(1_301 + YEAR, 311));
        assert_eq!(clock.jump(), None);
    }

    #[test]
    fn a_clock_that_jumps_about_is_not_believed() {
        let mut clock = VettedClock::default();
        clock.vet(now(1_000, 10));
        for second in 1..=1_000 {
            let ahead = if second % 2 == 0 { YEAR } else { 2 * YEAR };
            assert_eq!(clock.vet(now(1_000 + ahead + second, 10 + second)), now(1_000 + second, 10 + second));
        }
    }

    #[test]
    fn small_steps_and_steps_back_count_at_once() {
        let mut clock = VettedClock::default();
        clock.vet(now(10_000, 10));
        assert_eq!(clock.vet(now(10_300, 11)), now(10_300, 11));
        assert_eq!(clock.vet(now(5_000, 12)), now(5_000, 12));
        assert_eq!(clock.vet(now(5_001, 13)), now(5_001, 13));
    }

    #[test]
    fn time_in_which_nobody_reads_the_clocks_is_no_jump() {
        let mut clock = VettedClock::default();
        clock.vet(now(1_000, 10));
        assert_eq!(clock.vet(now(1_000 + YEAR, 10 + YEAR)), now(1_000 + YEAR, 10 + YEAR));
    }
}
