//! The clocks of a host whose time stands still until a test lets it pass.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waybill_core::time::{Monotonic, Now, UnixMillis};
use waybill_engine::Clock;

/// A boot-time clock never starts at zero.
const BOOTED_BEFORE: Duration = Duration::from_secs(1_000);

/// Wall time and time since boot, which pass together. Clones are one clock.
#[derive(Clone, Debug)]
pub struct StandingClock {
    start: UnixMillis,
    /// Milliseconds since the start.
    passed: Arc<AtomicU64>,
}

impl StandingClock {
    pub fn new(start: UnixMillis) -> Self {
        Self { start, passed: Arc::default() }
    }

    /// Lets time pass, in whole milliseconds.
    pub fn pass(&self, time: Duration) {
        self.passed.fetch_add(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), Ordering::AcqRel);
    }

    pub fn wall(&self) -> UnixMillis {
        self.start.plus(self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.passed.load(Ordering::Acquire))
    }
}

impl Clock for StandingClock {
    fn now(&self) -> Now {
        Now { wall: self.wall(), mono: Monotonic(BOOTED_BEFORE + self.elapsed()) }
    }
}
