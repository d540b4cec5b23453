//! When old records of a shard's feed are looked for, so that they go as fast as commits bring new ones.

use std::time::Duration;

use tokio::time::Instant;

/// How often they are looked for.
const EVERY: Duration = Duration::from_secs(60);
/// How soon again when a look took as many as one may: at a thousand commits a second there are more of them than one takes in a minute.
const AGAIN: Duration = Duration::from_secs(1);
/// How many one commit takes away.
pub(super) const RECORDS_MAX: usize = 10_000;

/// The next look, and how far the one before went.
#[derive(Debug)]
pub(super) struct FeedTrim {
    due: Instant,
    upto: u64,
}

impl FeedTrim {
    pub fn new() -> Self {
        Self { due: Instant::now() + EVERY, upto: 0 }
    }

    pub fn is_due(&self) -> bool {
        self.due <= Instant::now()
    }

    /// A look for them begins.
    pub fn begins(&mut self) {
        self.due = Instant::now() + EVERY;
    }

    /// The last old record that it found, if any.
    pub fn found(&mut self, old: Option<u64>) {
        let Some(old) = old else { return };
        if old.saturating_sub(self.upto) >= RECORDS_MAX as u64 {
            self.due = Instant::now() + AGAIN;
        }
        self.upto = old;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_full_look_is_followed_by_another_one_soon_and_a_short_one_isnt() {
        let mut trim = FeedTrim::new();
        assert!(!trim.is_due());
        tokio::time::advance(EVERY).await;
        assert!(trim.is_due());
        for old in [10_000, 20_000, 30_000] {
            trim.begins();
            trim.found(Some(old));
            assert!(!trim.is_due());
            tokio::time::advance(AGAIN).await;
            assert!(trim.is_due(), "there is more than went by {old}");
        }
        for old in [Some(30_001), None] {
            trim.begins();
            trim.found(old);
            tokio::time::advance(AGAIN).await;
            assert!(!trim.is_due());
        }
    }
}
