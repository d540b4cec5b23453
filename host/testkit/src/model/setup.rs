//! What differs from run to run: bounds, shards, what may happen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use waybill_core::ids::ShardId;
use waybill_core::limits::{COMMIT_BYTES_MAX, SchedulerLimits};
use waybill_core::outbox::door_watch::DoorTimes;
use waybill_core::outbox::owner::{OwnerConfig, Routing, TransportId};
use waybill_core::outbox::rates::{Bounded, Rate};
use waybill_core::outbox::suspicion::Caution;
use waybill_core::route::{Pattern, Route, Routes};

use super::options::{Mutation, Options};
use super::rates::rates;
use super::rng::Rng;
use super::store::SHARDS_MAX;

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
    life_max: Duration::from_millis(150),
};
/// Largest commit that a bounded store takes: enough for what goes in however full a commit is. Bytes.
const STORE_BYTES: usize = 16 * 1024;
/// Where messages go: two transports, three destinations.
pub(super) const TOPICS: [&str; 3] = ["bus:a.one", "bus:a.two", "bus:b.one"];

/// What differs from run to run.
pub(super) struct Setup {
    pub config: OwnerConfig,
    /// The store takes no larger commits.
    pub store_bytes: Option<usize>,
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
    /// What a process may send a second.
    pub rates: Vec<(Bounded, Rate)>,
    pub mutation: Option<Mutation>,
}

impl Setup {
    /// What a seed draws. What isn't drawn by `rng` leaves the schedules of other seeds what they are.
    pub(super) fn draw(rng: &mut Rng, seed: u64, hosts: u64, options: &Options) -> Self {
        let external = (seed % 3 == 1).then_some(TransportId(1));
        // Not the first ones: they run on stores, too, that can't be bounded.
        let store_bytes = (seed % 7 == 3 && seed > 200).then_some(STORE_BYTES);
        let limits = SchedulerLimits {
            window_messages: 10,
            window_bytes: 1 << 20,
            key_messages: 3,
            open_segments: 4,
            resume_points: 2 + usize::try_from(rng.below(3)).unwrap_or(0),
            door_page: 3,
            scheduled_page: 3,
            settle_max: 8,
            // Few messages fill a commit.
            commit_bytes: if store_bytes.is_some() { 2_048 << (seed % 3) } else { COMMIT_BYTES_MAX },
        };
        let config = OwnerConfig {
            shard: ShardId(0),
            host: "model".to_owned(),
            shards: shards(seed),
            limits,
            owner_ttl: Duration::from_millis(OWNER_TTL),
            parked_per_tenant: 2 + usize::try_from(rng.below(4)).unwrap_or(0),
            dead_holds_key: rng.percent(25),
            tx_events: true,
            weights: BTreeMap::new(),
            routing: Arc::new(Routing { external, ..routing(0) }),
            // Each process has its own.
            rates: Arc::default(),
            caution: CAUTION,
            rules: options.rules(),
        };
        Self {
            config,
            store_bytes,
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
            rates: if seed % 8 == 5 { rates() } else { Vec::new() },
            mutation: options.mutation,
        }
    }

    /// How many shards there are.
    pub(super) fn shards(&self) -> u16 {
        self.config.shards
    }

    pub(super) fn each_shard(&self) -> impl Iterator<Item = ShardId> + use<> {
        (0..self.shards()).map(ShardId)
    }

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

/// How many shards a seed draws: most have one, where schedules are the densest.
fn shards(seed: u64) -> u16 {
    match seed % 19 {
        0..14 => 1,
        14..17 => 2,
        _ => SHARDS_MAX,
    }
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
