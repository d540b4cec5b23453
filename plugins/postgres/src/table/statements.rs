//! The statements of one table, as it is described.

use super::Table;
use super::claim::Claim;
use super::dead::Dead;
use super::marks::{Marks, WordClaims};
use super::stats;
use crate::wire::Statement;

/// All that is asked about a table.
#[derive(Clone, Debug)]
pub(crate) struct Statements {
    pub(crate) table: Table,
    pub(crate) claim: Claim,
    pub(crate) marks: Marks,
    pub(crate) dead: Dead,
    pub(crate) stats: Statement,
    /// none unless rows are claimed by the word for it.
    pub(crate) words: Option<WordClaims>,
}

impl Statements {
    /// `by_word`: rows are claimed by the word for it, and marked only while they have it.
    pub(crate) fn new(table: Table, by_word: bool) -> Self {
        let words = if by_word { WordClaims::new(&table) } else { None };
        Self {
            claim: Claim::new(&table),
            marks: Marks::new(&table, words.is_some()),
            dead: Dead::new(&table),
            stats: stats::statement(&table),
            words,
            table,
        }
    }
}
