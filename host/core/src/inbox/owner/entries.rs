//! Part: all messages in memory, by place and by id.

use std::collections::{BTreeMap, HashMap};

use super::entry::{Durable, Entry};
use super::order::Order;
use crate::ids::Seq;
use crate::inbox::fingerprint::Fingerprint;
use crate::inbox::limits::ROW_BYTES_KEPT;

#[derive(Debug, Default)]
pub(super) struct Entries {
    /// An entry is some 500 bytes: in the tree itself, each removal would move its neighbours.
    slots: BTreeMap<Seq, Box<Entry>>,
    index: HashMap<Fingerprint, Seq>,
    order: Order,
    /// Weight of the messages of rows in memory.
    row_bytes: usize,
}

impl Entries {
    pub fn insert(&mut self, entry: Entry) {
        self.index.insert(entry.fingerprint, entry.seq);
        if let Some(tag) = entry.order {
            self.order.insert(tag, entry.seq);
        }
        self.row_bytes += weight(&entry);
        self.slots.insert(entry.seq, Box::new(entry));
    }

    pub fn remove(&mut self, seq: Seq) -> Option<Entry> {
        let entry = *self.slots.remove(&seq)?;
        if self.index.get(&entry.fingerprint) == Some(&seq) {
            self.index.remove(&entry.fingerprint);
        }
        if let Some(tag) = entry.order {
            self.order.remove(tag, seq);
        }
        self.row_bytes = self.row_bytes.saturating_sub(weight(&entry));
        Some(entry)
    }

    pub fn get(&self, seq: Seq) -> Option<&Entry> {
        self.slots.get(&seq).map(Box::as_ref)
    }

    /// For changes of anything but place, id, key, what the store knows, and the message.
    pub fn get_mut(&mut self, seq: Seq) -> Option<&mut Entry> {
        self.slots.get_mut(&seq).map(Box::as_mut)
    }

    pub fn seq_of(&self, fingerprint: Fingerprint) -> Option<Seq> {
        self.index.get(&fingerprint).copied()
    }

    pub fn order(&self) -> &Order {
        &self.order
    }

    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots.values().map(Box::as_ref)
    }

    /// An orphan's message has come, with its key as its sender spells it.
    pub fn fill(&mut self, seq: Seq, change: impl FnOnce(&mut Entry)) {
        let Some(mut entry) = self.remove(seq) else { return };
        change(&mut entry);
        self.insert(entry);
    }

    /// The store knows something else of it now. The message of a row is dropped when there are too many of them in memory.
    pub fn set_durable(&mut self, seq: Seq, durable: Durable) {
        let Some(entry) = self.slots.get_mut(&seq) else { return };
        let before = weight(entry);
        entry.durable = durable;
        let after = weight(entry);
        self.row_bytes = (self.row_bytes + after).saturating_sub(before);
    }

    /// Whether the messages of rows in memory have more bytes than those are to have.
    pub fn is_row_memory_full(&self) -> bool {
        self.row_bytes > ROW_BYTES_KEPT
    }

    /// Drops the message of a row that only waits, if the memory for those is used up.
    pub fn forget_message(&mut self, seq: Seq) {
        if !self.is_row_memory_full() {
            return;
        }
        if let Some(entry) = self.slots.get_mut(&seq).filter(|entry| entry.is_row()) {
            let before = weight(entry);
            entry.message = None;
            self.row_bytes = self.row_bytes.saturating_sub(before);
        }
    }

    /// The message of a row was read.
    pub fn set_message(&mut self, seq: Seq, message: std::sync::Arc<crate::inbox::message::InboundMessage>) {
        if let Some(entry) = self.slots.get_mut(&seq) {
            let before = weight(entry);
            entry.message = Some(message);
            let after = weight(entry);
            self.row_bytes = (self.row_bytes + after).saturating_sub(before);
        }
    }
}

/// What it counts against the memory for rows.
fn weight(entry: &Entry) -> usize {
    let message = entry.message.as_ref().filter(|_| entry.is_row());
    message.map_or(0, |message| message.weight())
}
