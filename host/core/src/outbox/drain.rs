//! Giving a shard back in good order: what is being sent gets a while to end, and then it is over either way.
//!
//! Pure, so that the engine's actor and the model checker go by one and the same.

use super::owner::Owner;
use crate::time::Now;

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DrainEnd {
    /// The record says that the shard was given back.
    InOrder,
    /// Its time is over. What a commit that is still out did is found out at the next start, as after a crash.
    TimeIsOver,
}

/// The drain of one ownership, if it has begun. `T` is an instant of whoever drives.
#[derive(Clone, Copy, Debug)]
pub struct Drain<T> {
    until: Option<T>,
}

impl<T> Default for Drain<T> {
    fn default() -> Self {
        Self { until: None }
    }
}

impl<T: Copy + PartialOrd> Drain<T> {
    /// Begins, or goes on until another instant. Nothing is sequenced any more: requests that wait are to be refused
    /// ([`Owner::recall_directs`], [`super::lookups::Lookups::drain`]).
    pub fn begin(&mut self, owner: &mut Owner, until: T, now: Now) {
        owner.begin_release(now);
        self.until = Some(until);
    }

    /// Whether it has begun.
    pub fn has_begun(&self) -> bool {
        self.until.is_some()
    }

    /// When its time is over, if it has begun.
    pub fn until(&self) -> Option<T> {
        self.until
    }

    /// Whether it is over at this instant. `is_idle` = no commit, barrier or read of the record is under way.
    pub fn end(&self, owner: &Owner, is_idle: bool, at: T) -> Option<DrainEnd> {
        let until = self.until?;
        match owner.is_released() && is_idle {
            true => Some(DrainEnd::InOrder),
            false => (at >= until).then_some(DrainEnd::TimeIsOver),
        }
    }
}
