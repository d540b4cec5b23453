//! Rows and transactions, and what a test does to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::Instant;
use waybill_core::port::table::{ClaimId, ContextStats, DeadPage, DeadRow};
use waybill_core::port::transport;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    Waits,
    Published,
    Failed,
}

/// One row, as committed.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its key, and its place in the order.
    pub id: u64,
    /// Rows without one are in order with nothing.
    pub aggregate: Option<String>,
    pub tenant: Option<String>,
    pub topic: String,
    pub payload: Bytes,
    pub status: Status,
    pub attempts: u32,
    /// Not tried before.
    pub due: Instant,
    pub error: Option<transport::Fault>,
    /// Why it can't be a message.
    pub broken: Option<transport::Fault>,
    /// What its message says beside its columns.
    pub attributes: Vec<(String, String)>,
}

/// What goes wrong, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A claim isn't answered.
    Claim,
    /// The transaction is lost before its marks.
    Lost,
    /// It is committed, and the answer doesn't come.
    Unheard,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub rows: BTreeMap<u64, Row>,
    pub open: BTreeMap<(u64, u32), Transaction>,
    pub faults: Vec<Fault>,
    /// Rows whose marks the table refuses.
    pub unmarkable: BTreeSet<u64>,
    /// Rows that a stranger has locked.
    pub strangers: BTreeSet<u64>,
    /// Lanes whose locks a stranger has.
    pub foreign_lanes: BTreeSet<(u32, u32)>,
    /// The table has no column for the time of the next try.
    pub no_due: bool,
    /// Marks of published rows, in order of their commits.
    pub published: Vec<u64>,
    pub claims: Vec<ClaimSeen>,
    last: u64,
    sessions: u64,
}

/// A claim, as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimSeen {
    pub lane: u32,
    pub lanes: u32,
    pub window: u32,
    pub without_lock: bool,
    pub idle: Duration,
    /// Rows that it locked.
    pub locked: usize,
}

#[derive(Debug)]
pub(super) struct Transaction {
    pub rows: BTreeSet<u64>,
    pub lane: Option<(u32, u32)>,
    pub ends: Instant,
}

/// A database with one outbox table.
#[derive(Debug, Default)]
pub struct Database(pub(super) Mutex<State>);

impl Database {
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(super) fn connect(&self) -> u64 {
        let mut state = self.0.lock();
        state.sessions += 1;
        state.sessions
    }

    /// Inserts a row that is due; its key.
    pub fn insert(&self, aggregate: &str, text: &str) -> u64 {
        self.insert_with(text, |row| row.aggregate = Some(aggregate.to_owned()))
    }

    /// Inserts a row of no aggregate for topic `bus:orders.created`, changed before.
    pub fn insert_with(&self, text: &str, change: impl FnOnce(&mut Row)) -> u64 {
        let mut state = self.0.lock();
        state.last += 1;
        let mut row = Row {
            id: state.last,
            aggregate: None,
            tenant: None,
            topic: "bus:orders.created".to_owned(),
            payload: Bytes::from(text.to_owned()),
            status: Status::Waits,
            attempts: 0,
            due: Instant::now(),
            error: None,
            broken: None,
            attributes: Vec::new(),
        };
        change(&mut row);
        state.rows.insert(row.id, row.clone());
        row.id
    }

    /// What goes wrong next; each once, by its kind.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().faults.extend(faults);
    }

    /// Has the table refuse the marks of a row, or take them again.
    pub fn refuse_marks(&self, row: u64, refuse: bool) {
        let mut state = self.0.lock();
        if refuse {
            state.unmarkable.insert(row)
        } else {
            state.unmarkable.remove(&row)
        };
    }

    /// Has a stranger lock a row, or let go of it.
    pub fn lock(&self, row: u64, locked: bool) {
        let mut state = self.0.lock();
        if locked {
            state.strangers.insert(row)
        } else {
            state.strangers.remove(&row)
        };
    }

    /// Has a stranger take the lock of a lane.
    pub fn lock_lane(&self, lanes: u32, lane: u32) {
        self.0.lock().foreign_lanes.insert((lanes, lane));
    }

    /// The table has no column for the time of the next try, nor for attempts.
    pub fn forget_due(&self) {
        self.0.lock().no_due = true;
    }

    /// A row as it is committed. Panics when it isn't there.
    #[allow(clippy::panic, reason = "a test asks for a row that it has made")]
    pub fn row(&self, id: u64) -> Row {
        self.0.lock().rows.get(&id).cloned().unwrap_or_else(|| panic!("there is no row {id}"))
    }

    pub fn statuses(&self) -> Vec<Status> {
        self.0.lock().rows.values().map(|row| row.status).collect()
    }

    /// Rows in the order in which they were marked as published.
    pub fn published(&self) -> Vec<u64> {
        self.0.lock().published.clone()
    }

    /// Transactions that are open.
    pub fn open(&self) -> usize {
        let mut state = self.0.lock();
        state.end_idle();
        state.open.len()
    }

    /// Claims so far, oldest first.
    pub fn claims(&self) -> Vec<ClaimSeen> {
        self.0.lock().claims.clone()
    }

    pub(super) fn stats(&self) -> Vec<ContextStats> {
        let state = self.0.lock();
        let mut contexts: BTreeMap<String, ContextStats> = BTreeMap::new();
        for row in state.rows.values() {
            let context = row.topic.trim_start_matches("bus:").split('.').next().unwrap_or_default().to_owned();
            let empty = ContextStats { context: context.clone(), waiting: 0, oldest: None, dead: 0 };
            let stats = contexts.entry(context).or_insert(empty);
            match row.status {
                Status::Waits => stats.waiting += 1,
                Status::Failed => stats.dead += 1,
                Status::Published => {}
            }
        }
        contexts.into_values().collect()
    }

    pub(super) fn dead(&self, page: Option<String>, max: u32) -> DeadPage {
        let after: u64 = page.and_then(|page| page.parse().ok()).unwrap_or(0);
        let state = self.0.lock();
        let mut failed = state.rows.values().filter(|row| row.status == Status::Failed && row.id > after);
        let rows: Vec<DeadRow> = failed.by_ref().take(max as usize).map(dead_row).collect();
        let next = failed.next().and(rows.last().map(|row| row.id.clone()));
        DeadPage { rows, next }
    }

    pub(super) fn replay(&self, id: &str) -> bool {
        let mut state = self.0.lock();
        let row = id.parse().ok().and_then(|id: u64| state.rows.get_mut(&id));
        match row.filter(|row| row.status == Status::Failed) {
            Some(row) => {
                (row.status, row.attempts, row.due) = (Status::Waits, 0, Instant::now());
                true
            }
            None => false,
        }
    }
}

impl State {
    /// The server ends transactions that stand still for too long.
    pub fn end_idle(&mut self) {
        let now = Instant::now();
        self.open.retain(|_, transaction| transaction.ends > now);
    }

    /// Takes a fault off the plan.
    pub fn takes_fault(&mut self, wanted: Fault) -> bool {
        let at = self.faults.iter().position(|fault| *fault == wanted);
        at.map(|at| self.faults.remove(at)).is_some()
    }

    pub fn is_locked(&self, row: u64) -> bool {
        self.strangers.contains(&row) || self.open.values().any(|transaction| transaction.rows.contains(&row))
    }
}

pub(super) fn key(claim: ClaimId) -> (u64, u32) {
    (claim.session, claim.number)
}

fn dead_row(row: &Row) -> DeadRow {
    DeadRow {
        id: row.id.to_string(),
        aggregate: row.aggregate.clone().unwrap_or_else(|| row.id.to_string()),
        context: None,
        topic: Some(row.topic.clone()),
        event_type: None,
        attempts: row.attempts,
        error: row.error.as_ref().map(|error| error.code.clone()).unwrap_or_default(),
        occurred_at: None,
        failed_at: None,
    }
}
