//! What an idle message waits for: an earlier one of its key, its time, a hold, a claim, its turn.

use std::time::Duration;

use super::slots::{Origin, Slot, SlotState};
use super::{Owner, Rule};
use crate::ids::{KeyHash, Seq};
use crate::time::{Monotonic, Now};

/// What an idle message waits for.
#[derive(Debug)]
pub(super) enum Waits {
    /// For what this state says.
    State(SlotState),
    At(Monotonic),
}

impl Owner {
    /// Decides anew what an idle message waits for.
    pub(super) fn consider(&mut self, seq: Seq, now: Now) {
        if !self.slots.get(&seq).is_some_and(super::slots::Slot::is_idle) {
            return;
        }
        self.unlist(seq);
        self.route_anew(seq, now);
        let Some(mut waits) = self.waits_for(seq, now.mono) else { return };
        let is_sendable =
            matches!(waits, Waits::State(SlotState::Ready { .. } | SlotState::WantClaim | SlotState::WantTrial));
        if !is_sendable || self.slots.get(&seq).is_some_and(|slot| slot.outside) {
            self.trial.remove(seq);
        }
        // One that was to try a held destination and can't be sent waits for that destination again.
        if !is_sendable && self.end_probe(seq) {
            let Some(again) = self.waits_for(seq, now.mono) else { return };
            waits = again;
        }
        let state = match waits {
            Waits::State(state) => state,
            Waits::At(due) => {
                self.scheduler.wait_until(due, seq);
                return;
            }
        };
        if let SlotState::Ready { .. } = state {
            self.list_ready(seq);
            return;
        }
        match &state {
            SlotState::WantClaim => {
                if let Some(slot) = self.slots.get(&seq) {
                    self.scheduler.want_claim(slot);
                }
            }
            SlotState::WantTrial => self.trial.wait(seq),
            SlotState::Held(key) => {
                self.holds.wait(key, seq);
                if let Some(slot) = self.slots.get(&seq) {
                    self.window.may_free(&slot.message.tenant);
                }
            }
            SlotState::Stalled => self.scheduler.stall(seq),
            _ => {}
        }
        if let Some(slot) = self.slots.get_mut(&seq) {
            slot.state = state;
        }
    }

    /// What an idle message waits for, as things stand; none when there is no such message.
    pub(super) fn waits_for(&self, seq: Seq, now: Monotonic) -> Option<Waits> {
        let slot = self.slots.get(&seq)?;
        if let Some(key) = slot.key
            && (self.is_behind(key, seq) || self.keys.is_fenced(key, seq))
        {
            return Some(Waits::State(SlotState::Waiting));
        }
        if slot.wakes > now {
            return Some(Waits::At(slot.wakes));
        }
        if let Some(hold) = self.hold_of(seq) {
            return Some(Waits::State(SlotState::Held(hold)));
        }
        if self.is_stalled(seq) {
            return Some(Waits::State(SlotState::Stalled));
        }
        if self.is_suspect(seq) && !slot.outside && !self.trial.has(seq) {
            return Some(Waits::State(SlotState::WantTrial));
        }
        let claimed = match slot.origin {
            _ if slot.outside => true,
            Origin::Parked => slot.claimed,
            Origin::Segment => self.is_claimed(slot.place.segment),
        } || !self.is_rule_kept(Rule::ClaimBeforeSend);
        Some(Waits::State(if claimed { SlotState::Ready { lane: 0 } } else { SlotState::WantClaim }))
    }

    /// Whether another message of its key goes first.
    fn is_behind(&self, key: KeyHash, seq: Seq) -> bool {
        self.keys.get(key).is_some_and(|queue| {
            if !self.is_rule_kept(Rule::KeyWaitsForCommit) {
                let settled = |seq: &Seq| {
                    matches!(
                        self.slots.get(seq).map(|slot| &slot.state),
                        Some(SlotState::Out(_) | SlotState::Settling(_))
                    )
                };
                return queue.seqs().iter().find(|seq| !settled(seq)) != Some(&seq);
            }
            queue.head() != Some(seq) || queue.busy().is_some_and(|busy| busy != seq)
        })
    }

    /// Claimed by the last commit, and not un-claimed by the one that is out.
    pub(super) fn is_claimed(&self, first: Seq) -> bool {
        self.record.open.contains_key(&first) && self.flight.keeps_open(first)
    }

    /// Takes a message off whatever list it is on.
    pub(super) fn unlist(&mut self, seq: Seq) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        self.scheduler.stop_waiting(slot.wakes, seq);
        match std::mem::replace(&mut slot.state, SlotState::Waiting) {
            SlotState::WantClaim => self.scheduler.unwant_claim(slot),
            SlotState::WantTrial => self.trial.stop_waiting(seq),
            SlotState::Stalled => self.scheduler.unstall(seq),
            SlotState::Held(key) => self.holds.stop_waiting(&key, seq),
            SlotState::Ready { lane } => {
                let (tenant, transport, first, pins) =
                    (slot.message.tenant.clone(), slot.transport, slot.place.segment, slot.pins_segment());
                self.unlist_ready(seq, &tenant, transport, lane);
                if pins {
                    self.window.unpin(first);
                }
            }
            SlotState::Waiting => {}
            busy @ (SlotState::Sending | SlotState::Out(_) | SlotState::Settling(_)) => slot.state = busy,
        }
    }

    /// Wakes what is due: messages whose time has come and held destinations whose next try is due.
    pub fn tick(&mut self, now: Now) {
        while let Some(seq) = self.scheduler.take_due(now.mono) {
            self.consider(seq, now);
        }
        for key in self.holds.due(now.mono) {
            self.begin_probe(&key, now);
        }
        self.hold_unclaimed(now);
    }

    /// How long until [`Owner::tick`] or a look at the schedule has something to do, or a rate lets more go.
    pub fn next_wake(&self, now: Now) -> Option<Duration> {
        let timers = [self.scheduler.next_due(), self.holds.next_try(), self.rated.values().map(|lane| lane.due).min()];
        let scheduled = self.next.schedule.next().map(|next| next.since(now.wall));
        timers.into_iter().flatten().map(|due| due - now.mono).chain(scheduled).min()
    }

    /// Whether a message has to wait until some of its tenant's retries are through: every fresh one, but for those that
    /// hold a retry of their key up.
    pub(super) fn is_stalled(&self, seq: Seq) -> bool {
        let stalled =
            |slot: &Slot| slot.origin == Origin::Segment && self.scheduler.has_too_many_retries(&slot.message.tenant);
        self.slots.get(&seq).is_some_and(|slot| stalled(slot) && !slot.key.is_some_and(|key| self.has_retry(key)))
    }

    /// Whether a retry waits in the queue of this key.
    fn has_retry(&self, key: KeyHash) -> bool {
        let is_retry = |seq: &Seq| self.slots.get(seq).is_some_and(|slot| slot.origin == Origin::Parked);
        self.keys.get(key).is_some_and(|queue| queue.seqs().iter().any(is_retry))
    }

    /// Looks again at tenants that were stalled by their retries.
    pub(super) fn reconsider_stalled(&mut self, now: Now) {
        // One that holds a retry up is looked at when that comes to wait behind it.
        let waits = |seq: &Seq| {
            self.slots.get(seq).is_some_and(|slot| self.scheduler.has_too_many_retries(&slot.message.tenant))
        };
        let again: Vec<Seq> = self.scheduler.stalled().iter().copied().filter(|seq| !waits(seq)).collect();
        for seq in again {
            self.scheduler.unstall(seq);
            self.consider(seq, now);
        }
    }
}
