//! The fate of a commit: applied, not applied, unknown, or the shard is lost.

use std::sync::Arc;

use super::SagaShard;
use super::build::Flight;
use super::commands::{SagaEffect, Ticket};
use crate::code::Code;
use crate::commit::{Step, Writer};
use crate::port::participant::StepError;
use crate::port::store::StoreError;
use crate::port::transport::Fault;
use crate::saga::call::{Answer, Call};
use crate::saga::error::SagaError;
use crate::saga::event::{EventKind, StepDirection};
use crate::saga::id::SagaKey;
use crate::saga::records::{SagaCommit, SagaShardRecord};
use crate::saga::state::Phase;
use crate::streams::exact::ExactRefusal;
use crate::streams::joint::JointAppends;
use crate::time::Now;

impl Writer for SagaShard {
    type Commit = SagaCommit;
    type Record = SagaShardRecord;
    /// What follows is among the effects.
    type Applied = ();
    type NotApplied = ();
    /// The saga that stands still from now on.
    type TooLarge = Option<SagaKey>;

    fn committed(&mut self, _: Now) {
        SagaShard::committed(self);
    }

    fn too_large(&mut self, _: Now) -> Option<SagaKey> {
        self.commit_too_large()
    }

    fn refused(&mut self, refused: &[(usize, ExactRefusal)], now: Now) -> Option<()> {
        self.fail_refused(refused, now.wall).then_some(())
    }

    fn resolve(&mut self, stored: &SagaShardRecord, _: Now, nonce: u64) -> Step<Self> {
        let (known, found) = ((self.record.token, self.record.beat), (stored.token, stored.beat));
        // At the same place stands another commit when what was lost has been written over.
        if found < known || (found == known && stored.nonce != self.record.nonce) {
            return Step::WentBack(StoreError::WentBack { shard: self.config.shard, known, found });
        }
        if stored.token != self.record.token {
            return Step::Lost;
        }
        let Some(mut flight) = self.flight.take() else { return Step::NotApplied(()) };
        if stored.nonce == flight.record.nonce {
            self.apply(flight);
            return Step::Applied(());
        }
        if flight.barriers.contains(&stored.nonce) {
            self.record = *stored;
            self.undo(flight);
            return Step::NotApplied(());
        }
        let record = SagaShardRecord { beat: stored.beat + 1, nonce, ..*stored };
        flight.barriers.push(nonce);
        self.flight = Some(flight);
        Step::Barrier(Box::new(SagaCommit {
            shard: self.config.shard,
            expect_token: stored.token,
            expect_beat: stored.beat,
            record,
            journal: Vec::new(),
            writes: Vec::new(),
            messages: Vec::new(),
            events: JointAppends::default(),
            door: Vec::new(),
        }))
    }
}

impl SagaShard {
    /// The commit that is out went in: its effects are released.
    pub fn committed(&mut self) {
        if let Some(flight) = self.flight.take() {
            self.apply(flight);
        }
    }

    /// The store takes no commit as large as the one that is out; nothing of it was written. Its sagas are tried one by one, and
    /// those behind them together again. One that was alone and too large all the same stands still until the next takeover, as it
    /// was committed last: it is answered here, and whoever asks something of it hears why.
    pub fn commit_too_large(&mut self) -> Option<SagaKey> {
        let mut flight = self.flight.take()?;
        let only = flight.only_slot();
        if only.is_some_and(|slot| flight.tried.contains_key(&slot)) {
            self.fail_too_large(flight);
            return None;
        }
        let slots: Vec<u64> = flight.tried.keys().copied().collect();
        self.take_all_back(&mut flight, true);
        let aside = match flight.aside.as_slice() {
            [only] if flight.changes.is_empty() => Some(Arc::clone(only)),
            _ => None,
        };
        self.apart.refused(&flight);
        self.give_back(flight);
        self.go_on(slots);
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

    fn apply(&mut self, flight: Flight) {
        let slots: Vec<u64> = flight.tried.keys().copied().collect();
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
            if entry.events.first().is_some_and(|event| matches!(event.what, EventKind::Started(_))) {
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
        self.go_on(slots);
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
            if reference.way == StepDirection::Execute && node.phase != Phase::Forward {
                let fault = Fault::new(Code::SAGA_CANCELLED, "its saga went back before it was called");
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

    /// The commit never went in: what it held goes into the next one. Answers whose events number themselves may have met another writer
    /// of their stream: each is tried by itself.
    fn undo(&mut self, mut flight: Flight) {
        let slots: Vec<u64> = flight.tried.keys().copied().collect();
        self.take_all_back(&mut flight, true);
        self.give_back(flight);
        self.go_on(slots);
    }

    /// What a commit held waits again, before what has happened since.
    pub(super) fn give_back(&mut self, flight: Flight) {
        self.aside.splice(..0, flight.aside);
        self.settled_door.splice(..0, flight.settled_door);
        let later = std::mem::replace(&mut self.waiting, flight.batch);
        self.waiting.append(later);
    }

    /// The shard is lost or given back: tickets of commands that were not in a commit, and of those whose commit is out.
    pub fn recall(&mut self) -> (Vec<Ticket>, Vec<Ticket>) {
        let tickets = |batch: super::Batch| {
            let entries = batch.entries.into_iter();
            entries.flat_map(|entry| entry.replies.into_iter().map(|(ticket, _)| ticket)).collect::<Vec<_>>()
        };
        let mut waiting = tickets(std::mem::take(&mut self.waiting));
        waiting.extend(self.exacts.recall());
        let out = self.flight.take().map_or_else(Vec::new, |flight| tickets(flight.batch));
        (waiting, out)
    }
}

#[cfg(test)]
mod tests {
    use crate::commit::{Step, Writer};
    use crate::ids::ShardId;
    use crate::saga::limits::SagaLimits;
    use crate::saga::machine::Rules;
    use crate::saga::records::{SagaShardRecord, SagaTakeover};
    use crate::saga::shard::{SagaShard, SagaShardConfig};
    use crate::time::{Now, UnixMillis};

    #[test]
    fn a_store_that_lost_a_commit_and_took_another_in_its_place_went_back() {
        let record = SagaShardRecord { token: 2, beat: 5, nonce: 7, floor: 0 };
        let config = SagaShardConfig {
            shard: ShardId(0),
            tx_events: None,
            limits: SagaLimits::default(),
            rules: Rules::default(),
            died: false,
        };
        let takeover = SagaTakeover { record, ..SagaTakeover::default() };
        let mut shard = SagaShard::restore(config, takeover, |_| None, UnixMillis(0), 0.5).shard;
        let other = SagaShardRecord { nonce: 8, ..record };
        assert!(matches!(shard.resolve(&other, Now::default(), 9), Step::WentBack(_)));
        assert!(matches!(shard.resolve(&record, Now::default(), 9), Step::NotApplied(())));
    }
}
