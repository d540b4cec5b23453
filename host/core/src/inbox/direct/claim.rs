//! What a claim brought: what is cut, what is held, what goes alone.

use std::collections::BTreeSet;

use super::batch::{Claimed, ClaimedRow, RowFate};
use super::config::{Aggregate, RowId, WorkerId, doubled};
use super::lanes::Shape;
use super::rules::Rule;
use super::{Batch, DirectTable};
use crate::code::Code;
use crate::port::transport::Fault;
use crate::time::Monotonic;

/// What follows from a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AfterClaim {
    /// Nothing is to be sent: the transaction is given up.
    GiveUp,
    /// What it sends is to be stored first: [`super::DirectRecord`], then [`DirectTable::wave`].
    Name,
    Send,
}

impl DirectTable {
    /// Takes what a claim brought.
    pub fn claimed(&mut self, worker: WorkerId, claimed: Claimed, now: Monotonic) -> AfterClaim {
        let Some(key) = self.batch(worker).map(|batch| (batch.lanes, batch.lane)) else { return AfterClaim::GiveUp };
        let is_full = self.learn_window(key, &claimed);
        if claimed.rows.is_empty() {
            // A window full of what isn't due may hide something that is.
            self.end(worker, if is_full { now } else { now + self.config.idle_pause });
            return AfterClaim::GiveUp;
        }
        let kept = self.cut(key, claimed.rows, now);
        let Some(kept) = self.alone(worker, kept, now) else {
            self.end(worker, now);
            return AfterClaim::GiveUp;
        };
        let is_empty = kept.is_empty();
        let Some(batch) = self.batch_mut(worker) else { return AfterClaim::GiveUp };
        batch.fill(kept);
        if is_empty && batch.is_empty() {
            self.end(worker, now + self.config.idle_pause.min(self.config.locked_hold));
            return AfterClaim::GiveUp;
        }
        self.name()
    }

    /// The window doubles while it is full and brings less than a batch, and halves when half of it would have done. Whether it was full.
    fn learn_window(&mut self, key: (u16, u16), claimed: &Claimed) -> bool {
        let (shape, batch) = (self.shape(key), self.config.batch);
        let is_full = claimed.seen >= shape.window;
        let last = claimed.rows.last().map_or(0, |row| row.position);
        let window = if claimed.rows.len() + claimed.unread < batch && is_full && self.is_rule_kept(Rule::WindowGrows) {
            shape.window.saturating_mul(2)
        } else if last < shape.window / 2 {
            (shape.window / 2).max(batch)
        } else {
            shape.window
        };
        self.shapes.insert(key, Shape { window, ..shape });
        is_full
    }

    /// Leaves out what has a row before it that others have locked, and what is held meanwhile.
    fn cut(&mut self, key: (u16, u16), rows: Vec<ClaimedRow>, now: Monotonic) -> Vec<ClaimedRow> {
        let size = self.shape(key).size;
        let (mut cut, mut kept): (BTreeSet<Aggregate>, Vec<ClaimedRow>) = (BTreeSet::new(), Vec::new());
        for row in rows {
            if self.holds.is_held(&row.aggregate) && self.is_rule_kept(Rule::LookAgain) {
                cut.insert(row.aggregate.clone());
            }
            if !row.locked {
                if self.is_rule_kept(Rule::StopBehindUnlocked) && cut.insert(row.aggregate.clone()) {
                    self.hold_locked(&row.aggregate, now);
                }
            } else if !cut.contains(&row.aggregate) && kept.len() < size {
                self.holds.note_free(&row.aggregate);
                kept.push(row);
            }
        }
        kept
    }

    fn hold_locked(&mut self, aggregate: &Aggregate, now: Monotonic) {
        let times = self.holds.note_locked(aggregate);
        let times = if self.is_rule_kept(Rule::LockedHoldDoubles) { times } else { 0 };
        let pause = doubled(self.config.locked_hold, self.config.locked_hold_max, times);
        self.hold(aggregate, now + pause);
    }

    /// What goes alone, if something does: a suspect alone on the whole host, a row set apart alone in its transaction. None: a suspect
    /// waits until nothing else of the host is out.
    fn alone(&mut self, worker: WorkerId, mut kept: Vec<ClaimedRow>, now: Monotonic) -> Option<Vec<ClaimedRow>> {
        let mut heads: BTreeSet<Aggregate> = BTreeSet::new();
        let first = kept.iter().filter(|row| heads.insert(row.aggregate.clone())).find(|row| self.goes_alone(&row.id));
        let Some(first) = first.cloned() else {
            self.stop_before_apart(&mut kept);
            return Some(kept);
        };
        if self.claims.is_suspect(&first.id) {
            self.alone_until = now + self.config.direct_timeout + self.config.call_timeout;
            if self.is_anybody_else_busy(worker) {
                return None;
            }
            if self.claims.is_convicted(&first.id) {
                self.convict(worker, &first);
                return Some(Vec::new());
            }
        }
        Some(vec![first])
    }

    /// In an aggregate, what goes alone ends what goes before it.
    fn stop_before_apart(&self, kept: &mut Vec<ClaimedRow>) {
        let mut ended: BTreeSet<Aggregate> = BTreeSet::new();
        kept.retain(|row| {
            if self.goes_alone(&row.id) {
                ended.insert(row.aggregate.clone());
            }
            !ended.contains(&row.aggregate)
        });
    }

    fn convict(&mut self, worker: WorkerId, row: &ClaimedRow) {
        let fault = Fault::new(Code::SUSPECTED_POISON, "its host died again and again while it was sent");
        if let Some(batch) = self.batch_mut(worker) {
            batch.know(row.id.clone(), row.aggregate.clone(), row.attempts);
            batch.tell(&row.id, RowFate::Permanent(fault));
        }
    }

    /// While the host is cautious, everything that is out stands named.
    fn name(&mut self) -> AfterClaim {
        if !self.claims.is_on() || !self.is_rule_kept(Rule::NameBeforeSend) {
            // What stood named would be suspect at the next crash.
            let is_stale = !std::mem::take(&mut self.claims.record.calling).is_empty();
            return if is_stale { AfterClaim::Name } else { AfterClaim::Send };
        }
        let batches = self.workers.values().filter_map(|worker| worker.batch.as_ref());
        let calling: BTreeSet<RowId> = batches.flat_map(Batch::rows).cloned().collect();
        self.claims.record.calling = calling;
        AfterClaim::Name
    }
}
