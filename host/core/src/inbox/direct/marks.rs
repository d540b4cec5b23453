//! What is written of each row, and the end of a transaction.

use std::time::Duration;

use super::DirectTable;
use super::batch::RowFate;
use super::config::{Aggregate, RowId, WorkerId, doubled};
use super::lanes::Shape;
use super::memory::Scope;
use super::rules::Rule;
use crate::port::transport::Fault;
use crate::time::Monotonic;

/// What is written of a row that wasn't acknowledged. Times count from the mark, by the database's clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub row: RowId,
    pub kind: MarkKind,
    /// Added to the attempts that the table has.
    pub attempts: u32,
    pub error: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MarkKind {
    /// It waits as if nobody had claimed it (document 4: `pending`), not due before this time has passed.
    Waits(Duration),
    /// It stands failed (document 5: `DEAD ...`), in the table and nowhere else.
    Failed,
}

/// All marks of a transaction, then COMMIT.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The broker has them: published, or deleted.
    pub acknowledged: Vec<RowId>,
    pub others: Vec<Mark>,
}

impl Marks {
    /// How many rows the statements have to change: fewer is a mark refused ([`DirectTable::mark_refused`]).
    pub fn len(&self) -> usize {
        self.acknowledged.len() + self.others.len()
    }

    pub fn is_empty(&self) -> bool {
        self.acknowledged.is_empty() && self.others.is_empty()
    }
}

impl DirectTable {
    /// The marks of a worker's transaction. `random` is uniform in [0, 1).
    pub fn marks(&mut self, worker: WorkerId, now: Monotonic, random: f64) -> Marks {
        let (mut marks, mut is_blocked) = (Marks::default(), false);
        let fates = self.batch(worker).map(|batch| batch.fates().to_vec()).unwrap_or_default();
        for (row, fate) in fates {
            let known = self.batch(worker).and_then(|batch| batch.known(&row));
            let Some((aggregate, attempts)) = known.map(|(aggregate, attempts)| (aggregate.clone(), attempts)) else {
                continue;
            };
            match fate {
                RowFate::Untold => {}
                RowFate::Later(pause) => self.hold(&aggregate, now + pause),
                RowFate::Acknowledged => marks.acknowledged.push(row),
                RowFate::Permanent(error) => {
                    marks.others.push(Mark { row, kind: MarkKind::Failed, attempts: 1, error });
                }
                RowFate::Retry(error) => {
                    let mark = self.retry(row, &aggregate, attempts, error, now, random);
                    marks.others.push(mark);
                }
                RowFate::Blocked { scope, fault } => {
                    let mark = self.blocked(row, &aggregate, attempts, (scope, fault), now, random);
                    is_blocked |= mark.attempts == 0;
                    marks.others.push(mark);
                }
            }
        }
        // Where something goes through, one destination that is down mustn't slow down the others.
        if is_blocked && marks.acknowledged.is_empty() {
            self.blocked_until = self.blocked_until.max(now + self.config.blocked_pause / 2);
        }
        let failed = marks.others.iter().filter(|mark| mark.kind == MarkKind::Failed).map(|mark| mark.row.clone());
        if let Some(batch) = self.batch_mut(worker) {
            batch.failed = failed.collect();
        }
        marks
    }

    fn retry(
        &mut self,
        row: RowId,
        aggregate: &Aggregate,
        attempts: u32,
        error: Fault,
        now: Monotonic,
        random: f64,
    ) -> Mark {
        let attempts = attempts + 1;
        if !self.config.retry.allowed(attempts) {
            return Mark { row, kind: MarkKind::Failed, attempts: 1, error };
        }
        let delay = self.config.retry.delay(attempts, random).max(error.after.unwrap_or_default());
        self.wait_in_memory(aggregate, now + delay);
        self.memory.keep(&row, now + delay + self.config.remember);
        Mark { row, kind: MarkKind::Waits(delay), attempts: 1, error }
    }

    /// Costs nothing, unless another row of its scope went through since this one last asked. It waits for twice as long each time.
    fn blocked(
        &mut self,
        row: RowId,
        aggregate: &Aggregate,
        attempts: u32,
        (scope, error): (Option<Scope>, Fault),
        now: Monotonic,
        random: f64,
    ) -> Mark {
        let (times, has_passed) = self.memory.note_blocked(&row, scope, self.is_rule_kept(Rule::BlocksByScope));
        if has_passed && self.is_rule_kept(Rule::BlocksAreCharged) {
            return self.retry(row, aggregate, attempts, error, now, random);
        }
        let times = if self.is_rule_kept(Rule::BlockedPauseDoubles) { times } else { 0 };
        let pause = doubled(self.config.blocked_pause, self.config.blocked_pause_max, times);
        let pause = pause.max(error.after.unwrap_or_default());
        self.wait_in_memory(aggregate, now + pause);
        self.memory.keep(&row, now + pause + self.config.remember);
        Mark { row, kind: MarkKind::Waits(pause), attempts: 0, error }
    }

    /// A table without a column for it: this host leaves the aggregate out until then.
    fn wait_in_memory(&mut self, aggregate: &Aggregate, until: Monotonic) {
        if !self.config.has_due {
            self.hold(aggregate, until);
        }
    }

    /// The table refused a mark (a trigger, a constraint, a right; or fewer rows were changed), so the transaction is undone. Found alone,
    /// the row is set apart and asked again by the backoff; its aggregate waits for a person. It is told when the row was alone.
    pub fn mark_refused(&mut self, worker: WorkerId, now: Monotonic, random: f64) -> Option<RowId> {
        let batch = self.batch(worker)?;
        let key = (batch.lanes, batch.lane);
        let marked: Vec<RowId> =
            batch.fates().iter().filter(|(_, fate)| fate.is_marked()).map(|(row, _)| row.clone()).collect();
        let alone = match marked.as_slice() {
            [row] if self.is_rule_kept(Rule::SetApart) => batch.known(row).map(|(of, _)| (row.clone(), of.clone())),
            _ => None,
        };
        self.end(worker, now);
        let Some((row, aggregate)) = alone else {
            self.shrink(key);
            return None;
        };
        let times = self.memory.note_refused(&row);
        let delay = self.config.retry.delay(times, random);
        self.hold(&aggregate, now + delay);
        self.memory.set_apart(&row, now + delay + self.config.remember);
        let shape = self.shape(key);
        self.shapes.insert(key, Shape { size: shape.size.max(2).min(self.config.batch), ..shape });
        Some(row)
    }

    /// The transaction is known to be committed.
    pub fn committed(&mut self, worker: WorkerId, now: Monotonic) {
        let Some(batch) = self.workers.get_mut(&worker).and_then(|worker| worker.batch.take()) else { return };
        let key = (batch.lanes, batch.lane);
        let shape = self.shape(key);
        if batch.hurt {
            self.shrink(key);
        } else {
            let is_full = batch.fates().len() >= shape.size;
            let size = if is_full { shape.size.saturating_mul(2).min(self.config.batch) } else { shape.size };
            self.shapes.insert(key, Shape { size, ..shape });
        }
        for (row, fate) in batch.fates() {
            if fate.is_marked() {
                self.claims.clear(row);
            }
            if *fate == RowFate::Acknowledged {
                self.memory.note_acknowledged(batch.places.get(row));
                self.memory.forget(row);
            }
        }
        for row in &batch.failed {
            self.memory.forget(row);
        }
        self.end(worker, now);
    }

    /// A worker's transaction came to nothing: nothing was sent, and it has no rows any more. It begins again at `until` at the earliest.
    pub fn gave_up(&mut self, worker: WorkerId, until: Monotonic) {
        self.end(worker, until);
    }

    /// The transaction was lost, or nobody knows whether it went in: what of it was acknowledged may be sent again.
    pub fn lost(&mut self, worker: WorkerId, now: Monotonic) {
        let Some(batch) = self.batch(worker) else { return };
        let key = (batch.lanes, batch.lane);
        self.shrink(key);
        self.end(worker, now);
    }
}
