//! The fate of a commit: applied, not applied, unknown, or the shard is lost.

use std::sync::Arc;

use super::SagaShard;
use super::build::Flight;
use super::commands::{SagaEffect, Ticket};
use crate::port::participant::StepError;
use crate::port::store::StoreError;
use crate::port::transport::Fault;
use crate::saga::call::{Answer, Call};
use crate::saga::error::SagaError;
use crate::saga::event::{Way, What};
use crate::saga::id::SagaKey;
use crate::saga::records::{SagaCommit, SagaShardRecord};
use crate::saga::state::Phase;

/// What is known after a failed commit.
#[derive(Debug)]
pub enum Resolution {
    /// It went in after all.
    Applied,
    /// It provably never will; its work is queued again.
    NotApplied,
    /// Not known yet: commit this barrier, then read the record again.
    Barrier(Box<SagaCommit>),
    /// Another writer took over: this one is to be dropped.
    Lost,
    /// The store lost what it had ([`StoreError::WentBack`]). Nothing that this writer remembers counts any more.
    WentBack(StoreError),
}

impl SagaShard {
    /// The commit that is out went in: its effects are released.
    pub fn committed(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.apply(flight);
        }
    }

    /// The commit that is out failed. Read the shard record and call [`SagaShard::resolve`].
    pub fn commit_failed(&mut self) {
        if let Some(flight) = &mut self.flight {
            flight.barriers.get_or_insert_default();
        }
    }

    /// The store takes no commit as large as the one that is out; nothing of it was written. Its sagas are tried one by one, and
    /// those behind them together again. One that was alone and too large all the same stands still until the next takeover, as it
    /// was committed last: it is answered here, and whoever asks something of it hears why.
    pub fn commit_too_large(&mut self) -> Option<SagaKey> {
        let flight = self.flight.take()?;
        let only = flight.only_slot();
        let aside = match flight.aside.as_slice() {
            [only] if flight.changes.is_empty() => Some(Arc::clone(only)),
            _ => None,
        };
        self.apart.refused(&flight);
        self.undo(flight);
        if let Some(broken) = aside {
            self.aside.retain(|other| other.key != broken.key);
            self.unmovable.push(Arc::clone(&broken));
            return Some(broken.key.clone());
        }
        self.stop(only?)
    }

    /// Lets a saga stand still that is too large to be written.
    fn stop(&mut self, slot: u64) -> Option<SagaKey> {
        if let Some(entry) = self.waiting.remove(slot) {
            let refused = entry.replies.into_iter().map(|(ticket, _)| {
                let result = Err(SagaError::Store(StoreError::TooLarge));
                SagaEffect::Reply { ticket, result }
            });
            self.released.extend(refused);
        }
        let running = self.running.get_mut(&slot)?;
        running.too_large = true;
        let key = running.tree.key.clone();
        let never_began = running.journal_from.is_none() && !running.has_row;
        if never_began {
            self.remove(slot);
        } else {
            self.set_timer(slot);
        }
        Some(key)
    }

    /// Goes on after a failed commit with the shard record as read now. `nonce` is fresh and random.
    pub fn resolve(&mut self, stored: &SagaShardRecord, nonce: u64) -> Resolution {
        let (known, found) = ((self.record.token, self.record.beat), (stored.token, stored.beat));
        if found < known {
            return Resolution::WentBack(StoreError::WentBack { shard: self.config.shard, known, found });
        }
        if stored.token != self.record.token {
            return Resolution::Lost;
        }
        let Some(mut flight) = self.flight.take() else { return Resolution::NotApplied };
        if stored.nonce == flight.record.nonce {
            self.apply(flight);
            return Resolution::Applied;
        }
        let mut barriers = flight.barriers.take().unwrap_or_default();
        if barriers.contains(&stored.nonce) {
            self.record = *stored;
            self.undo(flight);
            return Resolution::NotApplied;
        }
        let record = SagaShardRecord { beat: stored.beat + 1, nonce, ..*stored };
        barriers.push(nonce);
        flight.barriers = Some(barriers);
        self.flight = Some(flight);
        Resolution::Barrier(Box::new(SagaCommit {
            shard: self.config.shard,
            expect_token: stored.token,
            expect_beat: stored.beat,
            record,
            journal: Vec::new(),
            writes: Vec::new(),
            messages: Vec::new(),
        }))
    }

    fn apply(&mut self, flight: Flight) {
        self.record = flight.record;
        self.apart.tried(&flight);
        if !flight.aside.is_empty() {
            // Who looked for one of their ids before this didn't hear that it is taken.
            self.recent.raise(flight.record.beat);
        }
        for (slot, change) in flight.changes {
            let Some(running) = self.running.get_mut(&slot) else { continue };
            if running.journal_from != change.journal_from {
                if let Some(old) = running.journal_from {
                    self.journal.remove(&(old, slot));
                }
                if let Some(new) = change.journal_from {
                    self.journal.insert((new, slot));
                }
                running.journal_from = change.journal_from;
            }
            (running.has_row, running.has_dead) = (change.has_row, change.has_dead);
        }
        for entry in flight.batch.entries {
            let Some(running) = self.running.get(&entry.slot) else { continue };
            let (key, state) = (running.tree.key.clone(), running.tree.state());
            let ended = running.tree.is_ended() && self.waiting.get(entry.slot).is_none();
            if entry.events.first().is_some_and(|event| matches!(event.what, What::Started(_))) {
                self.released.push(SagaEffect::Began { key: key.clone() });
            }
            self.release_calls(entry.slot, entry.calls);
            self.released
                .extend(entry.replies.into_iter().map(|(ticket, result)| SagaEffect::Reply { ticket, result }));
            let Some(running) = self.running.get(&entry.slot) else { continue };
            let (tree, definitions) = (Arc::clone(&running.tree), Arc::clone(&running.definitions));
            let settled = self.waiting.get(entry.slot).is_none();
            self.released.push(SagaEffect::Moved { key, state, settled, tree, definitions, events: entry.events });
            if ended
                && let Some(running) = self.remove(entry.slot)
                && running.tree.started.caller_id
            {
                self.recent.push(self.record.beat, &running.tree);
            }
        }
    }

    /// Lets calls go out that are still wanted. What has been given up since isn't called: it had no effect.
    fn release_calls(&mut self, slot: u64, calls: Vec<Call>) {
        for call in calls {
            let reference = &call.reference;
            let tree = self.running.get(&slot).map(|running| &running.tree).filter(|tree| !tree.is_ended());
            let Some(node) = tree.and_then(|tree| tree.saga(reference.saga)) else { continue };
            let waits = node.step(reference.step).is_some_and(|record| {
                record.is_active(reference.way) && record.is_called() && record.attempt == reference.attempt
            });
            if !waits {
                continue;
            }
            if reference.way == Way::Execute && node.phase != Phase::Forward {
                let fault = Fault::new("SAGA.CANCELLED", "its saga went back before it was called");
                let turn = self.turn(self.clock, 0.5);
                let of = call.reference;
                self.work(slot, turn, None, |machine| {
                    machine.answer(of.saga, of.step, of.way, of.attempt, Answer::failed(StepError::Release(fault)));
                });
            } else {
                self.released.push(SagaEffect::Call(Box::new(call)));
            }
        }
    }

    /// The commit never went in: what it held goes into the next one, before what has happened since.
    fn undo(&mut self, flight: Flight) {
        self.aside.splice(..0, flight.aside);
        let later = std::mem::replace(&mut self.waiting, flight.batch);
        self.waiting.append(later);
    }

    /// The shard is lost or given back: tickets of commands that were not in a commit, and of those whose commit is out.
    pub fn recall(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        let tickets = |batch: super::Batch| {
            let entries = batch.entries.into_iter();
            entries.flat_map(|entry| entry.replies.into_iter().map(|(ticket, _)| ticket)).collect::<Vec<_>>()
        };
        let waiting = tickets(std::mem::take(&mut self.waiting));
        let out = self.flight.take().map_or_else(Vec::new, |flight| tickets(flight.batch));
        (waiting, out)
    }
}
