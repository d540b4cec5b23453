//! The owner of a shard's inbox: the one writer of what its sources bring.
//!
//! A pure state machine. Its driver (the engine, or the model checker) feeds it what sources delivered, what the seen set and the rows
//! say, what handlers answered, and the fate of its commits; it answers with look-ups, calls, commits to try, and orders to sources.
//! At most one commit is outstanding. A delivery is settled only behind a commit that is known to hold it.
//!
//! ```text
//! pulled ──▶ look up ──▶ idle ──▶ called ──▶ decided ──build──▶ out ──applied──▶ settled at its source
//!               │ seen      ▲ take, row, claim      ▲              │ undo (proved not to be in)
//!               └──────────▶ settled                └──────────────┘
//! ```
//!
//! Each part keeps its own rules, which stand beside its fields. `InboxOwner` puts the parts together.
//!
//! | file | holds |
//! |---|---|
//! | `takeover` | the first commit: a new token, what was called made suspect if its process died |
//! | `restore` | rows and takes become messages in memory again |
//! | `entry` | one message of one consumer |
//! | `entries` | part: all of them, by place and by id |
//! | `order` | part: which message of a key goes first |
//! | `hand` | part: deliveries that their sources still hold |
//! | `arrive` | what a source delivered |
//! | `look_up` | asking the seen set |
//! | `touched` | part: what went with its delivery and may have been handled |
//! | `ready` | what a message waits for |
//! | `consumers` | part: what each consumer may call, pauses and holds |
//! | `calls` | calls and their answers |
//! | `sources` | room, orders, revocations, restarts, draining |
//! | `positions` | part: how far sources are settled that have no place of their own |
//! | `stores` | what is stored although it hasn't failed |
//! | `build` | the next commit |
//! | `exact` | events that number themselves in their commit |
//! | `draft` | a commit in the making |
//! | `claims` | after an unclean end: what is called is named first, suspects by halves |
//! | `replay` | what operators ask |
//! | `contexts` | part: rows by context |
//! | `outcome` | a commit's fate: applied, not applied, unknown, lost |
//! | `inspect` | counts for people |

mod arrive;
mod build;
mod calls;
mod claims;
mod consumers;
mod contexts;
mod draft;
mod entries;
mod entry;
mod exact;
mod hand;
mod inspect;
mod look_up;
mod order;
mod outcome;
mod positions;
mod ready;
mod replay;
mod restore;
mod rules;
mod sources;
mod stores;
mod takeover;
#[cfg(test)]
mod tests;
mod touched;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

pub use arrive::{Arrival, refused_consumer};
pub use calls::Call;
pub use hand::{DeliveryId, Settle, SettleAs, SettleResult};
pub use inspect::{ConsumerDepths, InMemory, InboxCounts, InboxDepths, WaitsFor};
pub use look_up::LookUp;
pub use outcome::InboxApplied;
pub use replay::Replay;
pub use rules::{Rule, Rules};
pub use sources::SourceAbilities;
pub use takeover::{Candidate, takeover};

use super::records::{InboxShardRecord, RowHead};
use super::settings::{InboxSettings, SourceId};
use crate::ids::{Seq, ShardId};
use crate::outbox::suspicion::Caution;
use crate::time::{Monotonic, Now};
use claims::Claims;
use consumers::Consumers;
use contexts::Contexts;
use draft::Flight;
use entries::Entries;
use hand::Hand;
use positions::Positions;
use replay::Requests;
use sources::Sources;
use touched::Touched;

#[derive(Clone, Debug)]
pub struct InboxConfig {
    pub shard: ShardId,
    /// Shards of the outbox and of sagas.
    pub shards: u16,
    pub settings: Arc<InboxSettings>,
    pub caution: Caution,
    /// The last owner had an unclean end, so what it handled at last may not be committed.
    pub unclean: bool,
    /// The host, where commits write audit events; none = they write none.
    pub tx_events: Option<Arc<str>>,
    /// Every rule holds, but in the model's mutations.
    pub rules: Rules,
}

/// The inbox of one shard.
#[derive(Debug)]
pub struct InboxOwner {
    config: InboxConfig,
    /// As last known committed.
    record: InboxShardRecord,
    /// Highest seq given out.
    last: Seq,
    /// When this owner began.
    adopted_at: Monotonic,
    /// Up to when owned time is in the record.
    accounted_at: Monotonic,
    /// The latest instant seen.
    clock: Monotonic,
    entries: Entries,
    hand: Hand,
    sources: Sources,
    positions: Positions,
    consumers: Consumers,
    contexts: Contexts,
    claims: Claims,
    requests: Requests,
    /// Messages whose fate waits for a commit.
    decided: BTreeSet<Seq>,
    /// Of these, what goes in a commit of its own: its events may have met another writer of their stream.
    alone: BTreeSet<Seq>,
    /// The last commit was of one of these.
    was_alone: bool,
    /// Idle messages that need a take before they are called.
    untaken: BTreeSet<Seq>,
    /// Rows whose turn has come and whose message isn't in memory.
    unloaded: BTreeSet<Seq>,
    /// Messages that wait for the seen set.
    unseen: BTreeSet<Seq>,
    orphans: BTreeSet<Seq>,
    /// Idle messages by when they are due.
    timers: BTreeSet<(Monotonic, Seq)>,
    flight: Option<Flight>,
    /// Most outcomes of a commit: fewer after the store refused one as too large.
    outcomes_max: usize,
    /// Rows that a mutation of the model loads late.
    late_rows: Vec<RowHead>,
    draining: bool,
    /// What the last owner handled without a commit may still come.
    unsure: bool,
    touched: Touched,
    counts: InboxCounts,
}

impl InboxOwner {
    pub fn shard(&self) -> ShardId {
        self.config.shard
    }

    /// The record as last known committed.
    pub fn record(&self) -> &InboxShardRecord {
        &self.record
    }

    fn is_rule_kept(&self, rule: Rule) -> bool {
        self.config.rules.kept(rule)
    }

    /// Notes what time it is; messages whose time has come may be called.
    pub fn tick(&mut self, now: Now) {
        self.clock = self.clock.max(now.mono);
        while let Some((due, seq)) = self.timers.first().copied().filter(|(due, _)| *due <= self.clock) {
            self.timers.remove(&(due, seq));
            self.consider(seq);
        }
        self.end_late_tokens();
    }

    /// When [`Self::tick`] or [`Self::build`] has something to do next, at the latest; none = nothing waits for a time.
    pub fn next_due(&self) -> Option<Monotonic> {
        let timers = self.timers.first().map(|(due, _)| *due);
        let held =
            self.consumers.iter().filter(|consumer| !consumer.ready.is_empty()).map(|consumer| consumer.held_until());
        let held = held.filter(|until| *until > self.clock).min();
        let orphans = self.orphans.iter().next().map(|_| self.adopted_at + self.shortest_orphan_wait());
        let orphans = orphans.filter(|at| *at > self.clock);
        // A commit that is out, however long the store takes, holds up the next one.
        let beat = self.flight.is_none().then(|| self.next_beat());
        [timers, held, orphans, self.next_deadline(), beat].into_iter().flatten().min()
    }

    fn shortest_orphan_wait(&self) -> Duration {
        self.config.settings.sources.iter().map(|source| source.orphan_wait()).min().unwrap_or_default()
    }

    fn next_seq(&mut self) -> Seq {
        self.last = self.last.next();
        self.last
    }

    /// A consumer of the delivery has it: finished, or stored and released.
    fn done_with(&mut self, delivery: DeliveryId, seq: Seq) {
        let enough = !self.is_rule_kept(Rule::EveryConsumer);
        if let Some(entry) = self.entries.get_mut(seq) {
            entry.copies.retain(|copy| *copy != delivery);
        }
        self.hand.done_with(delivery, seq, enough);
    }

    fn done_with_copies(&mut self, seq: Seq, copies: &[DeliveryId]) {
        for delivery in copies {
            self.done_with(*delivery, seq);
        }
    }

    /// Takes a message out of memory, and lets the next one of its key go.
    fn drop_entry(&mut self, seq: Seq) -> Option<entry::Entry> {
        self.unlist(seq);
        let entry = self.entries.remove(seq)?;
        self.decided.remove(&seq);
        self.alone.remove(&seq);
        self.orphans.remove(&seq);
        if entry.is_row()
            && let Some(consumer) = entry.consumer.and_then(|id| self.consumers.get_mut(id))
        {
            consumer.rows = consumer.rows.saturating_sub(1);
        }
        if let Some(next) = entry.order.and_then(|tag| self.entries.order().head(tag)) {
            self.consider(next);
        }
        Some(entry)
    }

    /// The store has a row of it now.
    fn set_row(&mut self, seq: Seq) {
        let Some(entry) = self.entries.get(seq).filter(|entry| !entry.is_row()) else { return };
        if let Some(consumer) = entry.consumer.and_then(|id| self.consumers.get_mut(id)) {
            consumer.rows += 1;
        }
        self.entries.set_durable(seq, entry::Durable::Row);
    }

    fn source_settings(&self, source: SourceId) -> Option<&super::settings::SourceSettings> {
        self.config.settings.source(source)
    }
}
