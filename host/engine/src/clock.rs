//! The two clocks of a host.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;
use waybill_core::time::{AHEAD_CONFIRMED, Jump, Monotonic, Now, UnixMillis, VettedClock};

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

/// The clocks that the whole engine goes by: a wall clock that jumps ahead isn't believed at once ([`VettedClock`]).
pub(crate) struct Clocks {
    read: Arc<dyn Clock>,
    vetted: Mutex<VettedClock>,
}

impl Clocks {
    pub fn new(read: Arc<dyn Clock>) -> Self {
        Self { read, vetted: Mutex::default() }
    }

    /// Both clocks, as far as they are believed.
    pub fn now(&self) -> Now {
        let mut vetted = self.vetted.lock();
        let before = vetted.jump();
        let now = vetted.vet(self.read.now());
        let jump = vetted.jump();
        drop(vetted);
        if before.is_none() != jump.is_none() {
            tell(now, jump);
        }
        now
    }

    /// The jump of the wall clock that isn't believed yet, in words.
    pub fn trouble(&self) -> Option<String> {
        let now = self.now();
        self.vetted.lock().jump().map(|jump| words(now, jump))
    }
}

fn words(now: Now, jump: Jump) -> String {
    let left = (jump.since + AHEAD_CONFIRMED) - now.mono;
    format!(
        "the wall clock jumped ahead by {} s: it counts in {} s unless it is set right, and {} is believed until then",
        jump.ahead.as_secs(),
        left.as_secs(),
        now.wall
    )
}

fn tell(now: Now, jump: Option<Jump>) {
    match jump {
        Some(jump) => tracing::warn!("{}", words(now, jump)),
        None => {
            tracing::warn!("the wall clock's jump ahead is over, or stood long enough to count: it is {}", now.wall)
        }
    }
}
