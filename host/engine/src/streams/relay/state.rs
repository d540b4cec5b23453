//! What the relays of all shards of this host share.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use waybill_core::ids::RelayName;
use waybill_core::port::service::streams::RelayState as State;
use waybill_core::streams::records::{RelayNote, RelayStop, RelayWord};

/// What was said of a relay, and what it did by itself. One lock holds all of it: a stop and a resume that come together are one after the
/// other.
#[derive(Default)]
struct Standing {
    /// What was said last that it goes by; none = it hasn't looked yet.
    noted: Option<RelayNote>,
    /// Why it stopped by itself.
    stopped: Option<String>,
    /// The same as long as it isn't known that the store knows of it, and with it the other hosts.
    untold: Option<RelayStop>,
}

impl Standing {
    fn is_paused(&self) -> bool {
        self.noted.as_ref().is_some_and(|note| note.is_paused)
    }

    /// Goes by what was said last, if it doesn't already. True: it didn't.
    fn take_note(&mut self, note: RelayNote) -> bool {
        if self.noted.as_ref().is_some_and(|noted| noted.number >= note.number) {
            return false;
        }
        let is_first = self.noted.is_none();
        match &note.stopped {
            // Whoever said this didn't know of it yet.
            _ if self.untold.is_some() => {}
            Some(reason) => self.stopped = Some(reason.clone()),
            None if !note.is_paused && !is_first => self.stopped = None,
            None => {}
        }
        self.noted = Some(note);
        true
    }

    /// The store knows of a stop, and this is what it notes then. True: somebody who knew of the stop has had it go on since.
    fn stop_is_noted(&mut self, key: u64, note: RelayNote) -> bool {
        if self.untold.as_ref().is_some_and(|untold| untold.key == key) {
            self.untold = None;
        }
        self.take_note(note);
        // What it goes by now was said with the stop, or later.
        let goes_on = |noted: &RelayNote| noted.stopped.is_none() && !noted.is_paused;
        let is_resumed = self.untold.is_none() && self.noted.as_ref().is_some_and(goes_on);
        if is_resumed {
            self.stopped = None;
        }
        is_resumed
    }
}

/// One relay over all shards.
#[derive(Default)]
pub(crate) struct RelayState {
    standing: Mutex<Standing>,
    /// Somebody tells the store.
    telling: tokio::sync::Mutex<()>,
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
        self.state() == State::Running
    }

    pub fn state(&self) -> State {
        let standing = self.standing.lock();
        match (standing.is_paused(), standing.stopped.is_some()) {
            (true, _) => State::Paused,
            (false, true) => State::Stopped,
            (false, false) => State::Running,
        }
    }

    /// Why it does nothing, in words.
    pub fn reason(&self) -> Option<String> {
        let stopped = self.standing.lock().stopped.clone();
        stopped.or_else(|| self.waits.lock().clone())
    }

    /// It can't run at this host as it is configured here, until somebody resumes it.
    pub fn stop(&self, reason: String) {
        self.standing.lock().stopped = Some(reason);
    }

    /// It stops by itself, here at once and at every other host when the store has been told, until somebody resumes it.
    pub fn stop_everywhere(&self, reason: String) {
        {
            let mut standing = self.standing.lock();
            standing.untold = Some(RelayStop { key: rand::random(), reason: reason.clone() });
            standing.stopped = Some(reason);
        }
        self.bell.notify_one();
    }

    /// Has the store told of a stop that it doesn't know of. Answers why it stopped, and whether it goes on, for somebody who knew of that has
    /// resumed it meanwhile; none = there was nothing to tell. Where the answer is lost it is told again, under the key by which the store
    /// knows it. Of two who would tell one waits for the other, so that the audit trail has it once.
    pub async fn tell_stop<E, F>(&self, note: impl FnOnce(RelayWord) -> F) -> Result<Option<(String, bool)>, E>
    where
        F: Future<Output = Result<RelayNote, E>>,
    {
        let _turn = self.telling.lock().await;
        let Some(stop) = self.standing.lock().untold.clone() else { return Ok(None) };
        let noted = note(RelayWord::Stop(stop.clone())).await?;
        let is_resumed = self.standing.lock().stop_is_noted(stop.key, noted);
        Ok(Some((stop.reason, is_resumed)))
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

    /// What was said last of a relay, at whichever host. True: it is news here.
    pub fn take_note(&self, name: &RelayName, note: RelayNote) -> bool {
        self.of(name).standing.lock().take_note(note)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn note(is_paused: bool, stopped: Option<&str>, number: u64) -> RelayNote {
        RelayNote { is_paused, stopped: stopped.map(str::to_owned), number, stops: Vec::new() }
    }

    fn named() -> RelayName {
        RelayName::new("out").unwrap()
    }

    /// The answer of a store to a stop, as the word with this number. True: somebody resumed it meanwhile.
    async fn is_resumed(state: &RelayState, number: u64, while_told: impl FnOnce()) -> Option<bool> {
        let told = state.tell_stop(|word| {
            let stopped = RelayNote { number: number - 1, ..RelayNote::default() }.after(&word);
            while_told();
            async move { Ok::<_, ()>(stopped) }
        });
        told.await.unwrap().map(|(_, is_resumed)| is_resumed)
    }

    #[test]
    fn a_word_of_an_operator_is_gone_by_once_and_an_older_one_never() {
        let (states, name) = (RelayStates::default(), named());
        let take = |is_paused, number| states.take_note(&name, note(is_paused, None, number));
        let state = states.of(&name);
        state.stop("its topic".to_owned());
        assert!(take(false, 0), "what it finds when it starts resumes nothing");
        assert_eq!(state.state(), State::Stopped);
        assert!(take(true, 1) && !take(false, 0));
        assert_eq!(state.state(), State::Paused);
        assert!(take(false, 2));
        assert_eq!(state.state(), State::Running);
        state.stop("a refusal".to_owned());
        assert!(!take(false, 2));
        assert_eq!(state.state(), State::Stopped);
    }

    #[tokio::test]
    async fn a_stop_is_gone_by_wherever_it_was_and_no_resume_undoes_one_that_nobody_was_told_of() {
        let (states, name) = (RelayStates::default(), named());
        let take = |stopped, number| states.take_note(&name, note(false, stopped, number));
        assert!(take(Some("a refusal"), 3), "it finds it when it starts");
        let state = states.of(&name);
        assert_eq!((state.state(), state.reason().as_deref()), (State::Stopped, Some("a refusal")));
        assert_eq!(is_resumed(&state, 4, || {}).await, None, "the store knows of it");
        assert!(take(None, 4));
        assert_eq!(state.state(), State::Running);
        state.stop_everywhere("another".to_owned());
        assert!(take(None, 5));
        assert_eq!((state.state(), state.reason().as_deref()), (State::Stopped, Some("another")));
        assert_eq!(is_resumed(&state, 6, || {}).await, Some(false));
        assert!(!take(None, 5));
        assert_eq!(state.state(), State::Stopped);
        assert!(take(None, 7));
        assert_eq!(state.state(), State::Running);
    }

    #[tokio::test]
    async fn a_resume_that_is_heard_before_the_answer_to_the_stop_that_it_is_of_counts() {
        let (states, name) = (RelayStates::default(), named());
        let take = |is_paused, number| assert!(states.take_note(&name, note(is_paused, None, number)));
        take(false, 1);
        let state = states.of(&name);
        // The store has the stop as 2. Before that is heard here, another host's resume is, which is 3.
        state.stop_everywhere("a refusal".to_owned());
        let resume = || {
            take(false, 3);
            assert_eq!(state.state(), State::Stopped, "it isn't known here that the resume is of this stop");
        };
        assert_eq!(is_resumed(&state, 2, resume).await, Some(true));
        assert_eq!(state.state(), State::Running);

        state.stop_everywhere("a refusal".to_owned());
        assert_eq!(is_resumed(&state, 4, || take(true, 6)).await, Some(false), "it was paused behind its resume");
        assert_eq!(state.state(), State::Paused);
        take(false, 7);
        assert_eq!(state.state(), State::Running);

        // It stops again before the answer to its first stop is heard: the resume isn't of that one.
        state.stop_everywhere("a refusal".to_owned());
        let stop_again = || {
            take(false, 9);
            state.stop_everywhere("another".to_owned());
        };
        assert_eq!(is_resumed(&state, 8, stop_again).await, Some(false));
        assert_eq!((state.state(), state.reason().as_deref()), (State::Stopped, Some("another")));
        assert_eq!(is_resumed(&state, 10, || {}).await, Some(false), "that one is told next");
    }

    #[tokio::test]
    async fn a_stop_whose_answer_was_lost_undoes_no_resume_when_it_is_told_again() {
        let (state, store) = (RelayState::default(), Mutex::new(RelayNote::default()));
        let say = |word: &RelayWord| {
            let mut stands = store.lock();
            *stands = std::mem::take(&mut *stands).after(word);
            stands.clone()
        };
        for reason in ["a refusal", "a refusal", "another"] {
            state.stop_everywhere(reason.to_owned());
            let lost = state.tell_stop(|word| {
                say(&word);
                async { Err("the connection broke") }
            });
            assert_eq!(lost.await, Err("the connection broke"));
            assert_eq!(state.state(), State::Stopped);
            // Another host shows the stop, and is asked to resume.
            let resumed = say(&RelayWord::Resume);
            let told = state.tell_stop(|word| std::future::ready(Ok::<_, ()>(say(&word)))).await;
            assert_eq!((told, store.lock().clone()), (Ok(Some((reason.to_owned(), true))), resumed));
            assert_eq!(state.state(), State::Running);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_that_would_tell_the_store_of_one_stop_one_does() {
        let state = RelayState::default();
        state.stop_everywhere("a refusal".to_owned());
        let tell = || {
            state.tell_stop(|word| async move {
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                Ok::<_, ()>(RelayNote::default().after(&word))
            })
        };
        let (first, second) = tokio::join!(tell(), tell());
        assert_eq!((first, second), (Ok(Some(("a refusal".to_owned(), false))), Ok(None)));
        assert_eq!(state.state(), State::Stopped);
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
