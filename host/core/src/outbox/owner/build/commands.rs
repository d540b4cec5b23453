//! Operators' commands in the next commit.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::Rule;
use super::super::commands::{Command, CommandError};
use super::super::settle::Verdict;
use super::super::slots::SlotState;
use super::room::Part;
use super::{CommitBuilder, without_attempt};
use crate::fates::Fate;
use crate::ids::{Place, Seq};
use crate::message::{Message, Payload};
use crate::outbox::records::{DeadLetter, DeadState, Done, DoneEnd, IdState, Parked, Scheduled, Segment};
use crate::port::store::Write;
use crate::tx_event::TxEventKind;

/// Segments moved to quarantine with one commit: what they hold is up to 512 KiB each and counts with no commit.
const QUARANTINED_MAX: usize = 2;

impl CommitBuilder<'_> {
    pub(super) fn commands(&mut self) {
        while !self.is_full(Part::Commands) {
            let Some(queued) = self.owner.next.pop_command() else { break };
            if let Err(error) = self.owner.check_command(&queued.command) {
                self.refused.push((queued.id, error));
                continue;
            }
            match self.do_command(&queued.command) {
                Ok(()) => self.flight.commands.push(queued),
                Err(error) => self.refused.push((queued.id, error)),
            }
        }
    }

    pub(super) fn do_command(&mut self, command: &Command) -> Result<(), CommandError> {
        // As read, so what an earlier command of this commit is about isn't there any more.
        let target = match command {
            Command::CancelScheduled(scheduled) | Command::Reschedule { scheduled, .. } => {
                Some((scheduled.due.0, Some(scheduled.message.id.clone())))
            }
            Command::Replay { dead, .. } | Command::Quarantine { dead, .. } | Command::Purge(dead) => {
                Some((dead.place.seq().0, None))
            }
            Command::Cancel { place, .. } if !self.owner.slots.contains_key(&place.seq()) => {
                Some((place.seq().0, None))
            }
            Command::Cancel { .. } | Command::RescheduleParked { .. } => None,
        };
        if target.is_some_and(|target| !self.commanded.insert(target)) {
            return Err(CommandError::Gone);
        }
        match command {
            Command::Cancel { place, segment } => return self.cancel(*place, segment.as_ref()),
            Command::CancelScheduled(scheduled) => {
                self.delete_scheduled(scheduled)?;
                let done = Done {
                    index: 0,
                    message: Arc::clone(&scheduled.message),
                    end: DoneEnd::Cancelled,
                    at: self.now.wall,
                    attempts: 0,
                    receipt: None,
                    history: Vec::new(),
                };
                let place = self.take_place();
                self.put_id(&scheduled.message, IdState::At(place), false);
                self.put_done(place.segment, done);
            }
            Command::RescheduleParked { place, due } => {
                let Some(slot) = self.owner.slots.get_mut(&place.seq()) else { return Err(CommandError::Gone) };
                let mut row = slot.parked(false);
                row.due = *due;
                row.delay = due.since(self.now.wall);
                let row = Arc::new(row);
                self.put(Write::PutParked(Arc::clone(&row)));
                self.owner.unlist(place.seq());
                if let Some(slot) = self.owner.slots.get_mut(&place.seq()) {
                    slot.state =
                        SlotState::Settling(Box::new(without_attempt(Verdict::Release { due: None }, self.now.wall)));
                }
                self.flight.settled.push((place.seq(), Some(row)));
            }
            Command::Reschedule { scheduled, due } => {
                self.delete_scheduled(scheduled)?;
                let moved = Arc::new(Scheduled { due: *due, ..(**scheduled).clone() });
                self.put_id(&moved.message, IdState::Scheduled { shard: moved.shard, due: *due }, false);
                self.put(Write::PutScheduled(Arc::clone(&moved)));
                self.flight.scheduled_new.push(moved);
            }
            Command::Replay { dead, by } => {
                if self.owner.slots.contains_key(&dead.place.seq()) {
                    return Err(CommandError::Gone);
                }
                let row = Arc::new(Parked {
                    place: dead.place,
                    message: Arc::new(dead.message.replayed(by.as_ref())),
                    attempts: 0,
                    due: self.now.wall,
                    delay: Duration::ZERO,
                    first_attempt_at: self.now.wall,
                    claimed: false,
                    history: dead.history.clone(),
                });
                self.note(TxEventKind::Replay, &dead.message, 0, Some(&dead.code));
                self.count_fate(&row.message, Fate::PutBack);
                self.put(Write::DeleteDead(dead.place.seq()));
                self.put(Write::PutParked(Arc::clone(&row)));
                self.flight.replayed.push(row);
                self.flight.key_released.push(Arc::clone(dead));
            }
            Command::Quarantine { dead, note } => {
                let state = DeadState::Quarantined { note: note.clone(), at: self.now.wall };
                self.put(Write::PutDead(Arc::new(DeadLetter { state, holds_key: false, ..(**dead).clone() })));
                self.flight.key_released.push(Arc::clone(dead));
            }
            Command::Purge(dead) => {
                // Only that it was there stays, for as long as the history does.
                if let Payload::Blob { blob, .. } = &dead.message.payload {
                    self.put(Write::DeleteBlob(blob.clone()));
                }
                let nothing = Payload::Inline(Bytes::new());
                let message = Message { payload: nothing, headers: Vec::new(), ..(*dead.message).clone() };
                self.put(Write::DeleteDead(dead.place.seq()));
                let done = Done {
                    index: dead.place.index,
                    message: Arc::new(message),
                    end: DoneEnd::Purged,
                    at: self.now.wall,
                    attempts: dead.attempts,
                    receipt: None,
                    history: Vec::new(),
                };
                self.put_done(dead.place.segment, done);
                self.flight.key_released.push(Arc::clone(dead));
            }
        }
        Ok(())
    }

    pub(super) fn cancel(&mut self, place: Place, segment: Option<&Arc<Segment>>) -> Result<(), CommandError> {
        let seq = place.seq();
        if self.owner.slots.contains_key(&seq) {
            self.owner.unlist(seq);
            let settlement = without_attempt(Verdict::Cancelled, self.now.wall);
            if let Some(slot) = self.owner.slots.get_mut(&seq) {
                slot.state = SlotState::Settling(Box::new(settlement.clone()));
                if slot.pins_segment() {
                    self.owner.window.pin(place.segment);
                }
            }
            self.settle_one(seq, settlement);
            return Ok(());
        }
        let in_memory = self.owner.window.segment(place.segment);
        let segment = in_memory.or(segment).cloned().ok_or(CommandError::NeedsSegment)?;
        let entry =
            segment.entries.iter().find(|entry| entry.index == place.index).cloned().ok_or(CommandError::Gone)?;
        let done = Done {
            index: place.index,
            message: entry.message,
            end: DoneEnd::Cancelled,
            at: self.now.wall,
            attempts: 0,
            receipt: None,
            history: Vec::new(),
        };
        self.put_done(place.segment, done);
        self.flight.gone.push((segment.tenant.clone(), place.segment, place.index));
        self.flight.cancels_unread = true;
        self.record.suspicion.suspects.remove(&seq);
        if let Some(open) = self.record.open.get_mut(&place.segment) {
            open.moved.insert(place.index);
            self.touched.insert(place.segment);
        } else {
            let gone = self.owner.window.gone_from(&segment.tenant, place.segment);
            let rewritten = self.flight.rewritten.iter().find(|other| other.first == place.segment).cloned();
            let base = rewritten.unwrap_or(segment);
            self.rewrite(&base, |entry| entry.index != place.index && !gone.contains(entry.index));
        }
        Ok(())
    }

    pub(super) fn delete_scheduled(&mut self, scheduled: &Arc<Scheduled>) -> Result<(), CommandError> {
        if self.owner.next.schedule.is_due(scheduled) {
            return Err(CommandError::BeingSent);
        }
        self.put(Write::DeleteScheduled { due: scheduled.due, id: scheduled.message.id.clone() });
        Ok(())
    }

    /// Moves segments that can't be read aside, a few with each commit: the store writes them whole.
    pub(super) fn quarantine(&mut self) {
        let is_kept = self.owner.is_rule_kept(Rule::QuarantineUnreadable);
        let unreadable: Vec<(Seq, String)> =
            self.owner.window.unreadable().iter().take(QUARANTINED_MAX).cloned().collect();
        self.flight.quarantined = unreadable.len();
        for (first, reason) in unreadable {
            self.record.open.remove(&first);
            self.put(match is_kept {
                true => Write::QuarantineSegment { first, reason },
                false => Write::DeleteSegment(first),
            });
        }
    }
}
