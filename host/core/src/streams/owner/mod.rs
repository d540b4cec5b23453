//! The owner of a shard's streams: who numbers what lies on the doorstep, and names in the feed what exact appenders numbered.
//!
//! A pure state machine. Its driver (the engine, or the model checker) reads what [`StreamOwner::plan`] asks for, in one snapshot, gives it
//! to [`StreamOwner::build`], tries the commit that comes of it, and tells its fate. At most one commit is outstanding.
//!
//! ```text
//! plan ──▶ door page, heads, ids ──▶ build ──▶ commit: guard │ heads │ adopt │ number │ chunk, head, feed, ids, rests │ door rows out
//!   ▲                                                │ moved, refused, proved not to be in: all of it again
//!   └──────────────── applied: answers, then what is published ◀──┘
//! ```
//!
//! A stream whose head moved goes alone, in every second commit, so that one which exact appenders hammer holds up no neighbour.
//!
//! | file | holds |
//! |---|---|
//! | `takeover` | the first commit: a new token |
//! | `door` | part: the pass over the doorstep, and direct appends |
//! | `heads` | part: what is known of streams |
//! | `turn` | part: which streams go alone |
//! | `rows` | what a commit takes of the doorstep and of direct appends |
//! | `number` | adopting and numbering in one stream |
//! | `build` | the next commit |
//! | `audit` | what the audit trail says of it |
//! | `draft` | a commit in the making |
//! | `outcome` | a commit's fate: applied, moved, not applied, unknown, lost |

mod audit;
mod build;
mod door;
mod draft;
mod heads;
mod number;
mod outcome;
mod rows;
mod takeover;
#[cfg(test)]
mod tests;
mod turn;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

pub use build::{Built, Extras};
pub use door::{Direct, Ticket};
pub use draft::{DirectAnswer, Published, PublishedPart};
pub use outcome::{Applied, take_answer};
pub use takeover::takeover;

use super::limits;
use super::name::StreamKey;
use super::records::{Append, StreamShardRecord};
use super::relay::Relays;
use super::rules::{Rule, Rules};
use crate::ids::ShardId;
use crate::port::stream_store::{DoorQuery, PassQuery};
use crate::time::Monotonic;
use door::Door;
use draft::Flight;
use heads::Heads;
use turn::Turn;

#[derive(Clone, Debug)]
pub struct OwnerConfig {
    pub shard: ShardId,
    /// Shards of the outbox and of streams.
    pub shards: u16,
    /// How long the owner may act after it began its last commit.
    pub owner_ttl: Duration,
    pub door_page: usize,
    pub commit_events: usize,
    pub commit_bytes: usize,
    pub heads_known: usize,
    /// The host, where commits write audit events; none = they write none.
    pub tx_events: Option<Arc<str>>,
    /// Every rule holds, but in the model's mutations.
    pub rules: Rules,
}

impl OwnerConfig {
    /// With the default bounds, and without audit events.
    pub fn new(shard: ShardId, shards: u16, owner_ttl: Duration) -> Self {
        Self {
            shard,
            shards,
            owner_ttl,
            door_page: limits::DOOR_PAGE,
            commit_events: limits::COMMIT_EVENTS_MAX,
            commit_bytes: limits::COMMIT_BYTES_MAX,
            heads_known: limits::HEADS_KNOWN_MAX,
            tx_events: None,
            rules: Rules::default(),
        }
    }
}

/// What an owner counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnerCounts {
    pub numbered: u64,
    pub adopted: u64,
    /// Repeats that were dropped.
    pub duplicates: u64,
    /// Events of the doorstep whose id was another one's.
    pub dead: u64,
    /// Commits that found a head elsewhere.
    pub moved: u64,
    /// Rows of the doorstep that couldn't be read.
    pub quarantined: u64,
    /// Chunks that couldn't be read when they were to be adopted.
    pub unreadable: u64,
}

/// The streams of one shard.
#[derive(Debug)]
pub struct StreamOwner {
    config: OwnerConfig,
    /// As last known committed.
    record: StreamShardRecord,
    /// Until when it may act.
    lease_until: Monotonic,
    /// When the commit that is out was begun.
    lease_begun: Monotonic,
    door: Door,
    heads: Heads,
    turn: Turn,
    /// Streams of a commit that came to nothing, with the ends that it took them to have: which of them moved, the next look tells.
    suspects: BTreeMap<StreamKey, u64>,
    /// Direct appends that the last plan had looked up.
    planned: BTreeSet<Ticket>,
    relays: Relays,
    flight: Option<Flight>,
    /// Most events of a commit: fewer after the store refused one as too large.
    events_max: usize,
    counts: OwnerCounts,
}

impl StreamOwner {
    /// An owner behind its takeover, which began at `begun`.
    pub fn new(config: OwnerConfig, record: StreamShardRecord, relays: Relays, begun: Monotonic) -> Self {
        let (lease_until, events_max) = (begun + config.owner_ttl, config.commit_events);
        Self {
            config,
            record,
            lease_until,
            lease_begun: begun,
            door: Door::default(),
            heads: Heads::default(),
            turn: Turn::default(),
            suspects: BTreeMap::new(),
            planned: BTreeSet::new(),
            relays,
            flight: None,
            events_max,
            counts: OwnerCounts::default(),
        }
    }

    pub fn shard(&self) -> ShardId {
        self.config.shard
    }

    /// The record as last known committed.
    pub fn record(&self) -> &StreamShardRecord {
        &self.record
    }

    /// Until when it may send.
    pub fn lease_until(&self) -> Monotonic {
        self.lease_until
    }

    pub fn counts(&self) -> OwnerCounts {
        self.counts
    }

    pub fn relays(&self) -> &Relays {
        &self.relays
    }

    pub fn relays_mut(&mut self) -> &mut Relays {
        &mut self.relays
    }

    fn is_rule_kept(&self, rule: Rule) -> bool {
        self.config.rules.kept(rule)
    }

    /// Takes an append that came straight here. It is answered by [`Applied::answers`] or [`Built::answers`], or recalled.
    pub fn append(&mut self, ticket: Ticket, append: Arc<Append>) {
        self.door.push(ticket, append);
    }

    /// Takes back the appends that aren't in a commit: the shard is given back, and they go to the doorstep.
    pub fn recall(&mut self) -> Vec<Direct> {
        self.door.recall()
    }

    /// What is to be read before the next commit, in one snapshot. None = a commit is out. `is_door_clean`: this process knows that
    /// nothing lies on the doorstep, so it needn't be read.
    pub fn plan(&mut self, is_door_clean: bool) -> Option<PassQuery> {
        if self.flight.is_some() {
            return None;
        }
        self.door.begin();
        self.turn.next();
        let left = self.door.left.min(limits::DOOR_LEFT_MAX);
        let from = if self.is_rule_kept(Rule::PassFromLowEnd) { 0 } else { self.door.low };
        let door = DoorQuery { until: self.door.until, from, limit: self.config.door_page + left };
        let mut query = PassQuery {
            door: (!is_door_clean).then_some(door),
            unnamed_bytes_max: limits::ADOPT_BYTES_MAX,
            ..PassQuery::default()
        };
        self.planned.clear();
        let (mut events, mut streams) = (0, BTreeSet::new());
        // Those of a stream whose turn it isn't would take the room of the others, and not go.
        for direct in self.door.waiting().filter(|direct| self.turn.takes(&direct.append.stream)) {
            events += direct.append.events.len();
            if events > self.events_max && !self.planned.is_empty() {
                break;
            }
            self.planned.insert(direct.ticket);
            let stream = &direct.append.stream;
            // What the feed has yet to name of it has to be read, too.
            if self.heads.get(stream).is_none_or(|known| known.rest.named_to(&known.head) < known.head.last) {
                streams.insert(stream.clone());
            }
            let indexed = direct.append.events.iter().filter(|event| event.is_indexed);
            query.ids.extend(indexed.map(|event| (stream.tenant.clone(), event.id.clone())));
        }
        query.streams.extend(streams);
        Some(query)
    }

    /// Whether something waits that needs no look at the doorstep.
    pub fn has_waiting(&self) -> bool {
        self.door.has_directs()
    }

    /// Whether what a stream holds may be changed by an act of upkeep now: nothing is out, and no relay seeks in it.
    fn may_keep_up(&self, stream: &StreamKey) -> bool {
        !self.relays.is_seeking(stream) || !self.is_rule_kept(Rule::UpkeepApartFromSeek)
    }

    /// The appends in the commit that is out that came straight here.
    pub fn committing(&self) -> impl Iterator<Item = &Append> {
        self.flight.iter().flat_map(|flight| &flight.directs).map(|direct| &*direct.append)
    }

    /// What the commit that is out publishes once it is known to be in: for a mutation of the model, which doesn't wait.
    pub fn unpublished(&self) -> Option<&Published> {
        self.flight.as_ref()?.published.as_ref()
    }
}
