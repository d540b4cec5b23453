//! What a definition says about retries, and what it leaves to the host.

use std::time::Duration;

use crate::backoff::RetryPolicy;
use crate::saga::limits::{
    RETRY_ATTEMPTS_DEFAULT, RETRY_BASE_DEFAULT, RETRY_CAP_DEFAULT, RETRY_FACTOR_DEFAULT, RETRY_JITTER_DEFAULT,
};

/// Retries of a step, as its definition says them. What it doesn't say is decided by the host on which a saga begins, so it is
/// no part of the definition or its hash.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Retry {
    /// Attempts in all; the first counts.
    pub max_attempts: Option<u32>,
    /// Delay after the first failure, in milliseconds.
    pub base_ms: Option<u64>,
    /// Growth from one failure to the next.
    pub factor: Option<f64>,
    /// Share of the delay that is random, 0 to 1.
    pub jitter: Option<f64>,
    /// Longest delay before jitter, in milliseconds.
    pub cap_ms: Option<u64>,
    /// Shortest delay, in milliseconds.
    pub floor_ms: Option<u64>,
}

impl Retry {
    /// The policy that counts, with `default` for what isn't said. What is said wins: a `base_ms` above the default's cap raises
    /// the cap to it, a `cap_ms` below the default's base lowers the base to it.
    pub fn over(&self, default: &RetryPolicy) -> RetryPolicy {
        let base = self.base_ms.unwrap_or_else(|| default.base_ms.min(self.cap_ms.unwrap_or(u64::MAX)));
        RetryPolicy {
            max_attempts: self.max_attempts.unwrap_or(default.max_attempts),
            base_ms: base,
            factor: self.factor.unwrap_or(default.factor),
            jitter: self.jitter.unwrap_or(default.jitter),
            cap_ms: self.cap_ms.unwrap_or_else(|| default.cap_ms.max(base)),
            floor_ms: self.floor_ms.or(default.floor_ms),
        }
    }
}

/// How a step is retried when neither its definition nor the configuration says otherwise.
pub fn default_retry() -> RetryPolicy {
    let ms = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    RetryPolicy {
        max_attempts: RETRY_ATTEMPTS_DEFAULT,
        base_ms: ms(RETRY_BASE_DEFAULT),
        factor: RETRY_FACTOR_DEFAULT,
        jitter: RETRY_JITTER_DEFAULT,
        cap_ms: ms(RETRY_CAP_DEFAULT),
        floor_ms: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_step_says_wins_and_the_rest_is_the_default() {
        let default = RetryPolicy { max_attempts: 3, base_ms: 200, cap_ms: 1_000, ..default_retry() };
        assert_eq!(Retry::default().over(&default), default);
        let own = Retry { max_attempts: Some(9), jitter: Some(0.0), ..Retry::default() };
        assert_eq!(own.over(&default), RetryPolicy { max_attempts: 9, jitter: 0.0, ..default });
    }

    #[test]
    fn the_cap_is_never_below_the_base() {
        let default = RetryPolicy { base_ms: 200, cap_ms: 1_000, ..default_retry() };
        let slow = Retry { base_ms: Some(5_000), ..Retry::default() }.over(&default);
        assert_eq!((slow.base_ms, slow.cap_ms), (5_000, 5_000));
        let fast = Retry { cap_ms: Some(50), ..Retry::default() }.over(&default);
        assert_eq!((fast.base_ms, fast.cap_ms), (50, 50));
    }
}
