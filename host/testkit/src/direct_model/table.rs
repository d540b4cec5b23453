//! The database: rows, transactions with row locks and advisory locks, and a server that ends what is idle for too long.
//!
//! A statement works on the committed rows of its beginning and locks what it found a moment later: what another transaction holds is
//! left out, and a row that changed in between is judged again in its newest version.

use std::collections::{BTreeMap, BTreeSet};

use super::options::Mutation;
use super::setup::{CLAIM_TTL, FAR, IDLE, PROXY};

/// The aggregate; 255 and the row's number for a row without one.
pub(super) type Key = (u8, usize);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Status {
    Pending,
    Processing,
    Published,
    Failed,
}

#[derive(Clone, Debug)]
pub(super) struct Row {
    pub id: usize,
    pub key: Key,
    pub order: (u64, u64),
    pub ctid: u64,
    pub status: Status,
    pub attempts: u32,
    pub due: u64,
    pub updated: u64,
}

impl Row {
    pub fn waits(&self) -> bool {
        matches!(self.status, Status::Pending | Status::Processing)
    }
}

/// How a mark came about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Why {
    Acknowledged,
    Permanent,
    Suspect,
    Attempts,
    Waits,
}

#[derive(Clone, Debug)]
pub(super) struct Marked {
    pub row: usize,
    pub why: Why,
    pub send: Option<usize>,
    /// It isn't sent before.
    pub not_before: u64,
}

/// What strangers and operators do to a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    Hold,
    Touch,
    Publish,
    Delete,
    Process,
    Resend,
    Replay,
}

#[derive(Clone, Debug)]
pub(super) enum Change {
    Put(Row),
    Delete(usize),
    New(Row),
    Foreign(usize, Act),
}

/// What a session has begun.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    /// Of one of our hosts.
    pub ours: bool,
    pub locks: BTreeSet<usize>,
    pub advisory: Option<(u16, u16)>,
    pub changes: Vec<Change>,
    pub marks: Vec<Marked>,
    pub begun: u64,
    pub touched: u64,
    pub commit_at: Option<u64>,
    pub abort_at: Option<u64>,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    pub rows: BTreeMap<usize, Row>,
    pub transactions: BTreeMap<u64, Transaction>,
    /// Transactions of ours that were committed.
    pub committed: BTreeSet<u64>,
    last: u64,
    ctid: u64,
    /// Undue rows that were never tried have no place in their aggregate yet.
    pub aside: bool,
    /// A proxy ends transactions that last too long.
    pub proxy: bool,
    pub mutation: Option<Mutation>,
}

impl Table {
    pub fn new(aside: bool, proxy: bool, mutation: Option<Mutation>) -> Self {
        Self { aside, proxy, mutation, ..Self::default() }
    }

    pub fn begin(&mut self, ours: bool, now: u64) -> u64 {
        self.last += 1;
        let transaction = Transaction { ours, begun: now, touched: now, ..Transaction::default() };
        self.transactions.insert(self.last, transaction);
        self.last
    }

    pub fn abort(&mut self, transaction: u64) {
        self.transactions.remove(&transaction);
    }

    pub fn is_locked(&self, row: usize, by: u64) -> bool {
        self.transactions.iter().any(|(id, other)| *id != by && other.locks.contains(&row))
    }

    pub fn is_due(&self, row: &Row, now: u64) -> bool {
        match row.status {
            Status::Pending => row.due <= now,
            Status::Processing => row.updated + CLAIM_TTL < now && self.mutation != Some(Mutation::ProcessingForEver),
            Status::Published | Status::Failed => false,
        }
    }

    fn is_aside(&self, row: &Row, now: u64) -> bool {
        self.aside && row.status == Status::Pending && row.attempts == 0 && row.due > now
    }

    /// What waits, in order.
    pub fn waiting(&self, now: u64, by_ctid: bool) -> Vec<&Row> {
        let mut waiting: Vec<&Row> = self.rows.values().filter(|row| row.waits() && !self.is_aside(row, now)).collect();
        waiting.sort_by_key(|row| if by_ctid { (row.order.0, row.ctid) } else { row.order });
        waiting
    }

    /// Takes a transaction out to be committed. None: it was ended before.
    pub fn take(&mut self, transaction: u64) -> Option<Transaction> {
        let taken = self.transactions.remove(&transaction)?;
        self.committed.insert(transaction);
        Some(taken)
    }

    pub fn next_ctid(&mut self) -> u64 {
        self.ctid += 1;
        self.ctid
    }

    /// What the server does by itself: transactions to commit, to abort, and those that it ends for being idle or too long.
    pub fn due_transactions(&self, now: u64) -> Vec<(u64, End)> {
        let ends_idle = self.mutation != Some(Mutation::NoIdleEnd);
        let end = |transaction: &Transaction| {
            if transaction.commit_at.is_some_and(|at| at <= now) {
                return Some(End::Commit);
            }
            if transaction.abort_at.is_some_and(|at| at <= now) {
                return Some(End::Abort);
            }
            if !transaction.ours {
                return None;
            }
            if transaction.commit_at.is_none() && transaction.touched + IDLE < now && ends_idle {
                return Some(End::Idle);
            }
            (self.proxy && transaction.begun + PROXY < now).then_some(End::Proxy)
        };
        self.transactions.iter().filter_map(|(id, transaction)| Some((*id, end(transaction)?))).collect()
    }

    /// Only what a stranger holds for ever is left of others.
    pub fn is_quiet(&self) -> bool {
        self.transactions.values().all(|transaction| transaction.ours || transaction.commit_at == Some(FAR))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Commit,
    Abort,
    Idle,
    Proxy,
}
