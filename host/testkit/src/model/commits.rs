//! The way to an owner's next commit, and its fate, as the engine's actor goes it.

use waybill_core::commit::{Step, StoreAnswer};
use waybill_core::outbox::commit_fate::{self, TooLarge};
use waybill_core::outbox::lone_trials::LoneTrials;
use waybill_core::outbox::owner::Applied;
use waybill_core::outbox::preparation::{self, Need, Preparation};
use waybill_core::outbox::records::{DoorRow, ShardRecord};
use waybill_core::port::store::{OwnerCommit, StoreError, Write};

use super::driver::{Driver, Phase};
use super::host::Host;
use super::known::Spot;
use super::options::Mutation;
use super::store::ModelStore;
use super::world::World;

impl<S: ModelStore> World<S> {
    /// One step towards the next commit or its fate. False when the shard is lost.
    pub(super) fn commit_acts(&mut self, host: &Host, driver: &mut Driver) -> bool {
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
    fn prepare(&mut self, host: &Host, driver: &mut Driver, mut preparation: Preparation) {
        let shard = driver.owner.shard();
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
                Need::Commands => self.operators_act(host, driver),
                Need::Scheduled { by, limit } => {
                    driver.owner.scheduled_page(self.store.scheduled_due(shard, by, limit))
                }
                Need::Bell => {
                    self.wake_door(driver);
                    preparation.check_door(&mut driver.owner, &driver.door, self.bell, now);
                }
                Need::Clock { newest } => {
                    let newest = if newest { self.store.door_newest(shard) } else { None };
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
                        rows = self.store.door(shard, request);
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
    fn wake_door(&mut self, driver: &mut Driver) {
        if driver.owner.in_door_pass() {
            return;
        }
        driver.pages = 0;
        if !self.setup.exclusive && !driver.owner.has_waiting_directs() && self.rng.percent(40) {
            driver.door.wake();
        }
    }

    fn read_door(
        &mut self,
        host: &Host,
        driver: &mut Driver,
        mut preparation: Preparation,
        clock: u64,
        newest: Option<u64>,
    ) {
        preparation.clock(&mut driver.owner, &mut driver.door, clock, newest);
        self.prepare(host, driver, preparation);
    }

    fn take_rows(&mut self, host: &Host, driver: &mut Driver, mut preparation: Preparation, rows: Vec<DoorRow>) {
        if self.read_fails() {
            return driver.refuse_unread();
        }
        preparation.rows(&mut driver.owner, &mut driver.door, rows);
        self.prepare(host, driver, preparation);
    }

    fn build(&mut self, host: &Host, driver: &mut Driver) {
        let nonce = self.fresh();
        let open_before = driver.owner.record().open.len();
        let apart = LoneTrials::default();
        let trials = if self.setup.mutation == Some(Mutation::TrialsTogether) { &apart } else { &host.lone_trials };
        let built = preparation::build(&mut driver.owner, trials, self.now_at(host), nonce);
        self.stats.refused += built.refused.len() as u64;
        let Some(commit) = built.commit else { return };
        let kept = commit.record.open.keys().filter(|first| driver.owner.record().open.contains_key(first)).count();
        let deleted = commit.writes.iter().filter(|write| matches!(write, Write::DeleteSegment(_))).count();
        driver.forwards = commit.writes.iter().any(|write| matches!(write, Write::ForwardDoor { .. }));
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
        self.take_answer(host, driver, StoreAnswer::Committed(result))
    }

    fn barrier_arrives(&mut self, host: &Host, driver: &mut Driver, barrier: OwnerCommit) -> bool {
        let result = if !self.calm && self.rng.percent(20) {
            self.give_up(barrier);
            Err(unknown())
        } else {
            self.apply(&barrier)
        };
        self.take_answer(host, driver, StoreAnswer::Barrier(result))
    }

    fn answer(&mut self, driver: &mut Driver, applied: Applied) {
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
        let read = if self.read_fails() { Err(unknown()) } else { Ok(self.store.shard(driver.owner.shard())) };
        self.take_answer(host, driver, StoreAnswer::Record(read))
    }

    /// Does what follows the store's answer. False when the shard is lost.
    fn take_answer(&mut self, host: &Host, driver: &mut Driver, answer: StoreAnswer<ShardRecord>) -> bool {
        let is_record = matches!(answer, StoreAnswer::Record(_));
        if std::mem::take(&mut driver.forwards) {
            // It may have gone in: the doorsteps that messages were carried to are looked at.
            self.bell += 1;
        }
        let now = self.now_at(host);
        let step = commit_fate::take_answer(&mut driver.owner, &mut driver.door, answer, now, || self.fresh());
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
            Step::TooLarge(TooLarge { refused, recalled }) => {
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
