//! Beginning: which lane a worker takes, the lane's lock, its window and size.

use super::batch::Batch;
use super::config::{Aggregate, WorkerId};
use super::rules::Rule;
use super::{DirectTable, Worker};
use crate::time::Monotonic;

/// What a lane has learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// Most rows of its next transaction.
    pub size: usize,
    /// Rows that its next claim looks at.
    pub window: usize,
}

/// A transaction to begin: with the lane's lock, if it is free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Begin {
    pub lanes: u16,
    pub lane: u16,
}

/// What a worker's transaction is to claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    pub lanes: u16,
    pub lane: u16,
    /// Rows to look at, from the first that waits.
    pub window: usize,
    /// Rows to lock at most.
    pub batch: usize,
    /// Aggregates to leave out.
    pub held: Vec<Aggregate>,
}

impl DirectTable {
    /// Which lane a worker is to begin in: the one of its number. While a suspect is to go alone, only the first worker begins, and the
    /// suspect may lie in any lane: so that one goes through all of them.
    pub fn lane_for(&mut self, worker: WorkerId, now: Monotonic) -> u16 {
        if worker != WorkerId(0) || now >= self.alone_until {
            return worker.0;
        }
        self.alone_lane = self.alone_lane.wrapping_add(1) % self.config.lanes.max(1);
        self.alone_lane
    }

    /// Begins a worker's transaction in a lane. None: it has one, or waits, or another worker is in that lane.
    pub fn begin(&mut self, worker: WorkerId, lane: u16, now: Monotonic) -> Option<Begin> {
        let is_first = worker == WorkerId(0);
        let is_held = now < self.blocked_until || now < self.alone_until && !is_first;
        let is_taken = |other: &Worker| other.batch.as_ref().is_some_and(|batch| batch.lane == lane);
        if is_held || self.workers.values().any(is_taken) {
            return None;
        }
        let lanes = self.config.lanes;
        let own = self.workers.entry(worker).or_default();
        if own.batch.is_some() || now < own.wait || lane >= lanes {
            return None;
        }
        own.batch = Some(Batch::new(lanes, lane, now));
        Some(Begin { lanes, lane })
    }

    /// When a worker without a transaction may begin one: not before, [`Self::begin`] says.
    pub fn begins_at(&self, worker: WorkerId) -> Monotonic {
        let own = self.workers.get(&worker).map_or(Monotonic::default(), |worker| worker.wait);
        let alone = if worker == WorkerId(0) { Monotonic::default() } else { self.alone_until };
        own.max(self.blocked_until).max(alone)
    }

    /// Something new waits in the table: who has nothing to do needn't wait for its next look.
    pub fn wake(&mut self) {
        self.workers.values_mut().for_each(|worker| worker.wait = Monotonic::default());
    }

    /// Whether the lane's lock was free. It only spares claims in vain, and may be the application's own: who was refused it for long
    /// goes on without it. False: the transaction is to be given up.
    pub fn lock_answered(&mut self, worker: WorkerId, is_free: bool, now: Monotonic) -> bool {
        let Some(batch) = self.batch(worker) else { return false };
        let key = (batch.lanes, batch.lane);
        if is_free {
            self.refused_locks.remove(&key);
            return true;
        }
        let (patience, every) = (self.config.patience, self.config.impatient_every);
        let since = *self.refused_locks.entry(key).or_insert(now);
        if now - since < patience || !self.is_rule_kept(Rule::LosePatience) {
            self.end(worker, now + self.config.idle_pause);
            return false;
        }
        // The next time of this lane is in `every`.
        let since = Monotonic((now + every).0.saturating_sub(patience));
        self.refused_locks.insert(key, since);
        true
    }

    /// What a worker's transaction is to claim; none = too much is held, the transaction is to be given up.
    pub fn claim(&mut self, worker: WorkerId, now: Monotonic) -> Option<Claim> {
        let config = self.config;
        self.claims.end(&config, now);
        self.holds.end(now);
        self.memory.tidy(now, config.remember / 4);
        let batch = self.batch(worker)?;
        let (lanes, lane) = (batch.lanes, batch.lane);
        if self.holds.len() >= self.config.held_max {
            let until = self.holds.first_end().unwrap_or(now);
            self.end(worker, until);
            return None;
        }
        let window = self.shape((lanes, lane)).window;
        Some(Claim { lanes, lane, window, batch: self.config.batch, held: self.holds.all() })
    }

    /// A worker has no transaction any more, and begins the next one at `wait` at the earliest.
    pub(super) fn end(&mut self, worker: WorkerId, wait: Monotonic) {
        self.workers.insert(worker, Worker { batch: None, wait });
    }

    /// A lane goes on with one row after a lost transaction or a trap, and doubles with each full batch that commits: size belongs to the
    /// lane, not to the worker.
    pub(super) fn shrink(&mut self, key: (u16, u16)) {
        if self.is_rule_kept(Rule::ShrinkAfterLoss) {
            let shape = Shape { size: 1, ..self.shape(key) };
            self.shapes.insert(key, shape);
        }
    }
}
