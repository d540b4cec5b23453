//! The sagas of one shard: the one writer of their journal and rows.
//!
//! A pure state machine beside the outbox's owner. Its driver submits commands and ticks, tries the commits that it builds, and
//! carries out the effects that it releases. Memory runs ahead of the store: a command changes its tree at once, but what
//! follows from it (a call, an answer to the caller) is released only when the commit that holds it is known to be in. All that
//! happens while a commit is out joins the next one.
//!
//! ```text
//! submit / tick ──▶ waiting ──build──▶ out ──committed──▶ take_effects
//!                      ▲                │ resolve, too_large
//!                      └────────────────┘ (proved not to be in)
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `commands` | what is asked of it |
//! | `start` | new sagas, repeats of a start |
//! | `door` | what the inbox left for sagas |
//! | `batch` | what waits for a commit |
//! | `build` | the next commit: journal, rows, dead letters, messages |
//! | `audit` | audit events of a commit |
//! | `exact` | steps whose events number themselves in their commit |
//! | `apart` | what is tried saga by saga after the store refused a commit as too large |
//! | `outcome` | a commit's fate |
//! | `restore` | a new writer: rows and journal become trees again; the same for one that was set aside |
//! | `suspects` | calls that were lost when the host died: by halves, to find the one that kills it |
//! | `inspect` | for people, and for plugins that are to take another's place |

mod apart;
mod audit;
mod batch;
mod build;
mod commands;
mod door;
mod exact;
mod inspect;
mod outcome;
mod restore;
mod start;
mod suspects;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::definition::DefinitionSet;
use super::error::SagaError;
use super::event::Event;
use super::id::SagaKey;
use super::limits::{SagaLimits, TICK_MAX};
use super::machine::{Machine, Outcome, Rules, Turn};
use super::records::{BrokenSaga, SagaShardRecord};
use super::state::Tree;
use crate::ids::ShardId;
use crate::port::inbox_store::SagaDoorKey;
use crate::port::store::StoreError;
use crate::time::UnixMillis;
use apart::Apart;
use batch::{Batch, Entry};
use build::Flight;
use exact::Exacts;
use start::Recent;
use suspects::Trials;

pub use commands::{NewSaga, SagaCommand, SagaEffect, SagaReply, Ticket};
pub use door::stays;
pub use inspect::{ActKnown, Needs};
pub use restore::{Restored, rebuilt};
pub use start::is_same_start;

#[derive(Clone, Debug)]
pub struct SagaShardConfig {
    pub shard: ShardId,
    /// Commits write audit events in the name of this host; none = they don't.
    pub tx_events: Option<Arc<str>>,
    pub limits: SagaLimits,
    /// Every rule holds, but in the model's mutations.
    pub rules: Rules,
    /// The process of the last writer died. False when it had begun to end, gave the shard back, or lives.
    pub died: bool,
}

/// One tree in memory.
#[derive(Debug)]
struct Running {
    tree: Arc<Tree>,
    definitions: Arc<DefinitionSet>,
    /// Its place in `timers`.
    due: Option<UnixMillis>,
    /// Beat of the oldest journal record that is needed to restore it. As committed.
    journal_from: Option<u64>,
    /// It has a row. As committed.
    has_row: bool,
    /// It has a dead letter. As committed.
    has_dead: bool,
    /// When it moved last.
    moved_at: UnixMillis,
    /// Its row is written, or about to be, and it hasn't moved since.
    rested: bool,
    /// The store takes no transaction that large: it stands still, and is ahead of what is committed.
    too_large: bool,
}

impl Running {
    /// When it gets a row if it doesn't move until then. Not while it is called: that ends soon.
    fn rest_at(&self, limits: &SagaLimits) -> Option<UnixMillis> {
        let may = !self.rested && !self.tree.is_ended() && !self.tree.is_called();
        may.then(|| self.moved_at.plus(limits.rest_after))
    }
}

/// The sagas of one shard.
#[derive(Debug)]
pub struct SagaShard {
    config: SagaShardConfig,
    /// As last known committed.
    record: SagaShardRecord,
    /// The latest instant seen: time given in never goes back here.
    clock: UnixMillis,
    next_slot: u64,
    running: HashMap<u64, Running>,
    slots: HashMap<SagaKey, u64>,
    timers: BTreeSet<(UnixMillis, u64)>,
    /// What keeps the journal from being cut: oldest needed beat and slot.
    journal: BTreeSet<(u64, u64)>,
    /// Sagas that couldn't be restored, for the next commits to set aside. The journal isn't cut before.
    aside: Vec<Arc<BrokenSaga>>,
    /// Those of them that are too large for a commit: the journal isn't cut until the next takeover.
    unmovable: Vec<Arc<BrokenSaga>>,
    /// A commit was too large, so what it held goes one saga a commit.
    apart: Apart,
    exacts: Exacts,
    weight: usize,
    waiting: Batch,
    /// What of the door has led to nothing that waits: removed when all that waits is committed.
    settled_door: Vec<SagaDoorKey>,
    flight: Option<Flight>,
    released: Vec<SagaEffect>,
    recent: Recent,
    /// Calls that were lost again and again, to be made in turn.
    trials: Trials,
}

impl SagaShard {
    pub fn shard(&self) -> ShardId {
        self.config.shard
    }

    /// The record as last known committed. Its beat goes with a lookup of a caller's id ([`NewSaga::looked_up`]).
    pub fn record(&self) -> &SagaShardRecord {
        &self.record
    }

    /// Changes the bounds; they count from the next command.
    pub fn set_limits(&mut self, limits: SagaLimits) {
        self.config.limits = limits;
    }

    /// Takes a command. The answer comes as an effect, when what it did is durable; a refusal when what it is based on is.
    /// `random` is uniform in [0, 1).
    pub fn submit(&mut self, ticket: Option<Ticket>, command: SagaCommand, now: UnixMillis, random: f64) {
        let Some(command) = self.unless_tried(ticket, command, random) else { return };
        let at = match &command {
            // Nothing of it is before its start, also when the clock was set back since its id was made.
            SagaCommand::Start(new) => new.at.unwrap_or(now),
            _ => now,
        };
        let turn = self.turn(now.max(at), random);
        let (slot, reply) = match command {
            SagaCommand::Start(new) => self.start(*new, turn),
            SagaCommand::Answer { call, answer } => return self.take_answer(call, answer, turn),
            SagaCommand::Act { key, act, by } => self.act(&key, &act, by, turn),
            SagaCommand::Signal { key, name, data, by } => self.signal(&key, &name, data, by, turn),
            SagaCommand::Reply { tenant, reply } => self.reply(tenant, reply, turn),
        };
        if let Some(slot) = slot {
            self.go_on_with_trials(slot, turn);
        }
        if let Some(ticket) = ticket {
            self.answer(slot, ticket, reply);
        }
    }

    /// The time of the latest turn, or of what was found at the start if that is later: turns are never before it.
    pub fn clock(&self) -> UnixMillis {
        self.clock
    }

    fn turn(&mut self, now: UnixMillis, random: f64) -> Turn {
        self.clock = self.clock.max(now);
        Turn { now: self.clock, random, limits: self.config.limits, rules: self.config.rules }
    }

    /// Does what is due, at most [`TICK_MAX`] sagas of it. True when more is due.
    pub fn tick(&mut self, now: UnixMillis, random: f64) -> bool {
        let turn = self.turn(now, random);
        let due = self.timers.range(..=(turn.now, u64::MAX)).take(TICK_MAX);
        let due: Vec<u64> = due.map(|(_, slot)| *slot).collect();
        for slot in &due {
            if self.running.get(slot).and_then(|running| running.tree.next_due()).is_some_and(|due| due <= turn.now) {
                self.work(*slot, turn, None, |machine| machine.tick());
                self.go_on_with_trials(*slot, turn);
            }
            self.rest(*slot);
            self.set_timer(*slot);
        }
        due.len() >= TICK_MAX
    }

    /// When [`SagaShard::tick`] has something to do next.
    pub fn next_due(&self) -> Option<UnixMillis> {
        self.timers.first().map(|(due, _)| *due)
    }

    /// Effects that may be carried out now, in order.
    pub fn take_effects(&mut self) -> Vec<SagaEffect> {
        std::mem::take(&mut self.released)
    }

    /// Lets a machine work on a tree and keeps what comes of it.
    fn work<R>(
        &mut self,
        slot: u64,
        turn: Turn,
        actor: Option<Arc<str>>,
        work: impl FnOnce(&mut Machine<'_>) -> R,
    ) -> Option<R> {
        if self.is_tried(slot) {
            return None;
        }
        let running = self.running.get_mut(&slot).filter(|running| !running.too_large)?;
        let (from, weight) = (running.tree.events, running.tree.weight);
        let definitions = Arc::clone(&running.definitions);
        let mut machine = Machine::new(Arc::make_mut(&mut running.tree), &definitions, turn, actor);
        let result = work(&mut machine);
        let outcome = machine.finish();
        self.weight = (self.weight + running.tree.weight).saturating_sub(weight);
        self.keep(slot, from, outcome);
        self.set_timer(slot);
        Some(result)
    }

    /// What a turn led to waits for the next commit.
    fn keep(&mut self, slot: u64, from: u32, outcome: Outcome) {
        if outcome.events.is_empty() {
            return;
        }
        let early = !self.config.rules.kept(super::machine::Rule::EffectsAfterCommit);
        if let Some(running) = self.running.get_mut(&slot) {
            (running.rested, running.moved_at) = (false, self.clock);
        }
        let entry = self.waiting.entry(slot, from);
        entry.weight += outcome.events.iter().map(|event: &Event| event.what.weight()).sum::<usize>();
        entry.events.extend(outcome.events);
        entry.messages.extend(outcome.messages);
        entry.appends.extend(outcome.appends);
        if early {
            self.released.extend(outcome.calls.into_iter().map(|call| SagaEffect::Call(Box::new(call))));
        } else {
            entry.calls.extend(outcome.calls);
        }
    }

    /// A tree that hasn't moved for a while gets a row.
    fn rest(&mut self, slot: u64) {
        if self.is_tried(slot) {
            return;
        }
        let limits = &self.config.limits;
        let Some(running) = self.running.get_mut(&slot) else { return };
        if running.rest_at(limits).is_some_and(|at| at <= self.clock) {
            running.rested = true;
            let events = running.tree.events;
            self.waiting.entry(slot, events).row = true;
        }
    }

    fn set_timer(&mut self, slot: u64) {
        let (now, is_tried) = (self.clock, self.is_tried(slot));
        let Some(running) = self.running.get_mut(&slot) else { return };
        let rest = running.rest_at(&self.config.limits);
        let due = running.tree.next_due().map_or(rest, |due| Some(rest.map_or(due, |rest| rest.min(due))));
        let due = due.filter(|_| !running.too_large && !is_tried);
        // Something that is due and didn't move is looked at again, but not at once.
        let due = due.map(|due| due.max(UnixMillis(now.0.saturating_add(1))));
        if due == running.due {
            return;
        }
        if let Some(old) = running.due.take() {
            self.timers.remove(&(old, slot));
        }
        running.due = due;
        if let Some(due) = due {
            self.timers.insert((due, slot));
        }
    }

    /// Answers a caller: with the commit that holds what the answer is based on, or now.
    fn answer(&mut self, slot: Option<u64>, ticket: Ticket, result: Result<SagaReply, SagaError>) {
        let flight = self.flight.as_mut();
        let entry: Option<&mut Entry> = slot.and_then(|slot| match self.waiting.get(slot) {
            Some(entry) => Some(entry),
            None => flight.and_then(|flight| flight.batch.get(slot)),
        });
        match entry {
            Some(entry) => entry.replies.push((ticket, result)),
            None => self.released.push(SagaEffect::Reply { ticket, result }),
        }
    }

    fn slot_of(&self, key: &SagaKey) -> Result<u64, SagaError> {
        let slot = self.slots.get(&key.root()).copied();
        let slot = slot.ok_or_else(|| SagaError::NotFound { id: key.id.to_string() })?;
        match self.running.get(&slot) {
            Some(running) if running.too_large => Err(SagaError::Store(StoreError::TooLarge)),
            _ => Ok(slot),
        }
    }

    fn remove(&mut self, slot: u64) -> Option<Running> {
        let running = self.running.remove(&slot)?;
        self.slots.remove(&running.tree.key);
        self.weight = self.weight.saturating_sub(running.tree.weight);
        if let Some(due) = running.due {
            self.timers.remove(&(due, slot));
        }
        if let Some(from) = running.journal_from {
            self.journal.remove(&(from, slot));
        }
        Some(running)
    }

    fn empty(config: SagaShardConfig, record: SagaShardRecord, now: UnixMillis) -> Self {
        Self {
            config,
            recent: Recent::new(record.beat),
            record,
            clock: now,
            next_slot: 0,
            running: HashMap::new(),
            slots: HashMap::new(),
            timers: BTreeSet::new(),
            journal: BTreeSet::new(),
            aside: Vec::new(),
            unmovable: Vec::new(),
            apart: Apart::default(),
            exacts: Exacts::default(),
            weight: 0,
            waiting: Batch::default(),
            settled_door: Vec::new(),
            flight: None,
            released: Vec::new(),
            trials: Trials::default(),
        }
    }

    fn insert(&mut self, tree: Tree, definitions: Arc<DefinitionSet>) -> u64 {
        let slot = self.next_slot;
        self.next_slot += 1;
        self.weight += tree.weight;
        self.slots.insert(tree.key.clone(), slot);
        let tree = Arc::new(tree);
        let running = Running {
            tree,
            definitions,
            due: None,
            journal_from: None,
            has_row: false,
            has_dead: false,
            moved_at: self.clock,
            rested: false,
            too_large: false,
        };
        self.running.insert(slot, running);
        slot
    }
}
