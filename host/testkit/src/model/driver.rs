//! What an engine does for its owner: reads for the next commit, commits and their fate, loads.

use std::collections::HashMap;
use std::fmt;

use waybill_core::outbox::owner::{
    DirectRequest, DoorPage, ExistingId, LoadPurpose, LoadRequest, Owner, Resolution, Ticket,
};
use waybill_core::outbox::records::{DoorRow, content_digest};
use waybill_core::port::store::{OwnerCommit, SegmentInfo, StoreError, StoredSegment};

use super::host::{DirectAsk, Host, Role};
use super::known::Spot;
use super::ledger::number_of;
use super::store::ModelStore;
use super::world::World;

/// A drain that takes longer is given up.
const RELEASE_TIMEOUT: u64 = 150;

/// How far the next commit is.
pub(super) enum Phase {
    Idle,
    /// The door clock was read.
    Clock {
        from: u64,
        clock: u64,
    },
    /// A page of the doorstep was read.
    Rows {
        rows: Vec<DoorRow>,
        complete: bool,
    },
    /// A commit is on its way.
    Out {
        commit: OwnerCommit,
        arrives: u64,
    },
    /// It failed: the record has to be read.
    Asking,
    /// A barrier is on its way.
    Barrier {
        commit: OwnerCommit,
        arrives: u64,
    },
}

enum Page {
    Directory(Vec<SegmentInfo>),
    Segments(Vec<StoredSegment>),
}

/// One ownership.
pub(super) struct Driver {
    pub owner: Owner,
    pub phase: Phase,
    /// A read under way: what came back, as the store was when it began.
    load: Option<(LoadRequest, Page, u64)>,
    next_ticket: u64,
    asks: Vec<DirectAsk>,
    /// Messages of requests that wait for a commit.
    waiting: HashMap<Ticket, Vec<usize>>,
    covered: Option<u64>,
    covering: u64,
    full_at: Option<u64>,
    pages: u64,
    release_until: Option<u64>,
    last_refusal: Option<StoreError>,
}

impl fmt::Debug for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let phase = match &self.phase {
            Phase::Idle => "idle",
            Phase::Clock { .. } => "clock",
            Phase::Rows { .. } => "rows",
            Phase::Out { .. } => "out",
            Phase::Asking => "asking",
            Phase::Barrier { .. } => "barrier",
        };
        write!(
            f,
            "{phase} load {:?} asks {:?} {:#?}",
            self.load.as_ref().map(|(request, ..)| request),
            self.asks,
            self.owner
        )
    }
}

impl Driver {
    pub fn new(owner: Owner) -> Self {
        Self {
            owner,
            phase: Phase::Idle,
            load: None,
            next_ticket: 0,
            asks: Vec::new(),
            waiting: HashMap::new(),
            covered: None,
            covering: 0,
            full_at: None,
            pages: 0,
            release_until: None,
            last_refusal: None,
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }
}

impl<S: ModelStore> World<S> {
    pub(super) fn owner_acts(&mut self, host: &mut Host, mut driver: Box<Driver>) {
        let now = self.now_at(host);
        driver.owner.tick(now);
        if !self.calm && driver.release_until.is_none() && self.rng.one_in(700) {
            driver.owner.begin_release(now);
            let mine = driver.owner.token();
            self.leases.retain(|_, (token, _)| *token != mine);
            driver.release_until = Some(self.now + RELEASE_TIMEOUT);
            driver.asks.clear();
        }
        self.operators_reroute(host, &mut driver);
        if matches!(driver.phase, Phase::Idle | Phase::Out { .. } | Phase::Asking | Phase::Barrier { .. }) {
            self.take_mail(host, &mut driver);
        }
        let kept = match self.rng.below(5) {
            0 => {
                self.load_acts(host, &mut driver);
                true
            }
            1 | 2 => self.commit_acts(host, &mut driver),
            _ => {
                self.sends_act(host, Some(&mut driver));
                true
            }
        };
        if !host.up {
            // A poison message killed the process: the driver is lost with it.
            if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
                self.give_up(commit);
            }
            return;
        }
        self.check_owner(&driver);
        let released = driver.owner.is_released() && matches!(driver.phase, Phase::Idle);
        let timeout = driver.release_until.is_some_and(|until| until <= self.now);
        if released || timeout {
            self.stats.releases += u64::from(released);
            self.note(|_| format!("given back in good order: {released}"));
            if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
                self.give_up(commit);
            }
            host.up = false;
            host.sends.clear();
            host.watch();
            host.pause_until = self.now + 20 + self.rng.below(100);
        } else if kept {
            host.role = Role::Owning(driver);
        } else {
            self.stats.lost_leases += 1;
            self.note(|_| "lost".to_owned());
            host.watch();
        }
    }

    fn check_owner(&mut self, driver: &Driver) {
        let limits = self.setup.config.limits;
        let (messages, _, open) = driver.owner.memory();
        let tenants = 3;
        if open > limits.open_segments {
            self.violation(format!("{open} segments are claimed, at most {} may be", limits.open_segments));
        }
        let messages_max = driver.owner.messages_bound(tenants);
        if messages > messages_max {
            self.violation(format!("{messages} messages are in memory, at most {messages_max} may be"));
        }
        self.stats.stalls += u64::from(driver.owner.stalled_messages() > 0);
        let resume = driver.owner.resume_points();
        if resume > limits.resume_points * tenants {
            self.violation(format!("{resume} resume points, at most {} a tenant may be", limits.resume_points));
        }
        if let Err(text) = driver.owner.check_invariants() {
            self.violation(format!("the owner contradicts itself: {text}"));
        }
    }

    fn take_mail(&mut self, host: &mut Host, driver: &mut Driver) {
        for ask in std::mem::take(&mut host.mail) {
            if driver.release_until.is_some() {
                continue;
            }
            if ask.drafts.iter().all(|draft| draft.needs_id) {
                self.admit(host, driver, ask);
            } else {
                driver.asks.push(ask);
            }
        }
    }

    /// Hands a request to the owner; ids of callers that exist are answered at once.
    fn admit(&mut self, host: &Host, driver: &mut Driver, ask: DirectAsk) {
        let named: Vec<_> = ask
            .drafts
            .iter()
            .filter(|draft| !draft.needs_id)
            .map(|draft| (draft.message.tenant.clone(), draft.message.id.clone()))
            .collect();
        let distinct: std::collections::BTreeSet<_> = named.iter().collect();
        if distinct.len() < named.len() {
            // The service refuses a request that names an id twice.
            self.stats.taken_ids += 1;
            return;
        }
        let mut found = if named.is_empty() { Vec::new() } else { self.store.ids(&named) }.into_iter();
        let mut messages = Vec::new();
        for draft in ask.drafts {
            let record = if draft.needs_id { None } else { found.next().flatten() };
            match record {
                None => messages.push(draft),
                Some(record) if record.content == Some(content_digest(&draft.message)) => self.stats.repeated_ids += 1,
                Some(_) => {
                    self.stats.taken_ids += 1;
                    return;
                }
            }
        }
        if messages.is_empty() {
            return;
        }
        let ticket = driver.ticket();
        driver.waiting.insert(ticket, messages.iter().map(|draft| number_of(&draft.message)).collect());
        driver.owner.enqueue(DirectRequest { ticket, messages, arrived: self.now_at(host).mono });
    }

    fn load_acts(&mut self, host: &Host, driver: &mut Driver) {
        let now = self.now_at(host);
        if let Some((request, page, arrives)) = driver.load.take() {
            if arrives > self.now {
                driver.load = Some((request, page, arrives));
                return;
            }
            match page {
                Page::Directory(page) => {
                    if let LoadRequest::Directory { from, limit } = request {
                        driver.owner.directory_page(page, from, limit);
                    }
                }
                Page::Segments(page) => driver.owner.segments_page(&request, page, now),
            }
            return;
        }
        let Some(request) = driver.owner.next_load() else { return };
        if !self.calm && self.rng.one_in(40) {
            driver.owner.load_failed();
            return;
        }
        let page = match &request {
            LoadRequest::Directory { from, limit } => Page::Directory(self.store.directory(*from, *limit)),
            LoadRequest::Segments { firsts, purpose, .. } => {
                match purpose {
                    LoadPurpose::Keys => self.stats.resumes += 1,
                    LoadPurpose::Scope(_) => self.stats.scope_resumes += 1,
                    LoadPurpose::Scan => {}
                }
                Page::Segments(self.store.segments(firsts))
            }
        };
        self.note(|_| format!("load {request:?}"));
        let arrives = self.now + self.rng.below(12);
        driver.load = Some((request, page, arrives));
    }

    /// One step towards the next commit or its fate. False when the shard is lost.
    fn commit_acts(&mut self, host: &mut Host, driver: &mut Driver) -> bool {
        match std::mem::replace(&mut driver.phase, Phase::Idle) {
            Phase::Idle => self.prepare(host, driver),
            Phase::Clock { from, clock } => self.read_door(host, driver, from, clock),
            Phase::Rows { rows, complete } => self.take_rows(host, driver, rows, complete),
            Phase::Out { commit, arrives } if arrives > self.now => driver.phase = Phase::Out { commit, arrives },
            Phase::Out { commit, .. } => self.commit_arrives(host, driver, commit),
            Phase::Asking => return self.resolve(host, driver),
            Phase::Barrier { commit, arrives } if arrives > self.now => {
                driver.phase = Phase::Barrier { commit, arrives }
            }
            Phase::Barrier { commit, .. } => {
                if !self.calm && self.rng.percent(20) {
                    self.give_up(commit);
                } else {
                    // Refused or not: the record is read again.
                    let _told_by_the_record = self.apply(&commit);
                }
                driver.phase = Phase::Asking;
            }
        }
        true
    }

    fn prepare(&mut self, host: &mut Host, driver: &mut Driver) {
        let now = self.now_at(host);
        for ask in std::mem::take(&mut driver.asks) {
            let pending = |draft: &waybill_core::new_message::Draft| {
                !draft.needs_id && driver.owner.is_pending_id(&draft.message.tenant, &draft.message.id)
            };
            if ask.drafts.iter().any(pending) {
                driver.asks.push(ask);
            } else {
                self.admit(host, driver, ask);
            }
        }
        self.operators_act(host, driver);
        if driver.owner.wants_scheduled(now) {
            let limit = self.setup.config.limits.scheduled_page;
            let page = self.store.scheduled_due(now.wall, limit);
            driver.owner.scheduled_page(page);
        }
        let waits = driver.owner.waiting_directs().0 > 0;
        let look = driver.owner.in_door_pass()
            || if self.setup.exclusive { driver.covered != Some(self.bell) } else { waits || self.rng.percent(40) };
        if !look {
            if waits {
                driver.owner.door_is_empty(now);
            }
            return self.build(host, driver);
        }
        if !driver.owner.in_door_pass() {
            driver.covering = self.bell;
            driver.pages = 0;
        }
        let clock = Self::nanos(self.now);
        let full = driver.full_at.is_none_or(|at| at + 200 <= self.now);
        let from = match self.setup.late_window {
            Some(window) if !full => clock.saturating_sub(window * 1_000_000),
            _ => 0,
        };
        if full && !driver.owner.in_door_pass() {
            driver.full_at = Some(self.now);
        }
        driver.phase = Phase::Clock { from, clock };
    }

    fn read_door(&mut self, host: &Host, driver: &mut Driver, from: u64, clock: u64) {
        let now = self.now_at(host);
        let request = driver.owner.door_pass(from, clock, now);
        let rows = self.store.door(request.from_nanos, request.until_nanos, request.after, request.limit);
        let complete = rows.len() < request.limit;
        driver.pages += 1;
        self.stats.long_passes += u64::from(driver.pages == 2);
        if complete {
            driver.covered = Some(driver.covering);
        }
        driver.phase = Phase::Rows { rows, complete };
    }

    fn take_rows(&mut self, host: &Host, driver: &mut Driver, rows: Vec<DoorRow>, complete: bool) {
        let messages: Vec<_> = rows.iter().filter_map(|row| row.content.as_ref().ok()).flatten().cloned().collect();
        let named: Vec<_> = messages.iter().map(|message| (message.tenant.clone(), message.id.clone())).collect();
        let found = if named.is_empty() { Vec::new() } else { self.store.ids(&named) };
        let existing = messages
            .iter()
            .zip(found)
            .map(|(message, record)| {
                record.map(|record| ExistingId { same: record.content == Some(content_digest(message)), record })
            })
            .collect();
        driver.owner.door_page(DoorPage { rows, complete, existing });
        self.build(host, driver);
    }

    fn build(&mut self, host: &Host, driver: &mut Driver) {
        let nonce = self.fresh();
        let open_before = driver.owner.record().open.len();
        let built = driver.owner.build(self.now_at(host), nonce);
        self.stats.refused += built.refused.len() as u64;
        let Some(commit) = built.commit else { return };
        let kept = commit.record.open.keys().filter(|first| driver.owner.record().open.contains_key(first)).count();
        let deleted = commit
            .writes
            .iter()
            .filter(|write| matches!(write, waybill_core::port::store::Write::DeleteSegment(_)))
            .count();
        self.stats.evictions += u64::from(open_before > kept + deleted && driver.release_until.is_none());
        let long = self.rng.one_in(9);
        let arrives = self.now + if self.calm { 1 } else { 1 + self.rng.below(if long { 40 } else { 4 }) };
        driver.phase = Phase::Out { commit, arrives };
    }

    fn commit_arrives(&mut self, host: &Host, driver: &mut Driver, commit: OwnerCommit) {
        if !self.calm && self.rng.percent(6) {
            self.stats.unknown += 1;
            self.note(|_| "the outcome is unknown".to_owned());
            self.give_up(commit);
            driver.owner.commit_failed();
            if self.rng.percent(50) {
                for ticket in driver.owner.abandon_requests() {
                    driver.waiting.remove(&ticket);
                }
            }
            driver.phase = Phase::Asking;
            return;
        }
        match self.apply(&commit) {
            Ok(()) => {
                let applied = driver.owner.committed(self.now_at(host));
                self.answer(driver, applied);
            }
            Err(error) => {
                driver.owner.commit_failed();
                driver.last_refusal = Some(error);
                driver.phase = Phase::Asking;
            }
        }
    }

    fn answer(&mut self, driver: &mut Driver, applied: waybill_core::outbox::owner::Applied) {
        self.stats.commands += applied.commands.len() as u64;
        for (ticket, ids) in applied.enqueued {
            let numbers = driver.waiting.remove(&ticket).unwrap_or_default();
            for (number, id) in numbers.into_iter().zip(ids) {
                let known = self.ledger.get(number);
                let is_there = known.is_some_and(|known| known.id.as_ref() == Some(&id) && known.spot != Spot::Nowhere);
                if !is_there {
                    self.violation(format!("the caller of msg {number} was told id {id}, which isn't stored"));
                }
            }
        }
    }

    fn resolve(&mut self, host: &Host, driver: &mut Driver) -> bool {
        let record = self.store.shard();
        let nonce = self.fresh();
        match driver.owner.resolve(&record, self.now_at(host), nonce) {
            Resolution::Lost => return false,
            Resolution::Applied(applied) => {
                self.stats.found_applied += 1;
                self.answer(driver, applied);
            }
            Resolution::NotApplied => {
                self.stats.proved_undone += 1;
                for request in driver.owner.recall_identified() {
                    driver.waiting.remove(&request.ticket);
                    driver.asks.push(DirectAsk { drafts: request.messages });
                }
            }
            Resolution::Barrier(commit) => {
                let arrives = self.now + self.rng.below(4);
                driver.phase = Phase::Barrier { commit: *commit, arrives };
                return true;
            }
        }
        true
    }
}
