//! Who may send next: ready messages lane by lane, tenants in weighted turn.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use super::slots::{Origin, SlotState};
use super::{Owner, TransportId};
use crate::ids::{Seq, Tenant};
use crate::message::Message;
use crate::time::{Monotonic, Now, UnixMillis};

/// Messages a tenant of weight 1 gets in one turn.
pub(super) const TURN_MESSAGES: usize = 8;

/// Ready messages of one tenant in one lane.
#[derive(Debug, Default)]
struct TenantReady {
    all: BTreeSet<Seq>,
    /// Those that had failed before.
    retries: BTreeSet<Seq>,
}

/// What one tenant may send now.
struct Turn {
    seqs: Vec<Seq>,
    /// How many it may send.
    quantum: usize,
    /// Who had the turn before, and what was left of it.
    before: (Option<Tenant>, usize),
    /// How many tenants take turns.
    tenants: usize,
}

/// Ready messages of one lane.
#[derive(Debug, Default)]
pub(super) struct ReadyQueue {
    tenants: BTreeMap<Tenant, TenantReady>,
    /// Who had the last turn.
    turn: Option<Tenant>,
    /// What is left of it because a batch was full: the next batch goes on with it, or weights would count for less.
    left: usize,
}

impl ReadyQueue {
    /// How many messages are ready.
    pub fn len(&self) -> usize {
        self.tenants.values().map(|ready| ready.all.len()).sum()
    }
    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.tenants.is_empty()
    }
}

/// A message to send now.
#[derive(Clone, Debug)]
pub struct Sending {
    /// Its place in the order: names it in the settlement.
    pub seq: Seq,
    /// The message.
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
        let mut out = Vec::new();
        if self.releasing || now.mono >= self.deadline {
            return out;
        }
        if self.naming.on {
            out = self.take_named((transport, lane), messages, bytes, busy, now);
        }
        if !out.is_empty() || !self.sends_unnamed() {
            return out;
        }
        let mut left = bytes;
        let mut empty_turns = 0;
        while out.len() < messages && left > 0 {
            let Some(turn) = self.next_turn(transport, lane) else { break };
            let mut given = 0;
            for seq in turn.seqs {
                if out.len() >= messages || left == 0 {
                    self.keep_turn(transport, lane, turn.quantum.saturating_sub(given));
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
                        self.give_turn_back(transport, lane, turn.before);
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

    /// The tenant whose turn it is, with the oldest of its ready messages: as many as its weight allows, and while too many
    /// of its messages wait for retries only such retries.
    fn next_turn(&mut self, transport: TransportId, lane: u32) -> Option<Turn> {
        let queue = self.ready.get(&(transport, lane))?;
        let last = queue.turn.as_ref();
        let goes_on = last.filter(|_| queue.left > 0).and_then(|last| queue.tenants.get_key_value(last));
        let after =
            || last.and_then(|last| queue.tenants.range::<Tenant, _>((Bound::Excluded(last), Bound::Unbounded)).next());
        let (tenant, ready) = goes_on.or_else(after).or_else(|| queue.tenants.iter().next())?;
        let quantum = if goes_on.is_some() { queue.left } else { TURN_MESSAGES * self.weight_of(tenant) as usize };
        let seqs = match self.has_too_many_retries(tenant) {
            false => ready.all.iter().take(quantum).copied().collect(),
            true if !ready.retries.is_empty() => ready.retries.iter().take(quantum).copied().collect(),
            // Those that hold retries up.
            true => ready.all.iter().filter(|seq| !self.is_stalled(**seq)).take(quantum).copied().collect(),
        };
        let (tenant, tenants) = (tenant.clone(), queue.tenants.len());
        let queue = self.ready.get_mut(&(transport, lane))?;
        let before = (queue.turn.replace(tenant), std::mem::take(&mut queue.left));
        Some(Turn { seqs, quantum, before, tenants })
    }

    /// Has the next commit name the ready messages that have the next turns, at most `count`. Those whose time is over are
    /// settled as such.
    pub(super) fn name_in_turn(&mut self, transport: TransportId, lane: u32, count: usize, now: Now) {
        let (mut named, mut empty_turns) = (0, 0);
        while named < count {
            let Some(turn) = self.next_turn(transport, lane) else { return };
            let mut given = 0;
            for seq in turn.seqs {
                if named >= count {
                    self.keep_turn(transport, lane, turn.quantum.saturating_sub(given));
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

    fn give_turn_back(&mut self, transport: TransportId, lane: u32, before: (Option<Tenant>, usize)) {
        if let Some(queue) = self.ready.get_mut(&(transport, lane)) {
            (queue.turn, queue.left) = before;
        }
    }

    fn keep_turn(&mut self, transport: TransportId, lane: u32, left: usize) {
        if let Some(queue) = self.ready.get_mut(&(transport, lane)) {
            queue.left = left;
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
        if let Some(queue) = key.and_then(|key| self.keys.get_mut(&key)) {
            queue.busy = Some(seq);
        }
        self.unlist_ready(seq, &tenant, transport, lane);
        self.flying += usize::from(!outside);
        if self.naming.on && !outside {
            self.naming.sending.insert(seq);
        }
        Some(sending)
    }

    /// Ready messages of a lane, tenant by tenant.
    pub(super) fn ready_in(
        &self,
        transport: TransportId,
        lane: u32,
    ) -> impl Iterator<Item = (&Tenant, impl Iterator<Item = Seq>)> {
        let tenants = self.ready.get(&(transport, lane)).into_iter().flat_map(|queue| &queue.tenants);
        tenants.map(|(tenant, ready)| (tenant, ready.all.iter().copied()))
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
        let (key, first, pins) = (slot.key, slot.place.segment, slot.pins_segment());
        if pins && let Some(loaded) = self.segments.get_mut(&first) {
            loaded.active += 1;
        }
        if let Some(queue) = key.and_then(|key| self.keys.get_mut(&key)) {
            queue.busy = Some(seq);
        }
        self.queue_settlement(seq, super::build::without_attempt(super::Verdict::Expired, now.wall), now);
    }

    pub(super) fn list_ready(&mut self, seq: Seq) {
        let routing = Arc::clone(&self.config.routing);
        let Some(slot) = self.slots.get_mut(&seq) else { return };
        let Some(transport) = slot.transport else { return };
        let lanes = u128::from(routing.lanes_of(transport));
        let spread = slot.key.map_or(u128::from(seq.0), |key| key.0);
        let lane = u32::try_from(spread % lanes).unwrap_or(0);
        slot.state = SlotState::Ready { lane };
        let (tenant, slot_origin) = (slot.message.tenant.clone(), slot.origin);
        if slot.pins_segment() {
            let first = slot.place.segment;
            if let Some(loaded) = self.segments.get_mut(&first) {
                loaded.active += 1;
            }
        }
        if self.list_named(seq, transport, lane) {
            return;
        }
        let is_retry = slot_origin == Origin::Parked;
        let ready = self.ready.entry((transport, lane)).or_default().tenants.entry(tenant).or_default();
        ready.all.insert(seq);
        if is_retry {
            ready.retries.insert(seq);
        }
    }

    pub(super) fn unlist_ready(&mut self, seq: Seq, tenant: &Tenant, transport: Option<TransportId>, lane: u32) {
        let Some(transport) = transport else { return };
        self.naming.remove(seq, transport, lane);
        let Some(queue) = self.ready.get_mut(&(transport, lane)) else { return };
        if let Some(ready) = queue.tenants.get_mut(tenant) {
            ready.all.remove(&seq);
            ready.retries.remove(&seq);
            if ready.all.is_empty() {
                queue.tenants.remove(tenant);
            }
        }
    }
}
