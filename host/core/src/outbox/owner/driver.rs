//! What a driver asks of an owner beside the protocol itself.

use std::sync::Arc;
use std::time::Duration;

use super::enqueue::DirectRequest;
use super::slots::SlotState;
use super::{HoldKey, Owner};
use crate::ids::{Place, Seq};
use crate::limits::LIFE_BEAT;
use crate::message::Message;
use crate::outbox::records::{Done, DoneEnd};
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
        !self.directs.is_empty()
    }

    /// Takes back all requests that aren't in a commit: the shard is given back, so they never will be.
    pub fn recall_directs(&mut self) -> Vec<DirectRequest> {
        self.direct_bytes = 0;
        let recalled: Vec<DirectRequest> =
            std::mem::take(&mut self.directs).into_iter().map(|direct| direct.request).collect();
        recalled.iter().for_each(|request| self.pending_ids.remove(request));
        recalled
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
        let loaded = self.segments.get(&place.segment)?;
        let info = loaded.done.get(&place.index)?;
        let entry = loaded
            .segment
            .entries
            .iter()
            .find(|entry| entry.index == place.index && !open.moved.contains(entry.index))?;
        Some(Done {
            index: place.index,
            message: Arc::clone(&entry.message),
            end: DoneEnd::Delivered,
            at: info.at,
            attempts: 1,
            receipt: Some(info.receipt.clone()),
            history: vec![info.attempt.clone()],
        })
    }

    /// Keeps what is held held until an operator goes on.
    pub fn hold_for_operator(&mut self, key: &HoldKey) {
        if let Some(hold) = self.holds.get_mut(key) {
            hold.until = None;
        }
    }
}
