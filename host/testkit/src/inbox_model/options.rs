//! What a run may leave out, and what it found.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use waybill_core::inbox::owner::{Rule, Rules};

use super::stats::Stats;

/// A fault built in, to prove that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An owner that leaves one rule out.
    Without(Rule),
    /// The store applies commits of owners that were replaced.
    Unguarded,
    /// A source commits offsets past what isn't settled.
    OffsetsPastGaps,
    /// What a handler leaves behind goes in a commit of its own.
    LeavingsApart,
    /// A dead letter's DLQ message goes in a commit of its own.
    DlqApart,
}

impl Mutation {
    /// All, in the order of their numbers from 1.
    pub fn all() -> Vec<Self> {
        let others = [Self::Unguarded, Self::OffsetsPastGaps, Self::LeavingsApart, Self::DlqApart];
        Rule::ALL.into_iter().map(Self::Without).chain(others).collect()
    }

    /// By number, from 1.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::all().get(number.checked_sub(1)?).copied()
    }

    /// Seeds among which one notices it.
    pub fn seeds(self) -> Range<u64> {
        1..400
    }

    pub(super) fn rules(mutation: Option<Self>) -> Rules {
        match mutation {
            Some(Self::Without(rule)) => Rules::without(rule),
            _ => Rules::default(),
        }
    }
}

/// What one seed found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What was wrong, in the order it was noticed; at most three.
    pub violations: Vec<String>,
    pub stats: Stats,
}

/// What many seeds found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub seeds: u64,
    /// Seeds with a violation, with the first one.
    pub failed: BTreeMap<u64, String>,
    pub stats: Stats,
}

impl Report {
    pub(super) fn add(&mut self, seed: u64, outcome: Outcome) {
        self.seeds += 1;
        self.stats.add(&outcome.stats);
        if let Some(first) = outcome.violations.into_iter().next() {
            self.failed.insert(seed, first);
        }
    }

    pub(super) fn join(&mut self, other: Self) {
        self.seeds += other.seeds;
        self.stats.add(&other.stats);
        self.failed.extend(other.failed);
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} seeds, {} with a violation", self.seeds, self.failed.len())?;
        for (seed, violation) in self.failed.iter().take(10) {
            writeln!(f, "  seed {seed}: {violation}")?;
        }
        write!(f, "{}", self.stats)
    }
}
