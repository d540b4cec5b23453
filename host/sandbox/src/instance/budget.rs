//! How often an instance may be replaced: at once a few times, then a breaker that opens for longer and longer.
//!
//! Pure: the caller reads the clock.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use crate::limits::{
    BREAKER_DELAY_MAX, BREAKER_DELAY_MIN, REOPEN_DELAY_MAX, REOPEN_DELAY_MIN, RESTART_WINDOW, RESTARTS_MAX,
};

/// What follows a lost instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Restart {
    /// A fresh one now.
    AtOnce,
    /// The breaker opens; after this a single call may try.
    After(Duration),
}

/// The account of one lane.
#[derive(Debug)]
pub(crate) struct RestartBudget {
    recent: VecDeque<Instant>,
    breaker_delay: Duration,
    half_open: bool,
    reopen_delay: Duration,
}

impl Default for RestartBudget {
    fn default() -> Self {
        Self {
            recent: VecDeque::with_capacity(RESTARTS_MAX + 1),
            breaker_delay: BREAKER_DELAY_MIN,
            half_open: false,
            reopen_delay: REOPEN_DELAY_MIN,
        }
    }
}

impl RestartBudget {
    /// Whether the next instance is on trial: one call at a time until one succeeds.
    pub(crate) fn half_open(&self) -> bool {
        self.half_open
    }

    /// An instance was lost.
    pub(crate) fn lost(&mut self, now: Instant) -> Restart {
        if self.half_open {
            return self.open_breaker();
        }
        while self.recent.front().is_some_and(|at| now.saturating_duration_since(*at) >= RESTART_WINDOW) {
            self.recent.pop_front();
        }
        if self.recent.len() >= RESTARTS_MAX {
            return self.open_breaker();
        }
        self.recent.push_back(now);
        Restart::AtOnce
    }

    fn open_breaker(&mut self) -> Restart {
        let delay = self.breaker_delay;
        self.breaker_delay = (delay * 2).min(BREAKER_DELAY_MAX);
        self.half_open = true;
        Restart::After(delay)
    }

    /// A call succeeded: the trial is over.
    pub(crate) fn proved(&mut self) {
        if self.half_open {
            self.half_open = false;
            self.breaker_delay = BREAKER_DELAY_MIN;
            self.recent.clear();
        }
        self.reopen_delay = REOPEN_DELAY_MIN;
    }

    /// `open` found nobody: when to try again, at least after the peer's wish.
    pub(crate) fn reopen_after(&mut self, wish: Option<Duration>) -> Duration {
        let delay = self.reopen_delay;
        self.reopen_delay = (delay * 2).min(REOPEN_DELAY_MAX);
        delay.max(wish.unwrap_or_default().min(REOPEN_DELAY_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sixth_loss_in_a_minute_opens_the_breaker() {
        let mut budget = RestartBudget::default();
        let now = Instant::now();
        for _ in 0..RESTARTS_MAX {
            assert_eq!(budget.lost(now), Restart::AtOnce);
        }
        assert_eq!(budget.lost(now), Restart::After(BREAKER_DELAY_MIN));
        assert!(budget.half_open());
    }

    #[test]
    fn losses_far_apart_never_open_it() {
        let mut budget = RestartBudget::default();
        let start = Instant::now();
        for n in 0..100_u32 {
            assert_eq!(budget.lost(start + Duration::from_secs(13) * n), Restart::AtOnce);
        }
    }

    #[test]
    fn a_failed_trial_doubles_the_delay_and_a_good_one_ends_it() {
        let mut budget = RestartBudget::default();
        let now = Instant::now();
        let delays: Vec<Restart> = (0..RESTARTS_MAX + 8).map(|_| budget.lost(now)).skip(RESTARTS_MAX).collect();
        let seconds = [1, 2, 4, 8, 16, 32, 60, 60];
        assert_eq!(delays, seconds.map(|s| Restart::After(Duration::from_secs(s))));
        budget.proved();
        assert!(!budget.half_open());
        assert_eq!(budget.lost(now), Restart::AtOnce);
    }

    #[test]
    fn reopening_backs_off_and_heeds_the_peer_within_bounds() {
        let mut budget = RestartBudget::default();
        assert_eq!(budget.reopen_after(None), REOPEN_DELAY_MIN);
        assert_eq!(budget.reopen_after(Some(Duration::from_secs(5))), Duration::from_secs(5));
        assert_eq!(budget.reopen_after(Some(Duration::from_secs(9_999))), REOPEN_DELAY_MAX);
        budget.proved();
        assert_eq!(budget.reopen_after(None), REOPEN_DELAY_MIN);
    }
}
