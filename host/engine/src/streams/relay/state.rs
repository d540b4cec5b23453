//! What the relays of all shards of this host share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use waybill_core::ids::RelayName;
use waybill_core::port::service::streams::RelayState as State;
use waybill_core::streams::records::RelayNote;

/// One relay over all shards.
#[derive(Default)]
pub(crate) struct RelayState {
    paused: AtomicBool,
    /// Number of the last word that it goes by; none = it hasn't looked yet.
    noted: Mutex<Option<u64>>,
    /// Why it stopped by itself.
    stopped: Mutex<Option<String>>,
    /// The same as long as the store doesn't know of it, and with it the other hosts.
    untold: Mutex<Option<String>>,
    /// Somebody has to tell the store.
    bell: Arc<Notify>,
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

    /// Goes by what was said last, at whichever host, if it doesn't already. True: it didn't.
    fn take_note(&self, note: RelayNote) -> bool {
        let mut noted = self.noted.lock();
        if noted.is_some_and(|number| number >= note.number) {
            return false;
        }
        let is_first = noted.replace(note.number).is_none();
        self.paused.store(note.is_paused, Ordering::Release);
        match note.stopped {
            Some(reason) => *self.stopped.lock() = Some(reason),
            // Whoever resumed it didn't know of this yet.
            None if self.untold.lock().is_some() => {}
            None if !note.is_paused && !is_first => *self.stopped.lock() = None,
            None => {}
        }
        true
    }

    /// It can't run at this host as it is configured here, until somebody resumes it.
    pub fn stop(&self, reason: String) {
        *self.stopped.lock() = Some(reason);
    }

    /// It stops by itself, here at once and at every other host when the store has been told, until somebody resumes it.
    pub fn stop_everywhere(&self, reason: String) {
        *self.untold.lock() = Some(reason.clone());
        self.stop(reason);
        self.bell.notify_one();
    }

    /// Why it stopped, if the store doesn't know of it.
    pub fn untold(&self) -> Option<String> {
        self.untold.lock().clone()
    }

    /// The store knows of a stop with this reason.
    pub fn stop_is_noted(&self, reason: &str) {
        let mut untold = self.untold.lock();
        if untold.as_deref() == Some(reason) {
            *untold = None;
        }
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
pub(crate) struct RelayStates {
    of: Mutex<BTreeMap<RelayName, Arc<RelayState>>>,
    bell: Arc<Notify>,
}

impl RelayStates {
    pub fn of(&self, name: &RelayName) -> Arc<RelayState> {
        let new = || Arc::new(RelayState { bell: Arc::clone(&self.bell), ..RelayState::default() });
        Arc::clone(self.of.lock().entry(name.clone()).or_insert_with(new))
    }

    /// Waits until one stops by itself.
    pub async fn stops(&self) {
        self.bell.notified().await;
    }

    /// What was said last of a relay. True: it is news here.
    pub fn take_note(&self, name: &RelayName, note: RelayNote) -> bool {
        self.of(name).take_note(note)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_word_of_an_operator_is_gone_by_once_and_an_older_one_never() {
        let state = RelayState::default();
        let note = |is_paused, number| RelayNote { is_paused, stopped: None, number };
        state.stop("its topic".to_owned());
        assert!(state.take_note(note(false, 0)), "what it finds when it starts resumes nothing");
        assert_eq!(state.state(), State::Stopped);
        assert!(state.take_note(note(true, 1)) && !state.take_note(note(false, 0)));
        assert_eq!(state.state(), State::Paused);
        assert!(state.take_note(note(false, 2)));
        assert_eq!(state.state(), State::Running);
        state.stop("a refusal".to_owned());
        assert!(!state.take_note(note(false, 2)));
        assert_eq!(state.state(), State::Stopped);
    }

    #[test]
    fn a_stop_is_gone_by_wherever_it_was_and_no_resume_undoes_one_that_nobody_was_told_of() {
        let states = RelayStates::default();
        let name = RelayName::new("out").unwrap();
        let note =
            |stopped: Option<&str>, number| RelayNote { is_paused: false, stopped: stopped.map(str::to_owned), number };
        assert!(states.take_note(&name, note(Some("a refusal"), 3)), "it finds it when it starts");
        let state = states.of(&name);
        assert_eq!((state.state(), state.reason().as_deref()), (State::Stopped, Some("a refusal")));
        assert!(states.take_note(&name, note(None, 4)));
        assert_eq!(state.state(), State::Running);
        state.stop_everywhere("another".to_owned());
        assert!(states.take_note(&name, note(None, 5)));
        assert_eq!((state.state(), state.untold().as_deref()), (State::Stopped, Some("another")));
        state.stop_is_noted("a refusal");
        assert_eq!(state.untold().as_deref(), Some("another"), "what was told is older");
        state.stop_is_noted("another");
        assert_eq!((state.state(), state.untold()), (State::Stopped, None));
        assert!(states.take_note(&name, note(None, 7)));
        assert_eq!(state.state(), State::Running);
    }

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
