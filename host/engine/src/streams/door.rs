//! When a shard's doorstep is looked at.

use std::time::Duration;

use tokio::time::Instant;

/// A commit of this process that was given up may land later than its end was noted: it is looked for once more after this long.
const LATE_WINDOW: Duration = Duration::from_secs(2);
/// A client of the same database may have left something that nobody here knows of.
const QUIET_EVERY: Duration = Duration::from_secs(30);

/// What is known of a doorstep.
#[derive(Debug)]
pub(super) struct DoorTimes {
    /// How often to look where other hosts share the store; none = this process hears of every commit.
    poll: Option<Duration>,
    /// Commits that were known when it was found empty; none = it isn't known to be.
    clean_at: Option<u64>,
    looked_at: Option<Instant>,
    /// It is looked at once more then.
    late_at: Option<Instant>,
    /// The last look found rows, or not all of them.
    goes_on: bool,
}

impl DoorTimes {
    pub fn new(poll: Option<Duration>) -> Self {
        Self { poll, clean_at: None, looked_at: None, late_at: None, goes_on: true }
    }

    /// Whether nothing can lie there.
    pub fn is_clean(&self, bell: u64) -> bool {
        self.poll.is_none() && !self.is_due(bell)
    }

    pub fn is_due(&self, bell: u64) -> bool {
        self.goes_on || self.next_look(bell) <= Instant::now()
    }

    /// When it is looked at by itself.
    pub fn next_look(&self, bell: u64) -> Instant {
        let Some(looked_at) = self.looked_at else { return Instant::now() };
        match self.poll {
            _ if self.clean_at != Some(bell) => Instant::now(),
            Some(every) => looked_at + every,
            None => self.late_at.map_or(looked_at + QUIET_EVERY, |late| late.min(looked_at + QUIET_EVERY)),
        }
    }

    /// It was looked at, when so many commits were known.
    pub fn looked(&mut self, bell: u64, is_empty: bool) {
        let now = Instant::now();
        if self.clean_at != Some(bell) {
            self.late_at = Some(now + LATE_WINDOW);
        } else if self.late_at.is_some_and(|late| late <= now) {
            self.late_at = None;
        }
        self.looked_at = Some(now);
        self.clean_at = Some(bell);
        self.goes_on = !is_empty;
    }

    /// What was taken may lie there again.
    pub fn look_again(&mut self) {
        self.goes_on = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_empty_doorstep_is_looked_at_when_the_bell_rings_and_once_more_for_what_came_late() {
        let mut door = DoorTimes::new(None);
        assert!(door.is_due(0) && !door.is_clean(0));
        door.looked(0, true);
        assert!(door.is_clean(0) && door.is_due(1));
        tokio::time::advance(LATE_WINDOW).await;
        assert!(door.is_due(0), "a commit that was given up may have landed");
        door.looked(0, true);
        tokio::time::advance(QUIET_EVERY - Duration::from_secs(1)).await;
        assert!(door.is_clean(0));
        tokio::time::advance(Duration::from_secs(1)).await;
        assert!(door.is_due(0));
    }

    #[tokio::test(start_paused = true)]
    async fn what_was_found_or_given_back_is_looked_for_at_once_and_others_by_and_by() {
        let mut door = DoorTimes::new(Some(Duration::from_millis(250)));
        door.looked(3, false);
        assert!(door.is_due(3));
        door.looked(3, true);
        assert!(!door.is_due(3) && door.is_due(4));
        assert!(!DoorTimes::is_clean(&door, 3), "another host may have left something");
        tokio::time::advance(Duration::from_millis(250)).await;
        assert!(door.is_due(3));
        door.looked(3, true);
        door.look_again();
        assert!(door.is_due(3));
    }
}
