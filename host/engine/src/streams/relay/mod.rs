//! From streams to brokers: what the pure [`waybill_core::streams::relay::Relay`] of a shard asks for is read, and what it gives is sent
//! through the transports.
//!
//! | file | holds |
//! |---|---|
//! | `state` | what the relays of all shards share: whether they run, what is in flight |
//! | `read` | feed, streams and windows that a relay wants |
//! | `send` | events through a transport |
//! | `lag` | how long it has been behind |
//! | `lane` | what waits for a lane of the transport |
//! | `answer` | what a broker's word means |
//! | `seek` | operators' wishes |
//! | `pauses` | which relays operators paused and which have stopped, at whichever host |

mod answer;
mod lag;
mod lane;
mod pauses;
mod read;
mod seek;
mod send;
mod state;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;
use waybill_core::ids::{RelayName, ShardId, Tenant};
use waybill_core::port::service::ServiceError;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::owner::StreamOwner;
use waybill_core::streams::records::StreamShardRecord;
use waybill_core::streams::relay::{Relay, RelaySettings};
use waybill_core::streams::settings::{RelayFrom, RelayPlan};
use waybill_core::streams::wire::{Broker, Mapping};
use waybill_core::time::Now;

use super::Shared;
use super::actor::Actor;
use crate::live::Live;

use lag::Lag;
use lane::Lane;
pub(super) use pauses::{follow_notes, read_notes, tell_stops};
pub(super) use read::RelayRead;
pub(super) use send::lane_of;
pub(crate) use state::{RelayState, RelayStates};

/// Settled events are made durable this often, or when there are so many of them.
const CHECKPOINT_EVERY: Duration = Duration::from_millis(100);
const CHECKPOINT_WORDS: usize = 1_000;
/// What is overdue though it could be sent waits for room that another shard leaves, and is looked at this often.
const OVERDUE_PAUSE: Duration = Duration::from_millis(10);

/// A relay of a shard by its section, at the shard's new owner.
pub(super) fn of_plan(plan: &RelayPlan, record: &StreamShardRecord) -> Relay {
    let settings = RelaySettings {
        order_by: plan.order_by,
        from_latest: plan.from == RelayFrom::Latest,
        holds: plan.hold_max.is_some(),
        in_flight_max: plan.in_flight_max,
        ..RelaySettings::new(plan.name.clone(), plan.streams.clone())
    };
    Relay::new(settings, record)
}

/// How its events become messages. A relay whose topic can't be used is stopped, also when somebody resumes it.
pub(super) fn mapping_of(plan: &RelayPlan, shared: &Shared) -> Option<Mapping> {
    let broker = shared.brokers.get(&plan.transport).copied().unwrap_or(Broker::Other);
    let mapping = Mapping::new(plan, broker);
    if let Err(error) = &mapping {
        shared.relays.of(&plan.name).stop(error.to_string());
    }
    mapping.ok()
}

/// Who waits for a seek.
struct Seek {
    stream: StreamKey,
    reply: oneshot::Sender<Result<(), ServiceError>>,
}

/// What drives a relay in one shard.
pub(crate) struct RelayDriver {
    pub plan: RelayPlan,
    pub state: Arc<RelayState>,
    /// None: its topic can't be used, and it is stopped.
    mapping: Option<Mapping>,
    /// Events under way in this shard, or waiting for a lane.
    out: usize,
    /// It has something to send and nothing in flight, and the other shards know that.
    is_hungry: bool,
    lanes: BTreeMap<u32, Lane>,
    /// Words that no commit holds, and since when there are some.
    words: usize,
    words_since: Option<Instant>,
    /// Words in the commit under way.
    drafted: usize,
    /// The transport was said to be at fault: nothing is sent before this.
    held_until: Option<Instant>,
    held_times: u32,
    /// The feed was read last, so windows are next.
    is_window_next: bool,
    /// Streams whose look brought nothing: they are looked at again after a while.
    stuck: HashMap<StreamKey, Instant>,
    seeks: Vec<Seek>,
    /// Events that the feed named, less those that were settled, by tenant, since it had caught up. Negative: they were sent before the
    /// feed was read.
    unsettled: BTreeMap<Tenant, i64>,
    lag: Lag,
}

impl RelayDriver {
    pub fn new(plan: &RelayPlan, shared: &Shared) -> Self {
        let state = shared.relays.of(&plan.name);
        Self {
            plan: plan.clone(),
            state,
            mapping: mapping_of(plan, shared),
            out: 0,
            is_hungry: false,
            lanes: BTreeMap::new(),
            words: 0,
            words_since: None,
            drafted: 0,
            held_until: None,
            held_times: 0,
            is_window_next: false,
            stuck: HashMap::new(),
            seeks: Vec::new(),
            unsettled: BTreeMap::new(),
            lag: Lag::default(),
        }
    }

    pub fn name(&self) -> &RelayName {
        &self.plan.name
    }

    /// Events that were named and aren't settled, as far as this ownership knows.
    pub fn lag_events(&self) -> u64 {
        self.unsettled.values().map(|count| u64::try_from(*count).unwrap_or(0)).sum()
    }

    /// The same of each tenant that has some.
    pub fn lag_by_tenant(&self) -> impl Iterator<Item = (&Tenant, u64)> {
        let counts = self.unsettled.iter().filter_map(|(tenant, count)| Some((tenant, u64::try_from(*count).ok()?)));
        counts.filter(|(_, count)| *count > 0)
    }

    /// The feed names events of a tenant, or some of his are settled (`change` is negative then).
    fn count_unsettled(&mut self, tenant: &Tenant, change: i64) {
        let count = self.unsettled.get(tenant).copied().unwrap_or(0).saturating_add(change);
        if count == 0 {
            self.unsettled.remove(tenant);
        } else {
            self.unsettled.insert(tenant.clone(), count);
        }
    }

    /// How long it has been behind.
    pub fn lag(&self) -> Option<Duration> {
        self.lag.time()
    }

    /// From when on it may send, as far as it and its transport are concerned. None: not before somebody has one of them go on, which rings.
    fn opens_at(&self, live: &Live) -> Option<Instant> {
        let transport = live.find(&self.plan.transport).filter(|(id, _)| !live.is_paused(*id));
        let is_open = transport.is_some() && self.mapping.is_some() && self.state.is_running();
        is_open.then(|| self.held_until.unwrap_or_else(Instant::now))
    }

    fn may_send(&self, live: &Live) -> bool {
        self.opens_at(live).is_some_and(|opens| opens <= Instant::now())
    }

    pub fn has_words(&self) -> bool {
        self.words > 0 || self.drafted > 0
    }

    fn word(&mut self) {
        self.words += 1;
        self.words_since.get_or_insert_with(Instant::now);
    }

    pub fn is_checkpoint_due(&self) -> bool {
        self.words >= CHECKPOINT_WORDS || self.words_since.is_some_and(|since| since.elapsed() >= CHECKPOINT_EVERY)
    }

    /// What there is was looked at: `is_out` = a commit holds all words so far, else none of them changed anything.
    pub fn drafted(&mut self, is_out: bool) {
        let words = std::mem::take(&mut self.words);
        self.drafted = if is_out { words } else { 0 };
        self.words_since = None;
    }

    /// The commit isn't in: its words go into the next one.
    pub fn undone(&mut self) {
        self.words += std::mem::take(&mut self.drafted);
        if self.words > 0 {
            self.words_since.get_or_insert_with(Instant::now);
        }
    }

    /// The commit that is out has come to something: what isn't in goes into the next one by itself.
    fn committed(&mut self) {
        self.drafted = 0;
    }

    /// Retention waits for it: it hasn't been behind for too long.
    fn is_waited_for(&self) -> bool {
        let hold_max = self.plan.hold_max.unwrap_or_default();
        self.lag().is_none_or(|lag| lag < hold_max)
    }

    /// What waits for a lane isn't sent any more: the ownership ends.
    fn stop_waiting(&self) {
        self.lanes.values().for_each(Lane::clear);
    }

    /// What it had in flight is nobody's any more.
    pub fn forget(&mut self) {
        self.state.give_back(std::mem::take(&mut self.out));
        self.note_hunger(false);
    }

    fn note_hunger(&mut self, is_hungry: bool) {
        if std::mem::replace(&mut self.is_hungry, is_hungry) != is_hungry {
            self.state.note_hunger(is_hungry);
        }
    }

    pub fn meter(&self, shard: ShardId, owner: &StreamOwner) {
        let behind = owner.relays().iter().find(|relay| relay.name() == self.name()).map_or(0, Relay::streams_behind);
        super::meter::relay(self.name(), shard, self.lag_events(), self.lag().unwrap_or_default(), behind);
        super::meter::in_flight(self.name(), self.state.in_flight.load(Ordering::Acquire));
    }

    /// The shard is another host's: what it lags there is told by that one.
    pub fn meter_nothing(&self, shard: ShardId) {
        super::meter::relay(self.name(), shard, 0, Duration::ZERO, 0);
    }
}

impl Actor {
    /// Relays that upkeep of a stream waits for.
    pub(super) fn holding(&self, stream: &StreamKey) -> Vec<RelayName> {
        let mut holding = self.owner.relays().holding(stream);
        holding.retain(|name| self.relays.iter().any(|relay| relay.name() == name && relay.is_waited_for()));
        holding
    }

    /// A commit is in: who waits for a seek is told.
    pub(super) fn committed_relays(&mut self) {
        for at in 0..self.relays.len() {
            if let Some(relay) = self.relays.get_mut(at) {
                relay.committed();
            }
            self.answer_seeks(at);
            self.note_lag(at);
        }
    }

    fn note_lag(&mut self, at: usize) {
        let Some(driver) = self.relays.get_mut(at) else { return };
        let name = driver.name().clone();
        let record = self.owner.record();
        let is_behind =
            self.owner.relays().iter().any(|relay| {
                relay.name() == &name && (relay.streams_behind() > 0 || relay.feed_wanted(record).is_some())
            });
        if is_behind {
            driver.lag.behind(record.marks.get(&name).copied().unwrap_or(0), record.pos);
        } else {
            driver.lag.caught_up();
            driver.unsettled.clear();
        }
    }

    /// When a relay can go on by itself.
    pub(super) fn next_relay_wake(&self, now: Now) -> Option<Instant> {
        let (start, live) = (Instant::now(), self.shared.context.live());
        let floor = start + OVERDUE_PAUSE;
        let due = self.owner.relays().iter().filter_map(|relay| {
            let driver = self.relays.iter().find(|driver| driver.name() == relay.name())?;
            let opens = driver.opens_at(&live)?;
            let due = start + (relay.next_due(now.mono)? - now.mono);
            Some(due.max(opens).max(floor))
        });
        let due = due.min();
        let words = self.relays.iter().filter_map(|relay| Some(relay.words_since? + CHECKPOINT_EVERY)).min();
        let held = self.relays.iter().filter_map(|relay| relay.held_until).filter(|until| *until > start).min();
        let reads = (self.relays_rest_until > start).then_some(self.relays_rest_until);
        [due, words.map(|words| words.max(floor)), held, reads].into_iter().flatten().min()
    }
}
