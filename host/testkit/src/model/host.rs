//! A host: one process with a part in every shard. It pauses, dies and is begun again as a whole.

use std::cell::Cell;
use std::fmt;
use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::new_message::Draft;
use waybill_core::outbox::lone_trials::LoneTrials;
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::OwnerCommit;
use waybill_core::time::{Monotonic, Now, VettedClock};

use super::driver::{Driver, Phase};
use super::options::Mutation;
use super::rates::Sent;
use super::rng::Rng;
use super::sends::Send;
use super::store::ModelStore;
use super::world::World;

/// A request in the mail of a shard's actor.
#[derive(Debug)]
pub(super) struct DirectAsk {
    pub drafts: Vec<Draft>,
}

/// What a host is about in a shard.
#[derive(Default)]
pub(super) enum Role {
    #[default]
    Watching,
    /// It has read the record and reads what is claimed next.
    Reading(ShardRecord),
    /// Its takeover commit is on its way.
    Taking {
        commit: OwnerCommit,
        began: Now,
        arrives: u64,
    },
    /// Its takeover went in; it reads what it needs.
    Adopting {
        record: ShardRecord,
        began: Now,
    },
    Owning(Box<Driver>),
    /// Nothing more: the process ends.
    Released,
}

/// A host's part in one shard.
#[derive(Default)]
pub(super) struct Actor {
    pub shard: ShardId,
    /// It gave the shard back and lets others take it until then.
    pub pause_until: u64,
    pub seen: Option<(u64, u64)>,
    pub seen_at: u64,
    pub role: Role,
    /// Sends of this process, also of ownerships that are over.
    pub sends: Vec<Send>,
    pub mail: Vec<DirectAsk>,
    /// Token of this process's latest ownership.
    pub owned: Option<u64>,
}

impl fmt::Debug for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "shard {} sends {:?} ", self.shard, self.sends)?;
        match &self.role {
            Role::Watching => f.write_str("watching"),
            Role::Reading(_) => f.write_str("reading"),
            Role::Taking { .. } => f.write_str("taking"),
            Role::Adopting { .. } => f.write_str("adopting"),
            Role::Owning(driver) => write!(f, "owning {driver:?}"),
            Role::Released => f.write_str("released"),
        }
    }
}

impl Actor {
    fn of(shard: ShardId) -> Self {
        Self { shard, ..Self::default() }
    }

    /// What drives the owner, if this host owns the shard as far as it knows.
    pub fn driver(&self) -> Option<&Driver> {
        match &self.role {
            Role::Owning(driver) => Some(driver),
            _ => None,
        }
    }

    /// Forgets what it knew of the shard.
    pub fn watch(&mut self) {
        self.role = Role::Watching;
        self.seen = None;
    }

    /// Its process ends. What it was about.
    pub fn end(&mut self) -> Role {
        self.owned = None;
        self.pause_until = 0;
        self.sends.clear();
        self.mail.clear();
        std::mem::take(&mut self.role)
    }
}

#[derive(Debug, Default)]
pub(super) struct Host {
    pub up: bool,
    pub pause_until: u64,
    /// Difference of its boot-time clock to the others'.
    pub boot: u64,
    /// Error of its wall clock.
    pub skew: i64,
    /// What this process believes of it.
    pub vetted: Cell<VettedClock>,
    /// How many shards it goes by.
    pub shards: u16,
    pub actors: Vec<Actor>,
    /// Which shard's suspect is on trial by itself.
    pub lone_trials: LoneTrials,
    /// What this process has sent, against the rates.
    pub sent: Sent,
    /// Its process gives everything back and ends.
    pub closing: bool,
}

impl Host {
    pub fn new(rng: &mut Rng, skewed: bool, shards: u16) -> Self {
        let skew = if skewed { rng.below(41).cast_signed() - 20 } else { 0 };
        let actors = (0..shards).map(|shard| Actor::of(ShardId(shard))).collect();
        Self { up: true, boot: rng.below(1_000_000), skew, shards, actors, ..Self::default() }
    }

    fn is_closed(&self) -> bool {
        self.closing && self.actors.iter().all(|actor| matches!(actor.role, Role::Released))
    }
}

impl<S: ModelStore> World<S> {
    pub(super) fn host_acts(&mut self, host: &mut Host) {
        if host.pause_until > self.now {
            return;
        }
        if !host.up {
            self.begin_process(host);
        }
        if !self.calm {
            let is_storm = self.setup.storm.contains(&self.now);
            if self.rng.one_in(if is_storm { 40 } else { 900 }) {
                return self.crash(host);
            }
            if self.rng.one_in(300) {
                host.pause_until = self.now + self.rng.below(400);
                return;
            }
        }
        self.step_clock(host);
        for index in 0..host.actors.len() {
            let Some(slot) = host.actors.get_mut(index) else { continue };
            let mut actor = std::mem::take(slot);
            self.actor_acts(host, &mut actor);
            if let Some(slot) = host.actors.get_mut(index) {
                *slot = actor;
            }
            if !host.up {
                return;
            }
        }
        self.check_lone_trials(host);
        if host.is_closed() {
            self.end_process(host);
            host.pause_until = self.now + 20 + self.rng.below(100);
        }
    }

    fn actor_acts(&mut self, host: &mut Host, actor: &mut Actor) {
        match std::mem::take(&mut actor.role) {
            Role::Owning(driver) => self.owner_acts(host, actor, driver),
            role => {
                actor.mail.clear();
                let rests = actor.pause_until > self.now || matches!(role, Role::Released);
                actor.role = if rests { role } else { self.rival_acts(host, actor, role) };
                // What an earlier ownership of this process had begun to send goes on.
                self.sends_act(host, actor, None);
            }
        }
    }

    fn begin_process(&mut self, host: &mut Host) {
        host.up = true;
        host.actors.iter_mut().for_each(Actor::watch);
        host.vetted.take();
        host.sent = Sent::begin(&self.setup.rates, Monotonic(Duration::from_millis(self.now + host.boot)));
        if self.setup.mutation == Some(Mutation::ShardsFollowSettings) {
            let count = 1 + self.rng.below(u64::from(self.setup.shards()));
            host.shards = u16::try_from(count).unwrap_or(1);
        }
        self.begin_stamps();
    }

    /// The process dies, with its part in every shard; its commits may go in all the same.
    pub(super) fn crash(&mut self, host: &mut Host) {
        self.stats.crashes += 1;
        self.note(|_| "crash".to_owned());
        let owned = host.actors.iter().filter(|actor| actor.driver().is_some()).count();
        self.stats.wide_crashes += u64::from(owned > 1);
        self.end_process(host);
        host.pause_until = self.now + 20 + self.rng.below(150);
    }

    fn end_process(&mut self, host: &mut Host) {
        for actor in &mut host.actors {
            self.end_actor(actor);
        }
        host.up = false;
        host.closing = false;
        host.lone_trials = LoneTrials::default();
    }

    /// Its process ends, in good order or not; what it had on its way may go in all the same.
    pub(super) fn end_actor(&mut self, actor: &mut Actor) {
        match actor.end() {
            Role::Owning(driver) => self.bury(*driver),
            Role::Taking { commit, .. } => self.give_up(commit),
            _ => {}
        }
    }

    /// An owner died with its process.
    pub(super) fn bury(&mut self, driver: Driver) {
        self.deaths.insert((driver.owner.shard(), driver.owner.token()));
        if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
            self.give_up(commit);
        }
    }

    /// Two suspects by themselves, and a crash would be held against both.
    fn check_lone_trials(&mut self, host: &Host) {
        let alone = |actor: &&Actor| actor.driver().is_some_and(|driver| driver.owner.has_lone_trial());
        let shards: Vec<ShardId> = host.actors.iter().filter(alone).map(|actor| actor.shard).collect();
        if shards.len() > 1 {
            self.violation(format!("one process has suspects of shards {shards:?} on trial, each by itself"));
        }
    }
}
