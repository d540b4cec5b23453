//! Tables that are published directly: rows are locked, sent, marked by what the broker said, and committed, lane by lane. Nothing is
//! written here but the names of [`DirectRecord`] after an unclean end.
//!
//! A pure state machine for one table on one host. Its driver has the transactions and the transport: it asks what to claim, tells what
//! the claim brought, sends what it is given, and writes the marks. It knows no SQL.
//!
//! ```text
//! begin ─▶ lock_answered ─▶ claim ─▶ claimed ─▶ (names ─▶ named) ─▶ wave ─▶ row_answered, trapped ─┐
//!   ▲                                  │ nothing to send             ▲                      │
//!   └──────── ended, lost ◀────────────┴──── marks, COMMIT ◀─────────┴──────────────────────┘
//! ```
//!
//! The rows' locks keep the order, and nothing else does: a row is sent only if every row before it in its run is locked by this claim,
//! and only after the one before it was acknowledged to this transaction.
//!
//! | file | holds |
//! |---|---|
//! | `config` | bounds and choices |
//! | `lanes` | beginning: which lane, its lock, its window and size |
//! | `batch` | part: what a transaction has in hand |
//! | `claim` | what a claim brought: what is cut, held, sent alone |
//! | `send` | waves of rows, and what became of them |
//! | `marks` | what is written of each row; the end of a transaction |
//! | `memory` | part: rows that gave trouble, and what went through where they were blocked |
//! | `holds` | part: aggregates that are left out for a time |
//! | `claims` | part: caution after an unclean end, suspects |

mod batch;
mod claim;
mod claims;
mod config;
mod holds;
mod lanes;
mod marks;
mod memory;
mod rules;
mod send;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use batch::{Claimed, ClaimedRow, RowFate};
pub use claim::AfterClaim;
pub use claims::DirectRecord;
pub use config::{Aggregate, DirectConfig, RowId, WorkerId};
pub use lanes::{Begin, Claim};
pub use marks::{Mark, MarkKind, Marks};
pub use memory::{Place, Scope};
pub use rules::{Rule, Rules};
pub use send::Wave;

use crate::time::Monotonic;
use batch::Batch;
use claims::Claims;
use holds::Holds;
use lanes::Shape;
use memory::Memory;

/// One table on one host.
#[derive(Debug)]
pub struct DirectTable {
    config: DirectConfig,
    workers: BTreeMap<WorkerId, Worker>,
    /// Window and size of each lane, by the number of lanes and its own.
    shapes: BTreeMap<(u16, u16), Shape>,
    /// Rows of a lane's first transaction.
    first_size: usize,
    /// Lanes whose lock others have, by since when.
    refused_locks: BTreeMap<(u16, u16), Monotonic>,
    holds: Holds,
    memory: Memory,
    /// All of the last batch that told anything was blocked: nothing is claimed before.
    blocked_until: Monotonic,
    /// A suspect is to go alone: only the first worker begins before.
    alone_until: Monotonic,
    /// Lane that the first worker took last while it did so.
    alone_lane: u16,
    claims: Claims,
}

/// A worker's transaction, and when it may begin the next one.
#[derive(Debug, Default)]
struct Worker {
    batch: Option<Batch>,
    wait: Monotonic,
}

impl DirectTable {
    /// Opens a table. `record` is what [`DirectRecord::opened`] made of what was stored, and stored again.
    pub fn new(config: DirectConfig, record: DirectRecord, now: Monotonic) -> Self {
        let first_size = if record.unclean > 0 { 1 } else { config.batch };
        Self {
            workers: BTreeMap::new(),
            shapes: BTreeMap::new(),
            first_size,
            refused_locks: BTreeMap::new(),
            holds: Holds::default(),
            memory: Memory::default(),
            blocked_until: Monotonic::default(),
            alone_until: Monotonic::default(),
            alone_lane: 0,
            claims: Claims::new(record, &config, now),
            config,
        }
    }

    pub fn config(&self) -> &DirectConfig {
        &self.config
    }

    /// Another number of lanes counts from each worker's next transaction.
    pub fn set_lanes(&mut self, lanes: u16) {
        self.config.lanes = lanes.max(1);
        self.refused_locks.clear();
    }

    /// What the table's plugin takes and keeps: at most so many rows at once, and whether a column says when a row is tried next.
    pub fn set_facts(&mut self, batch: usize, has_due: bool) {
        self.config.batch = batch.max(1);
        self.config.has_due = has_due;
    }

    /// What is to be stored of it, now or when it is closed.
    pub fn record(&self) -> &DirectRecord {
        &self.claims.record
    }

    pub fn is_cautious(&self) -> bool {
        self.claims.is_on()
    }

    /// Suspects: who of them no longer waits in the table is to be told to [`Self::drop_suspects`], or caution never ends.
    pub fn suspects(&self) -> Vec<RowId> {
        self.claims.record.suspects.keys().cloned().collect()
    }

    /// Suspects that no longer wait in the table.
    pub fn drop_suspects(&mut self, gone: &[RowId]) {
        gone.iter().for_each(|row| self.claims.clear(row));
    }

    /// Rows that can't be marked, for people: their aggregates wait.
    pub fn unmarkable(&self) -> Vec<RowId> {
        self.memory.refused().cloned().collect()
    }

    /// Aggregates that are left out of claims now.
    pub fn held(&self) -> usize {
        self.holds.len()
    }

    fn is_rule_kept(&self, rule: Rule) -> bool {
        self.config.rules.kept(rule)
    }

    fn batch(&self, worker: WorkerId) -> Option<&Batch> {
        self.workers.get(&worker)?.batch.as_ref()
    }

    fn batch_mut(&mut self, worker: WorkerId) -> Option<&mut Batch> {
        self.workers.get_mut(&worker)?.batch.as_mut()
    }

    fn is_anybody_else_busy(&self, worker: WorkerId) -> bool {
        self.workers.iter().any(|(id, other)| *id != worker && other.batch.is_some())
    }

    fn shape(&self, key: (u16, u16)) -> Shape {
        let first = Shape { size: self.first_size, window: self.config.batch };
        self.shapes.get(&key).copied().unwrap_or(first)
    }

    /// Leaves an aggregate out of claims until then.
    fn hold(&mut self, aggregate: &Aggregate, until: Monotonic) {
        if self.is_rule_kept(Rule::HoldInMemory) {
            self.holds.hold(aggregate, until);
        }
    }

    /// It goes with nothing of another aggregate.
    fn goes_alone(&self, row: &RowId) -> bool {
        self.claims.is_suspect(row) || self.memory.is_apart(row)
    }
}
