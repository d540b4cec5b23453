//! A schedule as it is kept, and everything that changes it. Each change is a new record with a higher revision, which a store writes only
//! over the one that it was made of: of two hosts that make one run, one writes it.

use serde::{Deserialize, Serialize};

use super::limits::{RUNS_MAX, SHOWN_MAX};
use super::{Calendar, Missed, Run, ScheduleName, Work, turn};
use crate::error::{InputError, InputResult};
use crate::ids::{ShardId, Tenant};
use crate::time::UnixMillis;

/// Whose schedule it is, and its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScheduleKey {
    pub tenant: Tenant,
    pub name: ScheduleName,
}

impl ScheduleKey {
    /// The shard whose owner makes its runs.
    pub fn shard(&self, shards: u16) -> ShardId {
        ShardId::of_text(&self.tenant, self.name.as_str(), shards)
    }
}

/// A schedule as a caller gives it, not yet checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewSchedule {
    pub key: ScheduleKey,
    pub cron: String,
    pub zone: String,
    pub missed: Missed,
    pub work: Work,
    /// It makes no run before it is resumed.
    pub is_paused: bool,
    /// Who makes it, for the audit.
    pub actor: String,
}

/// The run that was made last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LastRun {
    pub run: Run,
    pub at: UnixMillis,
    /// Id of the message or the saga.
    pub id: String,
}

/// A schedule, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    pub key: ScheduleKey,
    pub cron: String,
    /// A name of the IANA database, as that writes it.
    pub zone: String,
    pub missed: Missed,
    pub work: Work,
    pub is_paused: bool,
    /// Grows with each write.
    pub revision: u64,
    /// Of all instants up to here it is decided whether they have a run.
    pub place: UnixMillis,
    /// Sagas whose runs are decided and that aren't known to be started.
    pub owed: Vec<Run>,
    /// Runs that were made.
    pub runs: u64,
    /// Instants that passed without a run.
    pub without_run: u64,
    pub last: Option<LastRun>,
    /// Why the last saga could not be started; none = it was, or it is tried again.
    pub error: Option<String>,
    pub created_at: UnixMillis,
    pub created_by: String,
}

/// A schedule's next record, and the runs that are made in the commit that writes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advance {
    pub next: Schedule,
    pub runs: Vec<Run>,
    /// More is due than one commit decides.
    pub is_cut: bool,
}

impl NewSchedule {
    /// Checks everything that can be checked without a store. Nothing is due of the time before.
    pub fn check(self, now: UnixMillis) -> InputResult<Schedule> {
        let calendar = Calendar::read(&self.cron, &self.zone)?;
        if calendar.next_after(now).is_none() {
            return Err(InputError::Cron { text: self.cron, cause: "no instant to come matches it".to_owned() });
        }
        self.work.check(&self.key, now)?;
        Ok(Schedule {
            key: self.key,
            cron: self.cron,
            zone: calendar.zone_name().to_owned(),
            missed: self.missed,
            work: self.work,
            is_paused: self.is_paused,
            revision: 1,
            place: now,
            owed: Vec::new(),
            runs: 0,
            without_run: 0,
            last: None,
            error: None,
            created_at: now,
            created_by: self.actor,
        })
    }
}

impl Schedule {
    /// Its expression and its zone, read.
    pub fn calendar(&self) -> InputResult<Calendar> {
        Calendar::read(&self.cron, &self.zone)
    }

    /// The next instants that have a run, as it stands; a paused one has none.
    pub fn upcoming(&self, calendar: &Calendar, now: UnixMillis) -> Vec<UnixMillis> {
        if self.is_paused { Vec::new() } else { calendar.upcoming(self.place.max(now), SHOWN_MAX) }
    }

    /// What is due; none = nothing is, it is paused, or sagas of earlier runs are to be started first.
    pub fn advance(&self, calendar: &Calendar, now: UnixMillis) -> Option<Advance> {
        if self.is_paused || !self.owed.is_empty() {
            return None;
        }
        let turn = turn(calendar, self.missed, self.place, now, self.work.runs_max())?;
        let runs: Vec<Run> = turn.runs.into_iter().map(|due| Run { due, by_hand: false }).collect();
        let mut next = self.with_runs(&runs, now);
        next.place = turn.place;
        next.without_run = next.without_run.saturating_add(turn.missed);
        Some(Advance { next, runs, is_cut: turn.is_cut })
    }

    /// A run that somebody asks for, paused or not. Its place stays: what is due runs all the same. None = too many of its sagas wait to
    /// be started.
    pub fn run_now(&self, now: UnixMillis) -> Option<Advance> {
        let runs = vec![Run { due: now, by_hand: true }];
        let has_room = self.owed.len() < RUNS_MAX;
        has_room.then(|| Advance { next: self.with_runs(&runs, now), runs, is_cut: false })
    }

    /// The same without further runs; none = it is paused.
    pub fn paused(&self) -> Option<Self> {
        (!self.is_paused).then(|| Self { is_paused: true, ..self.changed() })
    }

    /// The same with runs from now on: none is made up for the time until now, and one that stands ahead of a clock that was set back
    /// goes on. None = it isn't paused.
    pub fn resumed(&self, now: UnixMillis) -> Option<Self> {
        self.is_paused.then(|| Self { is_paused: false, place: now, ..self.changed() })
    }

    /// The same behind the start of a saga, or a refusal of it that stays.
    #[must_use]
    pub fn settled(&self, run: Run, error: Option<String>) -> Self {
        let mut next = Self { error, ..self.changed() };
        next.owed.retain(|owed| *owed != run);
        next
    }

    fn with_runs(&self, runs: &[Run], now: UnixMillis) -> Self {
        let mut next = self.changed();
        next.runs = next.runs.saturating_add(runs.len() as u64);
        if let Some(run) = runs.last() {
            next.last = Some(LastRun { run: *run, at: now, id: run.id(&self.key) });
        }
        if matches!(self.work, Work::Saga(_)) {
            next.owed.extend_from_slice(runs);
        }
        next
    }

    fn changed(&self) -> Self {
        Self { revision: self.revision.saturating_add(1), ..self.clone() }
    }
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
