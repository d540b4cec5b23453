//! Bounds and choices of a table that is published directly.

use std::sync::Arc;
use std::time::Duration;

use super::rules::Rules;
use crate::backoff::RetryPolicy;
use crate::outbox::suspicion::Caution;

/// A row's key as text, the same for as long as it is there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub Arc<str>);

/// What orders rows among themselves: their aggregate; of a row without one, the row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aggregate(pub Arc<str>);

/// A worker of this host: it has one transaction at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u16);

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DirectConfig {
    /// Parts of the table by aggregate; each has one transaction at a time, as far as its lock goes.
    pub lanes: u16,
    /// Most rows of one transaction.
    pub batch: usize,
    /// After it no send of a transaction begins, once something of it was answered.
    pub direct_timeout: Duration,
    /// How long what is out is awaited.
    pub call_timeout: Duration,
    /// A lane whose lock was refused for so long claims without it.
    pub patience: Duration,
    /// How often it does then.
    pub impatient_every: Duration,
    /// First time that an aggregate is left out of claims because a row of it is locked by others.
    pub locked_hold: Duration,
    pub locked_hold_max: Duration,
    /// First pause of a row whose destination is blocked.
    pub blocked_pause: Duration,
    pub blocked_pause_max: Duration,
    /// A lane that found nothing asks again after this time.
    pub idle_pause: Duration,
    /// Aggregates left out of a lane's claims, past which it waits.
    pub held_max: usize,
    pub retry: RetryPolicy,
    /// The table has a column for the next try. Without one, what waits for it is left out of this host's claims.
    pub has_due: bool,
    /// A row that gave trouble and isn't heard of so long after it was to be tried again is gone.
    pub remember: Duration,
    pub caution: Caution,
    /// Every rule holds, but in the model's mutations.
    pub rules: Rules,
}

impl Default for DirectConfig {
    fn default() -> Self {
        Self {
            lanes: 4,
            batch: 200,
            direct_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(30),
            patience: Duration::from_secs(60),
            impatient_every: Duration::from_secs(1),
            locked_hold: Duration::from_secs(1),
            locked_hold_max: Duration::from_secs(60),
            blocked_pause: Duration::from_secs(2),
            blocked_pause_max: Duration::from_secs(64),
            idle_pause: Duration::from_secs(1),
            held_max: 10_000,
            retry: RetryPolicy::default(),
            has_due: true,
            remember: Duration::from_secs(600),
            caution: Caution::default(),
            rules: Rules::default(),
        }
    }
}

impl DirectConfig {
    /// How long a transaction may be idle at the server before that ends it: longer than this host ever lets it be.
    pub fn idle_in_transaction(&self) -> Duration {
        self.direct_timeout + self.call_timeout + Duration::from_secs(5)
    }
}

/// A time that doubles from `first` to `most`; `times` is how often it came before.
pub(super) fn doubled(first: Duration, most: Duration, times: u32) -> Duration {
    first.saturating_mul(1_u32.checked_shl(times).unwrap_or(u32::MAX)).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_double_to_their_bound() {
        let seconds = |times| doubled(Duration::from_secs(1), Duration::from_secs(60), times).as_secs();
        assert_eq!([0, 1, 5, 6, 40].map(seconds), [1, 2, 32, 60, 60]);
    }
}
