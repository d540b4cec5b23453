//! The fate of a commit: applied, not applied, unknown, or the shard is lost.

use super::InboxOwner;
use super::Rule;
use super::draft::{Flight, Outcome};
use super::entry::{Decision, DecisionKind, Durable, End, Entry, Stage};
use crate::code::Code;
use crate::commit::{Step, Writer};
use crate::ids::Seq;
use crate::inbox::records::{InboxCommit, InboxShardRecord};
use crate::inbox::settings::AcknowledgeRows;
use crate::port::store::StoreError;
use crate::port::transport::Fault;
use crate::streams::exact::ExactRefusal;
use crate::streams::joint::JointAppends;
use crate::time::Now;

/// What followed from a commit that went in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxApplied {
    /// Messages that are finished.
    pub finished: usize,
    /// Dead letters that were replayed or purged, as operators asked.
    pub requests: Vec<Seq>,
    /// Something lies at the doors of the outbox or of sagas.
    pub left: bool,
}

impl Writer for InboxOwner {
    type Commit = InboxCommit;
    type Record = InboxShardRecord;
    type Applied = InboxApplied;
    type NotApplied = ();
    type TooLarge = ();

    fn committed(&mut self, now: Now) -> InboxApplied {
        self.tick(now);
        self.flight.take().map(|flight| self.apply(flight)).unwrap_or_default()
    }

    /// What it held goes in smaller commits. A message that alone leaves too much behind has a failed attempt.
    fn too_large(&mut self, now: Now) {
        self.tick(now);
        let Some(mut flight) = self.flight.take() else { return };
        if self.outcomes_max <= 1 {
            for (seq, decision, _) in &mut flight.outcomes {
                let called = self.entries.get(*seq).and_then(|entry| Some((entry.consumer?, entry.attempts)));
                if let (Decision::Finish(End::Processed(_)), Some((consumer, attempts))) = (&*decision, called) {
                    let reason = "what it left behind is more than the store takes at once";
                    let fault = Fault::new(Code::HANDLER_BAD_OUTPUT, reason);
                    // Like any other failed attempt it may be the last.
                    *decision = self.failed(consumer, attempts, fault, 0.5);
                }
            }
        }
        self.outcomes_max = (self.outcomes_max / 2).max(1);
        self.undo(flight);
    }

    fn refused(&mut self, refused: &[(usize, ExactRefusal)], now: Now) -> Option<()> {
        self.tick(now);
        let mut flight = self.flight.take()?;
        if !self.fail_refused(&mut flight, refused) {
            self.flight = Some(flight);
            return None;
        }
        self.undo(flight);
        Some(())
    }

    fn resolve(&mut self, stored: &InboxShardRecord, now: Now, nonce: u64) -> Step<Self> {
        self.tick(now);
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
            return Step::Applied(self.apply(flight));
        }
        if flight.barriers.contains(&stored.nonce) || !self.is_rule_kept(Rule::Barrier) {
            (self.record.beat, self.record.nonce) = (stored.beat, stored.nonce);
            self.part(&flight);
            self.undo(flight);
            return Step::NotApplied(());
        }
        flight.barriers.push(nonce);
        self.flight = Some(flight);
        Step::Barrier(Box::new(InboxCommit {
            shard: self.config.shard,
            expect_token: stored.token,
            expect_beat: stored.beat,
            record: InboxShardRecord { beat: stored.beat + 1, nonce, ..stored.clone() },
            writes: Vec::new(),
            seen: Vec::new(),
            done: Vec::new(),
            messages: Vec::new(),
            sagas: Vec::new(),
            events: JointAppends::default(),
        }))
    }
}

impl InboxOwner {
    fn apply(&mut self, flight: Flight) -> InboxApplied {
        let mut applied = InboxApplied::default();
        let beat = flight.record.beat;
        self.accounted_at = flight.begun;
        self.record = flight.record;
        if self.outcomes_max < crate::inbox::limits::COMMIT_OUTCOMES_MAX {
            self.outcomes_max += 1;
        }
        for (seq, decision, outcome) in flight.outcomes {
            applied.left |= matches!(decision, Decision::Finish(_));
            applied.finished += usize::from(matches!(outcome, Outcome::Gone { .. }));
            self.apply_outcome(seq, outcome);
        }
        for seq in flight.stored {
            if let Some(entry) = self.entries.get_mut(seq) {
                (entry.flying, entry.releasable) = (false, true);
                let copies = entry.copies.clone();
                self.counts.stored += 1;
                self.set_row(seq);
                self.done_with_copies(seq, &copies);
                self.rest_row(seq);
            }
        }
        for seq in flight.taken {
            if let Some(entry) = self.entries.get_mut(seq) {
                entry.flying = false;
                self.set_taken(seq, beat);
                self.consider(seq);
            }
        }
        for (seq, replay) in flight.replays {
            applied.requests.push(replay.dead.seq);
            self.counts.replayed += 1;
            if !self.is_rule_kept(Rule::RegisterReplay) {
                self.register_late(seq, &replay);
            }
            if let Some(entry) = self.entries.get_mut(seq) {
                entry.stage = Stage::Idle;
                let copies = entry.copies.clone();
                self.set_row(seq);
                self.done_with_copies(seq, &copies);
                self.rest_row(seq);
            }
        }
        applied.requests.extend(flight.purged);
        self.load_late_rows();
        applied
    }

    /// A mutation of the model: what came under the replay's name meanwhile makes room for it.
    fn register_late(&mut self, seq: Seq, replay: &super::Replay) {
        let Some(mut entry) = self.replay_entry(replay, seq) else { return };
        if let Some(other) = self.entries.seq_of(entry.fingerprint).and_then(|other| self.drop_entry(other)) {
            entry.copies = other.copies;
        }
        self.entries.insert(entry);
    }

    fn apply_outcome(&mut self, seq: Seq, outcome: Outcome) {
        match outcome {
            Outcome::Gone { processed, dead } => {
                let Some(entry) = self.drop_entry(seq) else { return };
                if let Some(consumer) = entry.consumer.and_then(|id| self.consumers.get_mut(id)) {
                    consumer.processed += u64::from(processed);
                }
                self.counts.processed += u64::from(processed);
                self.counts.dead += u64::from(dead);
                self.counts.reused += u64::from(entry.reused && dead);
                self.done_with_copies(seq, &entry.copies);
            }
            Outcome::Waits { due, due_at, delay, error } => {
                let releases = self.releases_failed(seq);
                let Some(entry) = self.entries.get_mut(seq) else { return };
                entry.stage = Stage::Idle;
                entry.attempts += 1;
                (entry.due, entry.due_at, entry.delay) = (due, due_at, delay);
                (entry.last_error, entry.maybe_handled) = (Some(error), true);
                entry.releasable |= releases;
                let (releasable, copies) = (entry.releasable, entry.copies.clone());
                self.counts.failed += 1;
                self.set_row(seq);
                if releasable {
                    self.done_with_copies(seq, &copies);
                }
                self.rest_row(seq);
            }
            Outcome::Expired => {
                let is_empty = self.entries.get(seq).is_some_and(|entry| entry.copies.is_empty());
                if is_empty {
                    self.drop_entry(seq);
                } else {
                    self.look_up_again(seq, true);
                }
            }
        }
    }

    /// Whether a row that failed is acknowledged although its source has room.
    fn releases_failed(&self, seq: Seq) -> bool {
        let Some(entry) = self.entries.get(seq) else { return true };
        let source = entry.source.and_then(|id| self.source_settings(id));
        // What it leaves unsettled there keeps all that came behind it, of other keys too.
        let keeps_others = source.is_some_and(|source| source.by_offsets || source.ordered_acks);
        let consumer = entry.consumer.and_then(|id| self.config.settings.consumer(id));
        keeps_others || consumer.is_some_and(|consumer| consumer.acknowledge_rows == AcknowledgeRows::AtOnce)
    }

    /// A row that waits needn't keep its message, and those behind it may be called or not.
    fn rest_row(&mut self, seq: Seq) {
        if self.entries.get(seq).is_some_and(|entry| entry.stage == Stage::Idle) {
            self.entries.forget_message(seq);
        }
        self.consider(seq);
        if !self.is_rule_kept(Rule::FailedHeadHolds) {
            self.consider_key_of(seq);
        }
    }

    fn look_up_again(&mut self, seq: Seq, without_take: bool) {
        if without_take {
            self.entries.set_durable(seq, Durable::Nothing);
        }
        if let Some(entry) = self.entries.get_mut(seq) {
            entry.stage = Stage::LookUp;
        }
        self.consider(seq);
    }

    /// The commit never went in: what it held goes into the next one.
    fn undo(&mut self, flight: Flight) {
        self.contexts.change(&flight.rows, true);
        for seq in flight.stored.iter().chain(&flight.taken) {
            if let Some(entry) = self.entries.get_mut(*seq) {
                entry.flying = false;
                // Kept for this commit alone, it has no delivery that a next revocation would find it by: with what is before it in its
                // key revoked once more, it would be called first.
                self.drop_withdrawn(*seq);
                self.consider(*seq);
            }
        }
        for (seq, decision, _) in flight.outcomes {
            let has_copies = self.entries.get(seq).is_some_and(|entry| !entry.copies.is_empty());
            if decision == Decision::Expire && has_copies {
                self.look_up_again(seq, false);
            } else {
                self.decide(seq, decision);
            }
        }
        for (seq, replay) in flight.replays.into_iter().rev() {
            if self.entries.get(seq).is_some_and(Entry::is_replaying) {
                self.give_up_replay(seq);
            }
            self.requests.replayed.remove(&replay.dead.seq);
            self.requests.replays.push_front(replay);
        }
        for seq in flight.purged {
            self.requests.purges.push_back(seq);
        }
    }

    /// A replay without its commit has no place. What joined it is looked up: its id is in the seen set.
    fn give_up_replay(&mut self, seq: Seq) {
        let has_copies = self.entries.get(seq).is_some_and(|entry| !entry.copies.is_empty());
        if has_copies {
            self.look_up_again(seq, false);
        } else {
            self.drop_entry(seq);
        }
    }
}

impl Entry {
    fn is_replaying(&self) -> bool {
        self.stage == Stage::Committing(DecisionKind::Replay)
    }
}
