//! What an engine does for its owner: reads for the next commit, commits and their fate, loads.

use std::collections::HashMap;
use std::fmt;

use waybill_core::new_message::Draft;
use waybill_core::outbox::commit_fate::{self, Step, Word};
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch, Look};
use waybill_core::outbox::drain::{Drain, DrainEnd};
use waybill_core::outbox::lanes::Lanes;
use waybill_core::outbox::lookups::{Checked, Lookups};
use waybill_core::outbox::owner::{DirectRequest, DoorPage, DoorPassRequest, LoadPurpose, LoadRequest, Owner, Ticket};
use waybill_core::outbox::records::DoorRow;
use waybill_core::port::store::{OwnerCommit, SegmentInfo, StoreError, StoredSegment};

use super::host::{Host, Role};
use super::known::Spot;
use super::ledger::number_of;
use super::options::Mutation;
use super::store::ModelStore;
use super::world::World;

/// A drain that takes longer is given up.
const RELEASE_TIMEOUT: u64 = 150;

/// How far the next commit is.
pub(super) enum Phase {
    Idle,
    /// The door clock was read, and the newest stamp.
    Clock {
        look: Look,
        clock: u64,
        newest: Option<u64>,
    },
    /// A page of the doorstep was read.
    Rows {
        request: DoorPassRequest,
        rows: Vec<DoorRow>,
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
    /// Requests whose ids have to be looked up.
    unchecked: Lookups<()>,
    /// Messages of requests that wait for a commit.
    waiting: HashMap<Ticket, Vec<usize>>,
    door: DoorWatch<()>,
    pub lanes: Lanes,
    pages: u64,
    drain: Drain<u64>,
    /// The store has lost commits that this owner knows of.
    pub is_betrayed: bool,
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
            "{phase} load {:?} unchecked {:?} door {:?} {:#?}",
            self.load.as_ref().map(|(request, ..)| request),
            self.unchecked,
            self.door,
            self.owner
        )
    }
}

impl Driver {
    pub fn new(owner: Owner, times: DoorTimes) -> Self {
        Self {
            owner,
            phase: Phase::Idle,
            load: None,
            next_ticket: 0,
            unchecked: Lookups::default(),
            waiting: HashMap::new(),
            door: DoorWatch::new(times),
            lanes: Lanes::default(),
            pages: 0,
            drain: Drain::default(),
            is_betrayed: false,
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
        if !self.calm && !driver.drain.has_begun() && self.rng.one_in(700) {
            driver.drain.begin(&mut driver.owner, self.now + RELEASE_TIMEOUT, now);
            let mine = driver.owner.token();
            self.leases.retain(|_, (token, _)| *token != mine);
            drop(driver.unchecked.drain());
            if self.setup.refuses_all {
                for request in driver.owner.recall_directs() {
                    driver.waiting.remove(&request.ticket);
                }
            }
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
            self.deaths.insert(driver.owner.token());
            if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
                self.give_up(commit);
            }
            return;
        }
        self.check_owner(&driver);
        if let Some(end) = driver.drain.end(&driver.owner, matches!(driver.phase, Phase::Idle), self.now) {
            let released = end == DrainEnd::InOrder;
            self.stats.releases += u64::from(released);
            self.note(|_| format!("given back in good order: {released}"));
            if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
                self.give_up(commit);
            }
            host.up = false;
            host.forget_ownership();
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
        let limits = driver.owner.config().limits;
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
            if driver.drain.has_begun() {
                continue;
            }
            let named: Vec<_> = ask.drafts.iter().filter(|draft| !draft.needs_id).collect();
            let distinct: std::collections::BTreeSet<_> =
                named.iter().map(|draft| (&draft.message.tenant, &draft.message.id)).collect();
            if distinct.len() < named.len() {
                // The service refuses a request that names an id twice.
                self.stats.taken_ids += 1;
            } else if named.is_empty() {
                self.enqueue(host, driver, ask.drafts);
            } else {
                driver.unchecked.push(ask.drafts, ());
            }
        }
    }

    /// Hands what is new of a request to the owner; ids of callers that exist are answered at once.
    fn admit(&mut self, host: &Host, driver: &mut Driver, checked: Checked<()>) {
        match checked {
            Checked::New { drafts, slots, .. } => {
                self.stats.repeated_ids += slots.iter().flatten().count() as u64;
                self.enqueue(host, driver, drafts);
            }
            Checked::Known { ids, .. } => self.stats.repeated_ids += ids.len() as u64,
            Checked::Taken { .. } => self.stats.taken_ids += 1,
        }
    }

    fn enqueue(&mut self, host: &Host, driver: &mut Driver, messages: Vec<Draft>) {
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
        if !self.calm && self.rng.one_in(40) || self.read_fails() {
            driver.owner.load_failed();
            return;
        }
        let page = match &request {
            LoadRequest::Directory { from, limit } => {
                let page = self.store.directory(*from, *limit);
                self.note_nameless(&page);
                Page::Directory(page)
            }
            LoadRequest::Segments { firsts, purpose, .. } => {
                match purpose {
                    LoadPurpose::Keys => self.stats.resumes += 1,
                    LoadPurpose::Scope(_) => self.stats.scope_resumes += 1,
                    LoadPurpose::Scan => {}
                }
                let page = self.store.segments(firsts);
                self.note_unreadable(&page);
                Page::Segments(page)
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
            Phase::Clock { look, clock, newest } => self.read_door(driver, look, clock, newest),
            Phase::Rows { request, rows } => self.take_rows(host, driver, &request, rows),
            Phase::Out { commit, arrives } if arrives > self.now => driver.phase = Phase::Out { commit, arrives },
            Phase::Out { commit, .. } => return self.commit_arrives(host, driver, commit),
            Phase::Asking => return self.read_record(host, driver),
            Phase::Barrier { commit, arrives } if arrives > self.now => {
                driver.phase = Phase::Barrier { commit, arrives }
            }
            Phase::Barrier { commit, .. } => return self.barrier_arrives(host, driver, commit),
        }
        true
    }

    fn prepare(&mut self, host: &mut Host, driver: &mut Driver) {
        let now = self.now_at(host);
        if !self.look_up_ids(host, driver) {
            return;
        }
        self.operators_act(host, driver);
        if driver.owner.wants_scheduled(now) {
            if self.read_fails() {
                return;
            }
            let limit = driver.owner.config().limits.scheduled_page;
            let page = self.store.scheduled_due(now.wall, limit);
            driver.owner.scheduled_page(page);
        }
        let is_new = !driver.owner.in_door_pass();
        if is_new && !self.setup.exclusive && !driver.owner.has_waiting_directs() && self.rng.percent(40) {
            // The time to poll has come.
            driver.door.knock();
        }
        let Some(look) = driver.door.look(&mut driver.owner, self.bell, now) else { return self.build(host, driver) };
        if is_new {
            driver.pages = 0;
        }
        let newest = if look.full { self.store.door_newest() } else { None };
        driver.phase = Phase::Clock { look, clock: self.door_clock(), newest };
    }

    /// Looks up ids that callers chose. False when it can't: those who wait for it are refused.
    fn look_up_ids(&mut self, host: &Host, driver: &mut Driver) -> bool {
        let named = driver.unchecked.ask(&driver.owner);
        if named.is_empty() {
            return true;
        }
        if self.read_fails() {
            driver.unchecked.failed();
            drop(driver.unchecked.drain());
            return false;
        }
        let found = self.store.ids(&named);
        for checked in driver.unchecked.found(found) {
            self.admit(host, driver, checked);
        }
        true
    }

    fn read_door(&mut self, driver: &mut Driver, look: Look, clock: u64, newest: Option<u64>) {
        let request = driver.door.begin(&mut driver.owner, look, clock, newest);
        if self.read_fails() {
            if self.setup.mutation == Some(Mutation::FailedReadIsEmpty) {
                driver.phase = Phase::Rows { request, rows: Vec::new() };
            }
            return;
        }
        let rows = self.store.door(request.from_nanos, request.until_nanos, request.after.clone(), request.limit);
        driver.pages += 1;
        self.stats.long_passes += u64::from(driver.pages == 2);
        driver.phase = Phase::Rows { request, rows };
    }

    fn take_rows(&mut self, host: &Host, driver: &mut Driver, request: &DoorPassRequest, rows: Vec<DoorRow>) {
        if self.read_fails() {
            return;
        }
        let named = DoorPage::ids(&rows);
        let found = if named.is_empty() { Vec::new() } else { self.store.ids(&named) };
        driver.door.page(&mut driver.owner, DoorPage::of(request, rows, found));
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
        self.stats.evictions += u64::from(open_before > kept + deleted && !driver.drain.has_begun());
        let long = self.rng.one_in(9);
        let arrives = self.now + if self.calm { 1 } else { 1 + self.rng.below(if long { 40 } else { 4 }) };
        driver.phase = Phase::Out { commit, arrives };
    }

    fn commit_arrives(&mut self, host: &Host, driver: &mut Driver, commit: OwnerCommit) -> bool {
        let result = if !self.calm && self.rng.percent(6) {
            self.stats.unknown += 1;
            self.note(|_| "the outcome is unknown".to_owned());
            self.give_up(commit);
            Err(unknown())
        } else {
            self.apply(&commit)
        };
        self.take_word(host, driver, Word::Committed(result))
    }

    fn barrier_arrives(&mut self, host: &Host, driver: &mut Driver, barrier: OwnerCommit) -> bool {
        let result = if !self.calm && self.rng.percent(20) {
            self.give_up(barrier);
            Err(unknown())
        } else {
            self.apply(&barrier)
        };
        self.take_word(host, driver, Word::Barrier(result))
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

    fn read_record(&mut self, host: &Host, driver: &mut Driver) -> bool {
        let read = if self.read_fails() { Err(unknown()) } else { Ok(self.store.shard()) };
        self.take_word(host, driver, Word::Record(read))
    }

    /// Does what follows the store's word. False when the shard is lost.
    fn take_word(&mut self, host: &Host, driver: &mut Driver, word: Word) -> bool {
        let is_record = matches!(word, Word::Record(_));
        let now = self.now_at(host);
        let step = commit_fate::take_word(&mut driver.owner, &mut driver.door, word, now, || self.fresh());
        if is_record && matches!(step, Step::Applied(_) | Step::NotApplied(_) | Step::Barrier(_)) {
            self.went_on(host, driver.is_betrayed);
        }
        match step {
            Step::Applied(applied) => {
                self.stats.found_applied += u64::from(is_record);
                self.answer(driver, applied);
            }
            Step::NotApplied(recalled) => {
                self.stats.proved_undone += 1;
                for request in recalled {
                    driver.waiting.remove(&request.ticket);
                    driver.unchecked.push(request.messages, ());
                }
            }
            Step::TooLarge { refused, recalled } => {
                for ticket in refused {
                    driver.waiting.remove(&ticket);
                }
                for request in recalled {
                    driver.waiting.remove(&request.ticket);
                    driver.unchecked.push(request.messages, ());
                }
            }
            Step::Read(read) => {
                // Sometimes nobody is told before the outcome is known: then that is the answer.
                if read.abandon && (is_record || self.rng.percent(50)) {
                    for ticket in driver.owner.abandon_requests() {
                        driver.waiting.remove(&ticket);
                    }
                }
                driver.phase = Phase::Asking;
            }
            Step::Barrier(barrier) => {
                let arrives = self.now + self.rng.below(4);
                driver.phase = Phase::Barrier { commit: *barrier, arrives };
            }
            Step::Lost => return false,
            Step::WentBack(error) => {
                if !driver.is_betrayed {
                    self.violation(error.to_string());
                }
                self.stats.went_back += 1;
                return false;
            }
        }
        true
    }
}

/// What a driver hears of a call whose answer doesn't come.
fn unknown() -> StoreError {
    StoreError::Unavailable("the model doesn't say".to_owned())
}
