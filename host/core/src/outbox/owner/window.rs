//! What is in memory: the directory of segments, the read-ahead of each tenant, and what to read next.
//!
//! A scan goes through a tenant's segments in order. What it can't take it remembers: a key past its bound, or behind a
//! held destination, gets a resume point, and later messages of it are skipped until it is read again from there. A
//! scan that can't remember, or has no room, stops where it is, also in the middle of a segment.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use super::slots::{DirectoryEntry, Origin};
use super::{HoldKey, Owner};
use crate::ids::{KeyHash, Seq, Tenant};
use crate::outbox::bits::Bits;
use crate::port::store::{SegmentInfo, StoredSegment};
use crate::time::Now;

/// Directory entries read in one page.
const DIRECTORY_PAGE: usize = 2_000;
/// Segments read in one load.
const LOAD_SEGMENTS: usize = 16;
/// A read waits until this part of a tenant's share is free.
const READ_SHARE: usize = 4;
/// Messages that a tenant may always hold in memory, however many tenants share the window.
const TENANT_MESSAGES_MIN: usize = 64;

/// What the driver is asked to read. At most one is outstanding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadRequest {
    /// Directory entries from this seq, at most `limit`.
    Directory {
        /// From.
        from: Seq,
        /// At most.
        limit: usize,
    },
    /// These segments, to scan a tenant forward or from a resume point.
    Segments {
        /// Whose.
        tenant: Tenant,
        /// What for.
        purpose: LoadPurpose,
        /// First seqs.
        firsts: Vec<Seq>,
    },
}

/// Why segments are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadPurpose {
    /// To go on with the tenant's scan.
    Scan,
    /// To go on with skipped keys from their resume points.
    Keys,
    /// To go on with the keyless messages of a destination that was held.
    Scope(HoldKey),
}

/// Where a skipped key goes on.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    pub from: Seq,
    /// It was skipped because of this hold, and isn't read before that is lifted.
    pub hold: Option<HoldKey>,
}

/// One tenant's part of the window.
#[derive(Debug, Default)]
pub(super) struct TenantWindow {
    /// Its segments in the store, as far as the directory was read.
    pub directory: BTreeMap<Seq, DirectoryEntry>,
    /// Segments below were scanned.
    pub scan: Seq,
    /// A segment that was scanned up to this index and no further.
    pub partial: Option<(Seq, u16)>,
    /// Messages of it in memory that lie in segments.
    pub messages: usize,
    /// Skipped keys.
    pub resume: BTreeMap<KeyHash, Resume>,
    /// Of those, such as may have nothing in memory any more: to be read again, in the order in which they lie. What no longer
    /// holds is found when its turn comes.
    pub resume_ready: BTreeSet<(Seq, KeyHash)>,
    /// Where the last read of skipped keys began: the next begins behind it, so that one key with much to do doesn't keep
    /// the others waiting.
    pub resume_turn: Seq,
    /// Keyless messages of held destinations, skipped from this seq on; and whether they may be read again.
    pub scopes: BTreeMap<HoldKey, (Seq, bool)>,
    /// Messages may be in memory that can't be sent for now and would make room for others.
    pub may_free: bool,
    /// The last read was for a skipped key, so the next one goes on with the scan.
    pub key_was_read: bool,
}

impl TenantWindow {
    pub fn next_unscanned(&self) -> Option<Seq> {
        self.directory.range(self.scan..).next().map(|(first, _)| *first)
    }
    /// Whether every known segment was scanned.
    pub fn caught_up(&self) -> bool {
        self.next_unscanned().is_none()
    }
    /// Segments below have been scanned, at least in part.
    pub fn read_until(&self) -> Seq {
        self.partial.map_or(self.scan, |(first, _)| self.scan.max(first.next()))
    }
    fn wants(&self) -> bool {
        !self.resume_ready.is_empty() || self.scopes.values().any(|(_, ready)| *ready) || !self.caught_up()
    }
    /// The segments that may hold messages from `from` on, up to the scan, until they hold `enough` messages.
    fn segments_from(&self, from: Seq, enough: usize) -> Vec<Seq> {
        let start = self.directory.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let mut messages = 0;
        let known = self.directory.range(start..self.read_until().max(start)).take(LOAD_SEGMENTS);
        let wanted = known.take_while(|(_, entry)| {
            let wanted = messages < enough;
            messages += (entry.messages as usize).saturating_sub(entry.gone.len());
            wanted
        });
        wanted.map(|(first, _)| *first).collect()
    }
}

impl Owner {
    /// What to read next, if anything is worth reading now. The driver answers with [`Owner::directory_page`] or
    /// [`Owner::segments_page`]; on a failed read it calls [`Owner::load_failed`] and asks again later.
    pub fn next_load(&mut self) -> Option<LoadRequest> {
        if self.loading || self.releasing {
            return None;
        }
        let request = if self.directory_done {
            self.next_segments()
        } else {
            Some(LoadRequest::Directory { from: self.directory_until, limit: DIRECTORY_PAGE })
        };
        self.loading = request.is_some();
        request
    }

    /// A read failed; nothing changed.
    pub fn load_failed(&mut self) {
        self.loading = false;
        self.page_is_stale = false;
    }

    /// Tenants take turns, so that one with many skipped keys doesn't keep the others from being read.
    fn next_segments(&mut self) -> Option<LoadRequest> {
        for _ in 0..self.load_wanted.len() {
            let after = self.load_turn.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
            let next = self.load_wanted.range::<Tenant, _>((after, Bound::Unbounded)).next();
            let tenant = next.or_else(|| self.load_wanted.first())?.clone();
            self.load_turn = Some(tenant.clone());
            if !self.windows.get(&tenant).is_some_and(TenantWindow::wants) {
                self.load_wanted.remove(&tenant);
                self.drop_window(&tenant);
                continue;
            }
            if !self.is_worth_reading(&tenant) {
                self.make_room(&tenant);
            }
            if !self.is_worth_reading(&tenant) {
                continue;
            }
            let request = self.load_for(&tenant);
            if request.is_some() {
                return request;
            }
        }
        None
    }

    fn load_for(&mut self, tenant: &Tenant) -> Option<LoadRequest> {
        let resume_max = self.config.limits.resume_points;
        let room = self.room(tenant);
        let window = self.windows.get(tenant)?;
        // A scan that can't remember a skipped key stops.
        let scan = !window.caught_up() && window.resume.len() < resume_max;
        let request = |purpose, firsts| Some(LoadRequest::Segments { tenant: tenant.clone(), purpose, firsts });
        if !scan || !window.key_was_read {
            if let Some(firsts) = self.ready_keys(tenant) {
                self.windows.get_mut(tenant)?.key_was_read = true;
                return request(LoadPurpose::Keys, firsts);
            }
            let window = self.windows.get(tenant)?;
            if let Some((scope, (from, _))) = window.scopes.iter().find(|(_, (_, ready))| *ready) {
                return request(LoadPurpose::Scope(scope.clone()), window.segments_from(*from, usize::MAX));
            }
        }
        let window = self.windows.get_mut(tenant)?;
        window.key_was_read = false;
        if !scan {
            return None;
        }
        let mut expected = 0;
        let unscanned = window.directory.range(window.scan..).take(LOAD_SEGMENTS);
        let firsts = unscanned
            .take_while(|(_, entry)| {
                let enough = expected >= room;
                expected += (entry.messages as usize).saturating_sub(entry.gone.len());
                !enough
            })
            .map(|(first, _)| *first)
            .collect();
        request(LoadPurpose::Scan, firsts)
    }

    /// Segments to read for skipped keys of which nothing is in memory and that no dead letter holds back.
    fn ready_keys(&mut self, tenant: &Tenant) -> Option<Vec<Seq>> {
        let room = self.room(tenant);
        loop {
            let window = self.windows.get(tenant)?;
            let behind = (Bound::Excluded((window.resume_turn, KeyHash(u128::MAX))), Bound::Unbounded);
            let next = window.resume_ready.range(behind).next().or_else(|| window.resume_ready.first());
            let (from, key) = *next?;
            let is_ready = self.is_ready_key(tenant, key, from);
            let window = self.windows.get_mut(tenant)?;
            if is_ready {
                window.resume_turn = from;
                // When most of what was skipped is wanted, more segments than there is room for are read in vain.
                let enough = if window.resume_ready.len() * 2 >= window.resume.len() { room } else { usize::MAX };
                let firsts = window.segments_from(from, enough);
                if !firsts.is_empty() {
                    return Some(firsts);
                }
                window.resume.remove(&key);
            }
            window.resume_ready.remove(&(from, key));
        }
    }

    /// Whether a key was skipped from this place on and is to be read again from there.
    pub(super) fn is_ready_key(&self, tenant: &Tenant, key: KeyHash, from: Seq) -> bool {
        let resume = self.windows.get(tenant).and_then(|window| window.resume.get(&key));
        resume.is_some_and(|resume| resume.from == from && resume.hold.is_none())
            && !self.keys.contains_key(&key)
            && !self.is_fenced(key, from)
    }

    /// Nothing of a key is in memory any more.
    pub(super) fn key_is_empty(&mut self, tenant: &Tenant, key: KeyHash) {
        if let Some(window) = self.windows.get_mut(tenant)
            && let Some(resume) = window.resume.get(&key)
        {
            window.resume_ready.insert((resume.from, key));
            self.want_load(tenant);
        }
    }

    pub(super) fn want_load(&mut self, tenant: &Tenant) {
        if !self.load_wanted.contains(tenant) {
            self.load_wanted.insert(tenant.clone());
        }
    }

    /// Whether there is room for so many that a read is worth it: a good part of a tenant's share, or as many as it has.
    fn is_worth_reading(&self, tenant: &Tenant) -> bool {
        let room = self.room(tenant);
        let mine = self.windows.get(tenant).map_or(0, |window| window.messages);
        room > 0 && (room >= mine || room >= self.share() / READ_SHARE)
    }

    /// Messages that a tenant may hold of a window shared by those that have any.
    fn share(&self) -> usize {
        let limits = &self.config.limits;
        (limits.window_messages / self.busy_tenants.max(1)).max(TENANT_MESSAGES_MIN.min(limits.window_messages))
    }

    /// How many more messages a tenant may hold. The window is shared by those that have any.
    pub(super) fn room(&self, tenant: &Tenant) -> usize {
        let limits = &self.config.limits;
        let mine = self.windows.get(tenant).map_or(0, |window| window.messages);
        let least = TENANT_MESSAGES_MIN.min(limits.window_messages);
        let shared = if self.window_bytes < limits.window_bytes {
            self.share().saturating_sub(mine).min(limits.window_messages.saturating_sub(self.window_messages))
        } else {
            0
        };
        shared.max(least.saturating_sub(mine))
    }

    /// Messages of segments that can be in memory at most, with `tenants` tenants that have any.
    pub fn messages_bound(&self, tenants: usize) -> usize {
        let limits = &self.config.limits;
        limits.window_messages + TENANT_MESSAGES_MIN.min(limits.window_messages) * tenants
    }

    /// Takes a page of the directory.
    pub fn directory_page(&mut self, page: Vec<SegmentInfo>, from: Seq, limit: usize) {
        self.loading = false;
        self.page_is_stale = false;
        let complete = page.len() < limit;
        let mut until = from;
        for info in page {
            until = info.first.next();
            self.enter_directory(&info.tenant, info.first, info.messages);
        }
        self.directory_until = until.max(self.directory_until);
        if complete {
            self.directory_done = true;
            self.directory_until = self.record.last.next().max(self.directory_until);
        }
    }

    pub(super) fn enter_directory(&mut self, tenant: &Tenant, first: Seq, messages: u32) {
        if self.stored.contains(&first) {
            // A page may say less of it than is known: of a row that can't be read not even whose it is.
            return;
        }
        let window = self.windows.entry(tenant.clone()).or_default();
        if window.directory.is_empty() {
            self.busy_tenants += 1;
        }
        window.directory.entry(first).or_insert_with(|| DirectoryEntry { messages, gone: Bits::default() });
        self.stored.insert(first);
        self.want_load(tenant);
    }

    /// A segment isn't in the store any more.
    pub(super) fn leave_directory(&mut self, tenant: &Tenant, first: Seq) {
        self.stored.remove(&first);
        let Some(window) = self.windows.get_mut(tenant) else { return };
        if window.directory.remove(&first).is_some() && window.directory.is_empty() {
            self.busy_tenants = self.busy_tenants.saturating_sub(1);
            self.drop_window(tenant);
        }
    }

    /// Forgets a tenant of which nothing is left.
    fn drop_window(&mut self, tenant: &Tenant) {
        let is_empty = |window: &TenantWindow| {
            window.directory.is_empty() && window.messages == 0 && window.resume.is_empty() && window.scopes.is_empty()
        };
        if self.windows.get(tenant).is_some_and(is_empty) {
            self.windows.remove(tenant);
            self.load_wanted.remove(tenant);
        }
    }

    /// Takes the segments asked for.
    pub fn segments_page(&mut self, request: &LoadRequest, page: Vec<StoredSegment>, now: Now) {
        self.loading = false;
        let is_stale = std::mem::take(&mut self.page_is_stale);
        let LoadRequest::Segments { tenant, purpose, firsts } = request else { return };
        if is_stale || self.flight_cancels_unread() {
            // What the commit that is out takes back may be in this page; it is read again when its fate is known.
            return;
        }
        let mut found = BTreeMap::new();
        for stored in page {
            match stored.segment {
                Ok(segment) => {
                    found.insert(stored.first, segment);
                }
                Err(malformed) => self.note_corrupt(stored.first, malformed.reason),
            }
        }
        match purpose {
            LoadPurpose::Scan => self.scan(tenant, firsts, &found, now),
            LoadPurpose::Keys => self.resume_keys(tenant, firsts, &found, now),
            LoadPurpose::Scope(scope) => self.resume_scope(tenant, scope, firsts, &found, now),
        }
    }

    /// A segment was read and can't be decoded. One in memory goes on from there, and a page read earlier may name one that has
    /// left the store meanwhile.
    fn note_corrupt(&mut self, first: Seq, reason: String) {
        let is_listed = self.corrupt.iter().any(|(listed, _)| *listed == first);
        if !is_listed && self.stored.contains(&first) && !self.segments.contains_key(&first) {
            self.corrupt.push((first, reason));
        }
    }

    /// Takes an idle message out of memory; it stays in the store.
    pub(super) fn drop_slot(&mut self, seq: Seq) {
        self.unlist(seq);
        self.trial.remove(seq);
        self.end_probe(seq);
        let Some(slot) = self.slots.remove(&seq) else { return };
        if let Some(key) = slot.key
            && let Some(queue) = self.keys.get_mut(&key)
        {
            queue.remove(seq);
            if queue.busy == Some(seq) {
                queue.busy = None;
            }
            if queue.seqs.is_empty() && queue.busy.is_none() {
                self.keys.remove(&key);
                self.key_is_empty(&slot.message.tenant, key);
            }
        }
        match slot.origin {
            Origin::Segment => self.leave_segment(slot.place.segment, &slot.message.tenant),
            Origin::Parked => {
                if let Some(count) = self.parked_count.get_mut(&slot.message.tenant) {
                    *count = count.saturating_sub(1);
                    if *count == 0 {
                        self.parked_count.remove(&slot.message.tenant);
                    }
                }
            }
        }
    }

    fn leave_segment(&mut self, first: Seq, tenant: &Tenant) {
        self.window_messages = self.window_messages.saturating_sub(1);
        if let Some(window) = self.windows.get_mut(tenant) {
            window.messages = window.messages.saturating_sub(1);
        }
        self.want_load(tenant);
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.slots = loaded.slots.saturating_sub(1);
        }
        self.release_segment(first);
    }

    /// Drops a segment from memory when nothing needs it: no message of it is in memory and it isn't claimed.
    pub(super) fn release_segment(&mut self, first: Seq) {
        let idle = self.segments.get(&first).is_some_and(|loaded| loaded.slots == 0);
        if idle
            && !self.record.open.contains_key(&first)
            && !self.flight_opens(first)
            && let Some(loaded) = self.segments.remove(&first)
        {
            self.window_bytes = self.window_bytes.saturating_sub(loaded.weight);
        }
    }
}
