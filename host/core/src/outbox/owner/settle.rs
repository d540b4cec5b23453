//! What became of a send. A settlement waits for the next commit; what needs no write takes effect at once.

use std::sync::Arc;
use std::time::Duration;

use super::slots::SlotState;
use super::{HoldKey, Owner, Rule};
use crate::ids::Seq;
use crate::outbox::records::AttemptRecord;
use crate::port::transport::{Fault, Receipt};
use crate::time::{Now, UnixMillis};

/// The fate of one send, with what follows decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Ack(Receipt),
    /// Failed; the attempt counts. Again at `due`.
    Retry {
        due: UnixMillis,
        /// The delay that led to it.
        delay: Duration,
        fault: Fault,
    },
    Dead(Fault),
    /// The destination is at fault; no attempt. Empty scope = the message's destination.
    Blocked {
        scope: String,
        fault: Fault,
    },
    /// Not tried; no attempt. Not again before `due`.
    Release {
        /// When; none = as soon as there is a turn.
        due: Option<UnixMillis>,
    },
    /// Its `expires_at` passed before it could be sent.
    Expired,
    /// An operator took it back.
    Cancelled,
}

/// A verdict with the record of the attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settlement {
    pub verdict: Verdict,
    pub attempt: AttemptRecord,
}

impl Owner {
    /// Takes the fate of a send that [`Owner::take`] began. False when there is no such send: it was settled before,
    /// or the settlement is of an earlier ownership (the caller audits that as a conflict).
    pub fn settle(&mut self, seq: Seq, epoch: u64, settlement: Settlement, now: Now) -> bool {
        if epoch != self.record.token {
            return false;
        }
        match self.slots.get(&seq) {
            Some(slot) if slot.state == SlotState::Sending => {}
            _ => return false,
        }
        if !self.outside.end(seq) {
            self.scheduler.end_send();
        }
        self.naming.end_send(seq);
        self.note_probe(seq, &settlement.verdict, now);
        match settlement.verdict {
            Verdict::Blocked { scope, fault } => self.block(seq, &scope, &fault, now),
            Verdict::Release { due } => self.put_back(seq, due, now),
            _ => self.queue_settlement(seq, settlement, now),
        }
        true
    }

    pub(super) fn queue_settlement(&mut self, seq: Seq, settlement: Settlement, now: Now) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.state = SlotState::Out(Box::new(settlement));
        let key = slot.key;
        self.next.push_settlement(seq);
        if !self.is_rule_kept(Rule::KeyWaitsForCommit) {
            let next = key
                .and_then(|key| self.keys.get(key))
                .and_then(|queue| queue.seqs().iter().copied().find(|other| *other > seq));
            if let Some(next) = next {
                self.consider(next, now);
            }
        }
    }

    fn note_probe(&mut self, seq: Seq, verdict: &Verdict, now: Now) {
        let probed = match verdict {
            Verdict::Blocked { .. } => return,
            _ => self.holds.end_probe(seq),
        };
        // One that wasn't sent after all leaves the hold to the next one.
        if matches!(verdict, Verdict::Ack(_) | Verdict::Dead(_) | Verdict::Retry { .. }) {
            for key in probed {
                self.lift(&key, now);
            }
        }
    }

    fn block(&mut self, seq: Seq, scope: &str, fault: &Fault, now: Now) {
        let Some(slot) = self.slots.get(&seq) else { return };
        let (tenant, destination) = (&slot.message.tenant, slot.message.topic.subject());
        let of = |scope| HoldKey { tenant: Some(tenant.clone()), transport: slot.transport, scope: Arc::from(scope) };
        let named = Some(of(scope)).filter(|key| !scope.is_empty() && key.takes(tenant, slot.transport, destination));
        // A hold of something else would let this message go out again at once, for ever.
        let key = named.unwrap_or_else(|| of(destination));
        // A try that came through to something narrower ends the hold it was made for.
        let mut passed = self.holds.probed_by(seq);
        passed.retain(|other| *other != key && other.covers(&key));
        self.hold(key, &fault.code, &fault.reason, fault.after, now);
        for other in passed {
            self.lift(&other, now);
        }
        self.put_back(seq, None, now);
    }

    /// Gives a message back untried.
    pub(super) fn put_back(&mut self, seq: Seq, due: Option<UnixMillis>, now: Now) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        slot.state = SlotState::Waiting;
        if let Some(due) = due {
            slot.due = due;
            slot.wakes = now.mono_at(due);
        }
        let key = slot.key;
        if slot.pins_segment() {
            self.window.unpin(slot.place.segment);
        }
        let head = self.keys.put_back(key);
        self.consider(seq, now);
        // A replay may have come before it meanwhile.
        if let Some(head) = head.filter(|head| *head != seq) {
            self.consider(head, now);
        }
    }

    /// Looks at a key's head again, after the message before it left or moved.
    pub(super) fn free_key(&mut self, key: Option<crate::ids::KeyHash>, seq: Seq, now: Now) {
        if let Some(head) = key.and_then(|key| self.keys.free(key, seq)) {
            self.consider(head, now);
        }
    }
}
