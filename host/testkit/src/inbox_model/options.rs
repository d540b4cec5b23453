//! What a run may leave out.

use std::ops::Range;

use waybill_core::inbox::owner::{Rule, Rules};

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
        match self {
            // It takes a replay whose message comes again while its commit is out.
            Self::Without(Rule::RegisterReplay) => 1..30_000,
            // It takes one that is busy until the calm phase and asks again and again beside others that go through: one seed in 600.
            Self::Without(Rule::HoldsAreCharged) => 1..6_000,
            _ => 1..2_000,
        }
    }

    pub(super) fn rules(mutation: Option<Self>) -> Rules {
        match mutation {
            Some(Self::Without(rule)) => Rules::without(rule),
            _ => Rules::default(),
        }
    }
}
