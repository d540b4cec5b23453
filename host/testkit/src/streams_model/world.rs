//! Time, and the order in which everybody acts.

use std::time::Duration;

use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::Outcome;
use super::broker::Broker;
use super::clients::ClientTx;
use super::commits::Late;
use super::host::Host;
use super::ledger::Ledger;
use super::many::Many;
use super::named::Named;
use super::options::Mutation;
use super::setup::{EVENTS_MAX, STREAMS, Setup, WALL_START};
use crate::memory_store::MemoryStore;
use crate::model::rng::Rng;

/// Steps of the wild phase.
const WILD_STEPS: u64 = 1_200;
/// Steps of the calm phase after which what isn't at its end is stuck.
const CALM_STEPS: u64 = 9_000;

pub(super) struct World {
    pub rng: Rng,
    pub setup: Setup,
    pub mutation: Option<Mutation>,
    pub store: MemoryStore,
    pub now: u64,
    pub calm: bool,
    pub clients: Vec<ClientTx>,
    pub late: Vec<Late>,
    pub hosts: Vec<Host>,
    pub named: Vec<Named>,
    pub many: Vec<Many>,
    pub broker: Broker,
    pub ledger: Ledger,
    pub tickets: u64,
    /// Up to where each stream's exact appends were seen to be adopted.
    pub adopted: [u64; STREAMS],
    nonce: u64,
    transactions: u64,
}

impl World {
    pub fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut rng = Rng::new(seed);
        let setup = Setup::draw(&mut rng, Mutation::rules(mutation));
        let named = (0..5).map(|number| Named::new(number % STREAMS, rng.below(800))).collect();
        let many = [None, None, Some(0), Some(1)].map(|node| Many::new(node, rng.below(900))).into();
        Self {
            hosts: (0..setup.hosts).map(|_| Host::default()).collect(),
            rng,
            ledger: Ledger::default(),
            setup,
            mutation,
            store: MemoryStore::new(),
            now: 1,
            calm: false,
            clients: Vec::new(),
            late: Vec::new(),
            named,
            many,
            broker: Broker::default(),
            tickets: 0,
            adopted: [0; STREAMS],
            nonce: 0,
            transactions: 0,
        }
    }

    pub fn run(mut self) -> Outcome {
        for _ in 0..WILD_STEPS {
            self.step();
        }
        self.calm = true;
        for _ in 0..CALM_STEPS {
            self.step();
            if self.now.is_multiple_of(32) && self.is_settled() {
                break;
            }
        }
        if self.ledger.violations.is_empty() {
            self.audit();
        }
        Outcome { violations: self.ledger.violations, stats: self.ledger.stats }
    }

    pub(super) fn clock(&self) -> Now {
        Now { wall: UnixMillis(WALL_START + self.now), mono: Monotonic(Duration::from_millis(self.now)) }
    }

    /// The store's clock. A step is a millisecond.
    pub(super) fn nanos(&self) -> u64 {
        (WALL_START + self.now) * 1_000_000
    }

    pub(super) fn nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    pub(super) fn next_transaction(&mut self) -> u64 {
        self.transactions += 1;
        self.transactions
    }

    fn step(&mut self) {
        if !self.ledger.violations.is_empty() {
            return;
        }
        self.now += 1;
        self.ledger.now = self.now;
        self.store.set_clock(self.nanos());
        if !self.calm && self.rng.one_in(8) && self.ledger.events.len() < EVENTS_MAX {
            self.caller();
        }
        self.commit_clients();
        self.arrive_late();
        self.broker();
        for _ in 0..2 {
            let host = self.rng.index(self.hosts.len());
            self.host(host);
        }
        let reader = self.rng.index(self.named.len());
        self.named(reader);
        let reader = self.rng.index(self.many.len());
        self.many(reader);
    }
}
