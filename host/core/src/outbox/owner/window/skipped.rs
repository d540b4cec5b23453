//! What a scan skips, and where it goes on: a resume point for each key, and one for the keyless messages of a destination.

use std::collections::HashMap;
use std::ops::Bound;

use super::super::keys::Keys;
use super::super::{HoldKey, TransportId};
use super::Window;
use super::tenant::TenantWindow;
use crate::ids::{KeyHash, Seq, Tenant};
use crate::limits::SEGMENT_MESSAGES_MAX;

/// Where a skipped key goes on.
#[derive(Clone, Debug)]
pub(super) struct Resume {
    pub from: Seq,
    /// It was skipped because of this hold, and isn't read before that is lifted.
    pub hold: Option<HoldKey>,
}

/// What a scan does with a message that it meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanStep {
    /// It comes to memory.
    Take,
    /// It was there, is gone, or is remembered.
    Pass,
    /// It would have to be remembered, and there is no room for that.
    Stop,
}

/// A skipped key that is being read.
#[derive(Debug)]
pub struct Reading {
    /// From here on it was skipped.
    pub from: Seq,
    /// Messages of it taken so far.
    pub taken: usize,
}

impl TenantWindow {
    /// Whether a key was skipped from this place on and is to be read again from there.
    pub fn is_ready_key(&self, key: KeyHash, from: Seq, keys: &Keys) -> bool {
        self.resume.get(&key).is_some_and(|resume| resume.from == from && resume.hold.is_none())
            && !keys.contains(key)
            && !keys.is_fenced(key, from)
    }

    /// Lets what was skipped because of one of these holds be read again. Whether there was anything.
    fn lift(&mut self, is_lifted: impl Fn(&HoldKey) -> bool) -> bool {
        let mut found = false;
        for (key, resume) in &mut self.resume {
            if resume.hold.as_ref().is_some_and(&is_lifted) {
                resume.hold = None;
                self.resume_ready.insert((resume.from, *key));
                found = true;
            }
        }
        found
    }
}

impl Window {
    /// Whether a tenant's scan is past a segment; none = nothing is known of the tenant.
    pub fn is_scanned(&self, tenant: &Tenant, first: Seq) -> Option<bool> {
        self.tenants.get(tenant).map(|window| first < window.scan)
    }

    /// The index from which on a segment is to be scanned; none = nothing is known of its tenant.
    pub fn scan_from(&self, tenant: &Tenant, first: Seq) -> Option<u16> {
        let window = self.tenants.get(tenant)?;
        Some(window.partial.filter(|(partial, _)| *partial == first).map_or(0, |(_, index)| index))
    }

    /// The scan stopped in a segment, before this index.
    pub fn stop_scan(&mut self, tenant: &Tenant, first: Seq, index: u16) {
        if let Some(window) = self.tenants.get_mut(tenant) {
            window.scan = first;
            window.partial = Some((first, index));
        }
    }

    /// A segment was scanned to its end.
    pub fn end_scan(&mut self, tenant: &Tenant, first: Seq) {
        if let Some(window) = self.tenants.get_mut(tenant) {
            window.scan = window.scan.max(first.next());
            window.partial = None;
        }
    }

    /// The scan goes past a segment of which nothing is left.
    pub fn pass_segment(&mut self, tenant: &Tenant, first: Seq) {
        if let Some(window) = self.tenants.get_mut(tenant) {
            window.scan = first.next();
        }
    }

    /// The first segment of a tenant that wasn't scanned.
    pub fn next_unscanned(&self, tenant: &Tenant) -> Option<Seq> {
        self.tenants.get(tenant)?.next_unscanned()
    }

    /// Whether all that a tenant has in the store is known and was scanned.
    pub fn caught_up(&self, tenant: &Tenant) -> bool {
        self.directory_done && self.tenants.get(tenant).is_none_or(TenantWindow::caught_up)
    }

    /// A scan meets a message of a key of which `queued` are in memory. `skips_resumed` = it leaves skipped keys alone, as it has to.
    pub fn meet_key(
        &mut self,
        tenant: &Tenant,
        key: KeyHash,
        seq: Seq,
        queued: usize,
        skips_resumed: bool,
    ) -> ScanStep {
        let limits = self.limits;
        let Some(window) = self.tenants.get_mut(tenant) else { return ScanStep::Pass };
        let is_resumed = window.resume.contains_key(&key);
        if skips_resumed && is_resumed {
            return ScanStep::Pass;
        }
        if queued < limits.key_messages {
            window.may_free |= queued > 0;
            return ScanStep::Take;
        }
        if is_resumed {
            return ScanStep::Pass;
        }
        if window.resume.len() >= limits.resume_points {
            return ScanStep::Stop;
        }
        window.resume.insert(key, Resume { from: seq, hold: None });
        ScanStep::Pass
    }

    /// A scan meets a message without a key. `transport` tells which one takes it.
    pub fn meet_keyless(
        &mut self,
        tenant: &Tenant,
        seq: Seq,
        subject: &str,
        transport: impl FnOnce() -> Option<TransportId>,
    ) -> ScanStep {
        let Some(window) = self.tenants.get_mut(tenant).filter(|window| !window.scopes.is_empty()) else {
            return ScanStep::Take;
        };
        let transport = transport();
        match window.scopes.iter_mut().find(|(scope, _)| scope.takes(tenant, transport, subject)) {
            Some((_, (from, _))) => {
                *from = (*from).min(seq);
                ScanStep::Pass
            }
            None => ScanStep::Take,
        }
    }

    /// Nothing of a key is in memory any more: if it was skipped, it is to be read again.
    pub fn key_is_empty(&mut self, tenant: &Tenant, key: KeyHash) {
        if let Some(window) = self.tenants.get_mut(tenant)
            && let Some(resume) = window.resume.get(&key)
        {
            window.resume_ready.insert((resume.from, key));
            self.want(tenant);
        }
    }

    /// Begins to go on with all skipped keys that are ready and whose resume points lie in these segments: the keys, and before
    /// which place all that lies in these segments is.
    pub fn begin_keys(
        &mut self,
        tenant: &Tenant,
        firsts: &[Seq],
        keys: &Keys,
    ) -> Option<(HashMap<KeyHash, Reading>, Seq)> {
        let (start, last) = (firsts.first().copied()?, firsts.last().copied()?);
        let window = self.tenants.get_mut(tenant)?;
        let next = window.directory.range((Bound::Excluded(last), Bound::Unbounded)).next();
        let end = next.map_or_else(|| last.plus(SEGMENT_MESSAGES_MAX), |(first, _)| *first);
        // Keys whose points lie before the first segment that there is go on with it.
        let start = window.directory.range(..start).next().map_or(Seq(0), |_| start);
        let listed: Vec<(Seq, KeyHash)> =
            window.resume_ready.range((start, KeyHash(0))..(end, KeyHash(0))).copied().collect();
        for ready in &listed {
            window.resume_ready.remove(ready);
        }
        let ready = listed.into_iter().filter(|(from, key)| window.is_ready_key(*key, *from, keys));
        Some((ready.map(|(from, key)| (key, Reading { from, taken: 0 })).collect(), end))
    }

    /// These keys were read up to `end`. `is_full` = there was no room for what lies behind it.
    pub fn end_keys(&mut self, tenant: &Tenant, read: HashMap<KeyHash, Reading>, end: Seq, is_full: bool, keys: &Keys) {
        let Some(window) = self.tenants.get(tenant) else { return };
        let more = is_full || window.has_read_beyond(end);
        for (key, reading) in read {
            if more {
                self.resume_from(tenant, key, end.max(reading.from), keys);
            } else if let Some(window) = self.tenants.get_mut(tenant) {
                window.resume.remove(&key);
            }
        }
    }

    /// A skipped key goes on from here.
    pub fn resume_from(&mut self, tenant: &Tenant, key: KeyHash, from: Seq, keys: &Keys) {
        let Some(window) = self.tenants.get_mut(tenant) else { return };
        if let Some(resume) = window.resume.get_mut(&key) {
            resume.from = from;
        }
        if !keys.contains(key) {
            self.key_is_empty(tenant, key);
        }
    }

    /// From where on the keyless messages of a destination were skipped, if they were.
    pub fn scope_from(&self, tenant: &Tenant, scope: &HoldKey) -> Option<Seq> {
        self.tenants.get(tenant)?.scopes.get(scope).map(|(from, _)| *from)
    }

    /// The keyless messages of a destination were read up to `end`. `is_full` = there was no room for what lies behind it.
    pub fn end_scope(&mut self, tenant: &Tenant, scope: &HoldKey, end: Seq, is_full: bool) {
        let Some(window) = self.tenants.get_mut(tenant) else { return };
        if !is_full && !window.has_read_beyond(end) {
            window.scopes.remove(scope);
        } else if let Some(point) = window.scopes.get_mut(scope) {
            point.0 = end;
        }
    }

    /// Remembers that a key goes on from here; false when there is no room to remember it. Its messages from there on leave
    /// memory.
    pub fn skip_key(&mut self, tenant: &Tenant, key: KeyHash, from: Seq, hold: Option<HoldKey>) -> bool {
        let limit = self.limits.resume_points;
        let Some(window) = self.tenants.get_mut(tenant) else { return false };
        let has_room = window.resume.len() < limit || window.resume.contains_key(&key);
        if has_room {
            window.resume.insert(key, Resume { from, hold });
        }
        has_room
    }

    /// Remembers that a keyless message of a held destination leaves memory. False when nothing is known of its tenant.
    pub fn skip_keyless(&mut self, tenant: &Tenant, scope: HoldKey, seq: Seq) -> bool {
        let Some(window) = self.tenants.get_mut(tenant) else { return false };
        let point = window.scopes.entry(scope).or_insert((seq, false));
        *point = (point.0.min(seq), false);
        true
    }

    /// Whether something was skipped because of a hold.
    pub fn has_skipped(&self, hold: &HoldKey) -> bool {
        self.tenants.values().any(|window| {
            window.scopes.contains_key(hold) || window.resume.values().any(|resume| resume.hold.as_ref() == Some(hold))
        })
    }

    /// Lets everything that was skipped because of a hold be read again.
    pub fn resume_after_hold(&mut self, hold: &HoldKey) {
        for (tenant, window) in &mut self.tenants {
            let mut found = window.lift(|other| other == hold);
            if let Some(point) = window.scopes.get_mut(hold) {
                point.1 = true;
                found = true;
            }
            if found {
                self.wanted.insert(tenant.clone());
            }
        }
    }

    /// Has everything that was skipped because of a hold read again: it may not fall under it any more. Keyless messages are
    /// found by the tenant's scan, which is set back to the first of them.
    pub fn rescan_skipped(&mut self) {
        self.outdate_read();
        for (tenant, window) in &mut self.tenants {
            let first = window.scopes.values().map(|(from, _)| *from).min();
            if let Some(first) = first {
                // The segment that holds it may begin before it.
                let segment = window.segment_of(first);
                if segment < window.scan || window.partial.is_some_and(|(partial, _)| segment <= partial) {
                    window.scan = window.scan.min(segment);
                    window.partial = None;
                }
                window.scopes.clear();
            }
            if window.lift(|_| true) || first.is_some() {
                self.wanted.insert(tenant.clone());
            }
        }
    }

    /// Skipped keys that are remembered, over all tenants.
    pub fn resume_points(&self) -> usize {
        self.tenants.values().map(|window| window.resume.len()).sum()
    }
}
