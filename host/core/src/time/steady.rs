//! A wall clock that never goes back.

use super::{Now, UnixMillis};

/// Turns readings of a host's clocks into instants that never go back and never stand still: a wall clock that is set back
/// neither revives what was over nor holds anything longer. What it is set forward by counts at once: give it readings that
/// were vetted ([`super::VettedClock`]).
#[derive(Clone, Copy, Debug, Default)]
pub struct SteadyClock {
    last: Option<Now>,
}

impl SteadyClock {
    /// The instant of a reading: the wall clock's, or that of the reading before and the time since, whichever is later.
    pub fn at(&mut self, now: Now) -> UnixMillis {
        let Some(last) = self.last else {
            self.last = Some(now);
            return now.wall;
        };
        let since = now.mono - last.mono;
        let wall = now.wall.max(last.wall.plus(since));
        // What is below a millisecond must not get lost reading by reading.
        if wall > last.wall {
            self.last = Some(Now { wall, mono: now.mono.max(last.mono) });
        }
        wall
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::time::Monotonic;

    fn now(wall: u64, mono_micros: u64) -> Now {
        Now { wall: UnixMillis(wall), mono: Monotonic(Duration::from_micros(mono_micros)) }
    }

    #[test]
    fn a_clock_that_is_set_back_goes_on_at_its_pace() {
        let mut clock = SteadyClock::default();
        assert_eq!(clock.at(now(100_000, 0)), UnixMillis(100_000));
        assert_eq!(clock.at(now(100_010, 10_000)), UnixMillis(100_010));
        assert_eq!(clock.at(now(50_000, 30_000)), UnixMillis(100_030));
        assert_eq!(clock.at(now(50_010, 40_000)), UnixMillis(100_040));
        assert_eq!(clock.at(now(200_000, 50_000)), UnixMillis(200_000));
        assert_eq!(clock.at(now(100_000, 60_000)), UnixMillis(200_010));
    }

    #[test]
    fn fractions_of_a_millisecond_add_up() {
        let mut clock = SteadyClock::default();
        clock.at(now(1_000, 0));
        for micros in (100..=5_000).step_by(100) {
            clock.at(now(0, micros));
        }
        assert_eq!(clock.at(now(0, 5_000)), UnixMillis(1_005));
    }

    #[test]
    fn readings_out_of_order_give_no_earlier_instant() {
        let mut clock = SteadyClock::default();
        clock.at(now(1_000, 10_000));
        assert_eq!(clock.at(now(900, 5_000)), UnixMillis(1_000));
    }
}
