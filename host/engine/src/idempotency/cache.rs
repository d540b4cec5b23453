//! Entries in memory.
//!
//! An outcome is final until its key is over, so repeats needn't read the store. Where this host has the store for itself it
//! sees every change, so what is in flight is known for sure too. On a shared store an operator elsewhere may release a key:
//! an outcome is believed for a short time only, and what is in flight isn't kept.
//!
//! Bounded by entries and bytes: what was neither written nor read during a whole generation goes.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_core::idempotency::{Entry, EntryKey, Settings};
use waybill_core::time::{Monotonic, Now};

/// How long an outcome is believed where other hosts write too.
const SHARED_TRUST: Duration = Duration::from_secs(1);
/// Bytes of all entries in memory.
const BYTES_MAX: usize = 64 * 1024 * 1024;

#[derive(Clone)]
struct Cached {
    entry: Arc<Entry>,
    at: Monotonic,
}

#[derive(Default)]
struct Generations {
    young: HashMap<EntryKey, Cached>,
    old: HashMap<EntryKey, Cached>,
    /// Of the young ones.
    bytes: usize,
}

impl Generations {
    fn insert(&mut self, of: EntryKey, cached: Cached, entries_max: usize) {
        let weight = cached.entry.weight();
        self.old.remove(&of);
        let before = self.young.insert(of, cached).map_or(0, |before| before.entry.weight());
        self.bytes = (self.bytes + weight).saturating_sub(before);
        if self.young.len() > entries_max / 2 || self.bytes > BYTES_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
            self.bytes = 0;
        }
    }

    fn remove(&mut self, of: &EntryKey) {
        if let Some(cached) = self.young.remove(of) {
            self.bytes = self.bytes.saturating_sub(cached.entry.weight());
        }
        self.old.remove(of);
    }
}

pub(super) struct Cache {
    /// Nobody else writes to the store.
    exclusive: bool,
    generations: Mutex<Generations>,
}

impl Cache {
    pub fn new(exclusive: bool) -> Self {
        Self { exclusive, generations: Mutex::default() }
    }

    /// Forgets all of them.
    pub fn clear(&self) {
        *self.generations.lock() = Generations::default();
    }

    /// An entry as it certainly stands; also one that is over by now.
    pub fn get(&self, of: &EntryKey, settings: &Settings, now: Now) -> Option<Arc<Entry>> {
        let mut generations = self.generations.lock();
        let found = match generations.young.get(of) {
            Some(cached) => cached.clone(),
            None => {
                let cached = generations.old.remove(of)?;
                generations.insert(of.clone(), cached.clone(), settings.cache_entries);
                cached
            }
        };
        let is_known = self.exclusive || now.mono - found.at < SHARED_TRUST;
        is_known.then_some(found.entry)
    }

    /// Notes an entry as it was just committed or read in a commit.
    pub fn put(&self, of: &EntryKey, entry: Entry, settings: &Settings, now: Now) {
        let mut generations = self.generations.lock();
        if settings.cache_entries == 0 || (!self.exclusive && !entry.is_finished()) {
            generations.remove(of);
            return;
        }
        let before = generations.young.get(of).or_else(|| generations.old.get(of));
        // A transaction may have finished it beside its lane, which notes an earlier renewal after that.
        let is_late = !entry.is_finished()
            && before.is_some_and(|before| before.entry.is_finished() && before.entry.token == entry.token);
        if !is_late {
            let cached = Cached { entry: Arc::new(entry), at: now.mono };
            generations.insert(of.clone(), cached, settings.cache_entries);
        }
    }

    /// Forgets an entry, because there is none or because it isn't known how it stands.
    pub fn remove(&self, of: &EntryKey) {
        self.generations.lock().remove(of);
    }

    pub fn len(&self) -> usize {
        let generations = self.generations.lock();
        generations.young.len() + generations.old.len()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use waybill_core::idempotency::{Answer, EntryState};
    use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash, Tenant};
    use waybill_core::time::UnixMillis;

    use super::*;

    fn of(key: usize) -> EntryKey {
        EntryKey { tenant: Tenant::unnamed(), key: IdempotencyKey::new(key.to_string()).unwrap() }
    }

    fn entry(token: &str, state: EntryState) -> Entry {
        let (token, hash) = (HoldToken::new(token).unwrap(), RequestHash::new("h").unwrap());
        let (start, until) = (UnixMillis(0), UnixMillis(1_000_000));
        Entry { hash, origin: token.clone(), token, begun: 1, state, created_at: start, changed_at: start, until }
    }

    fn done(token: &str) -> Entry {
        entry(token, EntryState::Succeeded(Answer::of_json("1")))
    }

    fn in_flight(token: &str) -> Entry {
        entry(token, EntryState::InFlight { lease_until: UnixMillis(10) })
    }

    fn now(seconds: u64) -> Now {
        Now { wall: UnixMillis(seconds * 1_000), mono: Monotonic(Duration::from_secs(seconds)) }
    }

    #[test]
    fn it_holds_no_more_than_its_bound_and_keeps_what_is_used() {
        let (cache, settings) = (Cache::new(true), Settings { cache_entries: 100, ..Settings::default() });
        for key in 0..10_000 {
            cache.put(&of(key), done("a"), &settings, now(0));
            assert!(cache.get(&of(0), &settings, now(0)).is_some(), "after {key}");
            assert!(cache.len() <= 102, "{}", cache.len());
        }
        assert!(cache.get(&of(5_000), &settings, now(0)).is_none());
        let heavy = EntryState::Succeeded(Answer::of_json(vec![b' '; 8 << 20]));
        for key in 0..50 {
            cache.put(&of(key), entry("a", heavy.clone()), &settings, now(0));
        }
        assert!(cache.len() <= 10, "{}", cache.len());
    }

    #[test]
    fn on_a_shared_store_only_outcomes_are_kept_and_not_for_long() {
        let (cache, settings) = (Cache::new(false), Settings::default());
        cache.put(&of(1), in_flight("a"), &settings, now(0));
        assert!(cache.get(&of(1), &settings, now(0)).is_none());
        cache.put(&of(1), done("a"), &settings, now(0));
        assert!(cache.get(&of(1), &settings, now(0)).is_some());
        assert!(cache.get(&of(1), &settings, now(1)).is_none());
    }

    #[test]
    fn a_late_note_of_a_renewal_does_not_hide_the_outcome() {
        let (cache, settings) = (Cache::new(true), Settings::default());
        cache.put(&of(1), done("a"), &settings, now(0));
        cache.put(&of(1), in_flight("a"), &settings, now(0));
        assert!(cache.get(&of(1), &settings, now(0)).unwrap().is_finished());
        cache.put(&of(1), in_flight("b"), &settings, now(0));
        assert!(!cache.get(&of(1), &settings, now(0)).unwrap().is_finished());
    }

    #[test]
    fn without_room_nothing_is_kept() {
        let (cache, settings) = (Cache::new(true), Settings { cache_entries: 0, ..Settings::default() });
        cache.put(&of(1), done("a"), &settings, now(0));
        assert_eq!(cache.len(), 0);
    }
}
