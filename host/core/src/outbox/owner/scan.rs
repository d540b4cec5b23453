//! Bringing messages to memory: a tenant's scan, what a slot begins as, and how one leaves.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::slots::{Origin, Slot, SlotState};
use super::window::ScanStep;
use super::{LoadPurpose, LoadRequest, Owner, Rule, TransportId};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::outbox::records::{Entry, Parked, Segment};
use crate::port::store::{SegmentInfo, StoredSegment};
use crate::time::{Monotonic, Now, UnixMillis};

impl Owner {
    /// What to read next, if anything is worth reading now. The driver answers with [`Owner::directory_page`] or
    /// [`Owner::segments_page`]; on a failed read it calls [`Owner::load_failed`] and asks again later.
    pub fn next_load(&mut self) -> Option<LoadRequest> {
        if self.window.is_reading() || self.releasing {
            return None;
        }
        let directory = self.window.begin_directory();
        if directory.is_some() {
            return directory;
        }
        for _ in 0..self.window.wanted_tenants() {
            let tenant = self.window.next_tenant()?;
            if !self.window.has_more(&tenant) {
                continue;
            }
            if !self.window.is_worth_reading(&tenant) {
                self.make_room(&tenant);
            }
            if !self.window.is_worth_reading(&tenant) {
                continue;
            }
            let request = self.window.begin_segments(&tenant, &self.keys);
            if request.is_some() {
                return request;
            }
        }
        None
    }

    /// A read failed; nothing changed.
    pub fn load_failed(&mut self) {
        self.window.end_read();
    }

    /// Takes a page of the directory.
    pub fn directory_page(&mut self, page: Vec<SegmentInfo>, from: Seq, limit: usize) {
        self.window.take_directory(page, from, limit, self.record.last);
    }

    /// Takes the segments asked for.
    pub fn segments_page(&mut self, request: &LoadRequest, page: Vec<StoredSegment>, now: Now) {
        let is_stale = self.window.end_read();
        let LoadRequest::Segments { tenant, purpose, firsts } = request else { return };
        if is_stale || self.flight.cancels_unread() {
            // What the commit that is out takes back may be in this page; it is read again when its fate is known.
            return;
        }
        let mut found = BTreeMap::new();
        for stored in page {
            match stored.segment {
                Ok(segment) => {
                    found.insert(stored.first, segment);
                }
                Err(malformed) => self.window.note_unreadable(stored.first, malformed.reason),
            }
        }
        match purpose {
            LoadPurpose::Scan => self.scan(tenant, firsts, &found, now),
            LoadPurpose::Keys => self.resume_keys(tenant, firsts, &found, now),
            LoadPurpose::Scope(scope) => self.resume_scope(tenant, scope, firsts, &found, now),
        }
    }

    fn scan(&mut self, tenant: &Tenant, firsts: &[Seq], found: &BTreeMap<Seq, Arc<Segment>>, now: Now) {
        for first in firsts {
            match self.window.is_scanned(tenant, *first) {
                None => return,
                Some(true) => continue,
                Some(false) => {}
            }
            if let Some(segment) = self.window.current(tenant, *first, found) {
                if !self.scan_segment(&segment, now) {
                    return;
                }
            } else {
                self.window.pass_segment(tenant, *first);
            }
        }
    }

    /// Brings the messages of a segment to memory, as far as there is room and the bounds of their keys allow. False when
    /// the scan stopped in it.
    pub(super) fn scan_segment(&mut self, segment: &Arc<Segment>, now: Now) -> bool {
        let (tenant, first) = (&segment.tenant, segment.first);
        let mut room = self.window.room(tenant);
        let Some(start) = self.window.scan_from(tenant, first) else { return true };
        for entry in segment.entries.iter().filter(|entry| entry.index >= start) {
            let step = if room == 0 { ScanStep::Stop } else { self.scan_entry(segment, entry, now) };
            match step {
                ScanStep::Take => room -= 1,
                ScanStep::Pass => {}
                ScanStep::Stop => {
                    self.window.stop_scan(tenant, first, entry.index);
                    return false;
                }
            }
        }
        self.window.end_scan(tenant, first);
        true
    }

    fn scan_entry(&mut self, segment: &Arc<Segment>, entry: &Entry, now: Now) -> ScanStep {
        let (tenant, seq) = (&segment.tenant, segment.first.plus(usize::from(entry.index)));
        if self.slots.contains_key(&seq) || self.window.is_gone(tenant, segment.first, entry.index) {
            return ScanStep::Pass;
        }
        let key = entry.message.key.as_ref().map(|key| KeyHash::of(tenant, key));
        let topic = &entry.message.topic;
        let step = match key {
            Some(key) => {
                let skips_resumed = self.is_rule_kept(Rule::SkipResumedKeys);
                self.window.meet_key(tenant, key, seq, self.keys.len_of(key), skips_resumed)
            }
            None => {
                let routing = &self.config.routing;
                self.window.meet_keyless(tenant, seq, topic.subject(), || routing.transport_of(topic))
            }
        };
        if step == ScanStep::Take {
            self.insert_entry(segment, entry, key, now);
        }
        step
    }

    pub(super) fn insert_entry(&mut self, segment: &Arc<Segment>, entry: &Entry, key: Option<KeyHash>, now: Now) {
        let place = segment.place(self.config.shard, entry);
        self.window.enter(segment);
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

    pub(super) fn transport_of(&self, topic: &crate::topic::Topic) -> Option<TransportId> {
        self.config.routing.transport_of(topic)
    }

    pub(super) fn insert_parked(&mut self, parked: &Parked, now: Now) {
        let message = &parked.message;
        self.window.may_free(&message.tenant);
        self.scheduler.add_parked(&message.tenant);
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
                let head = self.keys.insert(key, seq);
                if self.keys.head(key) == Some(seq) {
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

    /// Takes an idle message out of memory; it stays in the store.
    pub(super) fn drop_slot(&mut self, seq: Seq) {
        self.unlist(seq);
        self.trial.remove(seq);
        self.end_probe(seq);
        let Some(slot) = self.slots.remove(&seq) else { return };
        let tenant = &slot.message.tenant;
        if let Some(key) = slot.key
            && self.keys.remove(key, seq)
        {
            self.window.key_is_empty(tenant, key);
        }
        match slot.origin {
            Origin::Segment => {
                self.window.leave(tenant, slot.place.segment);
                self.release_segment(slot.place.segment);
            }
            Origin::Parked => self.scheduler.remove_parked(tenant),
        }
    }

    /// Drops a segment from memory when nothing needs it: no message of it is in memory and it isn't claimed.
    pub(super) fn release_segment(&mut self, first: Seq) {
        if !self.record.open.contains_key(&first) && !self.flight.opens(first) {
            self.window.release(first);
        }
    }
}
