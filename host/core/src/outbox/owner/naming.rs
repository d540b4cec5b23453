//! While the owner is cautious, what is about to be sent is named in a commit first.
//!
//! What a crash is blamed on stands named, so as little as possible is named ahead: twice of what a lane took in one go.
//! Names go with the commits that there are, many at a time. An owner that isn't cautious names nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::scheduler::Lane;
use super::slots::SlotState;
use super::{Owner, Rule, Sending};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::time::{Monotonic, Now, UnixMillis};

/// Messages that are named ahead for a lane of which nothing is known yet.
const AHEAD_AT_FIRST: usize = 16;

/// What is named, and what is about to be.
///
/// Both lists are empty while the owner isn't cautious. Who is listed with a lane is ready, and may be sent once the commit that names
/// it is in; `sending` names the sends of this host that were begun and aren't settled.
#[derive(Debug, Default)]
pub(super) struct Naming {
    /// The owner is cautious.
    on: bool,
    lanes: BTreeMap<Lane, NamedLane>,
    sending: BTreeSet<Seq>,
}

/// Messages of one lane, in the order in which they go.
#[derive(Debug)]
struct NamedLane {
    /// Named by a commit that is in.
    named: VecDeque<Seq>,
    /// Named by the commit that is out.
    pending: VecDeque<Seq>,
    /// So many are named ahead.
    ahead: usize,
}

impl Default for NamedLane {
    fn default() -> Self {
        Self { named: VecDeque::new(), pending: VecDeque::new(), ahead: AHEAD_AT_FIRST }
    }
}

impl NamedLane {
    fn all(&self) -> impl Iterator<Item = Seq> {
        self.named.iter().chain(&self.pending).copied()
    }
    fn len(&self) -> usize {
        self.named.len() + self.pending.len()
    }
    /// A call was offered to the lane and took so many; it could have had `most`.
    fn took(&mut self, taken: usize, most: usize) {
        if taken * 2 > self.ahead {
            self.ahead = taken * 2;
        } else if taken * 8 < self.ahead {
            self.ahead -= self.ahead / 4;
        }
        self.ahead = self.ahead.clamp(1, most.saturating_mul(2).max(1));
    }
}

impl Naming {
    pub fn new(on: bool) -> Self {
        Self { on, ..Self::default() }
    }

    /// Messages that are ready and named, or about to be.
    pub fn len(&self) -> usize {
        self.lanes.values().map(NamedLane::len).sum()
    }

    /// Whether the owner is cautious.
    pub fn is_on(&self) -> bool {
        self.on
    }

    pub fn begin_send(&mut self, seq: Seq) {
        if self.on {
            self.sending.insert(seq);
        }
    }

    /// A send has ended.
    pub fn end_send(&mut self, seq: Seq) {
        self.sending.remove(&seq);
    }

    /// Takes a message off its lane's lists, if it is on one.
    pub fn remove(&mut self, seq: Seq, lane: Lane) {
        let Some(lane) = self.lanes.get_mut(&lane) else { return };
        for list in [&mut lane.named, &mut lane.pending] {
            if let Some(at) = list.iter().position(|other| *other == seq) {
                list.remove(at);
            }
        }
    }

    /// Everything that the next commit has to name besides what it adds.
    fn calling(&self) -> BTreeSet<Seq> {
        let listed = self.lanes.values().flat_map(NamedLane::all);
        self.sending.iter().copied().chain(listed).collect()
    }

    /// The commit that is out went in: what it names may be sent.
    pub fn applied(&mut self) {
        for lane in self.lanes.values_mut() {
            lane.named.append(&mut lane.pending);
        }
    }

    /// The commit that is out never went in: what it would have named.
    pub fn undone(&mut self) -> Vec<Seq> {
        self.lanes.values_mut().flat_map(|lane| std::mem::take(&mut lane.pending)).collect()
    }
}

impl Owner {
    /// Whether what is sent is named first.
    pub fn is_cautious(&self) -> bool {
        self.naming.on
    }

    /// Whether a message is named by the last commit, and by the one that is out.
    fn is_named(&self, seq: Seq) -> bool {
        self.record.suspicion.calling.contains(&seq) && self.flight.keeps_named(seq)
    }

    /// Begins or ends to name what is sent, as time and suspects want it.
    pub(super) fn renew_caution(&mut self, now: Now) {
        let on = now.mono < self.cautious_until || self.has_trials();
        if on == self.naming.on {
            return;
        }
        self.naming.on = on;
        if on {
            let begun = |state: &SlotState| *state == SlotState::Sending;
            self.naming.sending = self
                .slots
                .iter()
                .filter(|(_, slot)| begun(&slot.state) && !slot.outside)
                .map(|(seq, _)| *seq)
                .collect();
        } else {
            self.naming.sending.clear();
            let listed: Vec<Seq> = self.naming.lanes.values().flat_map(NamedLane::all).collect();
            for seq in listed {
                self.consider(seq, now);
            }
            self.naming.lanes.clear();
        }
    }

    /// Lists a ready message as one that may be sent at once, if it is named. False when it has to be named first, or
    /// nothing has to be.
    pub(super) fn list_named(&mut self, seq: Seq, lane: Lane) -> bool {
        let is_named = self.naming.on && !self.is_outside(Some(lane.0)) && self.is_named(seq);
        if is_named {
            self.naming.lanes.entry(lane).or_default().named.push_back(seq);
        }
        is_named
    }

    /// Takes named messages to send through one lane now. Suspects share no call with others.
    pub(super) fn take_named(
        &mut self,
        lane: Lane,
        messages: usize,
        bytes: usize,
        busy: bool,
        now: Now,
    ) -> Vec<Sending> {
        let mut out: Vec<Sending> = Vec::new();
        let (mut left, mut suspects) = (bytes, false);
        while out.len() < messages && left > 0 {
            // One whose tenant's rate lets nothing go holds nobody up.
            let named = self.naming.lanes.get(&lane).map(|lane| lane.named.iter().copied());
            let Some(seq) = named.into_iter().flatten().find(|seq| self.is_allowed(*seq, now.mono)) else { break };
            if self.expires(seq, now) {
                continue;
            }
            let is_suspect = self.is_suspect(seq);
            let Some(slot) = self.slots.get(&seq) else {
                self.naming.remove(seq, lane);
                continue;
            };
            let (alone, weight) = (slot.goes_alone(), slot.message.payload.len().max(1));
            let is_apart = alone || is_suspect != suspects || weight > left;
            if !out.is_empty() && is_apart || busy && alone {
                break;
            }
            suspects = is_suspect;
            left = left.saturating_sub(weight);
            self.naming.remove(seq, lane);
            out.extend(self.begin_send(seq, now));
            if alone {
                break;
            }
        }
        if let Some(lane) = self.naming.lanes.get_mut(&lane).filter(|_| !out.is_empty()) {
            lane.took(out.len(), messages);
        }
        out
    }

    /// Lanes with ready messages that this host sends. Workers outside need no names.
    pub(super) fn our_ready_lanes(&self) -> impl Iterator<Item = Lane> {
        self.scheduler.ready_lanes().filter(|lane| !self.is_outside(Some(lane.0)))
    }

    /// Named messages of a lane, those of the commit that is out included.
    pub(super) fn named_in(&self, lane: Lane) -> impl Iterator<Item = Seq> {
        self.naming.lanes.get(&lane).into_iter().flat_map(NamedLane::all)
    }

    /// Lanes with named messages.
    pub(super) fn named_lanes(&self) -> impl Iterator<Item = Lane> {
        self.naming.lanes.iter().filter(|(_, lane)| lane.len() > 0).map(|(lane, _)| *lane)
    }

    /// Whether messages are ready whose lane has nothing left that is named. One that waits for a rate wants none before that has
    /// something, or before others of it may go beside those that wait.
    pub(super) fn wants_names(&self, now: Monotonic) -> bool {
        let is_starved = |lane: &Lane| self.naming.lanes.get(lane).is_none_or(|lane| lane.named.is_empty());
        self.naming.on
            && self.our_ready_lanes().any(|lane| match self.rated.get(&lane) {
                Some(rated) => !rated.is_whole && self.room_for_names(lane, now) > 0,
                None => is_starved(&lane),
            })
    }

    /// How many more a lane may have named. Those whose rate lets nothing go take no room: others would wait behind them.
    fn room_for_names(&self, lane: Lane, now: Monotonic) -> usize {
        let Some(listed) = self.naming.lanes.get(&lane) else { return AHEAD_AT_FIRST };
        let blocked = listed.all().filter(|seq| !self.is_allowed(*seq, now)).count();
        listed.ahead.saturating_sub(listed.len() - blocked)
    }

    /// What the next commit has to name: what is being sent, what is named and waits, who is on trial, and of each lane's
    /// ready messages, tenants in turn, as many as are named ahead.
    pub(super) fn choose_names(&mut self, now: Now) -> BTreeSet<Seq> {
        if !self.releasing {
            for seq in self.trial.members() {
                self.name_ready(seq);
            }
            let lanes: Vec<Lane> = self.our_ready_lanes().collect();
            for lane in lanes {
                let room = self.room_for_names(lane, now.mono);
                self.name_in_turn(lane, room, now);
            }
        }
        self.naming.calling()
    }

    /// Moves a ready message from its tenant's queue to those that the next commit names.
    pub(super) fn name_ready(&mut self, seq: Seq) {
        let Some(slot) = self.slots.get(&seq) else { return };
        let (SlotState::Ready { lane }, Some(transport)) = (&slot.state, slot.transport) else { return };
        let (lane, tenant): (u32, Tenant) = (*lane, slot.message.tenant.clone());
        if self.naming.lanes.get(&(transport, lane)).is_some_and(|listed| listed.all().any(|other| other == seq)) {
            return;
        }
        self.unlist_ready(seq, &tenant, Some(transport), lane);
        self.naming.lanes.entry((transport, lane)).or_default().pending.push_back(seq);
    }

    /// The next of a key whose message is settled by the commit that is built, if it can be sent after it: named in the same
    /// commit, so that a key doesn't wait for one more.
    pub(super) fn next_of_key(&self, key: KeyHash, settled: &BTreeSet<Seq>) -> Option<Seq> {
        let queue = self.keys.get(key)?;
        let next = queue.seqs().iter().copied().find(|seq| !settled.contains(seq))?;
        let slot = self.slots.get(&next)?;
        let waits = slot.state == SlotState::Waiting && slot.due <= UnixMillis(0) && !slot.outside;
        (waits && !self.is_suspect(next) && self.hold_of(next).is_none() && !self.is_stalled(next)).then_some(next)
    }

    /// For tests: who is listed as named is ready and named, and who is listed as being sent is.
    pub(super) fn check_named(&self) -> Result<(), String> {
        let is = |seq: Seq, state: fn(&SlotState) -> bool| self.slots.get(&seq).is_some_and(|slot| state(&slot.state));
        for seq in self.naming.lanes.values().flat_map(NamedLane::all) {
            if !is(seq, |state| matches!(state, SlotState::Ready { .. })) {
                return Err(format!("message {seq} is listed as named and isn't ready"));
            }
        }
        for seq in self.naming.lanes.values().flat_map(|lane| &lane.named) {
            if !self.releasing && !self.is_named(*seq) {
                return Err(format!("message {seq} may be sent and isn't named"));
            }
        }
        match self.naming.sending.iter().find(|seq| !is(**seq, |state| *state == SlotState::Sending)) {
            Some(seq) => Err(format!("message {seq} is listed as being sent and isn't")),
            None => Ok(()),
        }
    }

    /// Whether a message may be sent that no commit has named: only in the model checker's mutation.
    pub(super) fn sends_unnamed(&self) -> bool {
        !self.naming.on || !self.is_rule_kept(Rule::NameBeforeSend)
    }
}
