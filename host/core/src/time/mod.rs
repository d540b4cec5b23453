//! Instants as the core uses them. It never reads a clock: callers pass these in.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use serde::{Deserialize, Serialize};

mod steady;
mod vetted;

pub use steady::SteadyClock;
pub use vetted::{AHEAD_CONFIRMED, AHEAD_MAX, Jump, VettedClock};

/// Milliseconds since 1970-01-01T00:00:00Z by the store's wall clock. For data that people and receivers see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub u64);

impl UnixMillis {
    /// Later by a duration; saturates.
    #[must_use]
    pub fn plus(self, by: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(by.as_millis()).unwrap_or(u64::MAX)))
    }
    /// Time from `earlier` to `self`; zero when `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Display for UnixMillis {
    /// RFC 3339 in UTC, to the millisecond.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instant = i64::try_from(self.0).ok().and_then(|ms| jiff::Timestamp::from_millisecond(ms).ok());
        match instant {
            Some(instant) => write!(f, "{instant:.3}"),
            None => write!(f, "{}ms", self.0),
        }
    }
}

/// A reading of this process's boot-time clock: never set back, goes on during suspend. Leases are judged by it; it
/// means nothing in another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Monotonic(pub Duration);

impl Add<Duration> for Monotonic {
    type Output = Self;
    fn add(self, by: Duration) -> Self {
        Self(self.0.saturating_add(by))
    }
}

impl Sub for Monotonic {
    type Output = Duration;
    fn sub(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Both clocks read at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Now {
    pub wall: UnixMillis,
    /// For leases, deadlines and everything that waits.
    pub mono: Monotonic,
}

impl Now {
    /// When the boot-time clock will be at what the wall clock says as it stands; now, if that is past.
    pub fn mono_at(self, wall: UnixMillis) -> Monotonic {
        self.mono + wall.since(self.wall)
    }
    /// What the wall clock, as it stands, says at an instant of the boot-time clock.
    pub fn wall_at(self, mono: Monotonic) -> UnixMillis {
        let ago = u64::try_from((self.mono - mono).as_millis()).unwrap_or(u64::MAX);
        UnixMillis(self.wall.plus(mono - self.mono).0.saturating_sub(ago))
    }
}
