//! How much memory a statement can take at most: known before it runs, from its text, its bindings and what earlier LETs hold.
//!
//! Every part of a statement gets an upper bound of the bytes of its value ([`size::Size`]). What the parts hold is added up, those of
//! loops and closures once a round where the rounds' results are kept; past [`HELD_MAX`] the statement is refused. A sum of bounds is
//! more than what lives at once, but the database takes several times what its values take, since it copies them at its borders: so
//! the bound is far below the promise of 64 MiB for a request.
//!
//! What rows hold isn't known beforehand. Wherever it is mentioned it counts as [`size::ROWS_BYTES`], and a table without a LIMIT as
//! [`size::ROWS`] rows. If there is room for more than that, so many times more may be read, and the wall holds the statement to it;
//! what it really answered is measured before the next one is looked at. So rows that are to be built with belong into a LET of
//! their own.
//!
//! Like the rest of the guard, this takes everything apart by name and without `..`.

mod answer;
mod calls;
mod expressions;
mod paths;
mod scope;
mod size;
mod statements;
mod work;

use std::collections::HashMap;

use surrealdb_expr::expr::{Expr, LogicalPlan, TopLevelExpr};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::Statement;
use waybill_surreal::Value;

use answer::beyond_weight;
use scope::{Known, Scope};
use size::{ROWS_BYTES, Size, VALUE, handed_over, of_json, of_value};
use work::holds_sets;

/// What the values of a transaction may take together, in bytes as they are counted here.
const HELD_MAX: u64 = 12 * 1024 * 1024;
/// What they may take when a statement reads more rows than it was counted with: less is made of rows than of values, which are
/// copied once more at the borders.
const WITH_ROWS_MAX: u64 = 2 * HELD_MAX;
/// Parts of a statement that are looked at; those of a closure again at each call.
const STEPS_MAX: usize = 200_000;
/// Names that are copied in the time of a step.
const NAMES_A_STEP: usize = 8;
/// Parts one inside the other, those of called closures included: what is deeper would take the thread's stack.
const DEPTH_MAX: u32 = 160;

/// What the statements of a transaction have left in memory.
#[derive(Debug, Default)]
pub struct Held {
    lets: HashMap<String, Size>,
    /// Bytes of LETs and of results that wait for the answer.
    bytes: u64,
    /// Whether there are sets in LETs.
    sets: bool,
}

impl Held {
    /// Whether there is memory for a statement that was checked, and how much of it the rows that it reads may take.
    pub fn fits(&self, statement: &Statement, number: usize, plan: &LogicalPlan) -> Result<u64, StoreError> {
        let refuse = |cause: String| StoreError::Statement(format!("statement {number}: {cause}"));
        let mut scope = Scope::default();
        let mut bytes = self.bytes;
        for (name, value) in &statement.bindings {
            let size = of_json(value);
            bytes = bytes.saturating_add(size.fixed).saturating_add(handed_over(value));
            scope.set(name, Known::binding(size));
        }
        // They come before bindings.
        for (name, size) in &self.lets {
            scope.set(name, Known::value(size.clone()));
        }
        let mut sizes = Sizes {
            scope,
            levels: vec![Level::rows()],
            row: None,
            bytes,
            steps: 0,
            depth: 0,
            calls: 0,
            returned: Size::default(),
            work: Size::default(),
            squared: false,
            sets: self.sets,
        };
        sizes.room("its bindings").map_err(refuse)?;
        let given = sizes.bytes;
        // Behind a LET stands a RETURN of its name, which the LET's own answers for.
        if let Some(TopLevelExpr::Expr(expr)) = plan.expressions.first() {
            sizes.expr(expr).map_err(refuse)?;
        }
        // With so many times the rows that it was counted with, what is made of them is as many times as much, no more.
        let counted = sizes.bytes.saturating_sub(given).max(ROWS_BYTES);
        let rows = WITH_ROWS_MAX.saturating_sub(given).saturating_mul(ROWS_BYTES) / counted;
        Ok(rows.min(sizes.rows_in_time().map_err(refuse)?))
    }

    /// Notes what a statement answered, under the name that its LET gives it.
    pub fn keep(&mut self, number: usize, sets: Option<&str>, value: &Value) -> Result<(), StoreError> {
        let size = of_value(value);
        let replaced = sets.and_then(|name| self.lets.get(name)).map_or(0, |old| old.fixed);
        // What a LET sets isn't answered.
        let written = if sets.is_some() { 0 } else { beyond_weight(value) };
        self.bytes = self.bytes.saturating_sub(replaced).saturating_add(size.fixed).saturating_add(written);
        if self.bytes > HELD_MAX {
            return Err(StoreError::Statement(format!(
                "statement {number}: with its answer the results and LETs of the transaction take {} bytes of memory, at most \
                 {HELD_MAX} are held: select fewer rows or fields, or write RETURN NONE",
                self.bytes
            )));
        }
        if let Some(name) = sets {
            self.sets |= holds_sets(value);
            self.lets.insert(name.to_owned(), size);
        }
        Ok(())
    }
}

/// A loop around the expression that is looked at.
struct Level {
    /// What its items come from, which is as large as all of them.
    source: Size,
    bytes: u64,
    /// Whether it holds rows of the database.
    rows: bool,
}

impl Level {
    fn rows() -> Self {
        Self { source: Size::default(), bytes: ROWS_BYTES, rows: true }
    }
}

/// What a bound comes to, or why there is none.
type Judged = Result<Size, String>;

/// The state of a walk.
struct Sizes<'e> {
    scope: Scope<'e>,
    levels: Vec<Level>,
    /// The level whose items are the rows that fields are read of.
    row: Option<usize>,
    /// Bytes that are held.
    bytes: u64,
    steps: usize,
    /// Parts that the one that is looked at lies in.
    depth: u32,
    /// Closures being called one inside the other.
    calls: u32,
    /// The largest value that a RETURN inside may have handed out, from wherever it stands.
    returned: Size,
    /// What is looked at, as often as that is done ([`work`]).
    work: Size,
    /// Whether what rows hold is looked at for every row: twice the rows are then four times the work.
    squared: bool,
    /// Whether a set was made, or is in an earlier LET.
    sets: bool,
}

impl<'e> Sizes<'e> {
    /// Bytes of a size.
    fn bytes(&self, size: &Size) -> u64 {
        size.of
            .iter()
            .zip(&self.levels)
            .fold(size.fixed, |sum, (count, level)| sum.saturating_add(count.saturating_mul(level.bytes)))
    }

    /// Items that a value has at most, if it is looked at one by one.
    fn items(&self, size: &Size) -> u64 {
        match size.count {
            Some(count) => count.max(1),
            None if size.ranges => u64::MAX,
            None => (self.bytes(size) / VALUE).max(1),
        }
    }

    /// Whether what rows of the database hold is in a size.
    fn holds_rows(&self, size: &Size) -> bool {
        size.of.iter().zip(&self.levels).any(|(count, level)| *count > 0 && level.rows)
    }

    fn room(&self, what: &str) -> Result<(), String> {
        match self.bytes > HELD_MAX {
            true => Err(format!(
                "with {what} its values may take {} bytes of memory, at most {HELD_MAX} are taken: make smaller values, bound rows \
                 with LIMIT, or read rows in a LET of its own first",
                self.bytes
            )),
            false => Ok(()),
        }
    }

    /// A value that is made: it is held beside the others.
    fn made(&mut self, what: &str, size: Size) -> Judged {
        self.bytes = self.bytes.saturating_add(self.bytes(&size));
        self.room(what)?;
        Ok(size)
    }

    /// One more part is looked at.
    fn step(&mut self) -> Result<(), String> {
        self.steps += 1;
        match (self.steps > STEPS_MAX, self.depth > DEPTH_MAX) {
            (true, _) => Err("it is too large to be followed: call closures less often".to_owned()),
            (false, true) => Err(format!("it is more than {DEPTH_MAX} parts deep, closures that it calls included")),
            (false, false) => Ok(()),
        }
    }

    /// A copy of the names of this place.
    fn names(&mut self) -> Scope<'e> {
        self.steps += self.scope.count() / NAMES_A_STEP;
        self.scope.clone()
    }

    /// Looks at what is done with every item of `source`, so many rounds of work; answers what one round makes, and the level.
    fn each(
        &mut self,
        source: Size,
        rounds: u64,
        inside: impl FnOnce(&mut Self, usize) -> Judged,
    ) -> Result<Round, String> {
        let level = self.levels.len();
        let (bytes, rows) = (self.bytes(&source), self.holds_rows(&source));
        self.levels.push(Level { source, bytes, rows });
        let outside = std::mem::take(&mut self.work);
        let made = inside(self, level);
        let source = self.levels.pop().map(|level| level.source).unwrap_or_default();
        self.worked(outside, level, &source, rounds);
        if self.returned.of.len() > level {
            let count = self.returned.count;
            self.returned = Size { count, ..self.returned.kept(level, &source, 1) };
        }
        Ok(Round { made: made?, level, source })
    }

    /// An item of a source that is being looped over.
    fn item_of(source: &Size, level: usize) -> Size {
        match source.numbers {
            true => Size::scalar(),
            false => Size { ids: source.ids, tables: source.tables, ranges: source.ranges, ..Size::item(level) },
        }
    }

    fn exprs(&mut self, exprs: impl IntoIterator<Item = &'e Expr>) -> Judged {
        let mut all = Size::default();
        for expr in exprs {
            all = all.and(self.expr(expr)?);
        }
        Ok(all)
    }
}

/// What one round of a loop makes.
struct Round {
    made: Size,
    level: usize,
    source: Size,
}

impl Round {
    /// Every round's is kept.
    fn kept(&self, rounds: u64) -> Size {
        self.made.kept(self.level, &self.source, rounds)
    }
}

#[cfg(test)]
mod tests;
