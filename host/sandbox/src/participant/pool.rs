//! Which instances a participant has: those at work, and those kept warm for the tenant they have served.
//!
//! Pure bookkeeping over any `T`; the caller opens and closes. Together there are never more than [`Bounds::instances`], so each
//! has a number of its own among them.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

/// Bounds of a pool.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// All there may be, at work or warm.
    pub(super) instances: u32,
    /// Kept warm, at most.
    pub(super) idle: usize,
    /// How long one is kept without a call.
    pub(super) idle_time: Duration,
    /// Calls after which one is replaced.
    pub(super) uses: u32,
}

/// An instance with what the pool knows of it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Held<T> {
    pub(super) instance: T,
    /// 0-based, unique among those there are.
    pub(super) number: u32,
    /// Calls it has served.
    pub(super) uses: u32,
    /// Whom it has served; none = nobody yet.
    pub(super) tenant: Option<String>,
    pub(super) since: Instant,
}

/// What a call gets.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken<T> {
    /// A warm instance of this tenant, or one that has served nobody.
    Warm(Held<T>),
    /// Open a fresh one with this number.
    Fresh(u32),
    /// Close this one, which served another tenant; then open a fresh one with its number.
    Replace(Held<T>),
    /// All are at work.
    None,
}

/// The instances of one participant.
#[derive(Debug)]
pub(super) struct Pool<T> {
    bounds: Bounds,
    idle: VecDeque<Held<T>>,
    free: BTreeSet<u32>,
}

impl<T> Pool<T> {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self { bounds, idle: VecDeque::new(), free: (0..bounds.instances).collect() }
    }

    /// An instance for a call of `tenant`: the one it used last, before one that nobody has used, before a fresh one.
    pub(super) fn take(&mut self, tenant: &str) -> Taken<T> {
        let own = |held: &Held<T>| held.tenant.as_deref() == Some(tenant);
        let place =
            self.idle.iter().rposition(own).or_else(|| self.idle.iter().rposition(|held| held.tenant.is_none()));
        if let Some(held) = place.and_then(|place| self.idle.remove(place)) {
            return Taken::Warm(held);
        }
        match self.free.pop_first() {
            Some(number) => Taken::Fresh(number),
            None => self.idle.pop_front().map_or(Taken::None, Taken::Replace),
        }
    }

    /// A fresh instance as it is taken to its first call.
    pub(super) fn fresh(instance: T, number: u32, now: Instant) -> Held<T> {
        Held { instance, number, uses: 0, tenant: None, since: now }
    }

    /// A number is free again: its instance is gone, or never came to be.
    pub(super) fn gone(&mut self, number: u32) {
        self.free.insert(number);
    }

    /// An instance comes back from a call of `tenant`, or fresh (none) to be kept warm. What is answered has to be closed; its
    /// number is free only when [`Self::gone`] says so.
    pub(super) fn give_back(&mut self, mut held: Held<T>, tenant: Option<&str>, now: Instant) -> Option<Held<T>> {
        if let Some(tenant) = tenant {
            held.uses = held.uses.saturating_add(1);
            held.tenant = Some(tenant.to_owned());
        }
        held.since = now;
        if held.uses >= self.bounds.uses || self.bounds.idle == 0 {
            return Some(held);
        }
        self.idle.push_back(held);
        if self.idle.len() > self.bounds.idle { self.idle.pop_front() } else { None }
    }

    /// Those that were kept long enough: to be closed.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Held<T>> {
        let mut expired = Vec::new();
        while self.idle.front().is_some_and(|held| now.saturating_duration_since(held.since) >= self.bounds.idle_time) {
            expired.extend(self.idle.pop_front());
        }
        expired
    }

    /// All warm ones: to be closed.
    pub(super) fn drain(&mut self) -> Vec<Held<T>> {
        self.idle.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;

    const BOUNDS: Bounds = Bounds { instances: 3, idle: 2, idle_time: Duration::from_secs(60), uses: 3 };

    fn pool() -> (Pool<&'static str>, Instant) {
        (Pool::new(BOUNDS), Instant::now())
    }

    fn warm(taken: Taken<&'static str>) -> Held<&'static str> {
        match taken {
            Taken::Warm(held) => held,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_instance_serves_its_own_tenant_only() {
        let (mut pool, now) = pool();
        assert_eq!(pool.take("acme"), Taken::Fresh(0));
        assert_eq!(pool.give_back(Pool::fresh("a", 0, now), Some("acme"), now), None);
        assert_eq!(pool.take("bolt"), Taken::Fresh(1));
        let held = warm(pool.take("acme"));
        assert_eq!((held.instance, held.uses), ("a", 1));
    }

    #[test]
    fn one_that_nobody_used_serves_anybody() {
        let (mut pool, now) = pool();
        assert_eq!(pool.take(""), Taken::Fresh(0));
        assert_eq!(pool.give_back(Pool::fresh("a", 0, now), None, now), None);
        assert_eq!(warm(pool.take("acme")).instance, "a");
    }

    #[test]
    fn a_full_pool_gives_up_the_longest_unused_of_others_and_no_more() {
        let (mut pool, now) = pool();
        for (number, tenant) in [(0, "acme"), (1, "bolt")] {
            assert_eq!(pool.take(tenant), Taken::Fresh(number));
        }
        for (number, tenant) in [(0, "acme"), (1, "bolt")] {
            assert_eq!(pool.give_back(Pool::fresh("x", number, now), Some(tenant), now), None);
        }
        assert_eq!(pool.take("cern"), Taken::Fresh(2));
        let Taken::Replace(old) = pool.take("dora") else { panic!("one is free") };
        assert_eq!((old.number, old.tenant.as_deref()), (0, Some("acme")));
        assert_eq!(warm(pool.take("bolt")).number, 1);
        assert_eq!(pool.take("eve"), Taken::None);
        pool.gone(2);
        assert_eq!(pool.take("eve"), Taken::Fresh(2));
    }

    #[test]
    fn what_is_used_up_or_too_much_is_closed() {
        let (mut pool, now) = pool();
        let worn = Held { uses: 2, ..Pool::fresh("worn", 0, now) };
        assert_eq!(pool.give_back(worn, Some("acme"), now).map(|held| held.instance), Some("worn"));
        assert_eq!(pool.give_back(Pool::fresh("1", 0, now), Some("a"), now), None);
        assert_eq!(pool.give_back(Pool::fresh("2", 1, now), Some("b"), now), None);
        assert_eq!(pool.give_back(Pool::fresh("3", 2, now), Some("c"), now).map(|held| held.instance), Some("1"));
    }

    #[test]
    fn the_longest_unused_expire_first() {
        let (mut pool, now) = pool();
        assert_eq!(pool.give_back(Pool::fresh("old", 0, now), Some("a"), now), None);
        let later = now + Duration::from_secs(30);
        assert_eq!(pool.give_back(Pool::fresh("young", 1, now), Some("b"), later), None);
        let names = |held: Vec<Held<&'static str>>| held.into_iter().map(|held| held.instance).collect::<Vec<_>>();
        assert_eq!(names(pool.expired(now + Duration::from_secs(59))), [""; 0]);
        assert_eq!(names(pool.expired(now + Duration::from_secs(60))), ["old"]);
        assert_eq!(names(pool.drain()), ["young"]);
    }
}
