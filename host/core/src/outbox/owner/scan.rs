//! Bringing messages to memory: a tenant's scan, and what a slot begins as.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::slots::{LoadedSegment, Origin, Slot, SlotState};
use super::window::Resume;
use super::{HoldKey, Owner, Rule, TransportId};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::outbox::records::{Entry, Parked, Segment};
use crate::time::{Monotonic, Now, UnixMillis};

/// What became of an entry that a scan met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// It is in memory now.
    Taken,
    /// It was there, is gone, or is remembered.
    Passed,
    /// It would have to be remembered, and there is no room for that.
    Stopped,
}

impl Owner {
    pub(super) fn scan(&mut self, tenant: &Tenant, firsts: &[Seq], found: &BTreeMap<Seq, Arc<Segment>>, now: Now) {
        for first in firsts {
            let Some(window) = self.windows.get(tenant) else { return };
            if *first < window.scan {
                continue;
            }
            if let Some(segment) = self.in_memory_or(tenant, *first, found) {
                if !self.scan_segment(&segment, now) {
                    return;
                }
            } else if let Some(window) = self.windows.get_mut(tenant) {
                window.scan = first.next();
            }
        }
    }

    /// A segment with what is still in it: as in memory, else as read, without what has left since it was read.
    pub(super) fn in_memory_or(
        &self,
        tenant: &Tenant,
        first: Seq,
        found: &BTreeMap<Seq, Arc<Segment>>,
    ) -> Option<Arc<Segment>> {
        if let Some(loaded) = self.segments.get(&first) {
            return Some(Arc::clone(&loaded.segment));
        }
        let segment = found.get(&first)?;
        let entry = self.windows.get(tenant)?.directory.get(&first)?;
        if entry.gone.is_empty() {
            return Some(Arc::clone(segment));
        }
        let entries: Vec<Entry> =
            segment.entries.iter().filter(|kept| !entry.gone.contains(kept.index)).cloned().collect();
        (!entries.is_empty()).then(|| Arc::new(Segment { first, tenant: tenant.clone(), entries }))
    }

    /// Brings the messages of a segment to memory, as far as there is room and the bounds of their keys allow. False when
    /// the scan stopped in it.
    pub(super) fn scan_segment(&mut self, segment: &Arc<Segment>, now: Now) -> bool {
        let tenant = &segment.tenant;
        let mut room = self.room(tenant);
        let Some(window) = self.windows.get(tenant) else { return true };
        let start = window.partial.filter(|(first, _)| *first == segment.first).map_or(0, |(_, index)| index);
        for entry in segment.entries.iter().filter(|entry| entry.index >= start) {
            let met = if room == 0 { Met::Stopped } else { self.take_entry(segment, entry, now) };
            match met {
                Met::Taken => room -= 1,
                Met::Passed => {}
                Met::Stopped => {
                    if let Some(window) = self.windows.get_mut(tenant) {
                        window.scan = segment.first;
                        window.partial = Some((segment.first, entry.index));
                    }
                    return false;
                }
            }
        }
        if let Some(window) = self.windows.get_mut(tenant) {
            window.scan = window.scan.max(segment.first.next());
            window.partial = None;
        }
        true
    }

    fn take_entry(&mut self, segment: &Arc<Segment>, entry: &Entry, now: Now) -> Met {
        let seq = segment.first.plus(usize::from(entry.index));
        if self.slots.contains_key(&seq) || self.is_gone(&segment.tenant, segment.first, entry.index) {
            return Met::Passed;
        }
        let key = entry.message.key.as_ref().map(|key| KeyHash::of(&segment.tenant, key));
        let skip_resumed = self.is_rule_kept(Rule::SkipResumedKeys);
        let limits = self.config.limits;
        if let Some(key) = key {
            let queued = self.keys.get(&key).map_or(0, |queue| queue.seqs.len());
            let Some(window) = self.windows.get_mut(&segment.tenant) else { return Met::Passed };
            let is_resumed = window.resume.contains_key(&key);
            if skip_resumed && is_resumed {
                return Met::Passed;
            }
            if queued >= limits.key_messages {
                if is_resumed {
                    return Met::Passed;
                }
                if window.resume.len() >= limits.resume_points {
                    return Met::Stopped;
                }
                window.resume.insert(key, Resume { from: seq, hold: None });
                return Met::Passed;
            }
            window.may_free |= queued > 0;
        } else if let Some(scope) = self.skipped_scope(&segment.tenant, entry) {
            if let Some((from, _)) =
                self.windows.get_mut(&segment.tenant).and_then(|window| window.scopes.get_mut(&scope))
            {
                *from = (*from).min(seq);
            }
            return Met::Passed;
        }
        self.insert_entry(segment, entry, key, now);
        Met::Taken
    }

    fn skipped_scope(&self, tenant: &Tenant, entry: &Entry) -> Option<HoldKey> {
        let window = self.windows.get(tenant)?;
        if window.scopes.is_empty() {
            return None;
        }
        let transport = self.config.routing.transport_of(&entry.message.topic);
        let subject = entry.message.topic.subject();
        window.scopes.keys().find(|scope| scope.takes(tenant, transport, subject)).cloned()
    }

    pub(super) fn is_gone(&self, tenant: &Tenant, first: Seq, index: u16) -> bool {
        match self.windows.get(tenant).and_then(|window| window.directory.get(&first)) {
            Some(entry) => entry.gone.contains(index),
            None => true,
        }
    }

    pub(super) fn insert_entry(&mut self, segment: &Arc<Segment>, entry: &Entry, key: Option<KeyHash>, now: Now) {
        let place = segment.place(self.config.shard, entry);
        self.keep_segment(segment).slots += 1;
        self.window_messages += 1;
        if let Some(window) = self.windows.get_mut(&segment.tenant) {
            window.messages += 1;
        }
        let transport = self.transport_of(&entry.message.topic);
        let outside = self.is_outside(transport);
        self.insert_slot(
            Slot {
                place,
                message: Arc::clone(&entry.message),
                key,
                transport,
                routed: self.routed,
                outside,
                origin: Origin::Segment,
                attempts: 0,
                due: UnixMillis(0),
                wakes: Monotonic::default(),
                delay: std::time::Duration::ZERO,
                first_attempt_at: None,
                claimed: false,
                history: Vec::new(),
                state: SlotState::Waiting,
            },
            now,
        );
    }

    /// A segment in memory: brought there if it wasn't.
    pub(super) fn keep_segment(&mut self, segment: &Arc<Segment>) -> &mut LoadedSegment {
        let bytes = &mut self.window_bytes;
        self.segments.entry(segment.first).or_insert_with(|| {
            let weight = segment.weight();
            *bytes += weight;
            LoadedSegment { segment: Arc::clone(segment), active: 0, slots: 0, done: BTreeMap::new(), weight }
        })
    }

    pub(super) fn transport_of(&self, topic: &crate::topic::Topic) -> Option<TransportId> {
        self.config.routing.transport_of(topic)
    }

    pub(super) fn insert_parked(&mut self, parked: &Parked, now: Now) {
        let message = &parked.message;
        if let Some(window) = self.windows.get_mut(&message.tenant) {
            window.may_free = true;
        }
        *self.parked_count.entry(message.tenant.clone()).or_default() += 1;
        let transport = self.transport_of(&message.topic);
        let within_delay = self.is_rule_kept(Rule::RetryWithinDelay);
        let wait = if within_delay { parked.wait(now.wall) } else { parked.due.since(now.wall) };
        let slot = Slot {
            place: parked.place,
            message: Arc::clone(message),
            key: message.key.as_ref().map(|key| KeyHash::of(&message.tenant, key)),
            transport,
            routed: self.routed,
            outside: self.is_outside(transport),
            origin: Origin::Parked,
            attempts: parked.attempts,
            due: parked.due,
            wakes: now.mono + wait,
            delay: parked.delay,
            first_attempt_at: Some(parked.first_attempt_at),
            claimed: parked.claimed,
            history: parked.history.clone(),
            state: SlotState::Waiting,
        };
        self.insert_slot(slot, now);
    }

    fn insert_slot(&mut self, slot: Slot, now: Now) {
        let seq = slot.seq();
        let key = slot.key;
        if slot.transport.is_none() {
            self.hold_unrouted(now);
        }
        self.slots.insert(seq, slot);
        match key {
            None => self.consider(seq, now),
            Some(key) => {
                let queue = self.keys.entry(key).or_default();
                let head = queue.head();
                queue.insert(seq);
                if queue.head() == Some(seq) {
                    self.consider(seq, now);
                    // A replayed message may come before one that was listed as the head.
                    if let Some(old) = head {
                        self.consider(old, now);
                    }
                } else if let Some(head) = head
                    && self.slots.get(&seq).is_some_and(|slot| slot.origin == Origin::Parked)
                {
                    // It may go, stalled or not, now that it holds a retry up.
                    self.consider(head, now);
                }
            }
        }
    }
}
