//! Handing messages to lanes: those that are named, else those whose turn it is.

use std::sync::Arc;
use std::time::Duration;

use super::scheduler::{Lane, Turn};
use super::slots::{Origin, SlotState};
use super::{Owner, TransportId};
use crate::ids::{Seq, Tenant};
use crate::message::Message;
use crate::outbox::rates::Bounded;
use crate::time::{Monotonic, Now, UnixMillis};

/// A message to send now.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Its place in the order: names it in the settlement.
    pub seq: Seq,
    pub message: Arc<Message>,
    /// 1 on the first attempt.
    pub attempt: u32,
    /// Fencing token of this ownership.
    pub epoch: u64,
    /// It goes alone in its batch.
    pub alone: bool,
    /// Delay before this attempt; none at the first.
    pub previous_delay: Option<Duration>,
    /// First try, if there was one.
    pub first_attempt_at: Option<UnixMillis>,
}

impl Owner {
    /// Takes messages to send through one lane now: at most `messages` and about `bytes`. Nothing after the lease's
    /// end by this host's own clock, and nothing unnamed while the owner is cautious. The caller sends all of them.
    pub fn take(&mut self, transport: TransportId, lane: u32, messages: usize, bytes: usize, now: Now) -> Vec<Sending> {
        self.take_beside(transport, lane, messages, bytes, false, now)
    }

    /// The same while the lane is `busy` with other calls: a message that has to be alone waits until it isn't, and then
    /// goes first.
    pub fn take_beside(
        &mut self,
        transport: TransportId,
        lane: u32,
        messages: usize,
        bytes: usize,
        busy: bool,
        now: Now,
    ) -> Vec<Sending> {
        let lane = (transport, lane);
        let waited = self.rated.remove(&lane);
        if self.releasing || now.mono >= self.deadline {
            return Vec::new();
        }
        let messages = messages.min(self.allowed(|| Bounded::Transport(transport), now.mono));
        let out = self.take_allowed(lane, messages, bytes, busy, now);
        if out.is_empty() {
            self.wait_for_rates(lane, now.mono);
            self.want_names_again(lane, waited, now.mono);
        }
        out
    }

    /// The same of no more than the transport's rate allows.
    fn take_allowed(&mut self, lane: Lane, messages: usize, bytes: usize, busy: bool, now: Now) -> Vec<Sending> {
        let mut out = Vec::new();
        if self.naming.is_on() {
            out = self.take_named(lane, messages, bytes, busy, now);
        }
        if !out.is_empty() || !self.sends_unnamed() {
            return out;
        }
        let mut left = bytes;
        let mut empty_turns = 0;
        while out.len() < messages && left > 0 {
            let Some(turn) = self.begin_turn(lane, now.mono) else { break };
            let mut given = 0;
            for seq in turn.seqs {
                if out.len() >= messages || left == 0 {
                    self.scheduler.keep_turn(lane, turn.quantum.saturating_sub(given));
                    break;
                }
                if self.expires(seq, now) {
                    given += 1;
                    continue;
                }
                let Some(slot) = self.slots.get(&seq) else { continue };
                let (alone, weight) = (slot.goes_alone(), slot.message.payload.len().max(1));
                if !out.is_empty() && (alone || weight > left) || busy && alone {
                    // It begins the next batch, or it would never have a turn beside busier tenants.
                    if given == 0 {
                        self.scheduler.give_turn_back(lane, turn.before);
                    }
                    return out;
                }
                left = left.saturating_sub(weight);
                given += 1;
                out.extend(self.begin_send(seq, now));
                if alone {
                    return out;
                }
            }
            empty_turns = if given == 0 { empty_turns + 1 } else { 0 };
            if empty_turns >= turn.tenants {
                break;
            }
        }
        out
    }

    /// Whether a send may still begin at this instant.
    pub fn may_send(&self, now: Monotonic) -> bool {
        now < self.deadline
    }

    fn begin_turn(&mut self, lane: Lane, now: Monotonic) -> Option<Turn> {
        let allowed = |tenant: &Tenant| self.allowed(|| Bounded::Tenant(tenant.clone()), now);
        let weight = |tenant: &Tenant| self.weight_of(tenant);
        let next = self.scheduler.next_turn(lane, weight, allowed, |seq| self.is_stalled(seq))?;
        self.scheduler.begin_turn(lane, next)
    }

    /// Has the next commit name the ready messages that have the next turns, at most `count`. Those whose time is over are
    /// settled as such.
    pub(super) fn name_in_turn(&mut self, lane: Lane, count: usize, now: Now) {
        let (mut named, mut empty_turns) = (0, 0);
        while named < count {
            let Some(turn) = self.begin_turn(lane, now.mono) else { return };
            let mut given = 0;
            for seq in turn.seqs {
                if named >= count {
                    self.scheduler.keep_turn(lane, turn.quantum.saturating_sub(given));
                    break;
                }
                given += 1;
                if !self.expires(seq, now) {
                    self.name_ready(seq);
                    named += 1;
                }
            }
            empty_turns = if given == 0 { empty_turns + 1 } else { 0 };
            if empty_turns >= turn.tenants {
                return;
            }
        }
    }

    pub(super) fn begin_send(&mut self, seq: Seq, now: Now) -> Option<Sending> {
        let epoch = self.record.token;
        let slot = self.slots.get_mut(&seq)?;
        let SlotState::Ready { lane } = slot.state else { return None };
        slot.state = SlotState::Sending;
        let first_attempt_at = slot.first_attempt_at;
        slot.first_attempt_at.get_or_insert(now.wall);
        let sending = Sending {
            seq,
            message: Arc::clone(&slot.message),
            attempt: slot.attempts.saturating_add(1),
            epoch,
            alone: slot.goes_alone(),
            previous_delay: (slot.attempts > 0).then_some(slot.delay),
            first_attempt_at,
        };
        let (tenant, transport, key, outside) = (slot.message.tenant.clone(), slot.transport, slot.key, slot.outside);
        self.keys.begin(key, seq);
        self.unlist_ready(seq, &tenant, transport, lane);
        if !outside {
            self.scheduler.begin_send();
            self.naming.begin_send(seq);
            self.pass_rates(&tenant, transport, now.mono);
        }
        Some(sending)
    }

    /// Whether a message is over before it could be sent; if so, that is its settlement.
    pub(super) fn expires(&mut self, seq: Seq, now: Now) -> bool {
        let is_over =
            self.slots.get(&seq).is_some_and(|slot| slot.message.expires_at.is_some_and(|end| end <= now.wall));
        if is_over {
            self.expire(seq, now);
        }
        is_over
    }

    fn expire(&mut self, seq: Seq, now: Now) {
        self.unlist(seq);
        self.end_probe(seq);
        let Some(slot) = self.slots.get(&seq) else { return };
        if slot.pins_segment() {
            self.window.pin(slot.place.segment);
        }
        self.keys.begin(slot.key, seq);
        self.queue_settlement(seq, super::build::without_attempt(super::Verdict::Expired, now.wall), now);
    }

    pub(super) fn list_ready(&mut self, seq: Seq) {
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        let Some(transport) = slot.transport else { return };
        let lanes = u128::from(self.config.routing.lanes_of(transport));
        let spread = slot.key.map_or(u128::from(seq.0), |key| key.0);
        let lane = u32::try_from(spread % lanes).unwrap_or(0);
        slot.state = SlotState::Ready { lane };
        let (tenant, is_retry) = (slot.message.tenant.clone(), slot.origin == Origin::Parked);
        if slot.pins_segment() {
            self.window.pin(slot.place.segment);
        }
        let lane = (transport, lane);
        if !self.list_named(seq, lane) {
            if let Some(rated) = self.rated.get_mut(&lane) {
                rated.is_whole = false;
            }
            self.scheduler.list_ready(lane, tenant, seq, is_retry);
        }
    }

    pub(super) fn unlist_ready(&mut self, seq: Seq, tenant: &Tenant, transport: Option<TransportId>, lane: u32) {
        let Some(transport) = transport else { return };
        self.naming.remove(seq, (transport, lane));
        self.scheduler.unlist_ready((transport, lane), tenant, seq);
    }
}
