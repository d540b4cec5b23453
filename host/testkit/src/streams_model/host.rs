//! Processes: they take shards over, stand still, die.

use std::collections::BTreeMap;

use waybill_core::ids::ShardId;
use waybill_core::streams::owner::{StreamOwner, Ticket, takeover};
use waybill_core::streams::reading::Ring;
use waybill_core::streams::records::StreamCommit;

use super::events::Id;
use super::setup::{OBSERVER_TTL, SHARDS, STREAMS};
use super::world::World;

#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Flying {
        commit: Box<StreamCommit>,
        at: u64,
    },
    /// The shard record is to be read.
    Reading,
}

/// What a process has while it owns a shard.
#[derive(Debug)]
pub(super) struct Life {
    pub owner: StreamOwner,
    pub token: u64,
    pub phase: Phase,
    /// Direct appends that weren't answered.
    pub tickets: BTreeMap<Ticket, Vec<Id>>,
}

/// The lease of a shard as a host saw it last, and since when.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct SeenLease {
    token: u64,
    beat: u64,
    since: u64,
}

#[derive(Debug)]
pub(super) struct Host {
    pub up: bool,
    pub paused_until: u64,
    seen: [SeenLease; SHARDS as usize],
    pub lives: [Option<Life>; SHARDS as usize],
    /// Feed records of each shard that it published.
    pub published: [u64; SHARDS as usize],
    pub rings: [Ring; STREAMS],
    /// The ring of those who read all streams.
    pub all: Ring,
}

impl Default for Host {
    fn default() -> Self {
        let seen = [SeenLease { token: 9, beat: 9, since: 0 }; SHARDS as usize];
        Self {
            up: true,
            paused_until: 0,
            seen,
            lives: [const { None }; SHARDS as usize],
            published: [0; SHARDS as usize],
            rings: Default::default(),
            all: Ring::default(),
        }
    }
}

impl World {
    /// One act of a host.
    pub(super) fn host(&mut self, host: usize) {
        let now = self.now;
        if self.hosts[host].paused_until > now {
            return;
        }
        if !self.hosts[host].up {
            self.start(host);
        }
        if !self.calm {
            if self.rng.one_in(900) {
                return self.crash(host);
            }
            if self.rng.one_in(300) {
                self.hosts[host].paused_until = now + self.rng.below(400);
                return;
            }
        }
        if self.rng.percent(50) {
            self.follow(host);
        }
        let shard = self.rng.index(usize::from(SHARDS));
        if self.hosts[host].lives[shard].is_none() {
            return self.take_over(host, shard);
        }
        if self.rng.percent(35) {
            return self.relay(host, shard);
        }
        self.go_on(host, shard);
    }

    fn start(&mut self, host: usize) {
        self.hosts[host].up = true;
        for shard in 0..usize::from(SHARDS) {
            self.hosts[host].seen[shard] = SeenLease { token: 0, beat: 0, since: self.now };
            self.hosts[host].published[shard] = self.record(shard).pos;
        }
    }

    fn take_over(&mut self, host: usize, shard: usize) {
        let now = self.now;
        let stored = self.record(shard);
        let seen = &mut self.hosts[host].seen[shard];
        if (stored.token, stored.beat) != (seen.token, seen.beat) {
            *seen = SeenLease { token: stored.token, beat: stored.beat, since: now };
            return;
        }
        if now - seen.since < OBSERVER_TTL {
            return;
        }
        let id = ShardId(u16::try_from(shard).unwrap());
        let nonce = self.nonce();
        let commit = takeover(id, stored.token + 1, nonce, &stored).unwrap();
        if !self.calm && self.rng.percent(10) {
            let at = now + self.rng.below(60);
            self.delay(commit, at);
            self.hosts[host].seen[shard].since = now;
            return;
        }
        let begun = self.clock().mono;
        if self.apply(&commit).is_err() {
            return;
        }
        self.ledger.stats.takeovers += 1;
        let (record, relays) = (commit.record.clone(), self.setup.relays(&commit.record, now));
        let token = stored.token + 1;
        if self.setup.has_relay(now) {
            self.note_start(shard, &record);
        }
        let owner = StreamOwner::new(self.setup.owner(id), record, relays, begun);
        self.hosts[host].lives[shard] = Some(Life { owner, token, phase: Phase::Idle, tickets: BTreeMap::new() });
    }

    /// The process dies with all that it has; its commits may still go in.
    pub(super) fn crash(&mut self, host: usize) {
        self.ledger.stats.crashes += 1;
        let lives: Vec<Life> = self.hosts[host].lives.iter_mut().filter_map(Option::take).collect();
        let paused_until = self.now + 20 + self.rng.below(150);
        let seen = self.hosts[host].seen;
        self.hosts[host] = Host { up: false, paused_until, seen, ..Host::default() };
        for reader in self.named.iter_mut().filter(|reader| reader.host == host) {
            reader.reader = None;
        }
        for reader in self.many.iter_mut().filter(|reader| reader.host == host) {
            reader.reader = None;
        }
        for life in lives {
            self.count(&life);
            if let Phase::Flying { commit, .. } = life.phase {
                self.decide_fate(*commit, 150);
            }
        }
    }

    /// The shard is lost: the process lives on, and what it has of it that isn't in a commit goes to the doorstep.
    pub(super) fn drop_life(&mut self, host: usize, shard: usize) {
        self.hosts[host].seen[shard] = SeenLease { since: self.now, ..SeenLease::default() };
        let Some(mut life) = self.hosts[host].lives[shard].take() else { return };
        self.ledger.stats.leases_lost += 1;
        self.count(&life);
        for direct in life.owner.recall() {
            let Some(ids) = life.tickets.remove(&direct.ticket) else { continue };
            let stream = self.setup.number(&direct.append.stream);
            self.put_at_door(stream, ids);
        }
        if let Phase::Flying { commit, .. } = life.phase {
            self.decide_fate(*commit, 150);
        }
    }

    fn count(&mut self, life: &Life) {
        let (counts, stats) = (life.owner.counts(), &mut self.ledger.stats);
        stats.duplicates += counts.duplicates;
        stats.moved += counts.moved;
    }
}
