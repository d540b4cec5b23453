//! The time a call has, for clients of protocols: each step gets what is left of it.

use std::time::{Duration, Instant};

/// Milliseconds of a call's time that are kept back, so that its outcomes still reach the host in time.
const MARGIN_MS: u32 = 250;

/// The instant at which an answer has to be on its way.
#[derive(Clone, Copy, Debug)]
pub struct Deadline(Instant);

impl Deadline {
    /// That of a call with this many milliseconds left ([`crate::transport::CallInfo::timeout`]), a little before its end.
    pub fn of_call(millis: u32) -> Self {
        Self::after(millis.saturating_sub(MARGIN_MS.min(millis / 10)))
    }

    /// This many milliseconds from now.
    pub fn after(millis: u32) -> Self {
        Self(Instant::now() + Duration::from_millis(u64::from(millis)))
    }

    /// The earlier one of this and `millis` milliseconds from now.
    #[must_use]
    pub fn at_most(self, millis: u32) -> Self {
        Self(self.0.min(Self::after(millis).0))
    }

    /// Milliseconds left; none when it is over.
    pub fn left(self) -> Option<u32> {
        let left = self.0.saturating_duration_since(Instant::now()).as_millis();
        u32::try_from(left).ok().filter(|left| *left > 0)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_deadline_ends_before_its_call_and_only_comes_nearer() {
        assert!(Deadline::of_call(0).left().is_none());
        assert!(Deadline::of_call(1_000_000).left().unwrap() <= 1_000_000 - MARGIN_MS);
        assert!(Deadline::after(1_000_000).at_most(5_000).left().unwrap() <= 5_000);
        assert!(Deadline::after(0).at_most(5_000).left().is_none());
    }
}
