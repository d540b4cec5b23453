//! Skipped messages: reading them again from their resume points, and forgetting what can't be sent for now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::slots::{Origin, Slot, SlotState};
use super::{HoldKey, Owner};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::outbox::records::Segment;
use crate::time::Now;

impl Owner {
    /// Goes on with all skipped keys at once that are ready and whose resume points lie in these segments: after an outage
    /// that is all of a backlog's keys, and to read the segments for each by itself would cost as many times as much.
    pub(super) fn resume_keys(
        &mut self,
        tenant: &Tenant,
        firsts: &[Seq],
        found: &BTreeMap<Seq, Arc<Segment>>,
        now: Now,
    ) {
        let Some((mut group, mut end)) = self.window.begin_keys(tenant, firsts, &self.keys) else { return };
        let mut room = self.window.room(tenant);
        let mut full = false;
        'segments: for first in firsts {
            let Some(segment) = self.window.current(tenant, *first, found) else { continue };
            for entry in &segment.entries {
                let Some(text) = entry.message.key.as_ref() else { continue };
                let seq = segment.first.plus(usize::from(entry.index));
                let key = KeyHash::of(tenant, text);
                let Some(reading) = group.get_mut(&key).filter(|reading| seq >= reading.from) else { continue };
                if self.slots.contains_key(&seq) || self.window.is_gone(tenant, *first, entry.index) {
                    continue;
                }
                if room == 0 {
                    end = seq;
                    full = true;
                    break 'segments;
                }
                if reading.taken >= self.config.limits.key_messages {
                    group.remove(&key);
                    self.window.resume_from(tenant, key, seq, &self.keys);
                    continue;
                }
                reading.taken += 1;
                room -= 1;
                self.insert_entry(&segment, entry, Some(key), now);
            }
        }
        self.window.end_keys(tenant, group, end, full, &self.keys);
    }

    pub(super) fn resume_scope(
        &mut self,
        tenant: &Tenant,
        scope: &HoldKey,
        firsts: &[Seq],
        found: &BTreeMap<Seq, Arc<Segment>>,
        now: Now,
    ) {
        let Some(from) = self.window.scope_from(tenant, scope) else { return };
        let mut room = self.window.room(tenant);
        let mut next = firsts.last().map_or(from, |last| last.next());
        let mut full = false;
        'segments: for first in firsts {
            let Some(segment) = self.window.current(tenant, *first, found) else { continue };
            for entry in &segment.entries {
                let seq = segment.first.plus(usize::from(entry.index));
                let mine = entry.message.key.is_none()
                    && scope.takes(tenant, self.transport_of(&entry.message.topic), entry.message.topic.subject());
                if !mine
                    || seq < from
                    || self.slots.contains_key(&seq)
                    || self.window.is_gone(tenant, *first, entry.index)
                {
                    continue;
                }
                if room == 0 {
                    next = seq;
                    full = true;
                    break 'segments;
                }
                room -= 1;
                self.insert_entry(&segment, entry, None, now);
            }
        }
        self.window.end_scope(tenant, scope, next, full);
    }

    /// Makes room in a full window: forgets what can't be sent for now and remembers where to go on. Those are messages
    /// behind a failed head, behind a dead letter that holds their key, and those of held destinations.
    pub(super) fn make_room(&mut self, tenant: &Tenant) {
        if !self.window.frees(tenant) {
            return;
        }
        let mut blocked: Vec<(KeyHash, Option<HoldKey>, Vec<Seq>)> = Vec::new();
        for (key, queue) in self.keys.iter() {
            let Some(head) = queue.head().and_then(|seq| self.slots.get(&seq)) else { continue };
            if head.message.tenant != *tenant || !head.is_idle() {
                continue;
            }
            let fenced = self.keys.is_fenced(key, head.seq());
            let hold = match &head.state {
                SlotState::Held(hold) => Some(hold.clone()),
                SlotState::Waiting => None,
                _ => continue,
            };
            // A head that waits for an instant is the only one that knows it, a parked one is a row of its own, and the first
            // that waits for a destination is to try whether that is back.
            let head_goes = fenced
                || hold
                    .as_ref()
                    .is_some_and(|hold| head.origin == Origin::Segment && !self.is_next_probe(hold, head.seq()));
            // Only from the end, so that nothing stays that comes after what goes.
            let is_packed =
                |seq: &Seq| self.slots.get(seq).is_some_and(|slot| slot.origin == Origin::Segment && slot.is_idle());
            let mut goes: Vec<Seq> = queue.seqs().iter().rev().copied().take_while(is_packed).collect();
            goes.reverse();
            if !head_goes && !goes.is_empty() && goes.len() == queue.seqs().len() {
                goes.remove(0);
            }
            let stays = queue.seqs().len() > goes.len();
            if !goes.is_empty() {
                blocked.push((key, hold.filter(|_| !stays), goes));
            }
        }
        for (key, hold, seqs) in blocked {
            self.skip_key(tenant, key, hold, &seqs);
        }
        self.skip_held(tenant);
    }

    fn is_next_probe(&self, hold: &HoldKey, seq: Seq) -> bool {
        self.holds.get(hold).is_some_and(|hold| hold.turns().next() == Some(seq))
    }

    /// Forgets messages of one key, all later than what stays of it in memory.
    fn skip_key(&mut self, tenant: &Tenant, key: KeyHash, hold: Option<HoldKey>, seqs: &[Seq]) {
        let Some(from) = seqs.first().copied() else { return };
        if !self.window.skip_key(tenant, key, from, hold) {
            return;
        }
        for seq in seqs {
            self.drop_slot(*seq);
        }
    }

    /// Forgets keyless messages of held destinations.
    fn skip_held(&mut self, tenant: &Tenant) {
        let is_mine =
            |slot: &Slot| slot.message.tenant == *tenant && slot.key.is_none() && slot.origin == Origin::Segment;
        let mut held: Vec<(HoldKey, Seq)> = Vec::new();
        for (key, hold) in self.holds.iter() {
            held.extend(
                hold.waiting
                    .iter()
                    .skip(1)
                    .filter(|seq| self.slots.get(seq).is_some_and(is_mine))
                    .map(|seq| (key.clone(), *seq)),
            );
        }
        for (key, seq) in held {
            if !self.window.skip_keyless(tenant, key, seq) {
                return;
            }
            self.drop_slot(seq);
        }
    }
}
