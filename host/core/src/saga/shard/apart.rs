//! What is tried saga by saga, because the store took no commit as large as the one that held all of it.

use super::build::Flight;

/// How much of a refused commit is left to be tried by itself. When nothing is, commits are as large as ever.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Apart {
    /// Sagas to be set aside.
    pub aside: usize,
    /// Rows for the journal's sake.
    pub rows: usize,
    /// Entries of what waits: the first ones.
    pub entries: usize,
    /// The commit before was a row for the journal's sake, so it is the turn of what waits.
    pub row_went: bool,
}

impl Apart {
    pub fn is_over(self) -> bool {
        self.rows == 0 && self.entries == 0
    }

    /// A commit was refused: each saga in it is to be tried by itself, but for one that was.
    pub fn refused(&mut self, flight: &Flight) {
        let (aside, rows, entries) = parts(flight);
        if aside + rows + entries <= 1 {
            return self.tried(flight);
        }
        // More than one is in a commit only when none of its kind was left here.
        *self = Self {
            aside: self.aside.max(aside),
            rows: self.rows.max(rows),
            entries: self.entries.max(entries),
            ..*self
        };
    }

    /// A commit is in, or the one saga in it stands still from now on.
    pub fn tried(&mut self, flight: &Flight) {
        let (aside, rows, entries) = parts(flight);
        self.aside = self.aside.saturating_sub(aside);
        self.rows = self.rows.saturating_sub(rows);
        self.entries = self.entries.saturating_sub(entries);
    }
}

/// How many sagas a commit sets aside, writes for the journal's sake, and moves.
fn parts(flight: &Flight) -> (usize, usize, usize) {
    let entries = flight.batch.entries.len();
    (flight.aside.len(), flight.changes.len().saturating_sub(entries), entries)
}
