//! The fate of a commit: applied, not applied, unknown, or the shard is lost.

use std::sync::Arc;

use super::commands::CommandId;
use super::flight::{Flight, InFlight};
use super::settle::Verdict;
use super::slots::SlotState;
use super::{Owner, Rule, Ticket};
use crate::ids::{KeyHash, MessageId, Seq};
use crate::message::Message;
use crate::outbox::records::{DeadLetter, ShardRecord};
use crate::port::store::{OwnerCommit, StoreError};
use crate::time::Now;

/// What callers are told after a commit went in.
#[derive(Debug, Default)]
pub struct Applied {
    /// Direct requests with the ids of their messages.
    pub enqueued: Vec<(Ticket, Vec<MessageId>)>,
    /// Commands that are done.
    pub commands: Vec<CommandId>,
    /// Messages whose settlements are durable now.
    pub settled: Vec<Seq>,
    /// Messages whose `expires_at` passed before they could be sent.
    pub expired: usize,
    /// Messages that are in the outbox now, whatever way they came.
    pub begun: Vec<Arc<Message>>,
    /// Messages that are dead letters now, whatever they died of.
    pub died: Vec<Arc<DeadLetter>>,
}

/// What follows from reading the shard record after a failed commit.
#[derive(Debug)]
pub enum Resolution {
    /// The commit had gone in.
    Applied(Applied),
    /// It provably never will; its work is queued again.
    NotApplied,
    /// Not known yet: commit this barrier, then read the record again.
    Barrier(Box<OwnerCommit>),
    /// Another owner took over: this one is to be dropped.
    Lost,
    /// The store lost what it had ([`StoreError::WentBack`]). Nothing that this owner remembers or tells counts any more.
    WentBack(StoreError),
}

impl Owner {
    /// The commit that is out went in.
    pub fn committed(&mut self, now: Now) -> Applied {
        match self.flight.end() {
            None => Applied::default(),
            Some((flight, _)) => self.apply(flight, now),
        }
    }

    /// The commit that is out failed, or nobody knows whether it did. Read the shard record and
    /// call [`Owner::resolve`].
    pub fn commit_failed(&mut self) {
        self.flight.fail();
    }

    /// The store refused the commit that is out as too large: nothing of it was written. Requests that alone are larger than a
    /// commit may be are refused with it; their tickets. Without such, commits are cut at half as many bytes until the store has
    /// taken some. All else is queued again.
    pub fn too_large(&mut self, now: Now) -> Vec<Ticket> {
        let Some((mut flight, _)) = self.flight.end() else { return Vec::new() };
        let (bytes_max, is_least) = (self.next.bytes.get(), self.next.bytes.is_least());
        // What had no room beside claims may have it without them.
        let is_crowded = flight.is_crowded;
        let is_refused = |bytes: usize| !is_crowded && (is_least || bytes > bytes_max);
        let (refused, kept): (Vec<_>, Vec<_>) =
            flight.directs.into_iter().partition(|(direct, _)| is_refused(direct.bytes));
        flight.directs = kept;
        if refused.is_empty() && (is_crowded || !is_least) {
            self.next.bytes.refused();
        }
        refused.iter().for_each(|(direct, _)| self.next.requests.end(&direct.request));
        self.undo(flight, now);
        refused.into_iter().map(|(direct, _)| direct.request.ticket).collect()
    }

    /// Tells the requests in the commit that is out that its outcome isn't known; they get no other answer.
    pub fn abandon_requests(&mut self) -> Vec<Ticket> {
        self.flight.abandon()
    }

    /// Goes on after a failed commit with the shard record as read now. `nonce` is fresh and random.
    pub fn resolve(&mut self, stored: &ShardRecord, now: Now, nonce: u64) -> Resolution {
        if let Some(error) = self.went_back(stored) {
            return Resolution::WentBack(error);
        }
        if stored.token != self.record.token {
            return Resolution::Lost;
        }
        let Some((flight, mut barriers)) = self.flight.end() else { return Resolution::NotApplied };
        if stored.nonce == flight.nonce {
            return Resolution::Applied(self.apply(flight, now));
        }
        if barriers.contains(&stored.nonce) || !self.is_rule_kept(Rule::Barrier) {
            self.record.beat = stored.beat;
            self.record.nonce = stored.nonce;
            self.undo(flight, now);
            return Resolution::NotApplied;
        }
        let mut record = stored.clone();
        record.beat += 1;
        record.nonce = nonce;
        barriers.push(nonce);
        self.flight = Flight::Unknown(Box::new(flight), barriers);
        Resolution::Barrier(Box::new(OwnerCommit {
            shard: self.config.shard,
            expect_token: stored.token,
            expect_beat: stored.beat,
            record,
            writes: Vec::new(),
        }))
    }

    /// A store that says less than what was committed has lost it.
    fn went_back(&self, stored: &ShardRecord) -> Option<StoreError> {
        let (known, found) = ((self.record.token, self.record.beat), (stored.token, stored.beat));
        // What was lost has been written over: another takeover has the same token, or another commit the same beat.
        let is_other = (found.0 == known.0 && stored.taken != self.record.taken)
            || (found == known && stored.nonce != self.record.nonce);
        let is_behind = (found < known || is_other) && self.is_rule_kept(Rule::StoreNeverBack);
        is_behind.then_some(StoreError::WentBack { shard: self.config.shard, known, found })
    }

    fn apply(&mut self, flight: InFlight, now: Now) -> Applied {
        let mut applied = Applied {
            settled: flight.settled.iter().map(|(seq, _)| *seq).collect(),
            expired: flight.expired,
            begun: flight.begun,
            died: flight.died,
            ..Applied::default()
        };
        let opened: Vec<Seq> =
            flight.record.open.keys().filter(|first| !self.record.open.contains_key(first)).copied().collect();
        let closed: Vec<Seq> =
            self.record.open.keys().filter(|first| !flight.record.open.contains_key(first)).copied().collect();
        self.next.bytes.went_in();
        self.record = flight.record;
        self.deadline = flight.began + self.config.owner_ttl;
        self.window.quarantined(flight.quarantined);
        if let Some(end) = flight.page_end {
            self.next.doorstep.end_page(end);
        }
        for (tenant, first, index) in flight.gone {
            self.window.note_gone(&tenant, first, index);
        }
        for segment in flight.rewritten {
            self.window.rewritten(segment);
        }
        let mut freed: Vec<(Option<KeyHash>, Seq)> = Vec::new();
        for (seq, parked) in flight.settled {
            let Some(slot) = self.slots.get(&seq) else { continue };
            freed.push((slot.key, seq));
            if slot.pins_segment() && matches!(slot.state, SlotState::Settling(_)) {
                self.window.unpin(slot.place.segment);
            }
            self.drop_slot(seq);
            if let Some(parked) = parked {
                self.insert_parked(&parked, now);
            }
        }
        for (tenant, first) in flight.finished {
            self.window.leave_directory(&tenant, first);
        }
        for first in closed {
            self.release_segment(first);
        }
        for (segment, load) in flight.new_segments {
            let messages = u32::try_from(segment.entries.len()).unwrap_or(u32::MAX);
            // Also while the directory is still being read: a page read before this commit doesn't have it.
            self.window.enter_directory(&segment.tenant, segment.first, messages);
            if load && self.window.next_unscanned(&segment.tenant) == Some(segment.first) {
                self.scan_segment(&segment, now);
            }
            if self.record.open.contains_key(&segment.first) {
                // Claimed ones are always in memory, also when all their messages were skipped.
                self.window.keep(&segment);
            }
            self.release_segment(segment.first);
        }
        for parked in flight.replayed {
            self.insert_parked(&parked, now);
        }
        for scheduled in flight.scheduled_new {
            self.next.schedule.note(&scheduled);
        }
        for seq in flight.parked_claims {
            if let Some(slot) = self.slots.get_mut(&seq) {
                slot.claimed = true;
            }
            self.consider(seq, now);
        }
        for seq in flight.parked_released {
            if let Some(slot) = self.slots.get_mut(&seq) {
                slot.claimed = false;
            }
            self.consider(seq, now);
        }
        for dead in flight.key_holders {
            self.hold_key(dead);
        }
        for dead in flight.key_released {
            if let Some(key) = self.keys.release(&dead) {
                self.window.key_is_empty(&dead.message.tenant, key);
                freed.push((Some(key), dead.place.seq()));
            }
        }
        for (key, seq) in freed {
            self.free_key(key, seq, now);
        }
        for first in opened {
            self.reconsider_segment(first, now);
        }
        self.naming.applied();
        self.reconsider_stalled(now);
        applied.commands = flight.commands.iter().map(|queued| queued.id).collect();
        flight.directs.iter().for_each(|(direct, _)| self.next.requests.end(&direct.request));
        if flight.abandoned {
            applied.commands.clear();
        } else {
            applied.enqueued = flight.directs.into_iter().map(|(direct, ids)| (direct.request.ticket, ids)).collect();
        }
        applied
    }

    /// The commit never went in: everything it would have done is queued again.
    fn undo(&mut self, flight: InFlight, now: Now) {
        self.next.finish_more();
        self.next.doorstep.give_up(flight.page_end.is_some());
        self.next.schedule.put_back(flight.scheduled_taken);
        for (seq, _) in flight.settled.iter().rev() {
            let Some(slot) = self.slots.get_mut(seq) else { continue };
            let SlotState::Settling(settlement) = std::mem::replace(&mut slot.state, SlotState::Waiting) else {
                continue;
            };
            match settlement.verdict {
                Verdict::Cancelled | Verdict::Release { .. } => {
                    if slot.pins_segment() && matches!(settlement.verdict, Verdict::Cancelled) {
                        self.window.unpin(slot.place.segment);
                    }
                    self.consider(*seq, now);
                }
                _ => {
                    slot.state = SlotState::Out(settlement);
                    self.next.put_settlement_back(*seq);
                }
            }
        }
        for queued in flight.commands.into_iter().rev() {
            if !flight.abandoned {
                self.next.put_command_back(queued);
            }
        }
        for (mut direct, _) in flight.directs.into_iter().rev() {
            if flight.abandoned {
                self.next.requests.end(&direct.request);
            } else {
                // It has to follow a pass that begins from now on.
                direct.request.arrived = direct.request.arrived.min(now.mono);
                self.next.requests.put_back(direct);
            }
        }
        for first in flight.record.open.keys() {
            self.release_segment(*first);
        }
        for seq in self.naming.undone() {
            self.consider(seq, now);
        }
        // Segments that it would have given up are still claimed.
        let wanted: Vec<Seq> = self.scheduler.claims().in_segments().collect();
        for seq in wanted {
            self.consider(seq, now);
        }
    }
}
