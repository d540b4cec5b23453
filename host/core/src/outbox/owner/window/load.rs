//! What to read next: the directory, then skipped keys and scans of one tenant after the other.

use std::ops::Bound;

use super::super::HoldKey;
use super::super::keys::Keys;
use super::Window;
use super::tenant::TenantWindow;
use crate::ids::{KeyHash, Seq, Tenant};

/// Directory entries read in one page.
const DIRECTORY_PAGE: usize = 2_000;
/// Segments read in one load.
pub(super) const LOAD_SEGMENTS: usize = 16;
/// A read waits until this part of a tenant's share is free.
const READ_SHARE: usize = 4;

/// What the driver is asked to read. At most one is outstanding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LoadRequest {
    /// Directory entries from this seq, at most `limit`.
    Directory { from: Seq, limit: usize },
    /// These segments, to scan a tenant forward or from a resume point.
    Segments { tenant: Tenant, purpose: LoadPurpose, firsts: Vec<Seq> },
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

impl Window {
    /// Whether a read is under way.
    pub fn is_reading(&self) -> bool {
        self.is_reading
    }

    /// Begins the read of the directory's next page; none when it is known to its end.
    pub fn begin_directory(&mut self) -> Option<LoadRequest> {
        if self.directory_done {
            return None;
        }
        self.is_reading = true;
        Some(LoadRequest::Directory { from: self.directory_until, limit: DIRECTORY_PAGE })
    }

    /// The read that was under way has ended. True when its page may not be taken.
    pub fn end_read(&mut self) -> bool {
        self.is_reading = false;
        std::mem::take(&mut self.page_is_stale)
    }

    /// What the read that is under way finds may not be taken.
    pub(super) fn outdate_read(&mut self) {
        self.page_is_stale = self.is_reading;
    }

    /// Lists a tenant as one with something to read.
    pub(super) fn want(&mut self, tenant: &Tenant) {
        if !self.wanted.contains(tenant) {
            self.wanted.insert(tenant.clone());
        }
    }

    /// How many tenants may have something to read.
    pub fn wanted_tenants(&self) -> usize {
        self.wanted.len()
    }

    /// Whose turn it is: tenants take turns, so that one with many skipped keys doesn't keep the others from being read.
    pub fn next_tenant(&mut self) -> Option<Tenant> {
        let after = self.turn.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let next = self.wanted.range::<Tenant, _>((after, Bound::Unbounded)).next();
        let tenant = next.or_else(|| self.wanted.first())?.clone();
        self.turn = Some(tenant.clone());
        Some(tenant)
    }

    /// Whether a tenant has something to read. One that hasn't takes no turns until it has.
    pub fn has_more(&mut self, tenant: &Tenant) -> bool {
        let wants = self.tenants.get(tenant).is_some_and(TenantWindow::wants);
        if !wants {
            self.wanted.remove(tenant);
            self.forget_if_empty(tenant);
        }
        wants
    }

    /// Whether there is room for so many that a read is worth it: a good part of a tenant's share, or as many as it has.
    pub fn is_worth_reading(&self, tenant: &Tenant) -> bool {
        let room = self.room(tenant);
        room > 0 && (room >= self.messages_of(tenant) || room >= self.share() / READ_SHARE)
    }

    /// Begins the next read for a tenant, if there is one: skipped keys and its scan take turns.
    pub fn begin_segments(&mut self, tenant: &Tenant, keys: &Keys) -> Option<LoadRequest> {
        let (purpose, firsts) = self.next_segments(tenant, keys)?;
        self.is_reading = true;
        Some(LoadRequest::Segments { tenant: tenant.clone(), purpose, firsts })
    }

    fn next_segments(&mut self, tenant: &Tenant, keys: &Keys) -> Option<(LoadPurpose, Vec<Seq>)> {
        let room = self.room(tenant);
        let window = self.tenants.get(tenant)?;
        // A scan that can't remember a skipped key stops.
        let scan = !window.caught_up() && window.resume.len() < self.limits.resume_points;
        if !scan || !window.key_was_read {
            if let Some(firsts) = self.ready_keys(tenant, room, keys) {
                self.tenants.get_mut(tenant)?.key_was_read = true;
                return Some((LoadPurpose::Keys, firsts));
            }
            let window = self.tenants.get(tenant)?;
            if let Some((scope, (from, _))) = window.scopes.iter().find(|(_, (_, ready))| *ready) {
                return Some((LoadPurpose::Scope(scope.clone()), window.segments_from(*from, usize::MAX)));
            }
        }
        let window = self.tenants.get_mut(tenant)?;
        window.key_was_read = false;
        scan.then(|| (LoadPurpose::Scan, window.unscanned(room)))
    }

    /// Segments to read for skipped keys of which nothing is in memory and that no dead letter holds back.
    fn ready_keys(&mut self, tenant: &Tenant, room: usize, keys: &Keys) -> Option<Vec<Seq>> {
        let window = self.tenants.get_mut(tenant)?;
        loop {
            let behind = (Bound::Excluded((window.resume_turn, KeyHash(u128::MAX))), Bound::Unbounded);
            let next = window.resume_ready.range(behind).next().or_else(|| window.resume_ready.first());
            let (from, key) = *next?;
            if window.is_ready_key(key, from, keys) {
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
}
