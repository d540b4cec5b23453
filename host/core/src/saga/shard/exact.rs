//! Steps whose events number themselves in the commit that records them. Whether they can, the store says when that commit is made. So such
//! an answer stays out of its tree until the commit is built, and the tree stands still while it is out: what is asked of it meanwhile waits.
//! Where the events are refused, the tree is as it was before, the attempt has failed, and everything else goes into the next commit.
//!
//! What was in a commit that met another writer of its stream goes in one of its own, in turn with all that waits.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::SagaShard;
use super::batch::{Batch, Entry};
use super::build::{Flight, Work, is_whole};
use super::commands::{SagaCommand, SagaEffect, Ticket};
use crate::code::Code;
use crate::port::participant::StepError;
use crate::port::transport::Fault;
use crate::saga::call::{Answer, AnswerResult, CallRef};
use crate::saga::id::SagaKey;
use crate::saga::machine::{Rule, Turn};
use crate::saga::state::Tree;
use crate::streams::exact::ExactRefusal;
use crate::streams::joint::{JointAppend, JointAppends};
use crate::streams::name::StreamKey;
use crate::time::UnixMillis;

/// An answer that waits for a commit.
#[derive(Clone, Debug)]
struct Held {
    call: CallRef,
    answer: Answer,
    random: f64,
    /// It goes in a commit of its own.
    alone: bool,
}

/// An answer in the commit that is out, and what its tree was before it.
#[derive(Debug)]
pub(super) struct Tried {
    held: Held,
    before: Arc<Tree>,
    moved_at: UnixMillis,
    rested: bool,
}

/// A command for a tree that stands still.
#[derive(Debug)]
struct PutOff {
    ticket: Option<Ticket>,
    command: SagaCommand,
    random: f64,
}

/// Answers whose events number themselves, and what waits for their fate.
#[derive(Debug, Default)]
pub(super) struct Exacts {
    held: VecDeque<Held>,
    /// The last commit was of one alone, so it is the turn of everything else.
    was_alone: bool,
    put_off: Vec<PutOff>,
}

impl Exacts {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Tickets of commands that were not in a commit.
    pub fn recall(&mut self) -> Vec<Ticket> {
        self.held.clear();
        std::mem::take(&mut self.put_off).into_iter().filter_map(|put_off| put_off.ticket).collect()
    }
}

impl Held {
    fn appends(&self) -> Option<&JointAppends> {
        match &self.answer.result {
            AnswerResult::Done { events, .. } => Some(events),
            AnswerResult::Pending { .. } | AnswerResult::Failed(_) => None,
        }
    }

    fn streams(&self) -> impl Iterator<Item = &StreamKey> {
        self.appends().into_iter().flat_map(JointAppends::exact_streams)
    }

    fn weight(&self) -> usize {
        self.appends().map_or(0, JointAppends::weight)
    }
}

/// The slot of each append of a commit, in order.
pub(super) fn slots_of(batch: &Batch) -> Vec<u64> {
    batch.entries.iter().flat_map(|entry| entry.appends.list.iter().map(move |_| entry.slot)).collect()
}

impl SagaShard {
    /// Takes an answer, or keeps it for the next commit if its events number themselves.
    pub(super) fn take_answer(&mut self, call: CallRef, answer: Answer, turn: Turn) {
        let held = Held { call, answer, random: turn.random, alone: false };
        if held.appends().is_some_and(JointAppends::has_exact) {
            if self.slots.contains_key(&held.call.key) {
                self.exacts.held.push_back(held);
            }
        } else if let Some(slot) = self.slots.get(&held.call.key).copied() {
            self.answer_call(slot, held.call, held.answer, turn);
            self.go_on_with_trials(slot, turn);
        }
    }

    fn answer_call(&mut self, slot: u64, call: CallRef, answer: Answer, turn: Turn) {
        self.work(slot, turn, None, |machine| machine.answer(call.saga, call.step, call.way, call.attempt, answer));
    }

    /// Whether a tree stands still, because a commit is out that may leave it as it was.
    pub(super) fn is_tried(&self, slot: u64) -> bool {
        self.flight.as_ref().is_some_and(|flight| flight.tried.contains_key(&slot))
    }

    /// Whether the tree of a saga does.
    pub(super) fn is_saga_tried(&self, key: &SagaKey) -> bool {
        let has_any = self.flight.as_ref().is_some_and(|flight| !flight.tried.is_empty());
        has_any && self.slots.get(&key.root()).is_some_and(|slot| self.is_tried(*slot))
    }

    /// Puts a command off whose tree stands still; gives any other back.
    pub(super) fn unless_tried(
        &mut self,
        ticket: Option<Ticket>,
        command: SagaCommand,
        random: f64,
    ) -> Option<SagaCommand> {
        let is_tried = match &command {
            SagaCommand::Answer { call, .. } => self.is_saga_tried(&call.key),
            SagaCommand::Act { key, .. } | SagaCommand::Signal { key, .. } => self.is_saga_tried(key),
            SagaCommand::Reply { tenant, reply } => {
                self.is_saga_tried(&SagaKey { tenant: tenant.clone(), id: reply.id.clone() })
            }
            // A repeat moves nothing: it is answered with the commit.
            SagaCommand::Start(_) => false,
        };
        if !is_tried {
            return Some(command);
        }
        self.exacts.put_off.push(PutOff { ticket, command, random });
        None
    }

    /// Fills a commit with what waits and the answers that are kept, or with one of these alone.
    pub(super) fn fill_with_held(&mut self, work: &mut Work, bytes_max: usize) -> (Batch, BTreeMap<u64, Tried>) {
        let was_alone = std::mem::take(&mut self.exacts.was_alone);
        if self.exacts.held.is_empty() || !self.apart.is_over() {
            let batch = self.fill(work, bytes_max);
            let goes = self.exacts.held.is_empty() || !self.apart.is_over();
            if goes || !batch.entries.is_empty() || !work.changes.is_empty() {
                return (batch, BTreeMap::new());
            }
        }
        if !was_alone && let Some(filled) = self.fill_alone(work) {
            return filled;
        }
        let tried = self.try_together(bytes_max / 2);
        let batch = self.fill(work, bytes_max);
        let (tried, left_out): (BTreeMap<_, _>, BTreeMap<_, _>) =
            tried.into_iter().partition(|(slot, _)| batch.has(*slot));
        // Behind more than a commit holds they would be left out again and again.
        let left_out = left_out.into_iter().map(|(slot, tried)| (slot, tried, self.waiting.remove(slot)));
        let left_out: Vec<_> = left_out.collect();
        self.take_back(left_out, true);
        if !batch.entries.is_empty() || !work.changes.is_empty() {
            return (batch, tried);
        }
        // It was the turn of everything else, and there is nothing else.
        self.fill_alone(work).unwrap_or_else(|| (self.fill(work, bytes_max), tried))
    }

    fn fill_alone(&mut self, work: &mut Work) -> Option<(Batch, BTreeMap<u64, Tried>)> {
        let (slot, tried) = self.try_alone()?;
        self.exacts.was_alone = true;
        let entry = self.waiting.remove(slot);
        if let (Some(entry), Some(running)) = (&entry, self.running.get(&slot)) {
            work.entry(entry, running, is_whole(entry, running, &self.config.limits, work.beat));
        }
        Some((Batch::of(entry.into_iter().collect()), BTreeMap::from([(slot, tried)])))
    }

    /// The first of those that go alone and have nothing else waiting.
    fn try_alone(&mut self) -> Option<(u64, Tried)> {
        loop {
            let can = |held: &Held| held.alone && !self.waits(&held.call.key);
            let place = self.exacts.held.iter().position(can)?;
            let held = self.exacts.held.remove(place)?;
            if let Some(tried) = self.try_one(held) {
                return Some(tried);
            }
        }
    }

    /// Those that may go together, each stream once, up to a size.
    fn try_together(&mut self, bytes_max: usize) -> BTreeMap<u64, Tried> {
        let (mut tried, mut weight) = (BTreeMap::new(), 0);
        let mut streams: BTreeSet<StreamKey> = BTreeSet::new();
        for held in std::mem::take(&mut self.exacts.held) {
            let is_shut = held.alone || weight >= bytes_max || self.waits(&held.call.key);
            if is_shut || held.streams().any(|stream| streams.contains(stream)) {
                self.exacts.held.push_back(held);
                continue;
            }
            let (names, bytes): (Vec<StreamKey>, _) = (held.streams().cloned().collect(), held.weight());
            if let Some((slot, one)) = self.try_one(held) {
                tried.insert(slot, one);
                streams.extend(names);
                weight += bytes;
            }
        }
        tried
    }

    /// Whether something of a tree waits for a commit: that goes first.
    fn waits(&self, key: &SagaKey) -> bool {
        self.slots.get(key).is_some_and(|slot| self.waiting.has(*slot))
    }

    /// Lets its tree take an answer. None = nothing hangs on a commit: it decided nothing any more, or not what it was.
    fn try_one(&mut self, held: Held) -> Option<(u64, Tried)> {
        let slot = *self.slots.get(&held.call.key)?;
        let running = self.running.get(&slot)?;
        let (before, moved_at, rested) = (Arc::clone(&running.tree), running.moved_at, running.rested);
        let turn = self.turn(self.clock, held.random);
        self.answer_call(slot, held.call.clone(), held.answer.clone(), turn);
        if self.waiting.get(slot).is_some_and(|entry| entry.appends.has_exact()) {
            return Some((slot, Tried { held, before, moved_at, rested }));
        }
        self.go_on_with_trials(slot, turn);
        None
    }

    /// Trees are as they were before their answers, which are kept for a next commit.
    fn take_back(&mut self, tried: Vec<(u64, Tried, Option<Entry>)>, alone: bool) {
        for (slot, tried, entry) in tried.into_iter().rev() {
            let held = self.undo_answer(slot, tried, entry);
            self.exacts.held.push_front(Held { alone: held.alone || alone, ..held });
        }
    }

    fn undo_answer(&mut self, slot: u64, tried: Tried, entry: Option<Entry>) -> Held {
        // Who repeated a start meanwhile heard of nothing that is taken back.
        let replies = entry.into_iter().flat_map(|entry| entry.replies);
        self.released.extend(replies.map(|(ticket, result)| SagaEffect::Reply { ticket, result }));
        if let Some(running) = self.running.get_mut(&slot) {
            self.weight = (self.weight + tried.before.weight).saturating_sub(running.tree.weight);
            running.tree = tried.before;
            (running.moved_at, running.rested) = (tried.moved_at, tried.rested);
        }
        self.set_timer(slot);
        tried.held
    }

    /// The commit of a flight isn't in: takes its answers back.
    pub(super) fn take_all_back(&mut self, flight: &mut Flight, alone: bool) {
        if flight.tried.is_empty() {
            return;
        }
        let mut tried = std::mem::take(&mut flight.tried);
        flight.changes.retain(|(slot, _)| !tried.contains_key(slot));
        let entries = flight.batch.remove_all(|slot| tried.contains_key(&slot));
        let with_entry =
            entries.into_iter().filter_map(|entry| Some((entry.slot, tried.remove(&entry.slot)?, Some(entry))));
        let all: Vec<_> = with_entry.collect();
        self.take_back(all, alone);
    }

    /// Events of the commit that is out were refused: the attempts that left them have failed. False = it has none of these.
    pub(super) fn fail_refused(&mut self, refused: &[(usize, ExactRefusal)], now: UnixMillis) -> bool {
        let Some(mut flight) = self.flight.take() else { return false };
        let errors = refused.iter().filter_map(|(place, refusal)| {
            let slot = flight.slots.get(*place).filter(|slot| flight.tried.contains_key(*slot))?;
            let fault = refusal.fault();
            let error = if refusal.retryable() { StepError::Retryable(fault) } else { StepError::Permanent(fault) };
            Some((*slot, error))
        });
        let errors: BTreeMap<u64, StepError> = errors.collect();
        if errors.is_empty() {
            self.flight = Some(flight);
            return false;
        }
        let slots: Vec<u64> = flight.tried.keys().copied().collect();
        if self.config.rules.kept(Rule::RefusedFails) {
            self.fail(flight, errors, now);
        } else {
            let refused = flight.batch.entries.iter_mut().filter(|entry| errors.contains_key(&entry.slot));
            refused.for_each(|entry| entry.appends.list.retain(|append| matches!(append, JointAppend::Plain { .. })));
            flight.tried.retain(|slot, _| !errors.contains_key(slot));
            self.take_all_back(&mut flight, false);
            self.give_back(flight);
        }
        self.go_on(slots);
        true
    }

    /// What a step left is more than the store takes at once: it has failed for good.
    pub(super) fn fail_too_large(&mut self, flight: Flight) {
        let slots: Vec<u64> = flight.tried.keys().copied().collect();
        let reason = "what it left behind is more than the store takes at once";
        let fault = Fault { maybe_delivered: true, ..Fault::new(Code::STORAGE_TOO_LARGE, reason) };
        let errors = slots.iter().map(|slot| (*slot, StepError::Permanent(fault.clone()))).collect();
        self.fail(flight, errors, self.clock);
        self.go_on(slots);
    }

    /// Takes a commit back whose attempts of these trees have failed.
    fn fail(&mut self, mut flight: Flight, mut errors: BTreeMap<u64, StepError>, now: UnixMillis) {
        let entries = flight.batch.remove_all(|slot| errors.contains_key(&slot));
        let mut failed = Vec::with_capacity(entries.len());
        for entry in entries {
            let slot = entry.slot;
            if let (Some(tried), Some(error)) = (flight.tried.remove(&slot), errors.remove(&slot)) {
                failed.push((slot, self.undo_answer(slot, tried, Some(entry)), error));
            }
        }
        flight.changes.retain(|(slot, _)| !failed.iter().any(|(failed, ..)| failed == slot));
        self.take_all_back(&mut flight, false);
        self.give_back(flight);
        for (slot, held, error) in failed {
            let turn = self.turn(now, held.random);
            // Its retry plugin was asked about no failure.
            let answer = Answer { result: AnswerResult::Failed(error), backoff: None, ..held.answer };
            self.answer_call(slot, held.call, answer, turn);
        }
    }

    /// The fate of a commit is known: its trees go on with what was put off.
    pub(super) fn go_on(&mut self, slots: impl IntoIterator<Item = u64>) {
        for slot in slots {
            self.set_timer(slot);
            let turn = self.turn(self.clock, 0.5);
            self.go_on_with_trials(slot, turn);
        }
        for PutOff { ticket, command, random } in std::mem::take(&mut self.exacts.put_off) {
            self.submit(ticket, command, self.clock, random);
        }
    }
}
