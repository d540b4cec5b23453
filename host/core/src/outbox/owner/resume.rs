//! Skipped messages: reading them again from their resume points, and forgetting what can't be sent for now.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::slots::{Origin, Slot, SlotState};
use super::window::Resume;
use super::{HoldKey, Owner};
use crate::ids::{Key, KeyHash, Seq, Tenant};
use crate::outbox::records::Segment;
use crate::time::UnixMillis;

impl Owner {
    pub(super) fn resume_key(
        &mut self,
        tenant: &Tenant,
        key: KeyHash,
        firsts: &[Seq],
        found: &BTreeMap<Seq, Arc<Segment>>,
        now: UnixMillis,
    ) {
        let Some(from) = self.windows.get(tenant).and_then(|window| window.resume.get(&key)).map(|resume| resume.from)
        else {
            return;
        };
        let mut room = self.room(tenant).min(self.config.limits.key_messages);
        let mut next = firsts.last().map_or(from, |last| last.next());
        let mut full = false;
        let mut name: Option<Key> = None;
        'segments: for first in firsts {
            let Some(segment) = self.in_memory_or(tenant, *first, found) else { continue };
            for entry in &segment.entries {
                let seq = segment.first.plus(usize::from(entry.index));
                let Some(text) = entry.message.key.as_ref().filter(|_| seq >= from) else { continue };
                // The digest is taken until the key's name is known.
                let mine = name.as_ref().map_or_else(|| KeyHash::of(tenant, text) == key, |name| name == text);
                if !mine {
                    continue;
                }
                name.get_or_insert_with(|| text.clone());
                if self.slots.contains_key(&seq) || self.is_gone(tenant, *first, entry.index) {
                    continue;
                }
                if room == 0 {
                    next = seq;
                    full = true;
                    break 'segments;
                }
                room -= 1;
                self.insert_entry(&segment, entry, Some(key), now);
            }
        }
        let Some(window) = self.windows.get_mut(tenant) else { return };
        if full || window.directory.range(next..window.read_until().max(next)).next().is_some() {
            if let Some(resume) = window.resume.get_mut(&key) {
                resume.from = next;
            }
            if !self.keys.contains_key(&key) {
                self.key_is_empty(tenant, key);
            }
        } else {
            window.resume.remove(&key);
            window.resume_ready.remove(&key);
        }
    }

    pub(super) fn resume_scope(
        &mut self,
        tenant: &Tenant,
        scope: &HoldKey,
        firsts: &[Seq],
        found: &BTreeMap<Seq, Arc<Segment>>,
        now: UnixMillis,
    ) {
        let Some((from, _)) = self.windows.get(tenant).and_then(|window| window.scopes.get(scope)).copied() else {
            return;
        };
        let mut room = self.room(tenant);
        let mut next = firsts.last().map_or(from, |last| last.next());
        let mut full = false;
        'segments: for first in firsts {
            let Some(segment) = self.in_memory_or(tenant, *first, found) else { continue };
            for entry in &segment.entries {
                let seq = segment.first.plus(usize::from(entry.index));
                let mine = entry.message.key.is_none()
                    && scope.takes(tenant, self.transport_of(&entry.message.topic), entry.message.topic.subject());
                if !mine || seq < from || self.slots.contains_key(&seq) || self.is_gone(tenant, *first, entry.index) {
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
        let Some(window) = self.windows.get_mut(tenant) else { return };
        if full || window.directory.range(next..window.read_until().max(next)).next().is_some() {
            if let Some(point) = window.scopes.get_mut(scope) {
                point.0 = next;
            }
        } else {
            window.scopes.remove(scope);
        }
    }

    /// Makes room in a full window: forgets what can't be sent for now and remembers where to go on. Those are messages
    /// behind a failed head, behind a dead letter that holds their key, and those of held destinations.
    pub(super) fn make_room(&mut self, tenant: &Tenant) {
        match self.windows.get_mut(tenant) {
            Some(window) if window.may_free => window.may_free = false,
            _ => return,
        }
        let mut blocked: Vec<(KeyHash, Option<HoldKey>, Vec<Seq>)> = Vec::new();
        for (key, queue) in &self.keys {
            let Some(head) = queue.head().and_then(|seq| self.slots.get(&seq)) else { continue };
            if head.message.tenant != *tenant || !head.is_idle() {
                continue;
            }
            let fenced = self.is_fenced(*key, head.seq());
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
            let mut goes: Vec<Seq> = queue.seqs.iter().rev().copied().take_while(is_packed).collect();
            goes.reverse();
            if !head_goes && !goes.is_empty() && goes.len() == queue.seqs.len() {
                goes.remove(0);
            }
            let stays = queue.seqs.len() > goes.len();
            if !goes.is_empty() {
                blocked.push((*key, hold.filter(|_| !stays), goes));
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
        let limit = self.config.limits.resume_points;
        let (Some(from), Some(window)) = (seqs.first().copied(), self.windows.get_mut(tenant)) else { return };
        if window.resume.len() >= limit && !window.resume.contains_key(&key) {
            return;
        }
        window.resume.insert(key, Resume { from, hold });
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
            let Some(window) = self.windows.get_mut(tenant) else { return };
            let point = window.scopes.entry(key).or_insert((seq, false));
            *point = (point.0.min(seq), false);
            self.drop_slot(seq);
        }
    }

    /// Lets everything that was skipped because of a hold be read again.
    pub(super) fn resume_after_hold(&mut self, hold: &HoldKey) {
        let mut wanted = Vec::new();
        for (tenant, window) in &mut self.windows {
            let mut found = false;
            if let Some(point) = window.scopes.get_mut(hold) {
                point.1 = true;
                found = true;
            }
            for (key, resume) in window.resume.iter_mut().filter(|(_, resume)| resume.hold.as_ref() == Some(hold)) {
                resume.hold = None;
                window.resume_ready.insert(*key);
                found = true;
            }
            if found {
                wanted.push(tenant.clone());
            }
        }
        self.load_wanted.extend(wanted);
    }
}
