//! Segments in memory. Claimed ones are always there.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Window;
use crate::ids::{Seq, Tenant};
use crate::outbox::records::{AttemptRecord, Done, DoneEnd, Entry, Segment};
use crate::port::transport::Receipt;
use crate::time::UnixMillis;

/// What is kept of a delivered message until its segment is finished.
#[derive(Clone, Debug)]
pub struct DoneInfo {
    pub at: UnixMillis,
    pub attempt: AttemptRecord,
    pub receipt: Receipt,
}

#[derive(Debug)]
pub(super) struct LoadedSegment {
    segment: Arc<Segment>,
    /// Messages of it that are ready, being sent or settling and aren't claimed from outside: such a segment is not evicted.
    pub active: usize,
    /// Messages of it in memory.
    pub slots: usize,
    /// Delivered ones, by index.
    done: BTreeMap<u16, DoneInfo>,
    /// Counted against the window with this.
    weight: usize,
}

impl Window {
    /// A segment in memory, as stored.
    pub fn segment(&self, first: Seq) -> Option<&Arc<Segment>> {
        self.segments.get(&first).map(|loaded| &loaded.segment)
    }

    /// A segment with what is still in it: as in memory, else as read, without what has left since it was read.
    pub fn current(&self, tenant: &Tenant, first: Seq, found: &BTreeMap<Seq, Arc<Segment>>) -> Option<Arc<Segment>> {
        if let Some(segment) = self.segment(first) {
            return Some(Arc::clone(segment));
        }
        let segment = found.get(&first)?;
        let entry = self.tenants.get(tenant)?.directory.get(&first)?;
        if entry.gone.is_empty() {
            return Some(Arc::clone(segment));
        }
        let entries: Vec<Entry> =
            segment.entries.iter().filter(|kept| !entry.gone.contains(kept.index)).cloned().collect();
        (!entries.is_empty()).then(|| Arc::new(Segment { first, tenant: tenant.clone(), entries }))
    }

    /// Brings a segment to memory, if it isn't there.
    pub fn keep(&mut self, segment: &Arc<Segment>) {
        self.kept(segment);
    }

    fn kept(&mut self, segment: &Arc<Segment>) -> &mut LoadedSegment {
        let bytes = &mut self.bytes;
        self.segments.entry(segment.first).or_insert_with(|| {
            let weight = segment.weight();
            *bytes += weight;
            LoadedSegment { segment: Arc::clone(segment), active: 0, slots: 0, done: BTreeMap::new(), weight }
        })
    }

    /// A message of a segment comes to memory.
    pub fn enter(&mut self, segment: &Arc<Segment>) {
        self.kept(segment).slots += 1;
        self.messages += 1;
        if let Some(window) = self.tenants.get_mut(&segment.tenant) {
            window.messages += 1;
        }
    }

    /// A message of a segment leaves memory.
    pub fn leave(&mut self, tenant: &Tenant, first: Seq) {
        self.messages = self.messages.saturating_sub(1);
        if let Some(window) = self.tenants.get_mut(tenant) {
            window.messages = window.messages.saturating_sub(1);
        }
        self.want(tenant);
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.slots = loaded.slots.saturating_sub(1);
        }
    }

    /// Drops a segment that isn't claimed from memory, when no message of it is there.
    pub fn release(&mut self, first: Seq) {
        let is_idle = self.segments.get(&first).is_some_and(|loaded| loaded.slots == 0);
        if is_idle && let Some(loaded) = self.segments.remove(&first) {
            self.bytes = self.bytes.saturating_sub(loaded.weight);
        }
    }

    /// One more message keeps its segment from being evicted.
    pub fn pin(&mut self, first: Seq) {
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.active += 1;
        }
    }

    /// One message less does.
    pub fn unpin(&mut self, first: Seq) {
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.active = loaded.active.saturating_sub(1);
        }
    }

    /// Whether a message keeps a segment from being evicted.
    pub fn is_pinned(&self, first: Seq) -> bool {
        self.segments.get(&first).is_some_and(|loaded| loaded.active > 0)
    }

    /// A message was delivered. Its receipt is kept for the history that is written when its segment is finished.
    pub fn note_delivered(&mut self, first: Seq, index: u16, info: DoneInfo) {
        if let Some(loaded) = self.segments.get_mut(&first) {
            loaded.done.insert(index, info);
        }
    }

    /// What the history says of an entry that was delivered from a segment.
    pub fn delivered(&self, first: Seq, entry: &Entry) -> Option<Done> {
        let info = self.segments.get(&first)?.done.get(&entry.index)?;
        Some(Done {
            index: entry.index,
            message: Arc::clone(&entry.message),
            end: DoneEnd::Delivered,
            at: info.at,
            attempts: 1,
            receipt: Some(info.receipt.clone()),
            history: vec![info.attempt.clone()],
        })
    }

    /// A segment was rewritten with what stays of it.
    pub fn rewritten(&mut self, segment: Arc<Segment>) {
        if let Some(loaded) = self.segments.get_mut(&segment.first) {
            loaded.done.retain(|index, _| segment.entries.iter().any(|entry| entry.index == *index));
            loaded.segment = segment;
        }
    }
}
