//! Settlements in the next commit: done bits, parked rows, dead letters.

use std::sync::Arc;

use super::super::Rule;
use super::super::settle::{Settlement, Verdict};
use super::super::slots::{Origin, SlotState};
use super::super::window::DoneInfo;
use super::room::Part;
use super::{CommitBuilder, with_attempt};
use crate::fates::{Death, Fate};
use crate::ids::{Place, Seq, Tenant};
use crate::message::Message;
use crate::outbox::records::{AttemptRecord, DeadLetter, DeadState, Done, DoneEnd, Entry, Segment};
use crate::port::store::Write;
use crate::port::transport::Fault;
use crate::tx_event::TxEventKind;

impl CommitBuilder<'_> {
    pub(super) fn settle(&mut self) {
        for _ in 0..self.owner.config.limits.settle_max {
            if self.is_full(Part::Settlements) {
                break;
            }
            let Some(seq) = self.owner.next.pop_settlement() else { break };
            let Some(slot) = self.owner.slots.get_mut(&seq) else { continue };
            let SlotState::Out(settlement) = std::mem::replace(&mut slot.state, SlotState::Waiting) else { continue };
            slot.state = SlotState::Settling(settlement.clone());
            self.settle_one(seq, *settlement);
        }
    }

    pub(super) fn settle_one(&mut self, seq: Seq, settlement: Settlement) {
        let Settlement { verdict, attempt } = settlement;
        let Some(slot) = self.owner.slots.get(&seq) else { return };
        let (place, origin, message) = (slot.place, slot.origin, Arc::clone(&slot.message));
        let attempts = slot.attempts.saturating_add(1);
        if self.owner.is_rule_kept(Rule::SettledIsCleared)
            && !matches!(verdict, Verdict::Blocked { .. } | Verdict::Release { .. })
        {
            self.record.suspicion.suspects.remove(&seq);
        }
        let mut parked = None;
        let end = match &verdict {
            Verdict::Ack(_) => Some(Fate::Delivered),
            Verdict::Expired | Verdict::Cancelled => Some(Fate::Ended),
            // A death is counted where all that die come by.
            Verdict::Dead(_) | Verdict::Retry { .. } | Verdict::Blocked { .. } | Verdict::Release { .. } => None,
        };
        let end = end.map(|fate| (Arc::clone(&message), fate));
        match verdict {
            Verdict::Ack(receipt) => match origin {
                Origin::Segment if self.keeps_bits(place.segment) => {
                    self.record.open.entry(place.segment).or_default().acked.insert(place.index);
                    self.flight.gone.push((message.tenant.clone(), place.segment, place.index));
                    self.touched.insert(place.segment);
                    let info = DoneInfo { at: attempt.at, attempt, receipt };
                    self.owner.window.note_delivered(place.segment, place.index, info);
                }
                _ => {
                    let history = with_attempt(&slot.history, attempt.clone());
                    let done = Done {
                        index: place.index,
                        message: Arc::clone(&message),
                        end: DoneEnd::Delivered,
                        at: attempt.at,
                        attempts,
                        receipt: Some(receipt),
                        history,
                    };
                    self.put_done(place.segment, done);
                    if origin == Origin::Parked {
                        self.put(Write::DeleteParked(seq));
                    }
                    self.leave(origin, place, &message.tenant);
                }
            },
            Verdict::Retry { due, delay, .. } => {
                let mut row = slot.parked(false);
                row.attempts = attempts;
                row.due = due;
                row.delay = delay;
                let code = attempt.code.clone();
                row.history = with_attempt(&slot.history, attempt);
                let row = Arc::new(row);
                self.note(TxEventKind::Retry, &message, attempts, code.as_deref());
                self.put(Write::PutParked(Arc::clone(&row)));
                self.leave(origin, place, &message.tenant);
                parked = Some(row);
            }
            Verdict::Dead(fault) => {
                let history = with_attempt(&slot.history, attempt);
                self.die(place, message, fault, attempts, history, seq, origin);
            }
            Verdict::Expired | Verdict::Cancelled => {
                let is_over = matches!(verdict, Verdict::Expired);
                let end = if is_over { DoneEnd::Expired } else { DoneEnd::Cancelled };
                self.flight.expired += usize::from(is_over);
                let done = Done {
                    index: place.index,
                    end,
                    at: self.now.wall,
                    attempts: slot.attempts,
                    receipt: None,
                    history: slot.history.clone(),
                    message: Arc::clone(&message),
                };
                self.put_done(place.segment, done);
                if origin == Origin::Parked {
                    self.put(Write::DeleteParked(seq));
                }
                self.leave(origin, place, &message.tenant);
            }
            Verdict::Blocked { .. } | Verdict::Release { .. } => {}
        }
        if let Some((message, fate)) = end {
            self.count_fate(&message, fate);
        }
        self.flight.settled.push((seq, parked));
    }

    /// Whether what is delivered of a segment is noted in its claim. One whose messages are claimed from outside may have
    /// none, and gets one as long as there is room.
    fn keeps_bits(&self, first: Seq) -> bool {
        let is_rewritten = self.flight.rewritten.iter().any(|segment| segment.first == first);
        let has_room = self.record.open.len() < self.owner.config.limits.open_segments;
        self.record.open.contains_key(&first) || has_room && !is_rewritten
    }

    /// A message leaves its segment, not by a bit for what was delivered.
    pub(super) fn leave(&mut self, origin: Origin, place: Place, tenant: &Tenant) {
        if origin != Origin::Segment {
            return;
        }
        self.flight.gone.push((tenant.clone(), place.segment, place.index));
        if let Some(open) = self.record.open.get_mut(&place.segment) {
            open.moved.insert(place.index);
            self.touched.insert(place.segment);
        } else {
            self.rewrite_without(place);
        }
    }

    /// Takes a message out of a segment that isn't claimed, by rewriting the rest.
    pub(super) fn rewrite_without(&mut self, place: Place) {
        let rewritten = self.flight.rewritten.iter().find(|segment| segment.first == place.segment).cloned();
        let current = rewritten.or_else(|| self.owner.window.segment(place.segment).cloned());
        if let Some(segment) = current {
            self.rewrite(&segment, |entry| entry.index != place.index);
        }
    }

    /// Rewrites a segment with the entries that stay; removes it when none does.
    pub(super) fn rewrite(&mut self, segment: &Arc<Segment>, stays: impl Fn(&Entry) -> bool) {
        let entries: Vec<Entry> = segment.entries.iter().filter(|entry| stays(entry)).cloned().collect();
        let before = self.flight.rewritten.len();
        self.flight.rewritten.retain(|other| other.first != segment.first);
        let is_again = self.flight.rewritten.len() < before;
        self.writes.retain(|write| !matches!(write, Write::PutSegment(other) if other.first == segment.first));
        if entries.is_empty() {
            self.put(Write::DeleteSegment(segment.first));
            self.flight.finished.push((segment.tenant.clone(), segment.first));
        } else {
            let rest = Arc::new(Segment { first: segment.first, tenant: segment.tenant.clone(), entries });
            if !is_again {
                self.bytes += segment.weight();
            }
            self.writes.push(Write::PutSegment(Arc::clone(&rest)));
            self.flight.rewritten.push(rest);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a dead letter and where it was")]
    pub(super) fn die(
        &mut self,
        place: Place,
        message: Arc<Message>,
        fault: Fault,
        attempts: u32,
        history: Vec<AttemptRecord>,
        seq: Seq,
        origin: Origin,
    ) {
        let suspect = self.owner.crashes_of(seq);
        let tenant = message.tenant.clone();
        let dead = Arc::new(DeadLetter {
            place,
            holds_key: self.owner.config.dead_holds_key && message.key.is_some(),
            message,
            code: fault.code,
            reason: fault.reason,
            attempts,
            suspect,
            died_at: self.now.wall,
            state: DeadState::Dead,
            history,
        });
        if dead.holds_key {
            self.flight.key_holders.push(Arc::clone(&dead));
        }
        self.count_fate(&dead.message, Fate::Died(Death::of(&dead)));
        self.dies(dead);
        match origin {
            Origin::Parked => self.put(Write::DeleteParked(seq)),
            Origin::Segment => self.leave(origin, place, &tenant),
        }
    }
}
