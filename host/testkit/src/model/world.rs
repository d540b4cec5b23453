//! The simulated world: time, hosts, clients, commits on their way, receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::port::store::OwnerCommit;
use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::host::Host;
use super::ledger::{At, Ledger};
use super::options::{Options, Outcome};
use super::past::Past;
use super::rates::Sent;
use super::rng::Rng;
use super::setup::{Setup, TOPICS, WALL_START};
use super::stats::Stats;
use super::store::{ModelStore, Store};
use super::suspicion::Trials;
use super::transit::ClientTransaction;

/// Steps with faults and clients.
const HECTIC_STEPS: u64 = 1_500;
/// Steps without, at most: everything has to come to its end.
const CALM_STEPS: u64 = 20_000;
/// Makes other dice of a seed.
const SPOILS: u64 = 0x5B01_17D1_5C00_0000;

pub(super) struct World<S> {
    pub store: Store<S>,
    pub rng: Rng,
    /// Which rows a bad disk spoils: dice of their own, so that all other schedules stay what they are.
    pub spoils: Rng,
    pub now: u64,
    pub setup: Setup,
    pub ledger: Ledger,
    pub clients: Vec<ClientTransaction>,
    /// Commits given up by their sender that may still go in.
    pub limbo: Vec<(u64, OwnerCommit)>,
    pub hosts: Vec<Host>,
    /// Until when each destination blocks.
    pub blocked_until: [u64; TOPICS.len()],
    /// Doorstep commits that have ended.
    pub bell: u64,
    pub unique: u64,
    /// Calls begun so far.
    pub calls: u64,
    /// The current token of what is claimed from outside: of the owner, and of the lease.
    pub leases: BTreeMap<At, (u64, u64)>,
    /// Ownerships whose process died.
    pub deaths: BTreeSet<(ShardId, u64)>,
    pub trials: BTreeMap<ShardId, Trials>,
    /// The latest ownership of the process whose commit is applied.
    pub taker: Option<u64>,
    pub stats: Stats,
    pub calm: bool,
    /// Error of the clock that stamps doorstep rows, in milliseconds.
    pub ahead: i64,
    /// When somebody set a clock that may be set again.
    pub clock_set: Option<u64>,
    /// The latest stamp that the process of an embedded store gave out, or clock that it looked by.
    pub stamped: u64,
    pub past: Past<S>,
    tracing: bool,
    trace: Vec<String>,
}

impl<S: ModelStore> World<S> {
    pub fn new(store: S, seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = 1 + rng.below(3);
        let setup = Setup::draw(&mut rng, seed, hosts, options);
        if let Some(bytes) = setup.store_bytes {
            store.bound_commits(bytes);
        }
        let spoils = Rng::new(seed ^ SPOILS);
        let skewed = rng.percent(50);
        let mut hosts: Vec<Host> = (0..hosts).map(|_| Host::new(&mut rng, skewed, setup.shards())).collect();
        for host in &mut hosts {
            host.sent = Sent::begin(&setup.rates, Monotonic(Duration::from_millis(1 + host.boot)));
        }
        Self {
            store: Store::new(store),
            rng,
            spoils,
            now: 1,
            setup,
            ledger: Ledger::default(),
            clients: Vec::new(),
            limbo: Vec::new(),
            hosts,
            blocked_until: [0; TOPICS.len()],
            bell: 0,
            unique: 0,
            calls: 0,
            leases: BTreeMap::new(),
            deaths: BTreeSet::new(),
            trials: BTreeMap::new(),
            taker: None,
            stats: Stats::default(),
            calm: false,
            ahead: 0,
            clock_set: None,
            stamped: 0,
            past: Past::default(),
            tracing: options.trace,
            trace: Vec::new(),
        }
    }

    pub fn note(&mut self, event: impl FnOnce(&Self) -> String) {
        if self.tracing {
            let text = event(self);
            self.trace.push(format!("t{} {text}", self.now));
        }
    }

    pub fn violation(&mut self, text: String) {
        let now = self.now;
        self.ledger.bad.push(format!("t{now} {text}"));
    }

    pub fn fresh(&mut self) -> u64 {
        self.unique += 1;
        self.unique
    }

    /// Nanoseconds of the store's clock at a step.
    pub fn nanos(step: u64) -> u64 {
        (WALL_START + step) * 1_000_000
    }

    /// Both clocks of a host, as far as it believes them.
    pub fn now_at(&self, host: &Host) -> Now {
        let mut vetted = host.vetted.get();
        let now = vetted.vet(Now {
            wall: UnixMillis((WALL_START + self.now).saturating_add_signed(host.skew)),
            mono: Monotonic(Duration::from_millis(self.now + host.boot)),
        });
        host.vetted.set(vetted);
        now
    }

    fn step(&mut self) {
        self.now += 1;
        self.stats.steps += 1;
        self.go_back();
        if !self.calm {
            self.clients_act();
            if self.rng.one_in(700) {
                let destination = usize::try_from(self.rng.below(TOPICS.len() as u64)).unwrap_or(0);
                let until = self.now + 50 + self.rng.below(300);
                if let Some(slot) = self.blocked_until.get_mut(destination) {
                    *slot = until;
                }
            }
        }
        self.commit_clients();
        self.commit_late();
        self.retire();
        self.spoil();
        for _ in 0..2 {
            let index = usize::try_from(self.rng.below(self.hosts.len() as u64)).unwrap_or(0);
            let Some(slot) = self.hosts.get_mut(index) else { continue };
            let mut host = std::mem::take(slot);
            self.host_acts(&mut host);
            if let Some(slot) = self.hosts.get_mut(index) {
                *slot = host;
            }
        }
        if let Some(failure) = self.store.failure.take() {
            self.violation(format!("a read of the store failed: {failure}"));
        }
    }

    /// A hectic phase, then a calm one in which everything has to come to its end.
    pub fn run(mut self, seed: u64) -> Outcome {
        while self.now < HECTIC_STEPS && self.goes_on() {
            self.step();
        }
        self.calm = true;
        self.set_clocks_right();
        let end = self.now + CALM_STEPS;
        while self.now < end && self.goes_on() {
            self.step();
            if self.now.is_multiple_of(64) && self.is_over() {
                break;
            }
        }
        if self.past.is_back {
            // What was committed is lost, so nothing else adds up any more.
            self.ledger.bad = std::mem::take(&mut self.past.went_on);
        } else if self.ledger.bad.is_empty() {
            self.audit();
        }
        if self.tracing {
            self.describe_hosts();
        }
        Outcome { seed, violations: self.ledger.bad, stats: self.stats, trace: self.trace }
    }

    fn is_over(&self) -> bool {
        self.clients.is_empty()
            && self.limbo.is_empty()
            && self.ledger.segments.is_empty()
            && self.ledger.known.iter().all(|known| !known.is_live())
    }

    fn describe_hosts(&mut self) {
        let hosts: Vec<String> = self.hosts.iter().map(|host| format!("{host:?}")).collect();
        for host in hosts {
            self.note(|_| host);
        }
    }
}
