//! Skipped messages: reading them again from their resume points, and forgetting what can't be sent for now.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use super::slots::{Origin, Slot, SlotState};
use super::window::Resume;
use super::{HoldKey, Owner};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::limits::SEGMENT_MESSAGES_MAX;
use crate::outbox::records::Segment;
use crate::time::Now;

/// A skipped key that is being read.
struct Reading {
    /// From here on it was skipped.
    from: Seq,
    /// Messages of it taken so far.
    taken: usize,
}

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
        let (Some(start), Some(last)) = (firsts.first().copied(), firsts.last().copied()) else { return };
        let Some(window) = self.windows.get(tenant) else { return };
        // All that lies in the last of them is before the next one.
        let next = window.directory.range((Bound::Excluded(last), Bound::Unbounded)).next();
        let mut end = next.map_or_else(|| last.plus(SEGMENT_MESSAGES_MAX), |(first, _)| *first);
        // Keys whose points lie before the first segment that there is go on with it.
        let start = window.directory.range(..start).next().map_or(Seq(0), |_| start);
        let mut group = self.take_ready_keys(tenant, start, end);
        let mut room = self.room(tenant);
        let mut full = false;
        'segments: for first in firsts {
            let Some(segment) = self.in_memory_or(tenant, *first, found) else { continue };
            for entry in &segment.entries {
                let Some(text) = entry.message.key.as_ref() else { continue };
                let seq = segment.first.plus(usize::from(entry.index));
                let key = KeyHash::of(tenant, text);
                let Some(reading) = group.get_mut(&key).filter(|reading| seq >= reading.from) else { continue };
                if self.slots.contains_key(&seq) || self.is_gone(tenant, *first, entry.index) {
                    continue;
                }
                if room == 0 {
                    end = seq;
                    full = true;
                    break 'segments;
                }
                if reading.taken >= self.config.limits.key_messages {
                    group.remove(&key);
                    self.move_resume(tenant, key, Some(seq));
                    continue;
                }
                reading.taken += 1;
                room -= 1;
                self.insert_entry(&segment, entry, Some(key), now);
            }
        }
        let Some(window) = self.windows.get(tenant) else { return };
        let more = full || window.directory.range(end..window.read_until().max(end)).next().is_some();
        for (key, reading) in group {
            self.move_resume(tenant, key, more.then_some(end.max(reading.from)));
        }
    }

    /// Takes the keys off the list of ready ones that go on between two places.
    fn take_ready_keys(&mut self, tenant: &Tenant, start: Seq, end: Seq) -> HashMap<KeyHash, Reading> {
        let Some(window) = self.windows.get_mut(tenant) else { return HashMap::new() };
        let listed: Vec<(Seq, KeyHash)> =
            window.resume_ready.range((start, KeyHash(0))..(end, KeyHash(0))).copied().collect();
        for one in &listed {
            window.resume_ready.remove(one);
        }
        let ready = listed.into_iter().filter(|(from, key)| self.is_ready_key(tenant, *key, *from));
        ready.map(|(from, key)| (key, Reading { from, taken: 0 })).collect()
    }

    /// Where a skipped key goes on from now; none = nothing of it is skipped any more.
    fn move_resume(&mut self, tenant: &Tenant, key: KeyHash, to: Option<Seq>) {
        let Some(window) = self.windows.get_mut(tenant) else { return };
        match to {
            None => {
                window.resume.remove(&key);
            }
            Some(to) => {
                if let Some(resume) = window.resume.get_mut(&key) {
                    resume.from = to;
                }
                if !self.keys.contains_key(&key) {
                    self.key_is_empty(tenant, key);
                }
            }
        }
    }

    pub(super) fn resume_scope(
        &mut self,
        tenant: &Tenant,
        scope: &HoldKey,
        firsts: &[Seq],
        found: &BTreeMap<Seq, Arc<Segment>>,
        now: Now,
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
                window.resume_ready.insert((resume.from, *key));
                found = true;
            }
            if found {
                wanted.push(tenant.clone());
            }
        }
        self.load_wanted.extend(wanted);
    }
}
