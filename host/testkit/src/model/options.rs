//! What a run may vary, and what it found.

use std::collections::BTreeMap;
use std::fmt;

use waybill_core::outbox::owner::{Rule, Rules};

use super::stats::Stats;

/// A fault built into the protocol, to prove that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// An owner that leaves one rule out.
    Without(Rule),
    /// Enqueuers whose clocks differ by up to 20 ms, which stamps on a doorstep can't bear.
    SkewedEnqueuers,
    /// Stamps of one process follow a clock that is set back.
    StampsFollowClock,
    /// A page of the doorstep whose read failed counts as an empty one.
    FailedReadIsEmpty,
    /// A lane forgets its calls while they are under way.
    CallsDontCount,
    /// A host goes by the number of shards in its settings, which another start may change: a key moves to another shard.
    ShardsFollowSettings,
    /// Shards of one process have suspects on trial by themselves at the same time.
    TrialsTogether,
}

impl Mutation {
    /// All, in the order of their numbers from 1.
    pub fn all() -> Vec<Self> {
        let others = [
            Self::SkewedEnqueuers,
            Self::StampsFollowClock,
            Self::FailedReadIsEmpty,
            Self::CallsDontCount,
            Self::ShardsFollowSettings,
            Self::TrialsTogether,
        ];
        Rule::ALL.into_iter().map(Self::Without).chain(others).collect()
    }
    /// By number, from 1.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::all().get(number.checked_sub(1)?).copied()
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A fault built in; none = the protocol.
    pub mutation: Option<Mutation>,
    /// Keep a trace of what happened.
    pub trace: bool,
}

impl Options {
    pub(super) fn rules(&self) -> Rules {
        match self.mutation {
            Some(Mutation::Without(rule)) => Rules::without(rule),
            _ => Rules::default(),
        }
    }
    pub(super) fn skew_ms(&self) -> u64 {
        if self.mutation == Some(Mutation::SkewedEnqueuers) { 20 } else { 0 }
    }
}

/// What one seed found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    pub seed: u64,
    /// What was wrong, in the order it was noticed.
    pub violations: Vec<String>,
    pub stats: Stats,
    /// Every event, if asked for.
    pub trace: Vec<String>,
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
    pub(super) fn add(&mut self, outcome: &Outcome) {
        self.seeds += 1;
        self.stats.add(&outcome.stats);
        if let Some(first) = outcome.violations.first() {
            self.failed.insert(outcome.seed, first.clone());
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
