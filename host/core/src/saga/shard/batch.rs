//! What waits for a commit, tree by tree.

use std::collections::HashMap;
use std::sync::Arc;

use super::commands::{SagaReply, Ticket};
use crate::message::Message;
use crate::port::inbox_store::SagaDoorKey;
use crate::saga::call::Call;
use crate::saga::error::SagaError;
use crate::saga::event::Event;
use crate::streams::joint::JointAppends;

/// What happened to one tree since the last commit, and what follows from it.
#[derive(Debug)]
pub(super) struct Entry {
    pub slot: u64,
    /// Number of the first event.
    pub from: u32,
    pub events: Vec<Event>,
    pub calls: Vec<Call>,
    pub messages: Vec<Arc<Message>>,
    pub appends: JointAppends,
    pub replies: Vec<(Ticket, Result<SagaReply, SagaError>)>,
    /// What of the door led to it.
    pub door: Vec<SagaDoorKey>,
    /// Bytes of its events.
    pub weight: usize,
    /// It rests: its row is to be written.
    pub row: bool,
}

/// Entries in the order in which their trees moved first.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub entries: Vec<Entry>,
    index: HashMap<u64, usize>,
}

impl Batch {
    pub fn get(&mut self, slot: u64) -> Option<&mut Entry> {
        let index = *self.index.get(&slot)?;
        self.entries.get_mut(index)
    }

    pub fn has(&self, slot: u64) -> bool {
        self.index.contains_key(&slot)
    }

    /// How many events a tree has without what waits here; none = nothing of it does.
    pub fn before(&self, slot: u64) -> Option<u32> {
        let index = *self.index.get(&slot)?;
        self.entries.get(index).map(|entry| entry.from)
    }

    /// The entry of a tree, made if there is none.
    pub fn entry(&mut self, slot: u64, from: u32) -> &mut Entry {
        let index = *self.index.entry(slot).or_insert_with(|| {
            self.entries.push(Entry {
                slot,
                from,
                events: Vec::new(),
                calls: Vec::new(),
                messages: Vec::new(),
                appends: JointAppends::default(),
                replies: Vec::new(),
                door: Vec::new(),
                weight: 0,
                row: false,
            });
            self.entries.len() - 1
        });
        let last = self.entries.len().saturating_sub(1);
        #[expect(clippy::indexing_slicing, reason = "the index was made above, and is made anew when entries leave")]
        &mut self.entries[index.min(last)]
    }

    /// Takes entries off the front up to a size, at least one. `weigh` says how many bytes a commit writes for one.
    pub fn take(&mut self, bytes_max: usize, weigh: impl Fn(&Entry) -> usize) -> Self {
        let mut weight = 0;
        let mut count = 0;
        for entry in &self.entries {
            weight += weigh(entry);
            if count > 0 && weight > bytes_max {
                break;
            }
            count += 1;
        }
        let rest = self.entries.split_off(count);
        let taken = std::mem::replace(self, Self::of(rest));
        Self::of(taken.entries)
    }

    /// Takes the entry of a tree out.
    pub fn remove(&mut self, slot: u64) -> Option<Entry> {
        self.has(slot).then(|| self.remove_all(|other| other == slot).pop()).flatten()
    }

    /// Takes entries out, in order.
    pub fn remove_all(&mut self, is_out: impl Fn(u64) -> bool) -> Vec<Entry> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        let (removed, rest) = entries.partition(|entry| is_out(entry.slot));
        *self = Self::of(rest);
        removed
    }

    pub fn of(entries: Vec<Entry>) -> Self {
        let index = entries.iter().enumerate().map(|(index, entry)| (entry.slot, index)).collect();
        Self { entries, index }
    }

    /// Puts another batch behind this one; what both have of one tree becomes one entry.
    pub fn append(&mut self, later: Self) {
        for entry in later.entries {
            let mine = self.entry(entry.slot, entry.from);
            mine.events.extend(entry.events);
            mine.calls.extend(entry.calls);
            mine.messages.extend(entry.messages);
            mine.appends.extend(entry.appends);
            mine.replies.extend(entry.replies);
            mine.door.extend(entry.door);
            mine.weight += entry.weight;
            mine.row |= entry.row;
        }
    }
}
