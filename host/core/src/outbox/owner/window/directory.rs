//! Which segments are in the store, and what has left them during this ownership.

use super::Window;
use crate::ids::{Seq, Tenant};
use crate::outbox::bits::Bits;
use crate::port::store::SegmentInfo;

/// What the directory knows of a stored segment.
#[derive(Clone, Debug)]
pub(super) struct DirectoryEntry {
    pub messages: u32,
    /// Indices that left it during this ownership: a page read before they left must not bring them back.
    pub gone: Bits,
}

impl DirectoryEntry {
    /// Messages that are still in it.
    pub fn left(&self) -> usize {
        (self.messages as usize).saturating_sub(self.gone.len())
    }
}

impl Window {
    /// Whether the directory was read to its end.
    pub fn knows_directory(&self) -> bool {
        self.directory_done
    }

    /// Takes a page of the directory. `last` is the last seq that was given out.
    pub fn take_directory(&mut self, page: Vec<SegmentInfo>, from: Seq, limit: usize, last: Seq) {
        self.end_read();
        let complete = page.len() < limit;
        let mut until = from;
        for info in page {
            until = info.first.next();
            self.enter_directory(&info.tenant, info.first, info.messages);
        }
        self.directory_until = until.max(self.directory_until);
        if complete {
            self.directory_done = true;
            self.directory_until = last.next().max(self.directory_until);
        }
    }

    /// A segment is in the store.
    pub fn enter_directory(&mut self, tenant: &Tenant, first: Seq, messages: u32) {
        if self.stored.contains(&first) {
            // A page may say less of it than is known: of a row that can't be read not even whose it is.
            return;
        }
        let window = self.tenants.entry(tenant.clone()).or_default();
        if window.directory.is_empty() {
            self.busy_tenants += 1;
        }
        window.directory.entry(first).or_insert_with(|| DirectoryEntry { messages, gone: Bits::default() });
        self.stored.insert(first);
        self.want(tenant);
    }

    /// A segment isn't in the store any more.
    pub fn leave_directory(&mut self, tenant: &Tenant, first: Seq) {
        self.stored.remove(&first);
        let Some(window) = self.tenants.get_mut(tenant) else { return };
        if window.directory.remove(&first).is_some() && window.directory.is_empty() {
            self.busy_tenants = self.busy_tenants.saturating_sub(1);
            self.forget_if_empty(tenant);
        }
    }

    fn entry(&self, tenant: &Tenant, first: Seq) -> Option<&DirectoryEntry> {
        self.tenants.get(tenant)?.directory.get(&first)
    }

    /// A message has left its segment.
    pub fn note_gone(&mut self, tenant: &Tenant, first: Seq, index: u16) {
        if let Some(entry) = self.tenants.get_mut(tenant).and_then(|window| window.directory.get_mut(&first)) {
            entry.gone.insert(index);
        }
    }

    /// Whether a message has left its segment, or the segment isn't in the store.
    pub fn is_gone(&self, tenant: &Tenant, first: Seq, index: u16) -> bool {
        self.entry(tenant, first).is_none_or(|entry| entry.gone.contains(index))
    }

    /// What has left a segment.
    pub fn gone_from(&self, tenant: &Tenant, first: Seq) -> Bits {
        self.entry(tenant, first).map(|entry| entry.gone.clone()).unwrap_or_default()
    }

    /// The lowest segment in the store; none without any.
    pub fn lowest_stored(&self) -> Option<Seq> {
        self.stored.first().copied()
    }

    /// Messages in the store that aren't in memory, tenant by tenant, and the first segment that wasn't scanned.
    pub fn unread(&self) -> impl Iterator<Item = (&Tenant, u64, Option<Seq>)> {
        self.tenants.iter().map(|(tenant, window)| {
            let stored: u64 = window.directory.values().map(|entry| entry.left() as u64).sum();
            (tenant, stored.saturating_sub(window.messages as u64), window.next_unscanned())
        })
    }

    /// A segment was read and can't be decoded. One in memory goes on from there, and a page read earlier may name one that has
    /// left the store meanwhile.
    pub fn note_unreadable(&mut self, first: Seq, reason: String) {
        let is_listed = self.unreadable.iter().any(|(listed, _)| *listed == first);
        if !is_listed && self.stored.contains(&first) && !self.segments.contains_key(&first) {
            self.unreadable.push((first, reason));
        }
    }

    /// Segments to be moved to quarantine, each with the reason.
    pub fn unreadable(&self) -> &[(Seq, String)] {
        &self.unreadable
    }

    /// So many of those, the first ones, are in quarantine.
    pub fn quarantined(&mut self, count: usize) {
        let quarantined: Vec<(Seq, String)> = self.unreadable.drain(..count.min(self.unreadable.len())).collect();
        for (first, _) in quarantined {
            let holder = self.tenants.iter().find(|(_, window)| window.directory.contains_key(&first));
            if let Some(tenant) = holder.map(|(tenant, _)| tenant.clone()) {
                self.leave_directory(&tenant, first);
            }
        }
    }
}
