//! The built-in backoff formula (`semantics.md` §1; source documents 1 §4, 2 §5 and 4).

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// `delay = max(floor, min(cap, base * factor^(attempts - 1)) * (1 + uniform(-jitter, +jitter)))`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RetryPolicy {
    /// Attempts in all; the first try counts.
    pub max_attempts: u32,
    /// Delay after the first failure, in milliseconds.
    pub base_ms: u64,
    /// Growth from one failure to the next.
    pub factor: f64,
    /// Share of the delay that is random, 0 to 1; the random part may exceed the cap.
    pub jitter: f64,
    /// Longest delay before jitter, in milliseconds.
    pub cap_ms: u64,
    /// Shortest delay, in milliseconds; none = `base_ms`.
    pub floor_ms: Option<u64>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { max_attempts: 12, base_ms: 500, factor: 2.0, jitter: 0.3, cap_ms: 300_000, floor_ms: None }
    }
}

/// Longest delay a policy may lead to: a guard against overflow, far above any sensible cap.
const DELAY_MAX_MS: f64 = 30.0 * 24.0 * 3600.0 * 1000.0;

impl RetryPolicy {
    /// Whether another attempt may follow `attempts` failed ones.
    pub fn allowed(&self, attempts: u32) -> bool {
        attempts < self.max_attempts
    }

    /// Delay after the `attempts`-th failure (from 1). `random` is uniform in [0, 1).
    pub fn delay(&self, attempts: u32, random: f64) -> Duration {
        let exponent = i32::try_from(attempts.saturating_sub(1)).unwrap_or(i32::MAX);
        #[expect(clippy::cast_precision_loss, reason = "milliseconds far below 2^52")]
        let (base, cap, floor) =
            (self.base_ms as f64, self.cap_ms as f64, self.floor_ms.unwrap_or(self.base_ms) as f64);
        let grown = (base * self.factor.max(0.0).powi(exponent)).min(cap);
        let spread = 1.0 + (random.clamp(0.0, 1.0) * 2.0 - 1.0) * self.jitter.clamp(0.0, 1.0);
        let delay = (grown * spread).max(floor).clamp(0.0, DELAY_MAX_MS);
        Duration::from_secs_f64(delay / 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_the_cap() {
        let policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let delays: Vec<u128> = [1, 2, 3, 11, 200].iter().map(|n| policy.delay(*n, 0.5).as_millis()).collect();
        assert_eq!(delays, [500, 1000, 2000, 300_000, 300_000]);
    }

    #[test]
    fn jitter_may_exceed_the_cap_but_not_undercut_the_floor() {
        let policy = RetryPolicy { jitter: 0.5, cap_ms: 1000, ..RetryPolicy::default() };
        assert_eq!(policy.delay(9, 1.0).as_millis(), 1500);
        assert_eq!(policy.delay(1, 0.0).as_millis(), 500);
        let low = RetryPolicy { floor_ms: Some(10), ..policy };
        assert_eq!(low.delay(1, 0.0).as_millis(), 250);
    }

    #[test]
    fn twelve_attempts_by_default() {
        assert!(RetryPolicy::default().allowed(11));
        assert!(!RetryPolicy::default().allowed(12));
    }
}
