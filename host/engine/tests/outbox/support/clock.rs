//! Both clocks from tokio's, so that a paused runtime decides what time it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;
use waybill_core::time::{Monotonic, Now, UnixMillis};
use waybill_engine::Clock;

/// Wall time at the start of every test.
pub const START: UnixMillis = UnixMillis(1_700_000_000_000);

/// The clocks of one host.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    start: Instant,
}

impl TokioClock {
    pub fn new() -> Self {
        Self { start: Instant::now() }
    }
    pub fn wall(&self) -> UnixMillis {
        START.plus(self.start.elapsed())
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Now {
        // A boot-time clock never starts at zero.
        Now { wall: self.wall(), mono: Monotonic(self.start.elapsed() + Duration::from_secs(1_000)) }
    }
}

/// The same clocks for hosts, whose wall clock somebody sets. Clones are set together.
#[derive(Clone, Debug)]
pub struct SteppedClock {
    clock: TokioClock,
    ahead_ms: Arc<AtomicI64>,
}

impl SteppedClock {
    pub fn new(clock: TokioClock) -> Self {
        Self { clock, ahead_ms: Arc::default() }
    }
    /// Sets the wall clock ahead by so many seconds; negative = back.
    pub fn step(&self, seconds: i64) {
        self.ahead_ms.fetch_add(seconds * 1_000, Ordering::AcqRel);
    }
}

impl Clock for SteppedClock {
    fn now(&self) -> Now {
        let now = self.clock.now();
        Now { wall: UnixMillis(now.wall.0.saturating_add_signed(self.ahead_ms.load(Ordering::Acquire))), ..now }
    }
}
