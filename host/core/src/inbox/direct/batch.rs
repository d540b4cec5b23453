//! Part: what a lane's transaction has in hand.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::config::{Aggregate, RowId};
use super::memory::{Place, Scope};
use crate::port::transport::Fault;
use crate::time::Monotonic;

/// A row as a claim brought it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRow {
    pub id: RowId,
    pub aggregate: Aggregate,
    /// Its place among the rows that the claim looked at, from 0.
    pub position: usize,
    /// This transaction has its lock, and it still waits and is due.
    pub locked: bool,
    /// Failed attempts, as the table has them.
    pub attempts: u32,
}

/// What a claim answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// Rows that it looked at, due or not.
    pub seen: usize,
    /// Rows that were due and not read, for there was no room: they and what is behind them in their aggregates aren't in `rows`.
    pub unread: usize,
    /// The first of each aggregate's run that are due, in order.
    pub rows: Vec<ClaimedRow>,
}

/// What became of a row that was sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFate {
    /// The broker has it.
    Acknowledged,
    /// Failed, or no answer came: the attempt counts.
    Retry(Fault),
    /// It will never be taken.
    Permanent(Fault),
    /// Its destination is at fault: no attempt, unless another row of the same scope went through meanwhile. No scope: it goes nowhere
    /// yet, so nothing else can go through there.
    Blocked { scope: Option<Scope>, fault: Fault },
    /// It wasn't tried: nothing is marked, and this host leaves its aggregate out for so long.
    Later(Duration),
    /// Its call ended without a word of it.
    Untold,
}

impl RowFate {
    /// Whether it was tried, and something is written of it.
    pub(super) fn is_marked(&self) -> bool {
        !matches!(self, Self::Untold | Self::Later(_))
    }
}

#[derive(Debug)]
pub(super) struct Batch {
    pub lanes: u16,
    pub lane: u16,
    pub begun: Monotonic,
    /// Rows of each aggregate, in order.
    queues: Vec<Vec<RowId>>,
    /// What is known of each of them.
    rows: BTreeMap<RowId, (Aggregate, u32)>,
    /// Where rows that are out go.
    pub places: BTreeMap<RowId, Place>,
    /// Rows that its marks give up.
    pub failed: Vec<RowId>,
    /// In the order in which they were known.
    fates: Vec<(RowId, RowFate)>,
    /// Where a row's fate is among them.
    told: BTreeMap<RowId, usize>,
    /// Rows that are out.
    pub wave: BTreeSet<RowId>,
    /// A call of it trapped.
    pub hurt: bool,
}

impl Batch {
    pub fn new(lanes: u16, lane: u16, begun: Monotonic) -> Self {
        Self {
            lanes,
            lane,
            begun,
            queues: Vec::new(),
            rows: BTreeMap::new(),
            places: BTreeMap::new(),
            failed: Vec::new(),
            fates: Vec::new(),
            told: BTreeMap::new(),
            wave: BTreeSet::new(),
            hurt: false,
        }
    }

    /// Rows to send, aggregate by aggregate.
    pub fn fill(&mut self, rows: Vec<ClaimedRow>) {
        let mut places: BTreeMap<Aggregate, usize> = BTreeMap::new();
        for row in rows {
            let place = *places.entry(row.aggregate.clone()).or_insert_with(|| {
                self.queues.push(Vec::new());
                self.queues.len() - 1
            });
            if let Some(queue) = self.queues.get_mut(place) {
                queue.push(row.id.clone());
            }
            self.know(row.id, row.aggregate, row.attempts);
        }
    }

    pub fn know(&mut self, row: RowId, aggregate: Aggregate, attempts: u32) {
        self.rows.insert(row, (aggregate, attempts));
    }

    /// A row's aggregate, and its failed attempts as the table has them.
    pub fn known(&self, row: &RowId) -> Option<(&Aggregate, u32)> {
        self.rows.get(row).map(|(aggregate, attempts)| (aggregate, *attempts))
    }

    /// Everything that it may send.
    pub fn rows(&self) -> impl Iterator<Item = &RowId> {
        self.queues.iter().flatten().chain(self.fates.iter().map(|(row, _)| row))
    }

    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.fates.is_empty()
    }

    pub fn fate(&self, row: &RowId) -> Option<&RowFate> {
        self.told.get(row).and_then(|place| self.fates.get(*place)).map(|(_, fate)| fate)
    }

    /// All that is known, in the order in which it was.
    pub fn fates(&self) -> &[(RowId, RowFate)] {
        &self.fates
    }

    /// What became of a row. The first word counts.
    pub fn tell(&mut self, row: &RowId, fate: RowFate) {
        if !self.told.contains_key(row) {
            self.told.insert(row.clone(), self.fates.len());
            self.fates.push((row.clone(), fate));
        }
    }

    /// The next row of each aggregate whose last one was acknowledged. `stops`: what wasn't stops those behind it; `single`: one of an
    /// aggregate at a time.
    pub fn next(&self, stops: bool, single: bool) -> Vec<RowId> {
        let mut next = Vec::new();
        for queue in &self.queues {
            for row in queue {
                match self.fate(row) {
                    Some(RowFate::Acknowledged) => {}
                    Some(_) if !stops => {}
                    Some(_) => break,
                    None => {
                        next.push(row.clone());
                        if single {
                            break;
                        }
                    }
                }
            }
        }
        next
    }
}
