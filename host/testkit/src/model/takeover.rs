//! A host that doesn't own a shard: it watches it and takes it over.

use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::limits::SchedulerLimits;
use waybill_core::outbox::owner::{Adopted, Owner, OwnerConfig, TakeoverInput, takeover, takeover_reads};
use waybill_core::outbox::records::ShardRecord;
use waybill_core::port::store::OwnerCommit;
use waybill_core::time::Now;

use super::driver::Driver;
use super::host::{Actor, Host, Role};
use super::setup::OBSERVER_TTL;
use super::store::ModelStore;
use super::world::World;

impl<S: ModelStore> World<S> {
    pub(super) fn rival_acts(&mut self, host: &Host, actor: &mut Actor, role: Role) -> Role {
        match role {
            _ if self.read_fails() => {
                if let Role::Taking { commit, .. } = role {
                    self.give_up(commit);
                }
                actor.watch();
                actor.seen_at = self.now;
                Role::Watching
            }
            Role::Watching if host.closing => Role::Released,
            Role::Owning(_) | Role::Watching | Role::Released => {
                let record = self.store.shard(actor.shard);
                let seen = (record.token, record.beat);
                if actor.seen != Some(seen) {
                    actor.seen = Some(seen);
                    actor.seen_at = self.now;
                }
                let free = self.setup.exclusive || record.released || record.token == 0;
                if free || self.now - actor.seen_at >= OBSERVER_TTL { Role::Reading(record) } else { Role::Watching }
            }
            Role::Reading(record) => self.begin_takeover(host, actor, record),
            Role::Taking { commit, began, arrives } if arrives > self.now => Role::Taking { commit, began, arrives },
            Role::Taking { commit, began, .. } => self.take_over(actor, commit, began),
            Role::Adopting { record, began } => self.adopt(host, actor, record, began),
        }
    }

    fn begin_takeover(&mut self, host: &Host, actor: &Actor, record: ShardRecord) -> Role {
        let shard = actor.shard;
        let open = self.store.segments(shard, &takeover_reads(&record));
        let claimed = self.read_parked(shard).into_iter().filter(|parked| parked.claimed).collect();
        let began = self.now_at(host);
        let token = record.token;
        let input = TakeoverInput {
            shard,
            host: self.setup.config.host.clone(),
            record,
            open,
            claimed,
            commit_bytes: self.setup.config.limits.commit_bytes,
            dead_holds_key: self.setup.config.dead_holds_key,
            tx_events: self.setup.config.tx_events,
            lived: actor.owned == Some(token),
            rules: self.setup.config.rules,
        };
        let nonce = self.fresh();
        let commit = takeover(input, began.wall, nonce);
        let arrives = self.now + if self.calm { 1 } else { self.rng.below(20) };
        Role::Taking { commit, began, arrives }
    }

    fn take_over(&mut self, actor: &mut Actor, commit: OwnerCommit, began: Now) -> Role {
        let record = commit.record.clone();
        if !self.calm && self.rng.percent(10) {
            self.stats.unknown += 1;
            self.give_up(commit);
            if self.store.shard(actor.shard).nonce == record.nonce {
                self.stats.found_applied += 1;
                return self.taken(actor, record, began);
            }
            actor.watch();
            actor.seen_at = self.now;
            return Role::Watching;
        }
        self.taker = actor.owned;
        let applied = self.apply(&commit);
        self.taker = None;
        match applied {
            Ok(()) => self.taken(actor, record, began),
            Err(_) => Role::Watching,
        }
    }

    /// A commit of a takeover went in. Another one follows while anything is claimed.
    fn taken(&mut self, actor: &mut Actor, record: ShardRecord, began: Now) -> Role {
        actor.owned = Some(record.token);
        if record.open.is_empty() {
            return Role::Adopting { record, began };
        }
        self.stats.long_takeovers += 1;
        Role::Reading(record)
    }

    /// Settings of another start: those of the first, or other bounds.
    fn settings(&mut self, shard: ShardId, shards: u16) -> OwnerConfig {
        let mut config = OwnerConfig { shard, shards, ..self.setup.config.clone() };
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

    fn adopt(&mut self, host: &Host, actor: &mut Actor, record: ShardRecord, began: Now) -> Role {
        let shard = actor.shard;
        let adopted = Adopted { record, parked: self.read_parked(shard), held: self.store.held_keys(shard) };
        self.stats.takeovers += 1;
        actor.owned = Some(adopted.record.token);
        self.note(|_| format!("takeover of shard {shard}, token {}", adopted.record.token));
        let config = OwnerConfig { rates: Arc::clone(&host.sent.rates), ..self.settings(shard, host.shards) };
        let owner = Owner::new(config, adopted, began.mono, self.now_at(host));
        Role::Owning(Box::new(Driver::new(owner, self.setup.door_times())))
    }
}
