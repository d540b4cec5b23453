//! The owner of a shard: the one writer of its order (`architecture.md`, Owner commit).
//!
//! A pure state machine. Its driver (the engine, or the model checker) feeds it requests, settlements, pages it asked
//! for and the fate of its commits, and carries out what it answers: commits to try, pages to read, messages to send.
//! At most one commit is outstanding. Nothing is sent that isn't durably claimed, and a key moves on only when the
//! settlement before is known to be committed.
//!
//! | file | holds |
//! |---|---|
//! | `takeover` | the first commits: a new token, what the last owner had named made suspect if its process died |
//! | `enqueue` | requests that wait for a commit; doorstep and schedule pages |
//! | `window` | what is in memory: directory, room, what to read next |
//! | `scan` | bringing messages to memory |
//! | `resume` | skipped messages: reading them again, forgetting what can't be sent for now |
//! | `ready` | what an idle message waits for: its key, a hold, a claim, its turn |
//! | `reroute` | another set of routes and transports while messages wait |
//! | `holds` | all of them, found without going through them |
//! | `hold` | destinations, transports and missing routes that hold messages back |
//! | `turns` | who may send next: tenants in weighted turn |
//! | `naming` | after a crash: what is about to be sent is named first |
//! | `trial` | suspects: narrowed by halves, beside everything else |
//! | `outside` | messages that workers claim and settle from outside |
//! | `settle` | what became of a send |
//! | `commands` | what operators ask: cancel, reschedule, replay, quarantine, purge |
//! | `build` | the next commit |
//! | `commit_bytes` | how large it may be |
//! | `outcome` | a commit's fate: applied, not applied, unknown, lost |
//! | `driver` | what a driver asks for beside the protocol |
//! | `inspect` | counts and reasons for people |
//! | `invariants` | what the lists must agree on, for tests |

mod build;
mod commands;
mod commit_bytes;
mod driver;
mod enqueue;
mod hold;
mod holds;
mod inspect;
mod invariants;
mod naming;
mod outcome;
mod outside;
mod pending;
mod ready;
mod reroute;
mod resume;
mod rules;
mod scan;
mod settle;
mod slots;
mod spread;
mod takeover;
#[cfg(test)]
mod tests;
mod trial;
mod turns;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use build::Built;
pub use commands::{Command, CommandError, CommandId};
pub use enqueue::{DirectRequest, DoorPage, DoorPassRequest, ExistingId, Ticket};
pub use hold::{Hold, HoldKey};
pub use inspect::{Depths, HeldKey, HoldInfo, WhyWaiting};
pub use outcome::{Applied, Resolution};
pub use outside::{Claim, Claimed, Lease, LeaseInfo};
pub use rules::{Rule, Rules};
pub use settle::{Settlement, Verdict};
pub use takeover::{TakeoverInput, has_died, takeover, takeover_reads};
pub use turns::Sending;
pub use window::{LoadPurpose, LoadRequest};

use crate::ids::{KeyHash, Seq, ShardId, Tenant};
use crate::limits::SchedulerLimits;
use crate::outbox::records::{DeadLetter, Parked, Scheduled, ShardRecord};
use crate::outbox::suspicion::Caution;
use crate::route::Routes;
use crate::time::{Monotonic, Now};
use build::Flight;
use commands::QueuedCommand;
use commit_bytes::CommitBytes;
use enqueue::{DoorState, ScheduledState};
use holds::Holds;
use naming::Naming;
use slots::{LoadedSegment, Slot};
use spread::Spread;
use trial::Trial;
use turns::ReadyQueue;
use window::TenantWindow;

/// Number of a transport in [`Routing::transports`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransportId(pub u16);

/// Routes with their transports numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routing {
    /// Routes in order; each names one of `transports`.
    pub routes: Routes,
    /// Names of the transports.
    pub transports: Vec<String>,
    /// Lanes of each transport; missing = 1.
    pub lanes: Vec<u32>,
    /// The one whose messages workers claim from outside.
    pub external: Option<TransportId>,
}

impl Routing {
    /// The transport that takes a topic.
    pub fn transport_of(&self, topic: &crate::topic::Topic) -> Option<TransportId> {
        let route = self.routes.find(topic)?;
        let index = self.transports.iter().position(|name| *name == route.transport)?;
        u16::try_from(index).ok().map(TransportId)
    }
    /// Name of a transport.
    pub fn name(&self, transport: TransportId) -> Option<&str> {
        self.transports.get(usize::from(transport.0)).map(String::as_str)
    }
    /// Lanes over which a transport's keys are spread; at least 1.
    pub fn lanes_of(&self, transport: TransportId) -> u32 {
        self.lanes.get(usize::from(transport.0)).copied().unwrap_or(1).max(1)
    }
}

/// Settings of an owner.
#[derive(Clone, Debug)]
pub struct OwnerConfig {
    /// Shard.
    pub shard: ShardId,
    /// Name of this host in the shard record and in attempts.
    pub host: String,
    /// How many shards there are: strays on the doorstep are forwarded.
    pub shards: u16,
    /// Bounds.
    pub limits: SchedulerLimits,
    /// Sends stop this long after the start of the last good commit.
    pub owner_ttl: Duration,
    /// Parked messages of one tenant past which none of its fresh messages are sent.
    pub parked_per_tenant: usize,
    /// A dead letter keeps its key (`on_dead = "hold_key"`).
    pub dead_holds_key: bool,
    /// Turn weights; a tenant not named has 1.
    pub weights: BTreeMap<Tenant, u32>,
    /// Routes.
    pub routing: Arc<Routing>,
    /// How long an owner is cautious after a crash.
    pub caution: Caution,
    /// Every protocol rule holds, but in the model checker's mutations.
    pub rules: Rules,
}

/// What the store says at the start of an ownership, after the takeover commit went in.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// The record as committed by the takeover.
    pub record: ShardRecord,
    /// Every parked message.
    pub parked: Vec<Arc<Parked>>,
    /// Dead letters that hold their key.
    pub held: Vec<Arc<DeadLetter>>,
}

/// The owner of one shard.
#[derive(Debug)]
pub struct Owner {
    config: OwnerConfig,
    /// As last known committed.
    record: ShardRecord,
    /// Sends stop at this instant.
    deadline: Monotonic,
    taken_at: Monotonic,
    /// When what the takeover found was in memory: from then on the owner lives.
    adopted_at: Monotonic,
    /// What is sent before this instant is named first.
    cautious_until: Monotonic,
    naming: Naming,
    trial: Trial,
    flight: Flight,
    /// Every message in memory.
    slots: HashMap<Seq, Slot, Spread>,
    /// Keys with messages in memory.
    keys: HashMap<KeyHash, slots::KeyQueue, Spread>,
    /// Keys fenced by a dead letter (`hold_key`).
    held_keys: HashMap<KeyHash, BTreeMap<Seq, Arc<DeadLetter>>>,
    /// Segments in memory.
    segments: BTreeMap<Seq, LoadedSegment>,
    /// Directory and read-ahead, tenant by tenant.
    windows: BTreeMap<Tenant, TenantWindow>,
    /// Segments in all directories.
    stored: BTreeSet<Seq>,
    /// Tenants with segments in the store.
    busy_tenants: usize,
    /// Tenants for which something may be worth reading, and whose turn it was last.
    load_wanted: BTreeSet<Tenant>,
    load_turn: Option<Tenant>,
    /// Everything below this seq is in the directory.
    directory_until: Seq,
    directory_done: bool,
    loading: bool,
    /// The read that is under way was asked for before the scan was set back: its page isn't taken.
    page_is_stale: bool,
    /// Counts routings: a message found by an earlier one is routed anew when it is idle.
    routed: u32,
    window_messages: usize,
    window_bytes: usize,
    /// Segments that can't be decoded, to be moved to quarantine.
    corrupt: Vec<(Seq, String)>,
    ready: BTreeMap<(TransportId, u32), ReadyQueue>,
    /// Parked heads that are due and need a claim first.
    want_parked: BTreeSet<Seq>,
    /// Heads that are due and whose segment needs a claim first, by segment.
    want_segments: BTreeMap<Seq, BTreeSet<Seq>>,
    /// Those segments by tenant.
    want_by_tenant: BTreeMap<Tenant, BTreeSet<Seq>>,
    /// Heads of tenants with too many retries waiting.
    stalled: BTreeSet<Seq>,
    /// Heads whose time comes later.
    timers: BTreeSet<(Monotonic, Seq)>,
    holds: Holds,
    /// Sends begun and not settled.
    flying: usize,
    outside: outside::Outside,
    /// Slots whose settlement waits for a commit, oldest first.
    outs: VecDeque<Seq>,
    directs: VecDeque<enqueue::WaitingDirect>,
    /// Callers' ids in those, and in the commit that is out.
    pending_ids: pending::PendingIds,
    direct_bytes: usize,
    commands: VecDeque<QueuedCommand>,
    door: DoorState,
    scheduled: ScheduledState,
    parked_count: BTreeMap<Tenant, usize>,
    /// The owner is giving the shard back: no new sends or claims.
    releasing: bool,
    commit_bytes: CommitBytes,
    /// There may be claimed segments that are finished and had no room in a commit.
    finish_more: bool,
}

impl Owner {
    /// Begins an ownership. `taken_at` is when the takeover commit was started.
    pub fn new(config: OwnerConfig, adopted: Adopted, taken_at: Monotonic, now: Now) -> Self {
        let deadline = taken_at + config.owner_ttl;
        let cautious_until = taken_at + config.caution.lasts(&adopted.record.suspicion);
        let mut owner = Self {
            taken_at,
            adopted_at: now.mono,
            cautious_until,
            naming: Naming::new(now.mono < cautious_until),
            trial: Trial::new(adopted.record.suspicion.halves()),
            directory_until: adopted.record.floor,
            record: adopted.record,
            deadline,
            commit_bytes: CommitBytes::new(config.limits.commit_bytes),
            finish_more: false,
            config,
            flight: Flight::Idle,
            slots: HashMap::default(),
            keys: HashMap::default(),
            held_keys: HashMap::new(),
            segments: BTreeMap::new(),
            windows: BTreeMap::new(),
            stored: BTreeSet::new(),
            busy_tenants: 0,
            load_wanted: BTreeSet::new(),
            load_turn: None,
            directory_done: false,
            loading: false,
            page_is_stale: false,
            routed: 0,
            window_messages: 0,
            window_bytes: 0,
            corrupt: Vec::new(),
            ready: BTreeMap::new(),
            want_parked: BTreeSet::new(),
            want_segments: BTreeMap::new(),
            want_by_tenant: BTreeMap::new(),
            stalled: BTreeSet::new(),
            timers: BTreeSet::new(),
            holds: Holds::default(),
            flying: 0,
            outside: outside::Outside::default(),
            outs: VecDeque::new(),
            directs: VecDeque::new(),
            pending_ids: pending::PendingIds::default(),
            direct_bytes: 0,
            commands: VecDeque::new(),
            door: DoorState::default(),
            scheduled: ScheduledState::default(),
            parked_count: BTreeMap::new(),
            releasing: false,
        };
        owner.hold_unclaimed(now);
        for dead in adopted.held {
            owner.hold_key(dead);
        }
        for parked in adopted.parked {
            owner.insert_parked(&parked, now);
        }
        owner
    }

    /// Its shard.
    pub fn shard(&self) -> ShardId {
        self.config.shard
    }

    /// The fencing token of this ownership.
    pub fn token(&self) -> u64 {
        self.record.token
    }

    /// The record as last known committed.
    pub fn record(&self) -> &ShardRecord {
        &self.record
    }

    /// Until when sends may begin.
    pub fn deadline(&self) -> Monotonic {
        self.deadline
    }

    /// Settings.
    pub fn config(&self) -> &OwnerConfig {
        &self.config
    }

    /// Whether a commit is outstanding.
    pub fn in_flight(&self) -> bool {
        !matches!(self.flight, Flight::Idle)
    }

    fn weight_of(&self, tenant: &Tenant) -> u32 {
        self.config.weights.get(tenant).copied().unwrap_or(1).max(1)
    }

    fn is_rule_kept(&self, rule: Rule) -> bool {
        self.config.rules.kept(rule)
    }

    /// A dead letter holds its key.
    fn hold_key(&mut self, dead: Arc<DeadLetter>) {
        let Some(key) = dead.message.key.as_ref().map(|key| KeyHash::of(&dead.message.tenant, key)) else { return };
        if let Some(window) = self.windows.get_mut(&dead.message.tenant) {
            window.may_free = true;
        }
        self.held_keys.entry(key).or_default().insert(dead.place.seq(), dead);
    }

    /// A dead letter holds its key no longer, if it did. Its key, if so.
    fn release_key(&mut self, dead: &DeadLetter) -> Option<KeyHash> {
        let key = KeyHash::of(&dead.message.tenant, dead.message.key.as_ref()?);
        let holders = self.held_keys.get_mut(&key)?;
        holders.remove(&dead.place.seq())?;
        if holders.is_empty() {
            self.held_keys.remove(&key);
        }
        Some(key)
    }

    fn insert_scheduled_wake(&mut self, scheduled: &Scheduled) {
        let due = scheduled.due;
        if self.scheduled.next.is_none_or(|next| due < next) {
            self.scheduled.next = Some(due);
        }
    }
}
