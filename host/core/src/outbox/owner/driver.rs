//! What a driver asks of an owner beside the protocol itself.

use std::sync::Arc;
use std::time::Duration;

use super::slots::SlotState;
use super::{DirectRequest, HoldKey, Owner};
use crate::ids::{Place, Seq};
use crate::limits::LIFE_BEAT;
use crate::message::Message;
use crate::outbox::records::Done;
use crate::time::Monotonic;

impl Owner {
    /// How long until a commit is due, also if there is nothing to commit: half of the lease after the last one, and sooner while a
    /// suspect is on trial by itself.
    pub fn beat_in(&self, now: Monotonic) -> Duration {
        let ttl = self.config.owner_ttl;
        let every = if self.has_lone_trial() { LIFE_BEAT.min(ttl / 2) } else { ttl / 2 };
        (self.deadline - now).saturating_sub(ttl.saturating_sub(every))
    }

    /// Whether direct requests wait for a commit.
    pub fn has_waiting_directs(&self) -> bool {
        !self.next.requests.is_empty()
    }

    /// Takes back all requests that aren't in a commit: the shard is given back, so they never will be.
    pub fn recall_directs(&mut self) -> Vec<DirectRequest> {
        self.next.requests.recall()
    }

    /// Messages whose fate was told and isn't known to be committed. When the shard is lost, these settlements are, too.
    pub fn unsettled(&self) -> Vec<(Seq, Arc<Message>)> {
        let is_unsettled = |state: &SlotState| matches!(state, SlotState::Out(_) | SlotState::Settling(_));
        let unsettled = self.slots.iter().filter(|(_, slot)| is_unsettled(&slot.state));
        unsettled.map(|(seq, slot)| (*seq, Arc::clone(&slot.message))).collect()
    }

    /// What is kept of a message that was delivered while its segment isn't finished; its history is written with that.
    pub fn delivered(&self, place: Place) -> Option<Done> {
        let open = self.record.open.get(&place.segment).filter(|open| open.acked.contains(place.index))?;
        let mut entries = self.window.segment(place.segment)?.entries.iter();
        let entry = entries.find(|entry| entry.index == place.index && !open.moved.contains(entry.index))?;
        self.window.delivered(place.segment, entry)
    }

    /// Keeps what is held held until an operator goes on.
    pub fn hold_for_operator(&mut self, key: &HoldKey) {
        self.holds.postpone(key, None);
    }
}
