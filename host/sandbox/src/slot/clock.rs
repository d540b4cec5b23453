//! Both clocks, read for the slot's pure parts.

use std::sync::LazyLock;
use std::time::{SystemTime, UNIX_EPOCH};

use tokio::time::Instant;
use waybill_core::time::{Monotonic, Now, UnixMillis};

/// What this process's monotonic readings count from.
static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);

/// Both at this moment.
pub(super) fn now() -> Now {
    let start = *START;
    let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Now {
        wall: UnixMillis(u64::try_from(wall.as_millis()).unwrap_or(u64::MAX)),
        mono: Monotonic(Instant::now().into_std().saturating_duration_since(start)),
    }
}
