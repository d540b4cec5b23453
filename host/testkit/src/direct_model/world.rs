//! Time, the server, and the order in which everybody acts.

use std::collections::BTreeSet;
use std::time::Duration;

use waybill_core::time::Monotonic;

use super::Outcome;
use super::broker::DESTINATIONS;
use super::host::Host;
use super::options::Mutation;
use super::rows::{Kind, Sent, Truth};
use super::setup::{MAX_ATTEMPTS, Setup};
use super::stats::Stats;
use super::table::{Change, End, Marked, Row, Status, Table, Why};
use crate::model::rng::Rng;

/// Steps of the wild phase.
const WILD_STEPS: u64 = 1_500;
/// Steps of the calm phase after which what waits is stuck.
const CALM_STEPS: u64 = 60_000;
/// Rows that the application writes, about.
const ROWS: usize = 70;

pub(super) struct World {
    pub rng: Rng,
    pub setup: Setup,
    pub mutation: Option<Mutation>,
    pub now: u64,
    pub calm: bool,
    pub table: Table,
    pub truths: Vec<Truth>,
    pub sequence: u64,
    pub sent: Vec<Sent>,
    /// Sends that haven't arrived.
    pub air: Vec<usize>,
    /// Until when the broker is down.
    pub down_until: u64,
    /// Destinations that something arrived at.
    pub served: [bool; DESTINATIONS],
    /// Until when the server is down.
    pub server_down_until: u64,
    pub hosts: Vec<Host>,
    /// The transaction that holds locks for ever.
    pub forever: Option<u64>,
    pub stats: Stats,
    violations: Vec<String>,
}

impl World {
    pub fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut rng = Rng::new(seed);
        let setup = Setup::draw(seed, &mut rng);
        let table = Table::new(setup.aside, setup.proxy, mutation);
        Self {
            hosts: setup.hosts.iter().map(|(lanes, salt)| Host::new(*lanes, *salt)).collect(),
            rng,
            setup,
            mutation,
            now: 1,
            calm: false,
            table,
            truths: Vec::new(),
            sequence: 0,
            sent: Vec::new(),
            air: Vec::new(),
            down_until: 0,
            served: [false; DESTINATIONS],
            server_down_until: 0,
            forever: None,
            stats: Stats::default(),
            violations: Vec::new(),
        }
    }

    pub fn run(mut self) -> Outcome {
        for _ in 0..WILD_STEPS {
            self.step();
        }
        self.calm = true;
        (self.down_until, self.server_down_until) = (0, 0);
        for _ in 0..CALM_STEPS {
            self.step();
            if self.now.is_multiple_of(32) && self.table.is_quiet() && self.open().is_none() {
                break;
            }
        }
        if self.violations.is_empty() {
            self.audit();
        }
        Outcome { violations: self.violations, stats: self.stats }
    }

    pub(super) fn violation(&mut self, text: impl Into<String>) {
        if self.violations.len() < 3 {
            self.violations.push(format!("t{} {}", self.now, text.into()));
        }
    }

    pub(super) fn is_broken(&self) -> bool {
        !self.violations.is_empty()
    }

    pub(super) fn clock(&self) -> Monotonic {
        Monotonic(Duration::from_millis(self.now))
    }

    pub(super) fn ties_by_place(&self) -> bool {
        self.mutation == Some(Mutation::TiesByPlace) && self.setup.no_due
    }

    fn step(&mut self) {
        if self.is_broken() {
            return;
        }
        self.now += 1;
        if !self.calm {
            self.disturb();
        } else if self.now.is_multiple_of(150) && self.is_anything_blocked() {
            self.other_traffic();
        }
        self.server();
        self.broker();
        for _ in 0..2 {
            let host = self.rng.index(self.hosts.len());
            if !self.is_broken() {
                self.host(host);
            }
        }
    }

    fn is_anything_blocked(&self) -> bool {
        self.table.rows.values().any(|row| row.waits() && self.truths[row.id].kind == Kind::Blocked)
    }

    fn disturb(&mut self) {
        if self.rng.one_in(14) && self.truths.len() < ROWS {
            self.insert();
        }
        if self.rng.one_in(60) {
            self.foreigner();
        }
        if self.rng.one_in(120) {
            self.operator();
        }
        if self.rng.one_in(900) {
            self.kill_server();
        }
        if self.rng.one_in(400) {
            self.down_until = self.now + self.rng.below(120);
        }
        if self.forever.is_none() && self.rng.one_in(1_500) {
            self.lock_for_ever();
        }
    }

    fn server(&mut self) {
        for (transaction, end) in self.table.due_transactions(self.now) {
            match end {
                End::Commit => self.commit(transaction),
                End::Abort => self.table.abort(transaction),
                End::Idle => {
                    self.stats.idle += 1;
                    self.table.abort(transaction);
                }
                End::Proxy => {
                    self.stats.proxied += 1;
                    self.table.abort(transaction);
                }
            }
        }
    }

    /// What was committed stays; of what is being committed, the server says nothing.
    fn kill_server(&mut self) {
        self.stats.server_kills += 1;
        self.server_down_until = self.now + self.rng.below(40);
        let all: Vec<u64> = self.table.transactions.keys().copied().filter(|id| Some(*id) != self.forever).collect();
        for id in all {
            let is_committing = self.table.transactions.get(&id).is_some_and(|of| of.commit_at.is_some());
            if is_committing && self.rng.percent(50) {
                self.commit(id);
            } else {
                self.table.abort(id);
            }
        }
    }

    fn commit(&mut self, transaction: u64) {
        let Some(transaction) = self.table.take(transaction) else { return };
        self.stats.transactions += u64::from(transaction.ours && !transaction.marks.is_empty());
        for mark in &transaction.marks {
            self.judge_mark(mark);
        }
        for change in transaction.changes {
            let ctid = self.table.next_ctid();
            match change {
                Change::New(row) => {
                    self.truths[row.id].seen = true;
                    self.stats.rows += 1;
                    self.table.rows.insert(row.id, Row { ctid, ..row });
                }
                Change::Put(row) => {
                    self.table.rows.insert(row.id, Row { ctid, ..row });
                }
                Change::Delete(row) => {
                    self.table.rows.remove(&row);
                }
                Change::Foreign(row, act) => self.foreign(row, act, ctid),
            }
        }
    }

    fn judge_mark(&mut self, mark: &Marked) {
        let row = mark.row;
        let status = self.table.rows.get(&row).map(|row| row.status);
        if !matches!(status, Some(Status::Pending | Status::Processing)) {
            self.violation(format!("REPEAT: row {row} was settled ({status:?}) and is marked again: {:?}", mark.why));
        }
        // Being blocked costs something only where another row went through.
        let is_charged = self.served[self.destination(row)];
        let truth = &self.truths[row];
        let failures = truth.failures + if is_charged { truth.blocked } else { 0 };
        let is_right = match mark.why {
            Why::Acknowledged => {
                if !mark.send.is_some_and(|send| self.sent[send].arrived) {
                    self.violation(format!("PUBLISHED: row {row} is marked, and the broker doesn't have it"));
                }
                return;
            }
            Why::Permanent => truth.permanent,
            Why::Suspect => true,
            Why::Attempts => failures >= MAX_ATTEMPTS,
            Why::Waits => true,
        };
        if !is_right {
            let kind = truth.kind;
            self.violation(format!(
                "ATTEMPTS: row {row} ({kind:?}) failed by {:?} after {failures} failures of its own",
                mark.why
            ));
        }
        self.stats.failed += u64::from(mark.why != Why::Waits);
        self.stats.convicted += u64::from(mark.why == Why::Suspect);
        let truth = &mut self.truths[row];
        truth.not_before = truth.not_before.max(mark.not_before);
    }

    /// What has a reason to wait for ever: a stranger's lock, a due time far ahead, a mark that is refused, and what is behind these.
    fn is_excused(&self, row: &Row) -> bool {
        let none = BTreeSet::new();
        let forever = self.forever.and_then(|id| self.table.transactions.get(&id));
        let locked = forever.map_or(&none, |transaction| &transaction.locks);
        let stops =
            |row: &Row| locked.contains(&row.id) || matches!(self.truths[row.id].kind, Kind::Far | Kind::NoMark);
        let waiting = self.table.waiting(self.now, false);
        stops(row) || waiting.iter().any(|other| other.key == row.key && other.order < row.order && stops(other))
    }

    fn open(&self) -> Option<&Row> {
        self.table.rows.values().find(|row| row.waits() && !self.is_excused(row))
    }

    fn audit(&mut self) {
        if let Some(row) = self.open() {
            let kind = self.truths[row.id].kind;
            let text = format!(
                "STUCK: {row:?} {kind:?} of {} hosts, slow {}, proxy {}",
                self.hosts.len(),
                self.setup.slow,
                self.setup.proxy
            );
            return self.violation(text);
        }
        for row in 0..self.truths.len() {
            let status = self.table.rows.get(&row).map(|row| row.status);
            let truth = &self.truths[row];
            let is_published = matches!(status, None | Some(Status::Published));
            if truth.seen && !truth.gone && truth.arrived == 0 && is_published {
                self.violation(format!("PUBLISHED: row {row} is gone or marked, and the broker never had it"));
            }
        }
    }
}
