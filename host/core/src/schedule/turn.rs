//! What one commit decides of a schedule's due instants, by its policy for those that were missed.

use serde::{Deserialize, Serialize};

use super::Calendar;
use super::limits::{CATCH_UP_MAX, INSTANTS_MAX, ON_TIME};
use crate::time::UnixMillis;

/// What becomes of instants that passed while nobody made their runs: no host ran, or the store didn't answer, for more than a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Missed {
    /// They have no run.
    Skip,
    /// One run for all that is due: the latest instant's.
    #[default]
    Once,
    /// Each has its run, in order, unless it is more than a week ago.
    All,
}

impl Missed {
    pub const ALL: [Self; 3] = [Self::Skip, Self::Once, Self::All];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Skip => "skip",
            Self::Once => "once",
            Self::All => "all",
        }
    }
}

/// What one commit decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Instants whose runs are made, in order.
    pub runs: Vec<UnixMillis>,
    /// Instants that have no run.
    pub missed: u64,
    /// All up to here is decided, this instant included.
    pub place: UnixMillis,
    /// More was due than one commit decides: the next one goes on at once.
    pub is_cut: bool,
}

/// Decides what is due behind `place`, with `runs_max` runs at most; none = nothing is.
pub fn turn(calendar: &Calendar, policy: Missed, place: UnixMillis, now: UnixMillis, runs_max: usize) -> Option<Turn> {
    let mut done = Turn { runs: Vec::new(), missed: 0, place, is_cut: false };
    let mut instants = 0;
    while let Some(due) = calendar.next_after(done.place).filter(|due| *due <= now) {
        if instants == INSTANTS_MAX || done.runs.len() == runs_max {
            done.is_cut = true;
            break;
        }
        instants += 1;
        done.place = due;
        let has_run = match policy {
            Missed::Skip => now.since(due) <= ON_TIME,
            // Decided below: only the last one of all has a run.
            Missed::Once => false,
            Missed::All => now.since(due) <= CATCH_UP_MAX,
        };
        if has_run { done.runs.push(due) } else { done.missed += 1 }
    }
    if policy == Missed::Once && instants > 0 && !done.is_cut {
        done.missed -= 1;
        done.runs.push(done.place);
    }
    (instants > 0).then_some(done)
}

#[cfg(test)]
#[path = "turn_tests.rs"]
mod tests;
