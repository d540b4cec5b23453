//! What a run may leave out.

use std::ops::Range;

use waybill_core::inbox::direct::Rule;

/// A fault built in, to prove that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Lanes that leave one rule out.
    Without(Rule),
    /// The condition isn't repeated where rows are locked.
    JudgedOnce,
    /// A row that isn't due doesn't block its aggregate.
    UndueDoesntBlock,
    /// A retry's time counts from the transaction's beginning.
    DelayFromBegin,
    /// A retry's time counts by the host's clock.
    DelayByHostClock,
    /// Ties are broken by where rows lie.
    TiesByPlace,
    /// A dead letter is committed here before the mark there.
    DeadLetterHere,
    /// What another worker has claimed is never given back.
    ProcessingForEver,
    /// What another worker has claimed doesn't block its aggregate.
    ProcessingDoesntBlock,
    /// The server doesn't end idle transactions.
    NoIdleEnd,
    /// A claim begins behind the highest row that it has seen.
    ClaimFromHighest,
    /// The wire id names the attempt.
    WireIdNamesAttempt,
}

impl Mutation {
    /// All, in the order of their numbers from 1.
    pub fn all() -> Vec<Self> {
        let others = [
            Self::JudgedOnce,
            Self::UndueDoesntBlock,
            Self::DelayFromBegin,
            Self::DelayByHostClock,
            Self::TiesByPlace,
            Self::DeadLetterHere,
            Self::ProcessingForEver,
            Self::ProcessingDoesntBlock,
            Self::NoIdleEnd,
            Self::ClaimFromHighest,
            Self::WireIdNamesAttempt,
        ];
        Rule::ALL.into_iter().map(Self::Without).chain(others).collect()
    }

    /// By number, from 1.
    pub fn numbered(number: usize) -> Option<Self> {
        Self::all().get(number.checked_sub(1)?).copied()
    }

    /// Seeds among which one notices it.
    pub fn seeds(self) -> Range<u64> {
        1..4_000
    }
}
