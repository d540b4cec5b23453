//! How many steps a statement can take, beside the memory that its values take.
//!
//! SurrealDB computes an operator or a function in one piece: nothing else has the thread meanwhile, and no timeout ends it. What is
//! looked at once counts as its bytes. Where every item of one value is compared with every item of another, or all items are moved
//! for each, the one counts as often as the other has items. Loops count once a round.
//!
//! `FOR` lets others have the thread before each round, and `query_timeout` ends it there. So only its first rounds count: they
//! bound what one round may take.

use waybill_surreal::Value;

use super::Sizes;
use super::size::{ROWS_BYTES, Size, VALUE};

/// Bytes that may be looked at in one statement: 80 million steps, a step is a value of 64 bytes. That is less than a second.
const WORK_MAX: u64 = 80_000_000 * VALUE;
/// Rounds of `FOR` that count.
pub(super) const FOR_ROUNDS: u64 = 16;
/// What a function looks at counts as so much more: of a text each letter, of a list each order of its items.
pub(super) const CALL_TIMES: u64 = 8;
/// Digits that `math::fixed` writes at most, if nothing tells how many.
pub(super) const DIGITS_MAX: u64 = 1024 * 1024;

impl Sizes<'_> {
    /// Something is looked at once.
    pub(super) fn looks_at(&mut self, size: &Size) {
        let work = std::mem::take(&mut self.work);
        self.work = work.and(size.clone());
    }

    /// Each item of one is compared with each item of the other.
    pub(super) fn compares(&mut self, one: &Size, other: &Size) {
        self.squared |= self.holds_rows(one) && self.holds_rows(other);
        let by_one = one.clone().times(self.parts(other));
        let by_other = other.clone().times(self.parts(one));
        // Both are bounds. What doesn't depend on the item of a loop counts again in each of its rounds.
        let work = if by_one.fixed <= by_other.fixed { by_one } else { by_other };
        self.looks_at(&work);
    }

    /// The same of an operator that does so with some values only, and with numbers and texts takes one step. What a row
    /// holds and an item of a loop, or of a row, are taken for such: a row is small beside the bound, and most that is added to it is one
    /// number or text.
    pub(super) fn may_compare(&mut self, one: &Size, other: &Size) {
        let of_items = |size: &Size| size.of.iter().any(|count| *count > 0);
        let of_row = self.holds_rows(one) || self.holds_rows(other);
        if !(of_row && of_items(one) && of_items(other)) {
            self.compares(one, other);
        }
    }

    /// All items are moved, or compared, for each of them.
    pub(super) fn compares_itself(&mut self, size: &Size) {
        self.squared |= self.holds_rows(size);
        let parts = (self.bytes(size) / VALUE).max(1);
        self.looks_at(&size.clone().times(parts));
    }

    /// Items to compare with: a range is one.
    fn parts(&self, size: &Size) -> u64 {
        match size.count {
            Some(count) if !size.numbers => count.max(1),
            _ => (self.bytes(size) / VALUE).max(1),
        }
    }

    /// What work inside a loop at `level` over `source` comes to outside it.
    pub(super) fn worked(&mut self, outside: Size, level: usize, source: &Size, rounds: u64) {
        let inside = std::mem::take(&mut self.work);
        let rows = |size: &Size| size.of.first().is_some_and(|count| *count > 0);
        self.squared |= self.holds_rows(source) && rows(&inside);
        self.work = outside.and(inside.kept(level, source, rounds));
    }

    /// Rounds that a statement that writes makes over these records in one round of what is around it: if they are an item's, those of
    /// all rounds together are what the wall lets it read.
    pub(super) fn row_rounds(source: &Size, rows: u64) -> u64 {
        let of_item = source.of.iter().skip(1).any(|count| *count > 0);
        if of_item { 1 } else { rows }
    }

    /// Bytes of rows up to which the work stays within its bound. Refused if it doesn't even with those that it was counted with.
    pub(super) fn rows_in_time(&self) -> Result<u64, String> {
        let work = self.bytes(&self.work).max(1);
        if work > WORK_MAX {
            return Err(format!(
                "it may take {} steps, at most {} are taken: compare shorter lists with one another (an operator such as CONTAINSALL or \
                 INTERSECTS, array::intersect, difference and add take one step for each pair of items), call closures for fewer \
                 items, bound rows with LIMIT, or read them in a LET of their own first",
                work / VALUE,
                WORK_MAX / VALUE
            ));
        }
        let times = WORK_MAX / work;
        // Twice the rows are four times the pairs.
        let times = if self.squared { times.isqrt() } else { times };
        Ok(ROWS_BYTES.saturating_mul(times))
    }
}

/// Whether a set is in a value.
pub(super) fn holds_sets(value: &Value) -> bool {
    match value {
        Value::Set(_) => true,
        Value::Array(items) => items.iter().any(holds_sets),
        Value::Object(fields) => fields.iter().any(|(_, value)| holds_sets(value)),
        _ => false,
    }
}
