//! Counts for people.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::InboxOwner;
use super::contexts::Contexts;
use super::entry::{Entry, Stage};
use crate::ids::{ConsumerName, InboundId, Seq};
use crate::inbox::message::InboundMessage;
use crate::inbox::records::{ContextCount, LastError};
use crate::inbox::settings::{ConsumerId, SourceId};
use crate::time::UnixMillis;

/// What happened since this owner began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxCounts {
    /// Deliveries of what was finished before (`DUPLICATE_MESSAGE`), one a consumer.
    pub duplicates: u64,
    pub processed: u64,
    pub dead: u64,
    /// Of those, ids that were used for something else.
    pub reused: u64,
    /// Failed attempts that became rows.
    pub failed: u64,
    /// Rows of what hadn't failed.
    pub stored: u64,
    pub replayed: u64,
    /// Takes that were found without their messages.
    pub orphans: u64,
    /// Of those, such as gave their place up.
    pub orphans_expired: u64,
}

/// What is in memory now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxDepths {
    /// Messages of consumers, rows and orphans included.
    pub messages: usize,
    pub rows: usize,
    pub orphans: usize,
    /// Those that a handler has.
    pub running: usize,
    /// Those whose fate waits for a commit.
    pub decided: usize,
}

/// What is in memory of one consumer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConsumerDepths {
    /// Messages, rows left out.
    pub in_hand: usize,
    /// Those that a handler has.
    pub in_calls: usize,
    pub rows: usize,
    /// Those that a process may have died of.
    pub suspects: usize,
    /// Places taken before a crash, of all sources that it takes from.
    pub orphans: usize,
}

/// Why a message isn't with its handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    /// It is with its handler.
    Nothing,
    /// A commit, or the seen set.
    Store,
    /// An earlier message of its key.
    Key,
    /// Its next try.
    Time(UnixMillis),
    /// Its consumer is paused or held.
    Consumer,
    /// Its consumer has as many calls as it may have.
    Turn,
    /// A host died while it was named: it waits for its trial.
    Trial,
    /// Its consumer isn't configured.
    NoConsumer,
}

/// A message of a consumer in memory.
#[derive(Clone, Debug)]
pub struct InMemory {
    pub seq: Seq,
    /// None: it is a row, and the store has it.
    pub message: Option<Arc<InboundMessage>>,
    pub is_row: bool,
    pub attempts: u32,
    pub maybe_handled: bool,
    pub last_error: Option<LastError>,
    /// Not called before.
    pub due: UnixMillis,
    pub waits_for: WaitsFor,
}

impl InboxOwner {
    /// The message with an id at a consumer, if it is in memory and isn't finished.
    pub fn find(&self, consumer: &ConsumerName, id: &InboundId) -> Option<InMemory> {
        self.at(self.entries.seq_of(self.record.secret.of_id(consumer, id))?)
    }

    /// The message at a place.
    pub fn at(&self, seq: Seq) -> Option<InMemory> {
        let entry = self.entries.get(seq).filter(|entry| !entry.is_orphan())?;
        Some(InMemory {
            seq,
            message: entry.message.clone(),
            is_row: entry.is_row(),
            attempts: entry.attempts,
            maybe_handled: entry.maybe_handled || entry.stage == Stage::Called,
            last_error: entry.last_error.clone(),
            due: entry.due_at,
            waits_for: self.waits_for(entry),
        })
    }

    fn waits_for(&self, entry: &Entry) -> WaitsFor {
        match &entry.stage {
            Stage::Called => WaitsFor::Nothing,
            Stage::Idle if entry.consumer.is_none() => WaitsFor::NoConsumer,
            Stage::Idle if !self.is_head(entry) => WaitsFor::Key,
            Stage::Idle if entry.due > self.clock => WaitsFor::Time(entry.due_at),
            Stage::Idle if self.consumers.is_held(entry.consumer, self.clock) => WaitsFor::Consumer,
            Stage::Idle if self.needs_take(entry) || self.waits_for_row(entry) => WaitsFor::Store,
            Stage::Idle if self.record.suspicion.suspects.contains_key(&entry.fingerprint) => WaitsFor::Trial,
            Stage::Idle => WaitsFor::Turn,
            _ => WaitsFor::Store,
        }
    }

    /// What is in memory of a consumer.
    pub fn consumer_depths(&self, consumer: ConsumerId) -> ConsumerDepths {
        let mut depths = ConsumerDepths::default();
        for entry in self.entries.iter().filter(|entry| entry.consumer == Some(consumer)) {
            depths.in_calls += usize::from(entry.stage == Stage::Called);
            if entry.is_row() {
                depths.rows += 1;
            } else {
                depths.in_hand += 1;
            }
            depths.suspects += usize::from(self.record.suspicion.suspects.contains_key(&entry.fingerprint));
        }
        let settings = &self.config.settings;
        let feeds = |entry: &&Entry| {
            let source = settings.source_named(&entry.source_name).and_then(|id| settings.source(id));
            source.is_some_and(|source| source.consumers.contains(&consumer))
        };
        depths.orphans = self.entries.iter().filter(|entry| entry.stage == Stage::Orphan).filter(feeds).count();
        depths
    }

    /// Rows of consumers that aren't configured any more.
    pub fn abandoned_rows(&self) -> BTreeMap<ConsumerName, usize> {
        let mut rows = BTreeMap::new();
        for entry in self.entries.iter().filter(|entry| entry.is_row() && entry.consumer.is_none()) {
            if let Some(name) = &entry.consumer_name {
                *rows.entry(name.clone()).or_default() += 1;
            }
        }
        rows
    }

    /// Messages that were received and aren't finished, by context, as far as they are counted apart.
    pub fn unprocessed(&self) -> BTreeMap<Arc<str>, ContextCount> {
        let mut contexts = Contexts::default();
        for entry in self.entries.iter().filter(|entry| !entry.is_orphan()) {
            contexts.insert(&entry.context, entry.received_at, entry.seq);
        }
        contexts.counts()
    }

    pub fn counts(&self) -> InboxCounts {
        self.counts
    }

    pub fn depths(&self) -> InboxDepths {
        let count = |is: &dyn Fn(&super::entry::Entry) -> bool| self.entries.iter().filter(|entry| is(entry)).count();
        InboxDepths {
            messages: self.entries.iter().count(),
            rows: count(&|entry| entry.is_row()),
            orphans: count(&|entry| entry.stage == Stage::Orphan),
            running: count(&|entry| entry.stage == Stage::Called),
            decided: self.decided.len(),
        }
    }

    /// Deliveries of a source that aren't settled.
    pub fn in_hand(&self, source: SourceId) -> usize {
        self.hand.count(source)
    }

    /// Payload bytes of what of a source is not settled.
    pub fn bytes_in_hand(&self, source: SourceId) -> usize {
        self.hand.bytes(source)
    }

    /// Rows of a consumer.
    pub fn rows(&self, consumer: ConsumerId) -> usize {
        self.consumers.get(consumer).map_or(0, |consumer| consumer.rows)
    }

    /// For how much longer a consumer is paused or held; none = it isn't.
    pub fn held_for(&self, consumer: ConsumerId) -> Option<std::time::Duration> {
        let consumer = self.consumers.get(consumer)?;
        consumer.is_held(self.clock).then(|| consumer.held_until() - self.clock)
    }
}
