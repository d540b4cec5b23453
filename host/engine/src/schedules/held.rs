//! A schedule as this host knows it, with what is costly to find out of it.

use std::collections::BTreeMap;

use waybill_core::schedule::{Advance, Calendar, Schedule, ScheduleKey};
use waybill_core::time::UnixMillis;

pub(super) struct Held {
    pub schedule: Schedule,
    /// None = another build wrote an expression or a zone that this one can't read: it makes no run.
    calendar: Option<Calendar>,
    /// The first instant behind its place.
    due: Option<UnixMillis>,
}

/// What the store has now. What is known of those that are as before is kept.
pub(super) fn again(before: Vec<Held>, now: Vec<Schedule>) -> Vec<Held> {
    let mut before: BTreeMap<ScheduleKey, Held> =
        before.into_iter().map(|held| (held.schedule.key.clone(), held)).collect();
    now.into_iter()
        .map(|schedule| {
            let same = before.remove(&schedule.key);
            Held::of(schedule, same)
        })
        .collect()
}

impl Held {
    fn new(schedule: Schedule) -> Self {
        let calendar = schedule.calendar();
        if let Err(error) = &calendar {
            tracing::error!(schedule = schedule.key.name.as_str(), %error, "a schedule makes no runs");
        }
        let mut held = Self { schedule, calendar: calendar.ok(), due: None };
        held.find_due();
        held
    }

    fn of(schedule: Schedule, before: Option<Self>) -> Self {
        before.filter(|before| before.schedule == schedule).unwrap_or_else(|| Self::new(schedule))
    }

    /// Goes on with the next record of it: the expression and the zone are the same.
    pub fn replace(&mut self, next: Schedule) {
        self.schedule = next;
        self.find_due();
    }

    /// What is due; none = nothing is.
    pub fn advance(&self, now: UnixMillis) -> Option<Advance> {
        self.due.filter(|due| *due <= now)?;
        self.schedule.advance(self.calendar.as_ref()?, now)
    }

    fn find_due(&mut self) {
        self.due = self.calendar.as_ref().and_then(|calendar| calendar.next_after(self.schedule.place));
    }
}
