//! How many messages a second of a tenant, and through a transport, this process sends: token buckets that its shards share.
//!
//! A bucket holds at most `burst` tokens and gets `rate` a second; a message takes one of its tenant's and one of its transport's.
//! What finds none waits where it is, in its order, and others go on. Shards that find a bucket empty book its next tokens one
//! behind the other, so that none of them takes all. A booking that isn't used lapses.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::owner::TransportId;
use crate::ids::{ShardId, Tenant};
use crate::time::Monotonic;

/// What a shard books at once, in time: fewer and larger calls where the rate is high.
const BOOKED: Duration = Duration::from_millis(20);
/// A booking that wasn't used for so long lapses.
const LAPSES: Duration = Duration::from_secs(1);
/// Parts that a token is reckoned in.
const TOKEN: i128 = 1_000_000_000;

/// A bound of messages a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub per_second: NonZeroU32,
    /// Messages that go at once after a pause.
    pub burst: NonZeroU32,
}

impl Rate {
    fn cap(self) -> i128 {
        i128::from(self.burst.get()) * TOKEN
    }

    /// What comes in this time.
    fn in_time(self, time: Duration) -> i128 {
        i128::try_from(time.as_nanos()).unwrap_or(i128::MAX).saturating_mul(i128::from(self.per_second.get()))
    }

    /// How long so much takes to come.
    fn time_for(self, parts: i128) -> Duration {
        let nanos = parts.max(0).unsigned_abs().div_ceil(u128::from(self.per_second.get()));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Tokens that a shard books.
    fn booked(self) -> u32 {
        let share = self.in_time(BOOKED) / TOKEN;
        u32::try_from(share).unwrap_or(u32::MAX).clamp(1, self.burst.get())
    }
}

/// Whom a rate bounds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Bounded {
    Tenant(Tenant),
    Transport(TransportId),
}

/// A bucket without tokens, for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Empty {
    pub rate: Rate,
    /// Since when something waits for it.
    pub since: Monotonic,
    /// When its next token isn't booked.
    pub until: Monotonic,
}

#[derive(Clone, Copy, Debug)]
struct Booking {
    tokens: u32,
    /// They are there then.
    from: Monotonic,
}

#[derive(Debug)]
struct Bucket {
    rate: Rate,
    /// Below 0 where shards looked at one instant and together took more than there was: it is paid back before more goes.
    parts: i128,
    /// When `parts` was reckoned.
    at: Monotonic,
    bookings: BTreeMap<ShardId, Booking>,
    /// Since when something has waited for it, and until when at least.
    waits: Option<(Monotonic, Monotonic)>,
}

impl Bucket {
    fn full(rate: Rate, now: Monotonic) -> Self {
        Self { rate, parts: rate.cap(), at: now, bookings: BTreeMap::new(), waits: None }
    }

    fn fill(&mut self, now: Monotonic) {
        self.parts = self.parts.saturating_add(self.rate.in_time(now - self.at)).min(self.rate.cap());
        self.at = self.at.max(now);
        self.bookings.retain(|_, booking| now < booking.from + LAPSES);
    }

    /// Booked by others than this shard.
    fn booked_beside(&self, shard: Option<ShardId>) -> i128 {
        let others = self.bookings.iter().filter(|(other, _)| Some(**other) != shard);
        others.map(|(_, booking)| i128::from(booking.tokens) * TOKEN).sum()
    }

    /// Messages that this shard may send now.
    fn allowed(&mut self, shard: ShardId, now: Monotonic) -> usize {
        self.fill(now);
        let due = self.bookings.get(&shard).filter(|booking| booking.from <= now).map_or(0, |booking| booking.tokens);
        let free = self.parts - self.booked_beside(Some(shard));
        let mine = free.max(self.parts.min(i128::from(due) * TOKEN)).max(0) / TOKEN;
        usize::try_from(mine).unwrap_or(usize::MAX)
    }

    fn take(&mut self, shard: ShardId, now: Monotonic) {
        self.fill(now);
        self.parts -= TOKEN;
        if let Some(booking) = self.bookings.get_mut(&shard) {
            booking.tokens -= 1;
            if booking.tokens == 0 {
                self.bookings.remove(&shard);
            }
        }
    }

    /// Books the next tokens for a shard that may send nothing now; when they are there.
    fn book(&mut self, shard: ShardId, now: Monotonic) -> Monotonic {
        self.fill(now);
        let from = match self.bookings.get(&shard) {
            Some(booking) if booking.from > now => booking.from,
            // Its time has come and it finds nothing: it waits for the next token.
            Some(_) => self.coming(TOKEN),
            None => {
                let tokens = self.rate.booked();
                let from = self.coming(self.booked_beside(None) + i128::from(tokens) * TOKEN);
                self.bookings.insert(shard, Booking { tokens, from });
                from
            }
        };
        let (since, until) = self.waits.filter(|(_, until)| now < *until + LAPSES).unwrap_or((now, from));
        self.waits = Some((since, until.max(from)));
        from
    }

    /// When so much is there.
    fn coming(&self, parts: i128) -> Monotonic {
        self.at + self.rate.time_for(parts - self.parts)
    }

    fn empty(&mut self, now: Monotonic) -> Option<Empty> {
        self.fill(now);
        let (since, _) = self.waits.filter(|(_, until)| now < *until + LAPSES)?;
        Some(Empty { rate: self.rate, since, until: self.coming(self.booked_beside(None) + TOKEN) })
    }
}

/// The rates of a process. Without any it costs nothing to ask.
#[derive(Debug, Default)]
pub struct Rates {
    is_any: AtomicBool,
    buckets: Mutex<BTreeMap<Bounded, Bucket>>,
}

impl Rates {
    /// Puts these rates in force. A bucket whose rate stays keeps its tokens; one that is new is full.
    pub fn configure(&self, rates: impl IntoIterator<Item = (Bounded, Rate)>, now: Monotonic) {
        let mut buckets = self.buckets();
        let mut before = std::mem::take(&mut *buckets);
        for (bounded, rate) in rates {
            let bucket = match before.remove(&bounded) {
                Some(mut bucket) => {
                    bucket.fill(now);
                    bucket.rate = rate;
                    bucket.parts = bucket.parts.min(rate.cap());
                    bucket.bookings.clear();
                    bucket
                }
                None => Bucket::full(rate, now),
            };
            buckets.insert(bounded, bucket);
        }
        self.is_any.store(!buckets.is_empty(), Ordering::Release);
    }

    /// Messages that a shard may send now of a tenant, or through a transport.
    pub(crate) fn allowed(&self, of: impl FnOnce() -> Bounded, shard: ShardId, now: Monotonic) -> usize {
        self.with(of, |bucket| bucket.allowed(shard, now)).unwrap_or(usize::MAX)
    }

    /// A message is sent, which takes a token.
    pub(crate) fn take(&self, of: impl FnOnce() -> Bounded, shard: ShardId, now: Monotonic) {
        self.with(of, |bucket| bucket.take(shard, now));
    }

    /// When a shard has more to send, if some of what it has waits for an empty bucket: those of `waits`.
    pub(crate) fn book(&self, waits: impl Fn(&Bounded) -> bool, shard: ShardId, now: Monotonic) -> Option<Monotonic> {
        if !self.is_any() {
            return None;
        }
        let mut buckets = self.buckets();
        let waiting = buckets.iter_mut().filter(|(bounded, _)| waits(bounded)).map(|(_, bucket)| bucket);
        waiting.filter_map(|bucket| (bucket.allowed(shard, now) == 0).then(|| bucket.book(shard, now))).min()
    }

    /// The buckets that messages wait for.
    pub fn empty(&self, now: Monotonic) -> Vec<(Bounded, Empty)> {
        if !self.is_any() {
            return Vec::new();
        }
        let mut buckets = self.buckets();
        buckets.iter_mut().filter_map(|(bounded, bucket)| Some((bounded.clone(), bucket.empty(now)?))).collect()
    }

    fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    fn with<T>(&self, of: impl FnOnce() -> Bounded, ask: impl FnOnce(&mut Bucket) -> T) -> Option<T> {
        if !self.is_any() {
            return None;
        }
        self.buckets().get_mut(&of()).map(ask)
    }

    /// Nothing panics while it is locked, and what a panic left would be right all the same.
    fn buckets(&self) -> MutexGuard<'_, BTreeMap<Bounded, Bucket>> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const A: ShardId = ShardId(0);
    const B: ShardId = ShardId(1);

    fn at(ms: u64) -> Monotonic {
        Monotonic(Duration::from_millis(ms))
    }

    fn acme() -> Bounded {
        Bounded::Tenant(Tenant::new("acme").unwrap())
    }

    fn rate(per_second: u32, burst: u32) -> Rate {
        Rate { per_second: per_second.try_into().unwrap(), burst: burst.try_into().unwrap() }
    }

    fn rates(per_second: u32, burst: u32) -> Rates {
        let rates = Rates::default();
        rates.configure([(acme(), rate(per_second, burst))], at(0));
        rates
    }

    /// Sends what a shard may, and books when it may nothing: how many, and when to come back.
    fn send(rates: &Rates, shard: ShardId, ms: u64) -> (usize, Option<Monotonic>) {
        let count = rates.allowed(acme, shard, at(ms));
        (0..count).for_each(|_| rates.take(acme, shard, at(ms)));
        (count, rates.book(|_| true, shard, at(ms)))
    }

    #[test]
    fn a_burst_goes_at_once_and_then_as_many_a_second_as_the_rate_says() {
        let rates = rates(10, 5);
        assert_eq!(send(&rates, A, 0), (5, Some(at(100))));
        for ms in (100..=2_000).step_by(100) {
            assert_eq!(send(&rates, A, ms).0, 1, "at {ms} ms");
        }
        assert_eq!(send(&rates, A, 2_050).0, 0);
    }

    #[test]
    fn no_more_than_a_burst_is_saved_up() {
        let rates = rates(10, 5);
        assert_eq!(rates.allowed(acme, A, at(3_600_000)), 5);
    }

    #[test]
    fn what_isnt_bounded_may_always_go() {
        let rates = rates(1, 1);
        let other = || Bounded::Transport(TransportId(0));
        assert_eq!(rates.allowed(other, A, at(0)), usize::MAX);
        assert_eq!(rates.book(|bounded| *bounded == other(), A, at(0)), None);
        assert_eq!(Rates::default().allowed(acme, A, at(0)), usize::MAX);
    }

    #[test]
    fn shards_that_wait_have_their_tokens_one_behind_the_other() {
        let rates = rates(10, 1);
        assert_eq!(send(&rates, A, 0), (1, Some(at(100))));
        // The next token is A's, so B has the one after, however often it asks.
        assert_eq!(send(&rates, B, 0), (0, Some(at(200))));
        assert_eq!(send(&rates, B, 100), (0, Some(at(200))));
        assert_eq!(send(&rates, A, 100), (1, Some(at(300))));
        assert_eq!(send(&rates, A, 200).0, 0);
        assert_eq!(send(&rates, B, 200).0, 1);
    }

    /// Two threads ask before either takes.
    #[test]
    fn what_shards_took_together_beyond_the_bucket_is_paid_back() {
        let rates = rates(10, 5);
        let (a, b) = (rates.allowed(acme, A, at(0)), rates.allowed(acme, B, at(0)));
        assert_eq!((a, b), (5, 5));
        (0..a).for_each(|_| rates.take(acme, A, at(0)));
        (0..b).for_each(|_| rates.take(acme, B, at(0)));
        assert_eq!(rates.allowed(acme, A, at(500)), 0, "five are owed");
        assert_eq!(rates.allowed(acme, A, at(600)), 1);
    }

    #[test]
    fn a_booking_that_nobody_uses_lapses() {
        let rates = rates(10, 5);
        assert_eq!(send(&rates, A, 0).0, 5);
        assert_eq!(send(&rates, B, 0), (0, Some(at(200))));
        // A never comes back.
        assert_eq!(rates.allowed(acme, B, at(200)), 1);
        assert_eq!(rates.allowed(acme, B, at(1_150)), 5);
    }

    #[test]
    fn never_more_than_burst_and_rate_over_any_time() {
        let (per_second, burst) = (7, 3);
        let rates = rates(per_second, burst);
        let mut sent: Vec<u64> = Vec::new();
        // Shards that come at odd instants, some late.
        for step in 0..4_000_u64 {
            let ms = step * 13 + step % 7;
            let shard = ShardId(u16::try_from(step * step % 5).unwrap());
            let (count, _) = send(&rates, shard, ms);
            sent.extend(std::iter::repeat_n(ms, count));
        }
        for (first, from) in sent.iter().enumerate() {
            for (last, until) in sent.iter().enumerate().skip(first) {
                let most = u64::from(burst) + (until - from) * u64::from(per_second) / 1_000 + 1;
                assert!(((last - first) as u64) < most, "{} between {from} and {until} ms", last - first + 1);
                if until - from > 3_000 {
                    break;
                }
            }
        }
        // And no less, but for what lapses: they come late.
        let time = sent.last().unwrap() / 1_000;
        assert!(sent.len() as u64 > time * u64::from(per_second) / 2, "{} in {time} s", sent.len());
    }

    #[test]
    fn a_rate_that_stays_keeps_its_tokens_over_a_change_of_others() {
        let rates = rates(10, 5);
        send(&rates, A, 0);
        let other = Bounded::Transport(TransportId(3));
        rates.configure([(acme(), rate(10, 5)), (other.clone(), rate(1, 1))], at(0));
        assert_eq!(rates.allowed(acme, A, at(0)), 0);
        assert_eq!(rates.allowed(|| other.clone(), A, at(0)), 1);
        rates.configure([], at(0));
        assert_eq!(rates.allowed(acme, A, at(0)), usize::MAX);
    }

    #[test]
    fn people_see_what_waits_and_until_when() {
        let rates = rates(10, 5);
        let empty = |ms| rates.empty(at(ms)).first().map(|(_, empty)| (empty.since, empty.until));
        assert_eq!(empty(0), None);
        send(&rates, A, 50);
        assert_eq!(empty(60), Some((at(50), at(250))), "the token at 150 is booked");
        send(&rates, A, 150);
        assert_eq!(empty(160), Some((at(50), at(350))), "it has waited all the time");
        assert_eq!(empty(2_000), None, "nobody came back");
    }
}
