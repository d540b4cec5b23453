//! The two clocks of a host.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use waybill_core::time::{Monotonic, Now, UnixMillis};

/// Reads both clocks.
pub trait Clock: Send + Sync + 'static {
    /// Both, at one moment.
    fn now(&self) -> Now;
}

/// The machine's clocks: wall time, and time since boot (suspended time included).
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Now {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let boot = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let seconds = u64::try_from(boot.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(boot.tv_nsec).unwrap_or(0);
        Now {
            wall: UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
            mono: Monotonic(Duration::new(seconds, nanos)),
        }
    }
}
