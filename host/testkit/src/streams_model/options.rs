//! What a run may leave out.

use std::ops::Range;

use waybill_core::streams::rules::{Rule, Rules};

/// A fault built in, to prove that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Owners, readers, upkeep and relay that leave one rule out.
    Without(Rule),
    /// The store applies commits of owners that were replaced.
    Unguarded,
}

impl Mutation {
    /// All, in the order of their numbers from 1.
    pub fn all() -> Vec<Self> {
        Rule::ALL.into_iter().map(Self::Without).chain([Self::Unguarded]).collect()
    }

    /// By number, from 1.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::all().get(number.checked_sub(1)?).copied()
    }

    /// Seeds among which one notices it.
    pub fn seeds(self) -> Range<u64> {
        1..2_000
    }

    pub(super) fn rules(mutation: Option<Self>) -> Rules {
        match mutation {
            Some(Self::Without(rule)) => Rules::without(rule),
            _ => Rules::default(),
        }
    }
}
