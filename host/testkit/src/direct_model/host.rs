//! Hosts: they drive the real lanes, die, vanish without closing their sessions, stand still, change the number of lanes.

use waybill_core::inbox::direct::{
    AfterClaim, Aggregate, Claim, Claimed, ClaimedRow, DirectRecord, DirectTable, RowId, WorkerId,
};

use super::options::Mutation;
use super::setup::{WORKERS, lane};
use super::table::{Key, Row};
use super::world::World;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// The claim reads its rows.
    Snapshot,
    /// It locks what it read.
    Lock,
    /// The names are stored.
    Name,
    Go,
    Call,
    Mark,
    Commit,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Worker {
    pub phase: Phase,
    pub transaction: u64,
    pub begun: u64,
    /// What waited when the claim began.
    pub snapshot: Vec<usize>,
    /// What the claim read: rows with their places, and how many it looked at.
    candidates: Vec<(usize, usize)>,
    looked_at: usize,
    /// Aggregates of the rows that it read.
    keys: Vec<Key>,
    /// Rows that are out, with their sends.
    pub wave: Vec<(usize, usize)>,
    pub until: u64,
    /// When the call traps.
    pub trap_at: Option<u64>,
    /// Rows that were sent, with their sends.
    pub sends: Vec<(usize, usize)>,
    /// The answer to COMMIT will be heard.
    pub hears: bool,
    wait: u64,
}

#[derive(Debug)]
pub(super) struct Host {
    up: bool,
    paused_until: u64,
    pub starts: u64,
    lanes: u16,
    salt: u64,
    /// How far its wall clock is off.
    pub skew: i64,
    pub table: Option<DirectTable>,
    pub workers: Vec<Worker>,
    /// In its own store: all that outlives the process.
    pub record: DirectRecord,
    /// Highest place that a claim brought: a mutation begins behind it.
    highest: (u64, u64),
}

impl Host {
    pub fn new(lanes: u16, salt: u64) -> Self {
        Self {
            up: false,
            paused_until: 0,
            starts: 0,
            lanes,
            salt,
            skew: 0,
            table: None,
            workers: Vec::new(),
            record: DirectRecord::default(),
            highest: (0, 0),
        }
    }
}

pub(super) fn row_id(row: usize) -> RowId {
    RowId(row.to_string().into())
}

pub(super) fn number_of(row: &RowId) -> usize {
    row.0.parse().unwrap()
}

fn aggregate(key: Key) -> Aggregate {
    Aggregate(format!("{}/{}", key.0, key.1).into())
}

pub(super) fn worker_id(worker: usize) -> WorkerId {
    WorkerId(u16::try_from(worker).unwrap())
}

impl World {
    fn crash(&mut self, host: usize, vanishes: bool) {
        self.stats.crashes += 1;
        for worker in std::mem::take(&mut self.hosts[host].workers) {
            if worker.phase == Phase::Idle || vanishes {
                continue;
            }
            let transaction = self.table.transactions.get(&worker.transaction);
            if transaction.is_some_and(|of| of.commit_at.is_none()) || self.rng.percent(50) {
                self.table.abort(worker.transaction);
            }
        }
        let until = self.now + 20 + self.rng.below(150);
        let host = &mut self.hosts[host];
        (host.up, host.table, host.paused_until) = (false, None, until);
    }

    fn start(&mut self, host: usize) {
        let clock = self.clock();
        let lanes = self.hosts[host].lanes;
        let config = self.setup.config(lanes, self.mutation);
        let host = &mut self.hosts[host];
        host.record = std::mem::take(&mut host.record).opened();
        host.table = Some(DirectTable::new(config, host.record.clone(), clock));
        host.workers = vec![Worker::default(); usize::from(WORKERS)];
        (host.up, host.highest) = (true, (0, 0));
        host.starts += 1;
    }

    /// One act of a host.
    pub(super) fn host(&mut self, host: usize) {
        if self.hosts[host].paused_until > self.now {
            return;
        }
        if !self.hosts[host].up {
            return self.start(host);
        }
        if !self.calm {
            match self.rng.below(1_200) {
                0 => return self.crash(host, false),
                1 => return self.crash(host, true),
                2 | 3 => {
                    self.hosts[host].paused_until = self.now + self.rng.below(400);
                    return;
                }
                4 => {
                    let lanes = 5 - self.hosts[host].lanes;
                    self.hosts[host].lanes = lanes;
                    if let Some(table) = &mut self.hosts[host].table {
                        table.set_lanes(lanes);
                    }
                }
                5 => self.hosts[host].skew = i64::try_from(self.rng.below(8_000)).unwrap() - 4_000,
                _ => {}
            }
        }
        let worker = self.rng.index(usize::from(WORKERS));
        if self.hosts[host].workers[worker].wait > self.now {
            return;
        }
        let mut own = std::mem::take(&mut self.hosts[host].workers[worker]);
        let dies = self.work(host, worker, &mut own);
        self.hosts[host].workers[worker] = own;
        if dies {
            self.crash(host, false);
        }
    }

    /// One step of a worker. True: its process dies of it.
    fn work(&mut self, host: usize, worker: usize, own: &mut Worker) -> bool {
        let is_gone = own.phase != Phase::Idle && !self.table.transactions.contains_key(&own.transaction);
        match own.phase {
            Phase::Idle => self.begin(host, worker, own),
            Phase::Snapshot | Phase::Lock | Phase::Mark if is_gone => self.lose(host, worker, own),
            Phase::Snapshot => self.claim(host, worker, own),
            Phase::Lock => self.lock(host, worker, own),
            Phase::Name | Phase::Go => return self.go(host, worker, own),
            Phase::Call => self.hear(host, worker, own),
            Phase::Mark => self.mark(host, worker, own),
            Phase::Commit => self.hear_commit(host, worker, own, is_gone),
        }
        false
    }

    /// A host's own table, which is there while it is up.
    pub(super) fn lanes_of(&mut self, host: usize) -> &mut DirectTable {
        self.hosts[host].table.as_mut().unwrap()
    }

    pub(super) fn lose(&mut self, host: usize, worker: usize, own: &mut Worker) {
        self.stats.lost += 1;
        let clock = self.clock();
        self.lanes_of(host).lost(worker_id(worker), clock);
        self.rest(own, 12);
    }

    /// Begins the next transaction in a while.
    pub(super) fn rest(&mut self, own: &mut Worker, within: u64) {
        *own = Worker { wait: self.now + self.rng.below(within), ..Worker::default() };
    }

    fn begin(&mut self, host: usize, worker: usize, own: &mut Worker) {
        if self.now < self.server_down_until {
            return;
        }
        let (clock, lanes) = (self.clock(), self.hosts[host].lanes);
        let lane = lane(&mut self.rng, lanes);
        let Some(begin) = self.lanes_of(host).begin(worker_id(worker), lane, clock) else { return };
        let key = (begin.lanes, begin.lane);
        let is_taken = self.setup.application_lock == Some(key)
            || self.table.transactions.values().any(|other| other.advisory == Some(key));
        let transaction = self.table.begin(true, self.now);
        if !self.lanes_of(host).lock_answered(worker_id(worker), !is_taken, clock) {
            self.table.abort(transaction);
            return self.rest(own, 3);
        }
        self.stats.unlocked += u64::from(is_taken);
        if !is_taken && let Some(of) = self.table.transactions.get_mut(&transaction) {
            of.advisory = Some(key);
        }
        *own = Worker { phase: Phase::Snapshot, transaction, begun: self.now, ..Worker::default() };
    }

    /// The claim reads what waits.
    fn claim(&mut self, host: usize, worker: usize, own: &mut Worker) {
        self.drop_suspects(host);
        let clock = self.clock();
        let Some(claim) = self.lanes_of(host).claim(worker_id(worker), clock) else {
            self.table.abort(own.transaction);
            return self.rest(own, 3);
        };
        if let Some(transaction) = self.table.transactions.get_mut(&own.transaction) {
            transaction.touched = self.now;
        }
        own.snapshot = self.table.waiting(self.now, self.ties_by_place()).iter().map(|row| row.id).collect();
        let (candidates, looked_at) = self.read(host, &claim);
        let key = |row: &usize| self.table.rows.get(row).map_or((255, *row), |row| row.key);
        own.keys = candidates.iter().map(|(row, _)| key(row)).collect();
        let last = candidates.last().and_then(|(row, _)| self.table.rows.get(row)).map(|row| row.order);
        self.hosts[host].highest = last.unwrap_or(self.hosts[host].highest);
        (own.candidates, own.looked_at) = (candidates, looked_at);
        own.phase = Phase::Lock;
    }

    /// The first rows of a lane that wait, due or not, in order; of these the first of each aggregate that are due.
    fn read(&self, host: usize, claim: &Claim) -> (Vec<(usize, usize)>, usize) {
        let (mutation, highest) = (self.mutation, self.hosts[host].highest);
        let is_in = |row: &&Row| {
            self.lane_of(host, row.key, claim.lanes) == claim.lane
                && !claim.held.contains(&aggregate(row.key))
                && (mutation != Some(Mutation::ClaimFromHighest) || row.order > highest)
                && (mutation != Some(Mutation::ProcessingDoesntBlock) || self.is_pending(row))
        };
        let waiting = self.table.waiting(self.now, self.ties_by_place());
        let window: Vec<&Row> = waiting.into_iter().filter(is_in).take(claim.window).collect();
        let mut stopped: Vec<Key> = Vec::new();
        let mut candidates = Vec::new();
        for (place, row) in window.iter().enumerate() {
            if !self.table.is_due(row, self.now) {
                if mutation != Some(Mutation::UndueDoesntBlock) {
                    stopped.push(row.key);
                }
            } else if !stopped.contains(&row.key) && candidates.len() < claim.batch {
                candidates.push((row.id, place));
            }
        }
        (candidates, window.len())
    }

    fn is_pending(&self, row: &Row) -> bool {
        row.status == super::table::Status::Pending
    }

    fn lane_of(&self, host: usize, key: Key, lanes: u16) -> u16 {
        let (aggregate, row, salt) = (u64::from(key.0), key.1 as u64, self.hosts[host].salt);
        let hash = aggregate * 7 + row * 13 + salt * (aggregate / 2 + row);
        u16::try_from(hash % u64::from(lanes)).unwrap()
    }

    /// The claim locks what it read.
    fn lock(&mut self, host: usize, worker: usize, own: &mut Worker) {
        let judges = self.mutation != Some(Mutation::JudgedOnce);
        let mut rows = Vec::new();
        for ((id, position), key) in std::mem::take(&mut own.candidates).into_iter().zip(std::mem::take(&mut own.keys))
        {
            let row = self.table.rows.get(&id);
            let is_due = row.is_some_and(|row| self.table.is_due(row, self.now) || !judges);
            let is_free = !self.table.is_locked(id, own.transaction);
            self.stats.judged_again += u64::from(is_free && !is_due);
            let locked = is_free && is_due;
            let attempts = row.map_or(0, |row| row.attempts);
            if locked && let Some(transaction) = self.table.transactions.get_mut(&own.transaction) {
                transaction.locks.insert(id);
            }
            rows.push(ClaimedRow { id: row_id(id), aggregate: aggregate(key), position, locked, attempts });
        }
        let (clock, seen) = (self.clock(), own.looked_at);
        match self.lanes_of(host).claimed(worker_id(worker), Claimed { seen, unread: 0, rows }, clock) {
            AfterClaim::GiveUp => {
                self.table.abort(own.transaction);
                self.rest(own, 4);
            }
            AfterClaim::Send => own.phase = Phase::Go,
            AfterClaim::Name => {
                self.save(host);
                own.phase = Phase::Name;
                own.wait = self.now + self.rng.below(4);
            }
        }
    }

    /// Stores what outlives the process.
    pub(super) fn save(&mut self, host: usize) {
        let host = &mut self.hosts[host];
        if let Some(table) = &host.table {
            host.record = table.record().clone();
        }
    }

    /// Suspects that no longer wait are dropped.
    fn drop_suspects(&mut self, host: usize) {
        let suspects = self.lanes_of(host).suspects();
        let waits = |row: &RowId| self.table.rows.get(&number_of(row)).is_some_and(Row::waits);
        let gone: Vec<RowId> = suspects.into_iter().filter(|row| !waits(row)).collect();
        if !gone.is_empty() {
            self.lanes_of(host).drop_suspects(&gone);
            self.save(host);
        }
    }
}
