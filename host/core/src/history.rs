//! An hour of how a host did, in memory: a point of each series every ten seconds.
//!
//! It dies with the process. Steps are counted by the boot-time clock, which nobody sets, so a step in which nobody looked (the machine
//! slept, the host stood still) stays a gap. What is counted (messages delivered) is the difference of two looks: behind a gap it isn't
//! known in which step it belongs, so it is a gap, too.

mod row;
mod series;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::time::{Monotonic, Now, UnixMillis};
use row::Row;

pub use series::{By, Measure, Reading, Series};

/// Time between two points.
pub const STEP: Duration = Duration::from_secs(10);
/// Points of a series: an hour.
pub const STEPS: usize = 360;
/// Series that are kept; of more, those that come later are left out. With a point of four bytes all of it stays below
/// [`HISTORY_BYTES_MAX`].
pub const SERIES_MAX: usize = 600;
/// What all of it takes at most.
pub const HISTORY_BYTES_MAX: usize = 1024 * 1024;
/// Longest name of a transport, a relay or a source that has series, in bytes: longer than a configuration takes.
pub const SERIES_NAME_BYTES_MAX: usize = 128;

/// A point's place in the order: how many steps this machine has run.
type Step = u64;

/// The step that began last.
fn step_at(mono: Monotonic) -> Step {
    u64::try_from(mono.0.as_millis() / STEP.as_millis()).unwrap_or(u64::MAX)
}

/// How long it is until the next step begins.
pub fn until_next(mono: Monotonic) -> Duration {
    let begun = STEP.saturating_mul(u32::try_from(step_at(mono)).unwrap_or(u32::MAX));
    STEP.saturating_sub(mono.0.saturating_sub(begun))
}

/// What was seen of each series.
#[derive(Debug)]
pub struct History {
    began: Monotonic,
    latest: Option<Step>,
    rows: BTreeMap<Series, Row>,
    left_out: usize,
}

/// A series with its points, oldest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Points {
    pub series: Series,
    /// None = nobody looked, or it isn't known.
    pub points: Vec<Option<u32>>,
}

/// The history as it is read at an instant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryRead {
    pub since: UnixMillis,
    /// Instant of the first point.
    pub from: UnixMillis,
    pub series: Vec<Points>,
    /// Series for which there was no room.
    pub left_out: usize,
}

impl History {
    /// One that begins now.
    pub fn new(began: Monotonic) -> Self {
        Self { began, latest: None, rows: BTreeMap::new(), left_out: 0 }
    }

    /// Series that are kept.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Takes what was seen at an instant. A second look within one step counts for nothing.
    pub fn record(&mut self, mono: Monotonic, seen: impl IntoIterator<Item = (Series, Reading)>) {
        let step = step_at(mono);
        if self.latest.is_some_and(|latest| latest >= step) {
            return;
        }
        // What has a step before it without a look has no beginning to count from.
        let follows = self.latest.is_some_and(|latest| latest + 1 == step);
        for row in self.rows.values_mut() {
            row.skip_to(self.latest.unwrap_or(step), step);
        }
        self.latest = Some(step);
        self.left_out = 0;
        for (series, reading) in seen {
            let is_known = self.rows.contains_key(&series);
            let has_room = self.rows.len() < SERIES_MAX && series.name_bytes() <= SERIES_NAME_BYTES_MAX;
            if !is_known && !has_room {
                self.left_out += 1;
                continue;
            }
            // One that is new has counted from zero.
            let row = self.rows.entry(series).or_insert_with(|| Row::new(follows.then(|| step - 1)));
            row.take(step, reading);
        }
        self.rows.retain(|_, row| row.is_seen(step));
    }

    /// What is kept of the series that are wanted, from the oldest point to the latest.
    pub fn read(&self, now: Now, wanted: impl Fn(&Series) -> bool) -> HistoryRead {
        let begun = step_at(self.began);
        // A look that is due in this moment is no gap yet.
        let end = step_at(now.mono).saturating_sub(1).max(self.latest.unwrap_or(begun));
        let first = begun.max((end + 1).saturating_sub(STEPS as u64));
        let is_kept =
            |step: Step| self.latest.is_some_and(|latest| step <= latest && step.saturating_add(STEPS as u64) > latest);
        let point = |row: &Row, step: Step| if is_kept(step) { row.at(step) } else { None };
        let points = |row: &Row| (first..=end).map(|step| point(row, step)).collect();
        let rows = self.rows.iter().filter(|(series, _)| wanted(series));
        HistoryRead {
            since: wall_at(now, self.began),
            from: wall_at(now, Monotonic(STEP.saturating_mul(u32::try_from(first).unwrap_or(u32::MAX)))),
            series: rows.map(|(series, row)| Points { series: series.clone(), points: points(row) }).collect(),
            left_out: self.left_out,
        }
    }
}

/// An instant of the past by the wall clock as it stands now.
fn wall_at(now: Now, mono: Monotonic) -> UnixMillis {
    let ago = now.mono.0.saturating_sub(mono.0);
    UnixMillis(now.wall.0.saturating_sub(u64::try_from(ago.as_millis()).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests;
