//! Time, publishing, and the order in which everybody acts.

use std::time::Duration;

use waybill_core::code::Code;
use waybill_core::inbox::owner::Replay;
use waybill_core::inbox::seen::OwnedAge;
use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::Outcome;
use super::broker::{Broker, Published};
use super::commits::Late;
use super::host::{Host, Lease};
use super::ledger::{Ledger, consumer_number};
use super::messages::id;
use super::options::Mutation;
use super::setup::{CONSUMERS, DEDUP_WINDOW, SECRET, SHARD, Setup, WALL_START};
use crate::memory_store::MemoryStore;
use crate::model::rng::Rng;

/// Steps of the wild phase.
const WILD_STEPS: u64 = 1_600;
/// Steps of the calm phase after which what isn't at its end is stuck: each message that kills its host costs some thousand.
const CALM_STEPS: u64 = 60_000;
/// Steps of a pause, and between two: longer than an orphan is awaited.
const PAUSE: u64 = 400;
/// Most positions of a source.
const POSITIONS: usize = 40;

pub(super) struct World {
    pub rng: Rng,
    pub setup: Setup,
    pub mutation: Option<Mutation>,
    pub store: MemoryStore,
    pub now: u64,
    /// How far the wall clock is from where it was, in milliseconds.
    wall_ahead: i64,
    pub calm: bool,
    pub brokers: [Broker; 2],
    pub hosts: Vec<Host>,
    pub lease: Lease,
    pub late: Vec<(u64, Late)>,
    pub ledger: Ledger,
    /// Until when what a consumer's handler needs is down.
    pub down: [u64; 2],
    nonce: u64,
    next_id: u64,
    /// All messages have one key: a window is soon full of what waits.
    one_key: bool,
    /// The sources bring nothing for a time, again and again: an operator paused them, or their brokers are away.
    pauses: bool,
}

impl World {
    pub fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let mut rng = Rng::new(seed);
        let setup = Setup::draw(&mut rng, Mutation::rules(mutation));
        let past_gaps = mutation == Some(Mutation::OffsetsPastGaps);
        let brokers = setup.kinds.map(|kind| Broker::new(kind, past_gaps));
        let ledger = Ledger::new([0, 1].map(|consumer| setup.has_dlq(consumer)));
        Self {
            hosts: (0..setup.hosts).map(|_| Host::default()).collect(),
            rng,
            setup,
            mutation,
            store: MemoryStore::new(),
            now: 1,
            wall_ahead: 0,
            calm: false,
            brokers,
            lease: Lease::default(),
            late: Vec::new(),
            ledger,
            down: [0; 2],
            nonce: 0,
            next_id: 0,
            one_key: seed % 5 == 4,
            pauses: seed % 3 == 2,
        }
    }

    pub fn run(mut self) -> Outcome {
        for _ in 0..WILD_STEPS {
            self.step();
        }
        self.calm = true;
        self.ledger.kept_since = Some(self.now);
        self.down = [0; 2];
        for _ in 0..CALM_STEPS {
            self.step();
            if self.now.is_multiple_of(64) && self.is_settled() {
                break;
            }
        }
        if self.ledger.violations.is_empty() {
            self.audit();
        }
        Outcome { violations: self.ledger.violations, stats: self.ledger.stats }
    }

    pub(super) fn clock(&self) -> Now {
        let wall = (WALL_START + self.now).saturating_add_signed(self.wall_ahead);
        Now { wall: UnixMillis(wall), mono: Monotonic(Duration::from_millis(self.now)) }
    }

    /// Whether nobody pulls now.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses && !self.calm && self.now / PAUSE % 2 == 1
    }

    pub(super) fn nonce(&mut self) -> u64 {
        self.nonce += 1;
        self.nonce
    }

    fn step(&mut self) {
        if !self.ledger.violations.is_empty() {
            return;
        }
        self.now += 1;
        self.ledger.now = self.now;
        self.store.set_clock(self.clock().wall.0 * 1_000_000);
        if !self.calm {
            self.disturb();
        }
        for source in 0..2 {
            for position in self.brokers[source].step(self.now, &mut self.rng) {
                self.vanished(source, position);
            }
        }
        self.arrive_late();
        self.tidy();
        for _ in 0..2 {
            let host = self.rng.index(self.hosts.len());
            self.host(host);
        }
    }

    fn disturb(&mut self) {
        if self.rng.one_in(400) {
            let by = i64::try_from(self.rng.below(2_000)).unwrap();
            self.wall_ahead += if self.rng.percent(60) { by } else { -by };
        }
        if self.rng.one_in(18) {
            for _ in 0..=self.rng.below(3) {
                self.publish();
            }
        }
        if self.rng.one_in(250) {
            let consumer = self.rng.index(2);
            self.down[consumer] = self.now + self.rng.below(200);
        }
        if self.rng.one_in(150) {
            self.replay();
        }
    }

    fn publish(&mut self) {
        let source = self.rng.index(2);
        if self.brokers[source].positions.len() >= POSITIONS {
            return;
        }
        let drawn = self.rng.below(100);
        let from = self.rng.index(2);
        let old = self.rng.pick(&self.brokers[from].positions).map(|position| position.message.clone());
        let message = match old {
            Some(message) if drawn < 14 => message,
            Some(message) if drawn < 18 && !message.killer => {
                Published { content: message.content + 1, busy: false, ..message }
            }
            _ => {
                self.next_id += 1;
                let key = (!self.rng.percent(35)).then(|| u8::try_from(self.rng.below(3)).unwrap());
                let key = if self.one_key { Some(0) } else { key };
                let (killer, busy) = (self.rng.one_in(120), self.rng.one_in(15));
                Published { id: self.next_id, key, content: 0, killer, busy }
            }
        };
        self.name(message.id);
        let is_again = self.brokers[source].positions.iter().any(|position| position.message.id == message.id);
        let drawn = self.rng.index(2);
        let group = match message.key {
            _ if !self.brokers[source].kind.log => 0,
            Some(key) if !is_again => usize::from(key) % 2,
            _ => drawn,
        };
        self.brokers[source].publish(message, group);
        self.ledger.stats.published += 1;
    }

    /// What takes of a message are called.
    fn name(&mut self, number: u64) {
        let id = waybill_core::ids::InboundId::new(id(number, self.setup.ids)).unwrap();
        for (consumer, name) in CONSUMERS.into_iter().enumerate() {
            let fingerprint = SECRET.of_id(&waybill_core::ids::ConsumerName::new(name).unwrap(), &id);
            self.ledger.names.insert(fingerprint, (u16::try_from(consumer).unwrap(), number));
        }
    }

    /// An operator replays the first dead letter.
    fn replay(&mut self) {
        let dead = self.store.read(|tables| {
            let mut dead = tables.inbox.dead.values();
            dead.find(|dead| dead.code != Code::INBOX_ID_REUSED.as_str()).cloned()
        });
        let Some(dead) = dead else { return };
        let consumer = waybill_core::inbox::settings::ConsumerId(consumer_number(dead.consumer.as_str()));
        for host in &mut self.hosts {
            if let Some(life) = &mut host.life {
                let message = std::sync::Arc::clone(&dead.message);
                life.owner.replay(Replay { dead: std::sync::Arc::clone(&dead), message, consumer });
            }
        }
    }

    /// What is out of the window is forgotten, but in the calm phase. To convict what kills its host takes some thousand steps, so with a
    /// window of some hundred two of them could take turns for ever: convicted, forgotten while the other one is on trial and its source
    /// still brings both, and handled again. A window of weeks is longer than any number of trials.
    fn tidy(&mut self) {
        if self.calm || !self.now.is_multiple_of(20) {
            return;
        }
        let age = self.record().age;
        let Some(until) = age.window_start(Duration::from_millis(DEDUP_WINDOW + 1)) else { return };
        self.store
            .write(|tables| tables.inbox.seen.retain(|(of, ..), (_, at)| *of != SHARD || *at > OwnedAge(until.0)));
    }

    /// Its broker delivers a message no more.
    fn vanished(&mut self, source: usize, position: usize) {
        if self.is_safe(source, position) {
            return;
        }
        if self.brokers[source].positions[position].neglected {
            let id = self.brokers[source].positions[position].message.id;
            self.ledger.violation(format!("VANISHED at the limit of source {source}: position {position}, id {id}"));
        } else {
            self.ledger.stats.excused += 1;
        }
    }

    pub(super) fn is_settled(&self) -> bool {
        let is_empty = self.store.read(|tables| tables.inbox.rows.is_empty() && tables.inbox.takes.is_empty());
        self.late.is_empty() && is_empty && self.brokers.iter().all(Broker::is_settled)
    }
}
