//! What the relays of all shards of this host share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use waybill_core::ids::RelayName;
use waybill_core::port::service::streams::RelayState as State;

/// One relay over all shards.
#[derive(Default)]
pub(crate) struct RelayState {
    paused: AtomicBool,
    /// Why it stopped by itself.
    stopped: Mutex<Option<String>>,
    /// What its transport said last of why it waits.
    pub waits: Mutex<Option<String>>,
    pub in_flight: AtomicUsize,
    /// Shards that have something to send and nothing in flight.
    hungry: AtomicUsize,
    pub delivered: AtomicU64,
    pub refused: AtomicU64,
    pub overtaken: AtomicU64,
    /// Calls that a lane of its transport runs at once.
    lanes: Mutex<BTreeMap<u32, Arc<Semaphore>>>,
}

impl RelayState {
    pub fn is_running(&self) -> bool {
        !self.paused.load(Ordering::Acquire) && self.stopped.lock().is_none()
    }

    pub fn state(&self) -> State {
        match (self.paused.load(Ordering::Acquire), self.stopped.lock().is_some()) {
            (true, _) => State::Paused,
            (false, true) => State::Stopped,
            (false, false) => State::Running,
        }
    }

    /// Why it does nothing, in words.
    pub fn reason(&self) -> Option<String> {
        self.stopped.lock().clone().or_else(|| self.waits.lock().clone())
    }

    pub fn set_paused(&self, is_paused: bool) {
        self.paused.store(is_paused, Ordering::Release);
    }

    /// It stops by itself, until somebody resumes it.
    pub fn stop(&self, reason: String) {
        *self.stopped.lock() = Some(reason);
    }

    pub fn resume(&self) {
        self.set_paused(false);
        *self.stopped.lock() = None;
    }

    /// A shard has something to send and nothing in flight, or hasn't any more.
    pub fn note_hunger(&self, is_hungry: bool) {
        if is_hungry {
            self.hungry.fetch_add(1, Ordering::AcqRel);
        } else {
            self.hungry.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Takes what is left of the bound on events in flight, until [`Self::give_back`]. A shard that has some leaves one to each that has none:
    /// it would take every place that its own events leave, and the others would never find one.
    pub fn take_room(&self, max: usize, is_hungry: bool) -> usize {
        let left = if is_hungry { 0 } else { self.hungry.load(Ordering::Acquire) };
        let mut room = 0;
        let _before = self.in_flight.fetch_update(Ordering::AcqRel, Ordering::Acquire, |now| {
            room = max.saturating_sub(now.saturating_add(left));
            Some(now + room)
        });
        room
    }

    pub fn give_back(&self, events: usize) {
        self.in_flight.fetch_sub(events, Ordering::AcqRel);
    }

    pub fn lane(&self, lane: u32, calls: u32) -> Arc<Semaphore> {
        let calls = usize::try_from(calls.max(1)).unwrap_or(1);
        Arc::clone(self.lanes.lock().entry(lane).or_insert_with(|| Arc::new(Semaphore::new(calls))))
    }
}

/// All of them, by name.
#[derive(Default)]
pub(crate) struct RelayStates(Mutex<BTreeMap<RelayName, Arc<RelayState>>>);

impl RelayStates {
    pub fn of(&self, name: &RelayName) -> Arc<RelayState> {
        Arc::clone(self.0.lock().entry(name.clone()).or_default())
    }

    /// How the pause of a relay is noted, beside those of transports and sources.
    pub fn noted_as(name: &RelayName) -> String {
        format!("relay:{name}")
    }

    /// What operators paused, as it is noted.
    pub fn set_paused(&self, noted: &[String]) {
        for name in noted.iter().filter_map(|noted| noted.strip_prefix("relay:")) {
            if let Ok(name) = RelayName::new(name) {
                self.of(&name).set_paused(true);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_shard_leaves_a_place_to_each_that_has_none_and_the_bound_holds() {
        let state = RelayState::default();
        assert_eq!((state.take_room(64, true), state.take_room(64, true)), (64, 0));
        // Another shard finds no place, and says so; the busy one gets words of two events.
        state.note_hunger(true);
        state.give_back(2);
        assert_eq!((state.take_room(64, false), state.take_room(64, true)), (1, 1));
        state.note_hunger(false);
        state.give_back(3);
        assert_eq!((state.take_room(64, false), state.in_flight.load(Ordering::Acquire)), (3, 64));
    }
}
