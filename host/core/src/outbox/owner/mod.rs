//! The owner of a shard: the one writer of its order (`architecture.md`, Owner commit).
//!
//! A pure state machine. Its driver (the engine, or the model checker) feeds it requests, settlements, pages it asked
//! for and the fate of its commits, and carries out what it answers: commits to try, pages to read, messages to send.
//! At most one commit is outstanding. Nothing is sent that isn't durably claimed, and a key moves on only when the
//! settlement before is known to be committed.
//!
//! Each part keeps its own rules, which stand beside its fields. `Owner` puts the parts together.
//!
//! | file | holds |
//! |---|---|
//! | `takeover` | the first commits: a new token, what the last owner had named made suspect if its process died |
//! | `enqueue` | requests that wait for a commit; doorstep and schedule pages |
//! | `window` | part: the directory, what is read ahead, what to read next |
//! | `scan` | bringing messages to memory |
//! | `resume` | skipped messages: reading them again, forgetting what can't be sent for now |
//! | `keys` | part: which message of a key goes first |
//! | `ready` | what an idle message waits for: its key, a hold, a claim, its turn |
//! | `reroute` | another set of routes and transports while messages wait |
//! | `holds` | part: all holds, found without going through them |
//! | `hold` | destinations, transports and missing routes that hold messages back |
//! | `scheduler` | part: lists of idle messages; whose turn it is |
//! | `rated` | what rates let go, and what waits for them |
//! | `sends` | handing messages to lanes |
//! | `naming` | part: after a crash, what is about to be sent is named first |
//! | `trial` | part: suspects, narrowed by halves, beside everything else |
//! | `outside` | messages that workers claim and settle from outside |
//! | `settle` | what became of a send |
//! | `commands` | what operators ask: cancel, reschedule, replay, quarantine, purge |
//! | `next_commit` | part: what waits for the next commit |
//! | `build` | the next commit |
//! | `flight` | the commit that is out |
//! | `outcome` | a commit's fate: applied, not applied, unknown, lost |
//! | `release` | giving the shard back |
//! | `driver` | what a driver asks for beside the protocol |
//! | `inspect` | counts and reasons for people |
//! | `neighbours` | who goes before a message of its key, and who behind it |
//! | `waits` | how much waits, by transport alone |
//! | `invariants` | what the parts must agree on, for tests |

mod build;
mod commands;
mod driver;
mod enqueue;
mod flight;
mod hold;
mod holds;
mod inspect;
mod invariants;
mod keys;
mod naming;
mod neighbours;
mod next_commit;
mod outcome;
mod outside;
mod rated;
mod ready;
mod release;
mod reroute;
mod resume;
mod rules;
mod scan;
mod scheduler;
mod sends;
mod settle;
mod slots;
mod spread;
mod takeover;
#[cfg(test)]
mod tests;
mod trial;
mod waits;
mod window;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

pub use build::Built;
pub use commands::{Command, CommandError, CommandId};
pub use hold::HoldKey;
pub(crate) use holds::prefixes;
pub use inspect::{Depths, HeldKey, HoldInfo, WaitKind, WhyWaiting};
pub use neighbours::{NEIGHBOURS_MAX, Neighbour, Neighbours};
pub use next_commit::{DirectRequest, DoorPage, DoorPassRequest, ExistingId, Ticket};
pub use outcome::{Applied, Resolution};
pub use outside::{Claim, Claimed, Lease, LeaseInfo};
pub use rated::RateInfo;
pub use rules::{Rule, Rules};
pub use sends::Sending;
pub use settle::{Settlement, Verdict};
pub use takeover::{TakeoverInput, has_died, takeover, takeover_reads};
pub use waits::Waits;
pub use window::{LoadPurpose, LoadRequest};

use crate::ids::{Seq, ShardId, Tenant};
use crate::limits::SchedulerLimits;
use crate::outbox::rates::Rates;
use crate::outbox::records::{DeadLetter, Parked, ShardRecord};
use crate::outbox::suspicion::Caution;
use crate::route::Routes;
use crate::time::{Monotonic, Now};
use flight::Flight;
use holds::Holds;
use keys::Keys;
use naming::Naming;
use next_commit::NextCommit;
use outside::Outside;
use rated::RatedLane;
use scheduler::{Lane, Scheduler};
use slots::Slot;
use spread::Spread;
use trial::Trial;
use window::Window;

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
    pub shard: ShardId,
    /// Name of this host in the shard record and in attempts.
    pub host: String,
    /// How many shards there are: strays on the doorstep are forwarded.
    pub shards: u16,
    pub limits: SchedulerLimits,
    /// Sends stop this long after the start of the last good commit.
    pub owner_ttl: Duration,
    /// Parked messages of one tenant past which none of its fresh messages are sent.
    pub parked_per_tenant: usize,
    /// A dead letter keeps its key (`on_dead = "hold_key"`).
    pub dead_holds_key: bool,
    /// Commits write audit events of their messages.
    pub tx_events: bool,
    /// Turn weights; a tenant not named has 1.
    pub weights: BTreeMap<Tenant, u32>,
    pub routing: Arc<Routing>,
    /// Rates that all shards of this process share.
    pub rates: Arc<Rates>,
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
    pub parked: Vec<Arc<Parked>>,
    /// Dead letters that hold their key.
    pub held: Vec<Arc<DeadLetter>>,
}

/// The owner of one shard.
///
/// `record` is what the last commit said that is known to be in, and all of memory agrees with it: a message is claimed, named or
/// held by a dead letter when that stands in the store. What the commit that is out would change waits in `flight`.
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
    /// The owner is giving the shard back: no new sends or claims.
    releasing: bool,
    /// Counts routings: a message found by an earlier one is routed anew when it is idle.
    routed: u32,
    /// Lanes that wait for a rate.
    rated: BTreeMap<Lane, RatedLane>,
    /// Every message in memory.
    slots: HashMap<Seq, Slot, Spread>,
    window: Window,
    keys: Keys,
    scheduler: Scheduler,
    holds: Holds,
    naming: Naming,
    trial: Trial,
    outside: Outside,
    next: NextCommit,
    flight: Flight,
}

impl Owner {
    /// Begins an ownership. `taken_at` is when the takeover commit was started.
    pub fn new(config: OwnerConfig, adopted: Adopted, taken_at: Monotonic, now: Now) -> Self {
        let cautious_until = taken_at + config.caution.lasts(&adopted.record.suspicion);
        let mut owner = Self {
            deadline: taken_at + config.owner_ttl,
            taken_at,
            adopted_at: now.mono,
            cautious_until,
            releasing: false,
            routed: 0,
            rated: BTreeMap::new(),
            slots: HashMap::default(),
            window: Window::new(config.limits, adopted.record.floor),
            keys: Keys::default(),
            scheduler: Scheduler::new(config.parked_per_tenant),
            holds: Holds::default(),
            naming: Naming::new(now.mono < cautious_until),
            trial: Trial::new(adopted.record.suspicion.halves()),
            outside: Outside::default(),
            next: NextCommit::new(config.limits.commit_bytes),
            flight: Flight::default(),
            record: adopted.record,
            config,
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

    pub fn config(&self) -> &OwnerConfig {
        &self.config
    }

    /// Whether a commit is outstanding.
    pub fn in_flight(&self) -> bool {
        !self.flight.is_idle()
    }

    fn weight_of(&self, tenant: &Tenant) -> u32 {
        self.config.weights.get(tenant).copied().unwrap_or(1).max(1)
    }

    fn is_rule_kept(&self, rule: Rule) -> bool {
        self.config.rules.kept(rule)
    }

    /// A dead letter holds its key.
    fn hold_key(&mut self, dead: Arc<DeadLetter>) {
        if dead.message.key.is_some() {
            self.window.may_free(&dead.message.tenant);
        }
        self.keys.hold(dead);
    }
}
