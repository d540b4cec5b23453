//! What an engine does for one of its owners: requests, drains, the end of an ownership; `commits` and `loads` have the rest.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use waybill_core::ids::Tenant;
use waybill_core::limits::TENANT_MESSAGES_MIN;
use waybill_core::new_message::Draft;
use waybill_core::outbox::door_watch::{DoorTimes, DoorWatch};
use waybill_core::outbox::drain::{Drain, DrainEnd};
use waybill_core::outbox::lanes::Lanes;
use waybill_core::outbox::lookups::{Checked, Lookups};
use waybill_core::outbox::owner::{DirectRequest, Owner, Ticket};
use waybill_core::outbox::preparation::Preparation;
use waybill_core::outbox::records::DoorRow;
use waybill_core::port::store::OwnerCommit;

use super::host::{Actor, Host, Role};
use super::ledger::number_of;
use super::loads::Load;
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

pub(super) struct Driver {
    pub owner: Owner,
    pub phase: Phase,
    /// A read under way: what came back, as the store was when it began.
    pub load: Option<Load>,
    next_ticket: u64,
    /// Requests whose ids have to be looked up.
    pub unchecked: Lookups<()>,
    /// Messages of requests that wait for a commit.
    pub waiting: HashMap<Ticket, Vec<usize>>,
    pub door: DoorWatch<()>,
    pub lanes: Lanes,
    pub pages: u64,
    pub drain: Drain<u64>,
    /// The commit that is out carries messages to other doorsteps.
    pub forwards: bool,
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
            self.load.as_ref().map(|load| &load.request),
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
            forwards: false,
            is_betrayed: false,
        }
    }

    pub fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        Ticket(self.next_ticket)
    }

    /// A read failed that the next commit needs: who waits for a look-up is refused.
    pub fn refuse_unread(&mut self) {
        self.unchecked.failed();
        drop(self.unchecked.drain());
    }
}

impl<S: ModelStore> World<S> {
    pub(super) fn owner_acts(&mut self, host: &mut Host, actor: &mut Actor, mut driver: Box<Driver>) {
        driver.owner.tick(self.now_at(host));
        self.drain_now_and_then(host, &mut driver);
        self.operators_reroute(host, &mut driver);
        if matches!(driver.phase, Phase::Idle | Phase::Out { .. } | Phase::Asking | Phase::Barrier { .. }) {
            self.take_mail(host, actor, &mut driver);
        }
        let kept = match self.rng.below(5) {
            0 => {
                self.load_acts(host, &mut driver);
                true
            }
            1 | 2 => self.commit_acts(host, &mut driver),
            _ => {
                self.sends_act(host, actor, Some(&mut driver));
                true
            }
        };
        if !host.up {
            // A poison message killed the process: the driver is lost with it.
            return self.bury(*driver);
        }
        self.check_owner(&driver);
        let is_idle = matches!(driver.phase, Phase::Idle);
        if let Some(end) = driver.drain.end(&driver.owner, is_idle, self.now) {
            self.give_back(host, actor, *driver, end);
        } else if kept {
            actor.role = Role::Owning(driver);
        } else {
            self.lose(host, actor);
        }
    }

    /// Begins to give the shard back: with all the others, because the process ends, or by itself.
    fn drain_now_and_then(&mut self, host: &mut Host, driver: &mut Driver) {
        if driver.drain.has_begun() {
            return;
        }
        let begins = !self.calm && self.rng.one_in(700);
        if begins {
            host.closing = host.closing || self.setup.shards() == 1 || self.rng.percent(50);
        }
        if !begins && !host.closing {
            return;
        }
        let now = self.now_at(host);
        driver.drain.begin(&mut driver.owner, self.now + RELEASE_TIMEOUT, now);
        let (shard, token) = (driver.owner.shard(), driver.owner.token());
        self.leases.retain(|at, (of, _)| (at.0, *of) != (shard, token));
        drop(driver.unchecked.drain());
        if self.setup.refuses_all {
            for request in driver.owner.recall_directs() {
                driver.waiting.remove(&request.ticket);
            }
        }
    }

    fn give_back(&mut self, host: &mut Host, actor: &mut Actor, driver: Driver, end: DrainEnd) {
        let released = end == DrainEnd::InOrder;
        self.stats.releases += u64::from(released);
        self.note(|_| format!("shard {} is given back in good order: {released}", actor.shard));
        if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
            self.give_up(commit);
        }
        host.lone_trials.leave(actor.shard);
        actor.watch();
        if host.closing {
            actor.role = Role::Released;
        } else {
            actor.pause_until = self.now + 20 + self.rng.below(100);
        }
    }

    /// Another host has taken the shard over.
    fn lose(&mut self, host: &Host, actor: &mut Actor) {
        self.stats.lost_leases += 1;
        self.note(|_| format!("shard {} is lost", actor.shard));
        let has_others = host.actors.iter().filter_map(Actor::driver).any(|other| self.is_current(&other.owner));
        self.stats.lost_alone += u64::from(has_others);
        host.lone_trials.leave(actor.shard);
        actor.watch();
    }

    /// Whether nobody else has taken an owner's shard over.
    fn is_current(&self, owner: &Owner) -> bool {
        self.ledger.record(owner.shard()).token == owner.token()
    }

    fn check_owner(&mut self, driver: &Driver) {
        let limits = driver.owner.config().limits;
        let (messages, _, open) = driver.owner.memory();
        let tenants = 3;
        if open > limits.open_segments {
            self.violation(format!("{open} segments are claimed, at most {} may be", limits.open_segments));
        }
        let messages_max = limits.window_messages + TENANT_MESSAGES_MIN.min(limits.window_messages) * tenants;
        if messages > messages_max {
            self.violation(format!("{messages} messages are in memory, at most {messages_max} may be"));
        }
        self.stats.stalls += u64::from(is_stalled(&driver.owner));
        let resume = driver.owner.resume_points();
        if resume > limits.resume_points * tenants {
            self.violation(format!("{resume} resume points, at most {} a tenant may be", limits.resume_points));
        }
        if let Err(text) = driver.owner.check_invariants() {
            self.violation(format!("the owner contradicts itself: {text}"));
        }
    }

    fn take_mail(&mut self, host: &Host, actor: &mut Actor, driver: &mut Driver) {
        for ask in std::mem::take(&mut actor.mail) {
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
    pub(super) fn admit(&mut self, host: &Host, driver: &mut Driver, checked: Checked<()>) {
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
}

/// Whether fresh messages wait in memory while their tenant has as many retries as it may: then only those are sent.
fn is_stalled(owner: &Owner) -> bool {
    let mut waiting: BTreeMap<Tenant, (u64, u64)> = BTreeMap::new();
    for ((tenant, transport), depth) in owner.depths() {
        let (fresh, retries) = waiting.entry(tenant).or_default();
        // Messages without a transport aren't in memory yet, or wait for a route.
        if transport.is_some() {
            *fresh += depth.ready;
        }
        *retries += depth.parked;
    }
    let retries_max = owner.config().parked_per_tenant as u64;
    waiting.values().any(|(fresh, retries)| *fresh > 0 && *retries >= retries_max)
}
