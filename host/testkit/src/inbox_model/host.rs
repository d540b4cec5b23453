//! Processes: they take the home over, stand still, die.

use std::collections::{BTreeMap, BTreeSet};

use waybill_core::ids::Seq;
use waybill_core::inbox::fingerprint::ContentCheck;
use waybill_core::inbox::owner::{Candidate, InboxOwner, LookUp, takeover};
use waybill_core::inbox::records::InboxCommit;

use super::ledger::{Booking, Item};
use super::setup::{OBSERVER_TTL, OWNER_TTL, SECRET, SHARD};
use super::world::World;

/// A commit with what the books say of it.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub commit: InboxCommit,
    pub booking: Booking,
}

#[derive(Debug)]
pub(super) enum Phase {
    Idle,
    Flying {
        pending: Box<Pending>,
        at: u64,
    },
    /// The shard record is to be read.
    Reading,
}

/// A call that a handler has.
#[derive(Debug)]
pub(super) struct Running {
    pub seq: Seq,
    pub item: Item,
    pub key: Option<u8>,
    pub content: u8,
    pub until: u64,
    /// It may have been handled before this call.
    pub was_touched: bool,
}

/// What a process has while it owns the home.
#[derive(Debug)]
pub(super) struct Life {
    pub owner: InboxOwner,
    pub token: u64,
    pub lease_until: u64,
    pub adopted: u64,
    pub sessions: [u64; 2],
    /// When the first pull of each source's session was answered.
    pub pulled_since: [Option<u64>; 2],
    /// When each source said last, in that session, that nothing more was waiting.
    pub emptied: [u64; 2],
    /// Positions by tokens of the sessions.
    pub tokens: BTreeMap<(usize, u64), usize>,
    pub running: Vec<Running>,
    /// Answers of the seen set that are on their way: when, and what was found.
    pub lookups: Vec<(u64, LookUp, Option<Option<ContentCheck>>)>,
    pub phase: Phase,
    /// Contents that handlers had last.
    pub answers: BTreeMap<Item, u8>,
}

#[derive(Debug, Default)]
pub(super) struct Host {
    pub up: bool,
    pub paused_until: u64,
    /// The lease as seen last, and since when.
    seen: (u64, u64, u64),
    pub life: Option<Life>,
    /// When it was last disturbed, or will have been.
    pub disturbed: u64,
}

/// Who owns the shard: what the outbox's record says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lease {
    pub token: u64,
    pub beat: u64,
}

impl World {
    /// One act of a host.
    pub(super) fn host(&mut self, host: usize) {
        let now = self.now;
        if self.hosts[host].paused_until > now {
            return;
        }
        if !self.hosts[host].up {
            self.hosts[host].up = true;
            self.hosts[host].seen = (0, 0, now);
        }
        if !self.calm {
            if self.rng.one_in(700) {
                return self.crash(host);
            }
            if self.rng.one_in(300) {
                self.neglect(host);
                let until = now + self.rng.below(400);
                (self.hosts[host].paused_until, self.hosts[host].disturbed) = (until, until);
                return;
            }
        }
        if self.hosts[host].life.is_none() {
            return self.take_over(host);
        }
        if !self.keep_lease(host) {
            return self.drop_life(host);
        }
        match self.rng.below(5) {
            0 => self.build(host),
            1 => self.go_on(host),
            2 => self.source(host),
            _ => self.handlers(host),
        }
    }

    /// The owner of the shard beats now and then. False: another one has it.
    fn keep_lease(&mut self, host: usize) -> bool {
        let (now, beats) = (self.now, self.rng.percent(25));
        let Some(life) = self.hosts[host].life.as_mut() else { return false };
        if !beats {
            return true;
        }
        if self.lease.token != life.token {
            return false;
        }
        self.lease.beat += 1;
        life.lease_until = now + OWNER_TTL;
        true
    }

    fn take_over(&mut self, host: usize) {
        let now = self.now;
        let (token, beat) = (self.lease.token, self.lease.beat);
        let seen = &mut self.hosts[host].seen;
        if (token, beat) != (seen.0, seen.1) {
            *seen = (token, beat, now);
            return;
        }
        if now - seen.2 < OBSERVER_TTL && token > 0 {
            return;
        }
        self.lease = Lease { token: token + 1, beat: beat + 1 };
        let died = token > 0;
        let nonce = self.nonce();
        let candidate = Candidate { shard: SHARD, token: token + 1, died, nonce, secret: SECRET };
        let stored = self.record();
        let Some(commit) = takeover(candidate, &stored) else { return };
        let pending = Pending { commit, booking: Booking::default() };
        if !self.calm && self.rng.percent(10) {
            let at = now + self.rng.below(60);
            self.delay(pending, at);
            self.hosts[host].seen = (0, 0, now);
            return;
        }
        if self.apply(&pending).is_err() {
            return;
        }
        self.ledger.stats.takeovers += 1;
        let found = self.store.read(|tables| tables.inbox.takeover(SHARD));
        let owner = InboxOwner::restore(self.setup.config(died), pending.commit.record, found, self.clock());
        let sessions = [0, 1].map(|source: usize| self.brokers[source].join(now, &mut self.rng));
        self.hosts[host].life = Some(Life {
            owner,
            token: token + 1,
            lease_until: now + OWNER_TTL,
            adopted: now,
            sessions,
            pulled_since: [None; 2],
            emptied: [0; 2],
            tokens: BTreeMap::new(),
            running: Vec::new(),
            lookups: Vec::new(),
            phase: Phase::Idle,
            answers: BTreeMap::new(),
        });
    }

    /// The process dies with all that it has; its commit may still go in.
    pub(super) fn crash(&mut self, host: usize) {
        self.ledger.stats.crashes += 1;
        self.neglect(host);
        let now = self.now;
        let life = self.hosts[host].life.take();
        self.hosts[host].up = false;
        self.hosts[host].disturbed = now;
        self.hosts[host].paused_until = now + 20 + self.rng.below(150);
        let Some(life) = life else { return };
        self.leave(life.sessions);
        if let Phase::Flying { pending, .. } = life.phase {
            self.decide_fate(*pending, 150);
        }
    }

    /// The home is lost: the process lives on.
    pub(super) fn drop_life(&mut self, host: usize) {
        if let Some(life) = self.hosts[host].life.take() {
            self.ledger.stats.duplicates += life.owner.counts().duplicates;
            self.leave(life.sessions);
            if let Phase::Flying { pending, .. } = life.phase {
                self.decide_fate(*pending, 150);
            }
        }
        self.hosts[host].seen = (0, 0, self.now);
    }

    fn leave(&mut self, sessions: [u64; 2]) {
        for (source, session) in sessions.into_iter().enumerate() {
            self.brokers[source].leave(session, &mut self.rng);
        }
    }

    /// The host goes away: what it had for long at its last deliveries should have been safe.
    fn neglect(&mut self, host: usize) {
        let Some(life) = &self.hosts[host].life else { return };
        if life.token != self.lease.token || !matches!(life.phase, Phase::Idle) {
            return;
        }
        let (sessions, disturbed) = (life.sessions, self.hosts[host].disturbed);
        for (source, session) in sessions.into_iter().enumerate() {
            self.neglect_session(source, session, disturbed);
        }
    }

    pub(super) fn neglect_session(&mut self, source: usize, session: u64, disturbed: u64) {
        for position in self.brokers[source].at_last_deliveries(session, self.now, disturbed) {
            if !self.is_safe(source, position) {
                self.brokers[source].positions[position].neglected = true;
            }
        }
    }

    /// Takes that are open as an owner knows it.
    pub(super) fn open_takes(owner: &InboxOwner) -> BTreeSet<Seq> {
        owner.record().open.values().flatten().copied().collect()
    }
}
