//! What an engine does for its owner: reads for the next commit, commits and their fate, loads.

use std::collections::HashMap;
use std::fmt;

use waybill_core::new_message::Draft;
use waybill_core::outbox::commit_fate::{self, Step, Word};
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch};
use waybill_core::outbox::drain::{Drain, DrainEnd};
use waybill_core::outbox::lanes::Lanes;
use waybill_core::outbox::lookups::{Checked, Lookups};
use waybill_core::outbox::owner::{DirectRequest, LoadPurpose, LoadRequest, Owner, Ticket};
use waybill_core::outbox::preparation::{self, Need, Preparation};
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
        preparation: Preparation,
        clock: u64,
        newest: Option<u64>,
    },
    /// A page of the doorstep was read.
    Rows {
        preparation: Preparation,
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

    /// A read failed that the next commit needs: who waits for a look-up is refused.
    fn refuse_unread(&mut self) {
        self.unchecked.failed();
        drop(self.unchecked.drain());
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
            Phase::Idle => self.prepare(host, driver, Preparation::default()),
            Phase::Clock { preparation, clock, newest } => self.read_door(host, driver, preparation, clock, newest),
            Phase::Rows { preparation, rows } => self.take_rows(host, driver, preparation, rows),
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

    /// Does what the next commit needs, up to the next answer that takes its time. A read that fails ends the preparation.
    fn prepare(&mut self, host: &mut Host, driver: &mut Driver, mut preparation: Preparation) {
        loop {
            let now = self.now_at(host);
            let Some(need) = preparation.next(&driver.owner, &mut driver.unchecked, now) else {
                return self.build(host, driver);
            };
            match need {
                Need::Ids(_) | Need::Scheduled { .. } if self.read_fails() => return driver.refuse_unread(),
                Need::Ids(named) => {
                    let found = self.store.ids(&named);
                    for checked in driver.unchecked.found(found) {
                        self.admit(host, driver, checked);
                    }
                }
                Need::Wishes => self.operators_act(host, driver),
                Need::Scheduled { by, limit } => driver.owner.scheduled_page(self.store.scheduled_due(by, limit)),
                Need::Bell => {
                    self.knock(driver);
                    preparation.look(&mut driver.owner, &driver.door, self.bell, now);
                }
                Need::Clock { newest } => {
                    let newest = if newest { self.store.door_newest() } else { None };
                    driver.phase = Phase::Clock { preparation, clock: self.door_clock(), newest };
                    return;
                }
                Need::Rows(request) => {
                    let fails = self.read_fails();
                    if fails && self.setup.mutation != Some(Mutation::FailedReadIsEmpty) {
                        return driver.refuse_unread();
                    }
                    let mut rows = Vec::new();
                    if !fails {
                        rows = self.store.door(request.from_nanos, request.until_nanos, request.after, request.limit);
                        driver.pages += 1;
                        self.stats.long_passes += u64::from(driver.pages == 2);
                    }
                    driver.phase = Phase::Rows { preparation, rows };
                    return;
                }
                Need::RowIds(named) => {
                    let found = self.store.ids(&named);
                    preparation.row_ids(&mut driver.owner, &mut driver.door, found);
                }
            }
        }
    }

    /// The time to poll may have come.
    fn knock(&mut self, driver: &mut Driver) {
        if driver.owner.in_door_pass() {
            return;
        }
        driver.pages = 0;
        if !self.setup.exclusive && !driver.owner.has_waiting_directs() && self.rng.percent(40) {
            driver.door.knock();
        }
    }

    fn read_door(
        &mut self,
        host: &mut Host,
        driver: &mut Driver,
        mut preparation: Preparation,
        clock: u64,
        newest: Option<u64>,
    ) {
        preparation.clock(&mut driver.owner, &mut driver.door, clock, newest);
        self.prepare(host, driver, preparation);
    }

    fn take_rows(&mut self, host: &mut Host, driver: &mut Driver, mut preparation: Preparation, rows: Vec<DoorRow>) {
        if self.read_fails() {
            return driver.refuse_unread();
        }
        preparation.rows(&mut driver.owner, &mut driver.door, rows);
        self.prepare(host, driver, preparation);
    }

    fn build(&mut self, host: &Host, driver: &mut Driver) {
        let nonce = self.fresh();
        let open_before = driver.owner.record().open.len();
        let built = preparation::build(&mut driver.owner, &host.lone_trials, self.now_at(host), nonce);
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
