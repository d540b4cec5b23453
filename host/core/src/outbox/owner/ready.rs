//! What an idle message waits for: an earlier one of its key, its time, a hold, a claim, its turn.

use std::time::Duration;

use super::slots::{Origin, Slot, SlotState};
use super::{Owner, Rule};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::time::{Monotonic, Now};

/// What an idle message waits for.
#[derive(Debug)]
pub(super) enum Wish {
    /// For what this state says.
    State(SlotState),
    /// For this instant.
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
        let Some(mut wish) = self.wish(seq, now.mono) else { return };
        let is_sendable =
            matches!(wish, Wish::State(SlotState::Ready { .. } | SlotState::WantClaim | SlotState::WantTrial));
        if !is_sendable || self.slots.get(&seq).is_some_and(|slot| slot.outside) {
            self.trial.remove(seq);
        }
        // One that was to try a held destination and can't be sent waits for that destination again.
        if !is_sendable && self.end_probe(seq) {
            let Some(again) = self.wish(seq, now.mono) else { return };
            wish = again;
        }
        let state = match wish {
            Wish::State(state) => state,
            Wish::At(due) => {
                self.timers.insert((due, seq));
                return;
            }
        };
        if let SlotState::Ready { .. } = state {
            self.list_ready(seq);
            return;
        }
        match &state {
            SlotState::WantClaim => self.list_wanted(seq),
            SlotState::WantTrial => {
                self.trial.waiting.insert(seq);
            }
            SlotState::Held(key) => {
                if let Some(hold) = self.holds.get_mut(key) {
                    hold.waiting.insert(seq);
                }
                self.may_free(seq);
            }
            SlotState::Stalled => {
                self.stalled.insert(seq);
            }
            _ => {}
        }
        if let Some(slot) = self.slots.get_mut(&seq) {
            slot.state = state;
        }
    }

    fn list_wanted(&mut self, seq: Seq) {
        let Some(slot) = self.slots.get(&seq) else { return };
        match slot.origin {
            Origin::Parked => {
                self.want_parked.insert(seq);
            }
            Origin::Segment => {
                let first = slot.place.segment;
                let wanted = self.want_segments.entry(first).or_default();
                if wanted.is_empty() {
                    self.want_by_tenant.entry(slot.message.tenant.clone()).or_default().insert(first);
                }
                wanted.insert(seq);
            }
        }
    }

    fn may_free(&mut self, seq: Seq) {
        let window = self.slots.get(&seq).and_then(|slot| self.windows.get_mut(&slot.message.tenant));
        if let Some(window) = window {
            window.may_free = true;
        }
    }

    /// What an idle message waits for, as things stand; none when there is no such message.
    pub(super) fn wish(&self, seq: Seq, now: Monotonic) -> Option<Wish> {
        let slot = self.slots.get(&seq)?;
        if let Some(key) = slot.key
            && (self.is_behind(key, seq) || self.is_fenced(key, seq))
        {
            return Some(Wish::State(SlotState::Waiting));
        }
        if slot.wakes > now {
            return Some(Wish::At(slot.wakes));
        }
        if let Some(hold) = self.hold_of(seq) {
            return Some(Wish::State(SlotState::Held(hold)));
        }
        if self.is_stalled(seq) {
            return Some(Wish::State(SlotState::Stalled));
        }
        if self.is_suspect(seq) && !slot.outside && !self.trial.has(seq) {
            return Some(Wish::State(SlotState::WantTrial));
        }
        let claimed = match slot.origin {
            _ if slot.outside => true,
            Origin::Parked => slot.claimed,
            Origin::Segment => self.is_claimed(slot.place.segment),
        } || !self.is_rule_kept(Rule::ClaimBeforeSend);
        Some(Wish::State(if claimed { SlotState::Ready { lane: 0 } } else { SlotState::WantClaim }))
    }

    /// Whether another message of its key goes first.
    fn is_behind(&self, key: KeyHash, seq: Seq) -> bool {
        self.keys.get(&key).is_some_and(|queue| {
            if !self.is_rule_kept(Rule::KeyWaitsForCommit) {
                let settled = |seq: &Seq| {
                    matches!(
                        self.slots.get(seq).map(|slot| &slot.state),
                        Some(SlotState::Out(_) | SlotState::Settling(_))
                    )
                };
                return queue.seqs.iter().find(|seq| !settled(seq)) != Some(&seq);
            }
            queue.head() != Some(seq) || queue.busy.is_some_and(|busy| busy != seq)
        })
    }

    /// Whether a dead letter before it holds its key.
    pub(super) fn is_fenced(&self, key: KeyHash, seq: Seq) -> bool {
        self.held_keys.get(&key).and_then(|holders| holders.keys().next()).is_some_and(|first| *first < seq)
    }

    /// Claimed by the last commit, and not un-claimed by the one that is out.
    pub(super) fn is_claimed(&self, first: Seq) -> bool {
        self.record.open.contains_key(&first) && self.flight_keeps_open(first)
    }

    /// Takes a message off whatever list it is on.
    pub(super) fn unlist(&mut self, seq: Seq) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        if slot.wakes > Monotonic::default() {
            self.timers.remove(&(slot.wakes, seq));
        }
        match std::mem::replace(&mut slot.state, SlotState::Waiting) {
            SlotState::WantClaim => {
                self.want_parked.remove(&seq);
                let first = slot.place.segment;
                if let Some(wanted) = self.want_segments.get_mut(&first) {
                    wanted.remove(&seq);
                    if wanted.is_empty() {
                        self.want_segments.remove(&first);
                        if let Some(firsts) = self.want_by_tenant.get_mut(&slot.message.tenant) {
                            firsts.remove(&first);
                            if firsts.is_empty() {
                                self.want_by_tenant.remove(&slot.message.tenant);
                            }
                        }
                    }
                }
            }
            SlotState::WantTrial => {
                self.trial.waiting.remove(&seq);
            }
            SlotState::Stalled => {
                self.stalled.remove(&seq);
            }
            SlotState::Held(key) => {
                if let Some(hold) = self.holds.get_mut(&key) {
                    hold.waiting.remove(&seq);
                }
            }
            SlotState::Ready { lane } => {
                let (tenant, transport, first, pins) =
                    (slot.message.tenant.clone(), slot.transport, slot.place.segment, slot.pins_segment());
                self.unlist_ready(seq, &tenant, transport, lane);
                if pins {
                    self.deactivate(first);
                }
            }
            SlotState::Waiting => {}
            busy @ (SlotState::Sending | SlotState::Out(_) | SlotState::Settling(_)) => slot.state = busy,
        }
    }

    pub(super) fn deactivate(&mut self, first: Seq) {
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.active = loaded.active.saturating_sub(1);
        }
    }

    /// Wakes what is due: messages whose time has come and held destinations whose next try is due.
    pub fn tick(&mut self, now: Now) {
        while let Some((due, seq)) = self.timers.first().copied() {
            if due > now.mono {
                break;
            }
            self.timers.remove(&(due, seq));
            self.consider(seq, now);
        }
        for key in self.holds.due(now.mono) {
            self.begin_probe(&key, now);
        }
        self.hold_unclaimed(now);
    }

    /// How long until [`Owner::tick`] or a look at the schedule has something to do.
    pub fn next_wake(&self, now: Now) -> Option<Duration> {
        let timers = [self.timers.first().map(|(due, _)| *due), self.holds.next_try()];
        let scheduled = self.scheduled.next.map(|next| next.since(now.wall));
        timers.into_iter().flatten().map(|due| due - now.mono).chain(scheduled).min()
    }

    pub(super) fn has_too_many_retries(&self, tenant: &Tenant) -> bool {
        self.parked_count.get(tenant).is_some_and(|count| *count >= self.config.parked_per_tenant)
    }

    /// Whether a message has to wait until some of its tenant's retries are through: every fresh one, but for those that
    /// hold a retry of their key up.
    pub(super) fn is_stalled(&self, seq: Seq) -> bool {
        let stalled = |slot: &Slot| slot.origin == Origin::Segment && self.has_too_many_retries(&slot.message.tenant);
        self.slots.get(&seq).is_some_and(|slot| stalled(slot) && !slot.key.is_some_and(|key| self.has_retry(key)))
    }

    /// Whether a retry waits in the queue of this key.
    fn has_retry(&self, key: KeyHash) -> bool {
        let is_retry = |seq: &Seq| self.slots.get(seq).is_some_and(|slot| slot.origin == Origin::Parked);
        self.keys.get(&key).is_some_and(|queue| queue.seqs.iter().any(is_retry))
    }

    /// Looks again at tenants that were stalled by their retries.
    pub(super) fn reconsider_stalled(&mut self, now: Now) {
        // One that holds a retry up is looked at when that comes to wait behind it.
        let waits = |seq: &Seq| self.slots.get(seq).is_some_and(|slot| self.has_too_many_retries(&slot.message.tenant));
        let again: Vec<Seq> = self.stalled.iter().copied().filter(|seq| !waits(seq)).collect();
        for seq in again {
            self.stalled.remove(&seq);
            self.consider(seq, now);
        }
    }
}
