//! How long a relay has been behind.
//!
//! One that keeps up with a broker of some milliseconds always has something under way, so it isn't enough that it was behind at each look:
//! what counts is how old that is which it hasn't settled.

use std::time::Duration;

use tokio::time::Instant;

#[derive(Debug, Default)]
pub(super) struct Lag(Option<Behind>);

/// It isn't at the end of what the feed has named.
#[derive(Debug)]
struct Behind {
    /// All that had been named by then is settled.
    settled_at: Instant,
    /// The feed ended at `pos` then: once the mark is there, all of that is settled.
    looked_at: Instant,
    pos: u64,
}

impl Lag {
    /// All that the feed has named is settled.
    pub fn caught_up(&mut self) {
        self.0 = None;
    }

    /// It is behind, with its mark at one record of the feed and the feed's end at another.
    pub fn behind(&mut self, mark: u64, end: u64) {
        let now = Instant::now();
        let behind = self.0.get_or_insert(Behind { settled_at: now, looked_at: now, pos: end });
        if mark >= behind.pos {
            *behind = Behind { settled_at: behind.looked_at, looked_at: now, pos: end };
        }
    }

    /// Since when something isn't settled, at most twice as long ago as that is.
    pub fn time(&self) -> Option<Duration> {
        self.0.as_ref().map(|behind| behind.settled_at.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_that_keeps_up_isnt_late_however_long_it_is_busy_and_one_that_stands_still_is() {
        let mut lag = Lag::default();
        assert_eq!(lag.time(), None);
        for pos in 10..1_000 {
            // Ten records behind, one a second.
            lag.behind(pos - 10, pos);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(lag.time().is_some_and(|time| (10..=21).contains(&time.as_secs())), "{lag:?}");
        for pos in 1_000..1_100 {
            lag.behind(989, pos);
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert!(lag.time().is_some_and(|time| time.as_secs() >= 100), "{lag:?}");
        lag.caught_up();
        assert_eq!(lag.time(), None);
    }
}
