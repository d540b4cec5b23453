//! The next commit: outcomes with all they leave behind, rows, takes, names, and what operators asked.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::draft::{Draft, Flight, Outcome};
use super::entry::{Decision, Durable, End, Entry, Stage};
use super::{InboxOwner, Rule};
use crate::ids::Seq;
use crate::inbox::dlq;
use crate::inbox::limits::ORPHAN_PATIENCE;
use crate::inbox::records::{InboxCommit, InboxDead, InboxDone, InboxEnd, InboxRow, InboxWrite, LastError, Take};
use crate::inbox::seen::{SeenMark, SeenPlace};
use crate::outbox::records::DeadState;
use crate::time::Now;
use crate::tx_event::TxEventKind;

impl InboxOwner {
    /// The next commit; none while one is out or there is nothing to commit. `nonce` is fresh and random.
    pub fn build(&mut self, now: Now, nonce: u64) -> Option<InboxCommit> {
        self.tick(now);
        if self.flight.is_some() {
            return None;
        }
        self.expire_orphans(now);
        let alone = self.next_alone();
        // In turn: neither waits for more than one commit of the other.
        let was_alone = std::mem::take(&mut self.was_alone);
        let first = alone.filter(|_| !was_alone);
        let commit = self.draft(now, nonce, first);
        if commit.is_some() || first == alone {
            return commit;
        }
        self.draft(now, nonce, alone)
    }

    /// A commit of all that waits, or of one message alone.
    fn draft(&mut self, now: Now, nonce: u64, alone: Option<Seq>) -> Option<InboxCommit> {
        let mut record = self.record.clone();
        (record.beat, record.nonce) = (record.beat + 1, nonce);
        // Whole milliseconds count now, the rest with the next commit: at a thousand commits a second it would be most of the time.
        let owned = now.mono - self.accounted_at;
        let owned = owned - Duration::from_nanos(u64::from(owned.subsec_nanos() % 1_000_000));
        record.age = record.age.plus(owned);
        if !self.is_rule_kept(Rule::OwnedAge) {
            record.age.0 = record.age.0.max(now.wall.0);
        }
        self.positions.note(&self.config.settings, record.age, &mut record.positions);
        let mut work = now.mono >= self.accounted_at + crate::inbox::limits::AGE_BEAT;
        work |= self.has_lone_trial() && now.mono >= self.accounted_at + crate::limits::LIFE_BEAT;
        let suspicion = self.next_suspicion(now);
        work |= self.is_news(&suspicion);
        record.suspicion = suspicion;
        let mut draft = Draft::new(record, self.config.shards, self.config.tx_events.is_some());
        let seqs = self.next_outcomes(alone);
        let outcomes = self.draft_outcomes(&mut draft, seqs, now);
        let (mut stored, mut taken, mut replays, mut purged) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        if alone.is_none() {
            let mut within: BTreeSet<Seq> = outcomes.iter().map(|(seq, ..)| *seq).collect();
            stored = self.draft_rows(&mut draft, &within);
            within.extend(&stored);
            taken = self.draft_takes(&mut draft, &within);
            (replays, purged) = self.draft_requests(&mut draft);
        }
        work |= !(outcomes.is_empty() && stored.is_empty() && taken.is_empty());
        work |= !(replays.is_empty() && purged.is_empty());
        if !work {
            return None;
        }
        draft.record.last = self.last;
        self.was_alone = alone.is_some();
        let (rows, appends) = (std::mem::take(&mut draft.rows), std::mem::take(&mut draft.appends));
        self.contexts.change(&rows, false);
        draft.record.contexts = self.contexts.counts();
        let expect = (self.record.token, self.record.beat);
        draft.audit(self.config.shard, self.config.tx_events.as_deref(), now.wall);
        let (commit, record) = draft.finish(self.config.shard, expect);
        let begun = self.accounted_at + owned;
        let barriers = Vec::new();
        self.flight = Some(Flight { record, outcomes, stored, taken, replays, purged, rows, appends, begun, barriers });
        Some(commit)
    }

    /// Whether a commit is out.
    pub fn in_flight(&self) -> bool {
        self.flight.is_some()
    }

    /// Orphans that their source doesn't bring again give their places up.
    fn expire_orphans(&mut self, now: Now) {
        let lived = now.mono - self.adopted_at;
        let waits = |seq: &Seq| {
            let entry = self.entries.get(*seq)?;
            let Some(source) = self.config.settings.source_named(&entry.source_name) else {
                // Nobody will ever bring it.
                return Some(lived > self.shortest_orphan_wait());
            };
            let wait = self.source_settings(source)?.orphan_wait();
            let is_waited_for = self.is_rule_kept(Rule::OrphansAreAwaited);
            let would_have_come = !is_waited_for || self.sources.has_waited(source, wait);
            let can_not_come = lived > wait.saturating_mul(ORPHAN_PATIENCE) && self.is_full_of_rows(source);
            Some(would_have_come || can_not_come)
        };
        let over: Vec<Seq> = self.orphans.iter().filter(|seq| waits(seq) == Some(true)).copied().collect();
        for seq in over {
            self.orphans.remove(&seq);
            self.counts.orphans_expired += 1;
            self.decide(seq, Decision::Expire);
        }
    }

    fn draft_outcomes(&mut self, draft: &mut Draft, seqs: Vec<Seq>, now: Now) -> Vec<(Seq, Decision, Outcome)> {
        let mut outcomes = Vec::with_capacity(seqs.len());
        for seq in seqs {
            self.decided.remove(&seq);
            self.alone.remove(&seq);
            let Some(entry) = self.entries.get_mut(seq) else { continue };
            let Stage::Decided(decision) = &entry.stage else { continue };
            let kind = decision.kind();
            let Stage::Decided(decision) = std::mem::replace(&mut entry.stage, Stage::Committing(kind)) else {
                continue;
            };
            let outcome = self.draft_outcome(draft, seq, &decision, now);
            self.unlist(seq);
            outcomes.push((seq, decision, outcome));
        }
        outcomes
    }

    fn draft_outcome(&self, draft: &mut Draft, seq: Seq, decision: &Decision, now: Now) -> Outcome {
        let Some(entry) = self.entries.get(seq) else { return Outcome::Expired };
        draft.untake(entry);
        draft.record.suspicion.calling.remove(&entry.fingerprint);
        match decision {
            Decision::Expire => Outcome::Expired,
            Decision::Retry { fault, delay } => {
                draft.record.suspicion.suspects.remove(&entry.fingerprint);
                let error = LastError { code: fault.code.clone(), reason: fault.reason.clone() };
                let (due, due_at) = (now.mono + *delay, now.wall.plus(*delay));
                let attempts = entry.attempts + 1;
                let row = InboxRow {
                    attempts,
                    due: due_at,
                    delay: *delay,
                    last_error: Some(error.clone()),
                    maybe_handled: true,
                    ..match self.row_of(entry) {
                        Some(row) => row,
                        None => return Outcome::Expired,
                    }
                };
                draft.note(TxEventKind::Retry, &row.consumer, &row.message, attempts, &fault.code);
                draft.writes.push(InboxWrite::PutRow(Arc::new(row)));
                draft.row_change(entry, true);
                Outcome::Waits { due, due_at, delay: *delay, error }
            }
            Decision::Finish(end) => self.draft_end(draft, entry, end, now),
        }
    }

    /// A message ends: its id is seen, and whatever it leaves goes with it.
    fn draft_end(&self, draft: &mut Draft, entry: &Entry, end: &End, now: Now) -> Outcome {
        let (Some(message), Some(consumer)) = (entry.message.clone(), entry.consumer_name.clone()) else {
            return Outcome::Expired;
        };
        draft.record.suspicion.suspects.remove(&entry.fingerprint);
        if entry.is_row() {
            draft.writes.push(InboxWrite::DeleteRow(entry.seq));
            draft.row_change(entry, false);
        }
        if self.needs_lookup(entry.seq) || !self.is_rule_kept(Rule::AskTheSeenSet) {
            let place = if entry.reused {
                SeenPlace::in_runs(entry.fingerprint)
            } else {
                SeenPlace::of(message.id.as_str(), entry.fingerprint, self.stamp(entry.seq), now.wall)
            };
            draft.seen.push(SeenMark { consumer: consumer.clone(), place, check: entry.digest.check() });
        }
        // Never before it was received, whatever the clock says.
        let ended_at = now.wall.max(message.received_at);
        let (how, attempts) = match end {
            End::Processed(leavings) => {
                leavings.messages.iter().for_each(|message| draft.message(Arc::clone(message)));
                leavings.sagas.iter().for_each(|item| draft.saga(item.clone()));
                draft.events(entry.seq, &leavings.events);
                (InboxEnd::Processed, entry.attempts + 1)
            }
            End::Duplicate => (InboxEnd::Duplicate, entry.attempts + 1),
            End::Dead { code, reason, attempted } => {
                let attempts = entry.attempts + u32::from(*attempted);
                let dead = InboxDead {
                    seq: entry.seq,
                    consumer: consumer.clone(),
                    fingerprint: entry.fingerprint,
                    digest: entry.digest,
                    message: Arc::clone(&message),
                    code: code.clone(),
                    reason: reason.clone(),
                    attempts,
                    died_at: ended_at,
                    state: DeadState::Dead,
                };
                draft.note(TxEventKind::Dead, &dead.consumer, &dead.message, attempts, code);
                self.draft_dlq(draft, entry, &dead, now);
                draft.writes.push(InboxWrite::PutDead(Arc::new(dead)));
                (InboxEnd::Dead, attempts)
            }
        };
        draft.done.push(InboxDone {
            consumer,
            id: message.id.clone(),
            tenant: message.tenant.clone(),
            subject: message.subject.clone(),
            received_at: message.received_at,
            processed_at: ended_at,
            attempts,
            end: how,
        });
        Outcome::Gone { processed: how != InboxEnd::Dead, dead: how == InboxEnd::Dead }
    }

    /// A dead letter and its DLQ message are one commit.
    fn draft_dlq(&self, draft: &mut Draft, entry: &Entry, dead: &InboxDead, now: Now) {
        let consumer = entry.consumer.and_then(|id| self.config.settings.consumer(id));
        let source = entry.source.or_else(|| self.config.settings.source_named(&entry.source_name));
        let source = source.and_then(|id| self.source_settings(id));
        let message = consumer.and_then(|consumer| dlq::message(dead, source, consumer, self.config.shard, now.wall));
        if let Some(message) = message {
            draft.message(message);
        }
    }

    /// Its row as it is now.
    fn row_of(&self, entry: &Entry) -> Option<InboxRow> {
        Some(InboxRow {
            seq: entry.seq,
            consumer: entry.consumer_name.clone()?,
            fingerprint: entry.fingerprint,
            order: entry.order,
            digest: entry.digest,
            message: entry.message.clone()?,
            attempts: entry.attempts,
            last_error: entry.last_error.clone(),
            due: entry.due_at,
            delay: entry.delay,
            maybe_handled: entry.maybe_handled || entry.stage == Stage::Called,
        })
    }

    fn draft_rows(&mut self, draft: &mut Draft, leaving: &BTreeSet<Seq>) -> Vec<Seq> {
        let pressed = self.pressed();
        for seq in pressed.release {
            let copies = self.entries.get_mut(seq).map(|entry| {
                entry.releasable = true;
                entry.copies.clone()
            });
            self.done_with_copies(seq, &copies.unwrap_or_default());
        }
        let stored = self.rows_behind_rows(&pressed.store, leaving, self.outcomes_max);
        for seq in &stored {
            let Some(entry) = self.entries.get(*seq) else { continue };
            draft.untake(entry);
            if let Some(row) = self.row_of(entry) {
                draft.writes.push(InboxWrite::PutRow(Arc::new(row)));
                draft.row_change(entry, true);
            }
            self.set_flying(*seq);
        }
        stored
    }

    fn draft_takes(&mut self, draft: &mut Draft, within: &BTreeSet<Seq>) -> Vec<Seq> {
        let taken = self.takes(within, self.outcomes_max);
        let mut takes = Vec::with_capacity(taken.len());
        for seq in &taken {
            let Some(entry) = self.entries.get(*seq) else { continue };
            let Some(order) = entry.order else { continue };
            let source = entry.source_name.clone();
            takes.push(Take { seq: *seq, fingerprint: entry.fingerprint, order, source });
            self.set_flying(*seq);
        }
        draft.take(takes);
        taken
    }

    fn set_flying(&mut self, seq: Seq) {
        let keeps = self.is_rule_kept(Rule::KeepWhatFlies);
        if let Some(entry) = self.entries.get_mut(seq) {
            entry.flying = keeps;
        }
    }

    /// The store knows a take under this beat.
    pub(super) fn set_taken(&mut self, seq: Seq, beat: u64) {
        self.entries.set_durable(seq, Durable::Taken(beat));
    }
}
