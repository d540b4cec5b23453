//! How much waits, by transport alone: what the history asks every few seconds, so it makes no text of anything.

use std::collections::BTreeMap;

use super::slots::SlotState;
use super::{Owner, TransportId};

/// How much waits for a transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    /// In the order and not being sent.
    pub waiting: u64,
    /// Those among them that a hold keeps back, or that wait for a retry or for another of their key; of messages in memory only.
    pub blocked: u64,
}

impl Owner {
    /// How much waits, by transport; none = without a route or not read yet.
    pub fn waits(&self) -> BTreeMap<Option<TransportId>, Waits> {
        let mut all: BTreeMap<Option<TransportId>, Waits> = BTreeMap::new();
        for slot in self.slots.values().filter(|slot| slot.is_idle()) {
            let waits = all.entry(slot.transport).or_default();
            waits.waiting += 1;
            waits.blocked += u64::from(matches!(slot.state, SlotState::Held(_) | SlotState::Waiting));
        }
        let unread: u64 = self.window.unread().map(|(_, unread, _)| unread).sum();
        if unread > 0 {
            all.entry(None).or_default().waiting += unread;
        }
        all
    }
}
