//! A host: it watches the shard, takes it over, owns it, dies.

use std::cell::Cell;
use std::fmt;

use waybill_core::limits::SchedulerLimits;
use waybill_core::new_message::Draft;
use waybill_core::outbox::owner::{Adopted, Owner, OwnerConfig, TakeoverInput, takeover, takeover_reads};
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::OwnerCommit;
use waybill_core::time::{Now, VettedClock};

use super::driver::{Driver, Phase};
use super::rng::Rng;
use super::sends::Send;
use super::store::{ModelStore, SHARD};
use super::world::{OBSERVER_TTL, World};

/// A request in a host's mail.
#[derive(Debug)]
pub(super) struct DirectAsk {
    pub drafts: Vec<Draft>,
}

/// What a host is about.
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
}

/// A host.
#[derive(Default)]
pub(super) struct Host {
    pub up: bool,
    pub pause_until: u64,
    /// Difference of its boot-time clock to the others'.
    pub boot: u64,
    /// Error of its wall clock.
    pub skew: i64,
    /// What this process believes of it.
    pub vetted: Cell<VettedClock>,
    seen: Option<(u64, u64)>,
    seen_at: u64,
    pub role: Role,
    /// Sends of this process, also of ownerships that are over.
    pub sends: Vec<Send>,
    pub mail: Vec<DirectAsk>,
    /// Token of this process's latest ownership.
    owned: Option<u64>,
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "host up {} paused until {} sends {:?} ", self.up, self.pause_until, self.sends)?;
        match &self.role {
            Role::Watching => f.write_str("watching"),
            Role::Reading(_) => f.write_str("reading"),
            Role::Taking { .. } => f.write_str("taking"),
            Role::Adopting { .. } => f.write_str("adopting"),
            Role::Owning(driver) => write!(f, "owning {driver:?}"),
        }
    }
}

impl Host {
    pub fn new(rng: &mut Rng, skewed: bool) -> Self {
        let skew = if skewed { rng.below(41).cast_signed() - 20 } else { 0 };
        Self { up: true, boot: rng.below(1_000_000), skew, ..Self::default() }
    }

    pub fn is_owning(&self) -> bool {
        matches!(self.role, Role::Owning(_))
    }

    /// Its process ends.
    pub fn forget_ownership(&mut self) {
        self.owned = None;
    }

    /// Forgets what it knew of the shard.
    pub fn watch(&mut self) {
        self.role = Role::Watching;
        self.seen = None;
    }
}

impl<S: ModelStore> World<S> {
    pub(super) fn host_acts(&mut self, host: &mut Host) {
        if host.pause_until > self.now {
            return;
        }
        if !host.up {
            host.up = true;
            host.watch();
            host.vetted.take();
            self.begin_stamps();
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
        match std::mem::take(&mut host.role) {
            Role::Owning(driver) => self.owner_acts(host, driver),
            role => {
                host.mail.clear();
                host.role = self.rival_acts(host, role);
                // What an earlier ownership of this process had begun to send goes on.
                self.sends_act(host, None);
            }
        }
    }

    /// The process dies; its commit may go in all the same.
    pub(super) fn crash(&mut self, host: &mut Host) {
        self.stats.crashes += 1;
        self.note(|_| "crash".to_owned());
        match std::mem::take(&mut host.role) {
            Role::Owning(driver) => {
                self.deaths.insert(driver.owner.token());
                if let Phase::Out { commit, .. } | Phase::Barrier { commit, .. } = driver.phase {
                    self.give_up(commit);
                }
            }
            Role::Taking { commit, .. } => self.give_up(commit),
            _ => {}
        }
        host.up = false;
        host.owned = None;
        host.sends.clear();
        host.mail.clear();
        host.pause_until = self.now + 20 + self.rng.below(150);
    }

    fn rival_acts(&mut self, host: &mut Host, role: Role) -> Role {
        match role {
            _ if self.read_fails() => {
                if let Role::Taking { commit, .. } = role {
                    self.give_up(commit);
                }
                host.watch();
                host.seen_at = self.now;
                Role::Watching
            }
            Role::Owning(_) | Role::Watching => {
                let record = self.store.shard();
                let seen = (record.token, record.beat);
                if host.seen != Some(seen) {
                    host.seen = Some(seen);
                    host.seen_at = self.now;
                }
                let free = self.setup.exclusive || record.released || record.token == 0;
                if free || self.now - host.seen_at >= OBSERVER_TTL { Role::Reading(record) } else { Role::Watching }
            }
            Role::Reading(record) => self.begin_takeover(host, record),
            Role::Taking { commit, began, arrives } if arrives > self.now => Role::Taking { commit, began, arrives },
            Role::Taking { commit, began, .. } => self.take_over(host, commit, began),
            Role::Adopting { record, began } => self.adopt(host, record, began),
        }
    }

    fn begin_takeover(&mut self, host: &Host, record: ShardRecord) -> Role {
        let open = self.store.segments(&takeover_reads(&record));
        let claimed = self.read_parked().into_iter().filter(|parked| parked.claimed).collect();
        let began = self.now_at(host);
        let token = record.token;
        let input = TakeoverInput {
            shard: SHARD,
            host: self.setup.config.host.clone(),
            record,
            open,
            claimed,
            commit_bytes: self.setup.config.limits.commit_bytes,
            dead_holds_key: self.setup.config.dead_holds_key,
            lived: host.owned == Some(token),
            rules: self.setup.config.rules,
        };
        let nonce = self.fresh();
        let commit = takeover(input, began.wall, nonce);
        let arrives = self.now + if self.calm { 1 } else { self.rng.below(20) };
        Role::Taking { commit, began, arrives }
    }

    fn take_over(&mut self, host: &mut Host, commit: OwnerCommit, began: Now) -> Role {
        let record = commit.record.clone();
        if !self.calm && self.rng.percent(10) {
            self.stats.unknown += 1;
            self.give_up(commit);
            if self.store.shard().nonce == record.nonce {
                self.stats.found_applied += 1;
                return self.taken(host, record, began);
            }
            host.watch();
            host.seen_at = self.now;
            return Role::Watching;
        }
        self.taker = host.owned;
        let applied = self.apply(&commit);
        self.taker = None;
        match applied {
            Ok(()) => self.taken(host, record, began),
            Err(_) => Role::Watching,
        }
    }

    /// A commit of a takeover went in. Another one follows while anything is claimed.
    fn taken(&mut self, host: &mut Host, record: ShardRecord, began: Now) -> Role {
        host.owned = Some(record.token);
        if record.open.is_empty() {
            return Role::Adopting { record, began };
        }
        self.stats.long_takeovers += 1;
        Role::Reading(record)
    }

    /// Settings of another start: those of the first, or other bounds.
    fn settings(&mut self) -> OwnerConfig {
        let mut config = self.setup.config.clone();
        if self.setup.other_bounds && self.rng.percent(70) {
            let mut around = |bound: usize| bound.div_ceil(2) + self.rng.index(bound + 1);
            config.limits = SchedulerLimits {
                window_messages: around(config.limits.window_messages),
                key_messages: around(config.limits.key_messages),
                open_segments: around(config.limits.open_segments),
                resume_points: around(config.limits.resume_points),
                door_page: around(config.limits.door_page),
                scheduled_page: around(config.limits.scheduled_page),
                settle_max: around(config.limits.settle_max),
                ..config.limits
            };
            config.parked_per_tenant = around(config.parked_per_tenant);
            self.stats.other_bounds += 1;
        }
        config
    }

    fn adopt(&mut self, host: &mut Host, record: ShardRecord, began: Now) -> Role {
        let adopted = Adopted { record, parked: self.read_parked(), held: self.store.held_keys() };
        self.stats.takeovers += 1;
        host.owned = Some(adopted.record.token);
        self.note(|_| format!("takeover, token {}", adopted.record.token));
        let config = self.settings();
        let owner = Owner::new(config, adopted, began.mono, self.now_at(host));
        Role::Owning(Box::new(Driver::new(owner, self.setup.door_times())))
    }
}
