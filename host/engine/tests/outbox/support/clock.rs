//! Both clocks from tokio's, so that a paused runtime decides what time it is.

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
    /// Wall time now.
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
