//! The simulated world: time, hosts, clients, commits on their way, receivers.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::Seq;
use waybill_core::limits::{COMMIT_BYTES_MAX, SchedulerLimits};
use waybill_core::message::Message;
use waybill_core::outbox::door_watch::DoorTimes;
use waybill_core::outbox::owner::{OwnerConfig, Routing, TransportId};
use waybill_core::outbox::records::DoorKey;
use waybill_core::outbox::suspicion::Caution;
use waybill_core::port::store::{OwnerCommit, StoreError};
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::{Monotonic, Now, UnixMillis};

use super::host::Host;
use super::ledger::{Ledger, number_of};
use super::options::{Mutation, Options, Outcome};
use super::past::Past;
use super::rng::Rng;
use super::stats::Stats;
use super::store::{ModelStore, SHARD, Store};
use super::suspicion::Trials;

/// Wall clock at step 0, in milliseconds. One step is a millisecond.
pub(super) const WALL_START: u64 = 1_700_000_000_000;
/// An owner stops sending this long after its last good commit began, in steps.
pub(super) const OWNER_TTL: u64 = 60;
/// A rival waits this long for a beat, in steps.
pub(super) const OBSERVER_TTL: u64 = 110;
/// In steps, as everything else here.
pub(super) const CAUTION: Caution = Caution {
    first: Duration::from_millis(400),
    longest: Duration::from_millis(3_000),
    forget: Duration::from_millis(2_500),
    quiet: Duration::from_millis(20),
};
/// Steps with faults and clients.
const HECTIC_STEPS: u64 = 1_500;
/// Steps without, at most: everything has to come to its end.
const CALM_STEPS: u64 = 20_000;
/// Largest commit that a bounded store takes: enough for what goes in however full a commit is.
const STORE_BYTES: usize = 16 * 1024;
/// Makes other dice of a seed.
const SPOILS: u64 = 0x5B01_17D1_5C00_0000;
/// Where messages go: two transports, three destinations.
pub(super) const TOPICS: [&str; 3] = ["bus:a.one", "bus:a.two", "bus:b.one"];

/// A client's transaction with doorstep rows, not committed yet.
pub(super) struct ClientTransaction {
    pub rows: Vec<(DoorKey, Vec<Arc<Message>>)>,
    pub commit_at: u64,
}

/// What differs from run to run.
pub(super) struct Setup {
    pub config: OwnerConfig,
    /// One host on a store of its own: no rival, no commit after its death.
    pub exclusive: bool,
    /// Doorstep passes at a wake-up start this far back; none = every pass is a full one.
    pub late_window: Option<u64>,
    pub skew_ms: u64,
    /// Operators change the routes.
    pub reroutes: bool,
    /// In this time, processes are killed over and over.
    pub storm: std::ops::Range<u64>,
    /// Wall clocks are set back and forward; that of a store in the same process with them.
    pub clock_steps: bool,
    /// Reads fail now and then.
    pub reads_fail: bool,
    /// Another start may have other bounds.
    pub other_bounds: bool,
    /// History is removed while the owner works.
    pub retention: bool,
    /// The store is put back to what it was, once.
    pub goes_back: bool,
    /// A bad disk spoils rows.
    pub spoils: bool,
    /// Calls that a lane takes at once; none = they aren't counted.
    pub calls: Option<u32>,
    /// A drain begins with the refusal of all requests that wait, as the engine's does. In other runs nobody gets to it.
    pub refuses_all: bool,
    pub mutation: Option<Mutation>,
}

impl Setup {
    /// How the doorstep is watched.
    pub(super) fn door_times(&self) -> DoorTimes {
        let every_pass_is_full = self.late_window.is_none();
        DoorTimes {
            late_window: Duration::from_millis(self.late_window.unwrap_or(0)),
            full_every: Duration::from_millis(if every_pass_is_full { 0 } else { 200 }),
            quiet_every: Duration::from_millis(1_000),
            // Drawn: see `Driver`.
            poll: (!self.exclusive).then_some(Duration::MAX),
        }
    }
}

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
    pub leases: BTreeMap<Seq, (u64, u64)>,
    /// Ownerships whose process died.
    pub deaths: BTreeSet<u64>,
    pub trials: Trials,
    /// The latest ownership of the process whose commit is applied.
    pub taker: Option<u64>,
    pub stats: Stats,
    pub calm: bool,
    /// Error of the clock that stamps doorstep rows, in milliseconds.
    pub ahead: i64,
    /// The latest stamp that the process of an embedded store gave out.
    pub stamped: u64,
    pub past: Past<S>,
    tracing: bool,
    trace: Vec<String>,
}

/// How many routings there are.
pub(super) const ROUTES: u64 = 6;

/// The routing of the beginning (0), and others: swapped, with a topic or all that nobody takes, with other lanes.
pub(super) fn routing(number: u64) -> Routing {
    let route =
        |pattern: &str, transport: &str| Pattern::parse(pattern).ok().map(|pattern| Route::new(pattern, transport));
    let (routes, lanes) = match number {
        0 => (vec![route("bus:a.**", "a"), route("bus:b.**", "b")], vec![2, 1]),
        1 => (vec![route("bus:a.**", "b"), route("bus:b.**", "a")], vec![2, 1]),
        2 => (vec![route("bus:a.**", "a")], vec![1, 1]),
        3 => (vec![route("bus:a.one", "b"), route("bus:a.**", "a"), route("bus:b.**", "b")], vec![2, 1]),
        4 => (vec![route("bus:**", "a")], vec![2, 1]),
        _ => (Vec::new(), vec![2, 1]),
    };
    Routing {
        routes: Routes(routes.into_iter().flatten().collect()),
        transports: vec!["a".to_owned(), "b".to_owned()],
        lanes,
        external: None,
    }
}

impl<S: ModelStore> World<S> {
    pub fn new(store: S, seed: u64, options: &Options) -> Self {
        let mut rng = Rng::new(seed);
        let hosts = 1 + rng.below(3);
        let is_bounded = seed % 7 == 3 && seed > 200;
        // Not drawn, so that the schedules of other seeds stay what they are.
        let external = (seed % 3 == 1).then_some(TransportId(1));
        let limits = SchedulerLimits {
            window_messages: 10,
            window_bytes: 1 << 20,
            key_messages: 3,
            open_segments: 4,
            resume_points: 2 + usize::try_from(rng.below(3)).unwrap_or(0),
            door_page: 3,
            scheduled_page: 3,
            settle_max: 8,
            // Few messages fill a commit; not the first seeds: they run on stores, too, that can't be bounded.
            commit_bytes: if is_bounded { 2_048 << (seed % 3) } else { COMMIT_BYTES_MAX },
        };
        if is_bounded {
            store.bound_commits(STORE_BYTES);
        }
        let config = OwnerConfig {
            shard: SHARD,
            host: "model".to_owned(),
            shards: 1,
            limits,
            owner_ttl: Duration::from_millis(OWNER_TTL),
            parked_per_tenant: 2 + usize::try_from(rng.below(4)).unwrap_or(0),
            dead_holds_key: rng.percent(25),
            weights: BTreeMap::new(),
            routing: Arc::new(Routing { external, ..routing(0) }),
            caution: CAUTION,
            rules: options.rules(),
        };
        let setup = Setup {
            config,
            exclusive: hosts == 1 && rng.percent(50),
            late_window: rng.percent(50).then_some(300),
            skew_ms: options.skew_ms(),
            reroutes: seed % 4 >= 2,
            storm: if seed % 5 == 2 { 500..900 } else { 0..0 },
            clock_steps: seed % 5 == 2,
            reads_fail: seed % 5 == 3,
            other_bounds: seed % 7 == 4,
            retention: seed % 6 == 5,
            // Not the first ones: they run on stores, too, that can't be put back.
            goes_back: seed % 16 == 9 && seed > 200,
            spoils: seed % 11 == 6 && seed % 16 != 9 && seed > 200,
            calls: (seed % 13 == 7).then_some(if seed.is_multiple_of(2) { 1 } else { 2 }),
            refuses_all: seed % 17 == 11,
            mutation: options.mutation,
        };
        let spoils = Rng::new(seed ^ SPOILS);
        let skewed = rng.percent(50);
        let hosts = (0..hosts).map(|_| Host::new(&mut rng, skewed)).collect();
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
            trials: Trials::default(),
            taker: None,
            stats: Stats::default(),
            calm: false,
            ahead: 0,
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

    /// Applies an owner's or a rival's commit to the store, and books it.
    pub fn apply(&mut self, commit: &OwnerCommit) -> Result<(), StoreError> {
        let current = self.ledger.record.token;
        let result = self.store.commit(commit);
        let now = self.now;
        self.note(|_| {
            let what: Vec<String> = commit.writes.iter().map(brief).collect();
            format!(
                "commit token {} beat {}->{} open {:?} {:?}: {} -> {result:?}",
                commit.record.token,
                commit.expect_beat,
                commit.record.beat,
                commit.record.open,
                commit.record.suspicion,
                what.join(" ")
            )
        });
        match &result {
            Ok(()) => {
                let next = commit.record.token;
                if next != current && (next != current + 1 || commit.expect_token != current) {
                    self.violation(format!("a stale owner committed with token {next}, {current} is current"));
                }
                self.stats.commits += 1;
                self.judge_suspicion(commit);
                self.ledger.book(commit, now, &mut self.stats);
                self.judge_suspects();
            }
            Err(StoreError::Conflict(_)) => self.stats.conflicts += 1,
            Err(StoreError::Exists(_)) => self.stats.id_races += 1,
            Err(StoreError::TooLarge) => self.stats.too_large += 1,
            Err(_) => {}
        }
        result
    }

    /// A commit whose sender doesn't hear of it any more.
    pub fn give_up(&mut self, commit: OwnerCommit) {
        match self.rng.below(3) {
            0 => drop(self.apply(&commit)),
            1 if !self.setup.exclusive => {
                let at = self.now + self.rng.below(150);
                self.limbo.push((at, commit));
            }
            _ => {}
        }
    }

    fn commit_clients(&mut self) {
        let up = self.hosts.iter().any(|host| host.up);
        if self.setup.exclusive && !up {
            self.clients.clear();
        }
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.clients).into_iter().partition(|client| client.commit_at <= now);
        self.clients = later;
        for client in due {
            if !self.rng.percent(95) {
                continue;
            }
            for (key, messages) in &client.rows {
                let numbers = messages.iter().map(|message| number_of(message)).collect();
                self.note(|_| format!("door {key:?} {numbers:?}"));
                self.ledger.put_door(key.clone(), numbers, now, &mut self.stats);
            }
            self.store.put_door(client.rows);
            self.bell += 1;
        }
    }

    fn commit_late(&mut self) {
        let now = self.now;
        let (due, later) = std::mem::take(&mut self.limbo).into_iter().partition::<Vec<_>, _>(|(at, _)| *at <= now);
        self.limbo = later;
        for (_, commit) in due {
            if self.rng.percent(70) && self.apply(&commit).is_ok() {
                self.stats.late += 1;
            }
        }
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

/// A write in a few characters, for the trace.
fn brief(write: &waybill_core::port::store::Write) -> String {
    use waybill_core::port::store::Write;
    match write {
        Write::PutSegment(segment) => {
            let numbers: Vec<usize> = segment.entries.iter().map(|entry| number_of(&entry.message)).collect();
            format!("segment {}={numbers:?}", segment.first)
        }
        Write::DeleteSegment(first) => format!("-segment {first}"),
        Write::PutParked(parked) => {
            format!(
                "park {}={} due {} claimed {}",
                parked.place.seq(),
                number_of(&parked.message),
                parked.due.0.cast_signed() - WALL_START.cast_signed(),
                parked.claimed
            )
        }
        Write::DeleteParked(seq) => format!("-park {seq}"),
        Write::PutDead(dead) => format!("dead {}", number_of(&dead.message)),
        Write::PutHistory(chunk) => {
            let numbers: Vec<usize> = chunk.entries.iter().map(|done| number_of(&done.message)).collect();
            format!("history {}={numbers:?}", chunk.segment)
        }
        Write::PutScheduled(scheduled) => format!("schedule {}", number_of(&scheduled.message)),
        Write::DeleteDoor(key) => format!("-door {}", (key.nanos / 1_000_000).cast_signed() - WALL_START.cast_signed()),
        Write::PutId { .. } => "id".to_owned(),
        other => format!("{other:?}"),
    }
}
