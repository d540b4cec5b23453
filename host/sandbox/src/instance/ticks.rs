//! When an instance is called to keep its connection alive.
//!
//! A transport is called when it was idle for as long as it asked for. A world that tells something by its ticks is called that often
//! whatever else runs, beside its other calls where it can run several; one tick at a time.

use std::time::Duration;

use tokio::time::Instant;

use super::guest::Guest;

pub(super) struct Ticks {
    /// None for worlds and instances without ticks.
    every: Option<Duration>,
    /// Whether it is called beside other calls.
    beside: bool,
    since: Instant,
    /// The tick that runs.
    running: Option<u32>,
}

impl Ticks {
    /// For an instance that is open now.
    pub(super) fn new(every: Option<Duration>, guest: &Guest) -> Self {
        Self::of(every.filter(|_| guest.ticks()), guest.tells())
    }

    fn of(every: Option<Duration>, beside: bool) -> Self {
        Self { every, beside, since: Instant::now(), running: None }
    }

    /// When the next is due, with so many calls under way of `limit`; none while it has to wait for them.
    pub(super) fn next(&self, calls: usize, limit: usize) -> Option<Instant> {
        let room = calls == 0 || (self.beside && calls < limit);
        self.every.filter(|_| room && self.running.is_none()).map(|every| self.since + every)
    }

    pub(super) fn began(&mut self, call: u32) {
        self.running = Some(call);
    }

    /// A call has ended, a tick or another one.
    pub(super) fn ended(&mut self, call: u32) {
        let tick = self.running == Some(call);
        if tick {
            self.running = None;
        }
        if tick || !self.beside {
            self.since = Instant::now();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_transport_is_called_when_it_was_idle() {
        let mut ticks = Ticks::of(Some(EVERY), false);
        let start = Instant::now();
        assert_eq!((ticks.next(0, 8), ticks.next(1, 8)), (Some(start + EVERY), None));
        tokio::time::advance(EVERY / 2).await;
        ticks.ended(7);
        assert_eq!(ticks.next(0, 8), Some(start + EVERY + EVERY / 2));
    }

    #[tokio::test(start_paused = true)]
    async fn what_tells_is_called_beside_its_calls_one_tick_at_a_time() {
        let mut ticks = Ticks::of(Some(EVERY), true);
        let start = Instant::now();
        ticks.ended(7);
        assert_eq!((ticks.next(1, 2), ticks.next(2, 2)), (Some(start + EVERY), None));
        ticks.began(8);
        assert_eq!(ticks.next(1, 2), None);
        tokio::time::advance(EVERY).await;
        ticks.ended(8);
        assert_eq!(ticks.next(1, 2), Some(start + EVERY * 2));
        assert_eq!(Ticks::of(None, true).next(0, 2), None);
    }
}
