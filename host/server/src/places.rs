//! Places of requests, and of the memory that their bodies and answers take: so many for all, and no tenant takes more than its
//! share.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use waybill_core::ids::Tenant;

use crate::auth::{Principal, Tenants};
use crate::limits::CALLER_SHARE;

/// Places for requests of one kind, or for KiB of their bodies or answers.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    count: usize,
    /// Places of one sharer.
    share: usize,
    /// Sharers that ever took one: as many as there are tenants, tokens and people who signed in, at most.
    sharers: Mutex<HashMap<Sharer, Arc<Semaphore>>>,
}

/// Whose share a request counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sharer {
    /// All tokens that name this tenant, whatever others they name.
    Tenant(Tenant),
    /// This one token or person, who is of all tenants.
    Token(String),
    /// All who have no token.
    Nobody,
}

impl Sharer {
    /// Those of a caller: a request counts against each tenant of its token, so that no tenant gets more by a token that
    /// names others beside it.
    pub(crate) fn of(caller: &Principal) -> Vec<Self> {
        match &caller.tenants {
            Tenants::All => vec![Self::Token(caller.name.clone())],
            Tenants::Only(list) if list.is_empty() => vec![Self::Nobody],
            Tenants::Only(list) => {
                list.iter().collect::<BTreeSet<_>>().into_iter().cloned().map(Self::Tenant).collect()
            }
        }
    }
}

/// A place, or several at once, given back when it is dropped.
pub(crate) struct Place {
    of_all: OwnedSemaphorePermit,
    of_shares: Vec<OwnedSemaphorePermit>,
}

impl Place {
    /// Takes in another place for the same sharers: both are given back together.
    pub(crate) fn merge(&mut self, more: Self) {
        self.of_all.merge(more.of_all);
        for (share, more) in self.of_shares.iter_mut().zip(more.of_shares) {
            share.merge(more);
        }
    }

    /// Gives back what is more than so many.
    pub(crate) fn keep(&mut self, count: usize) {
        for places in std::iter::once(&mut self.of_all).chain(&mut self.of_shares) {
            let more = places.num_permits().saturating_sub(count);
            drop(places.split(more));
        }
    }

    /// An answer that gives the place back when the peer has taken it, or it was given up: until then it takes memory.
    pub(crate) fn until_taken(self, answer: Response) -> Response {
        answer.map(|body| Body::new(Held { body, _place: self }))
    }
}

/// A body with its place.
struct Held {
    body: Body,
    _place: Place,
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Why there is none.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    All,
    /// One of the sharers has its share.
    Share {
        /// How many that are.
        share: usize,
    },
}

impl Places {
    pub(crate) fn new(count: usize) -> Self {
        let count = count.min(Semaphore::MAX_PERMITS);
        let share = (count / CALLER_SHARE).max(1);
        Self { all: Arc::new(Semaphore::new(count)), count, share, sharers: Mutex::default() }
    }

    /// A place that counts against these shares; without any it counts against none.
    pub(crate) fn take(&self, sharers: &[Sharer]) -> Result<Place, Full> {
        self.take_many(sharers, 1)
    }

    /// So many at once. Who needs more than there are for it takes all of them, when nobody has one.
    pub(crate) fn take_many(&self, sharers: &[Sharer], count: usize) -> Result<Place, Full> {
        let most = if sharers.is_empty() { self.count.max(1) } else { self.share };
        self.take_all(sharers, count.min(most))
    }

    /// So many at once, and no fewer: who needs more than there are for it gets none.
    pub(crate) fn take_all(&self, sharers: &[Sharer], count: usize) -> Result<Place, Full> {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let mut of_shares = Vec::with_capacity(sharers.len());
        for sharer in sharers {
            let own = self.of(sharer).try_acquire_many_owned(count);
            of_shares.push(own.map_err(|_| Full::Share { share: self.share })?);
        }
        let of_all = Arc::clone(&self.all).try_acquire_many_owned(count).map_err(|_| Full::All)?;
        Ok(Place { of_all, of_shares })
    }

    /// Places that nobody has.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.all.available_permits()
    }

    /// A place, waited for at most so long. Who waits for one of all holds one of its shares meanwhile.
    pub(crate) async fn take_within(&self, sharers: &[Sharer], wait: Duration) -> Result<Place, Full> {
        let until = Instant::now() + wait;
        let mut of_shares = Vec::with_capacity(sharers.len());
        for sharer in sharers {
            of_shares.push(freed(self.of(sharer), until).await.ok_or(Full::Share { share: self.share })?);
        }
        let of_all = freed(Arc::clone(&self.all), until).await.ok_or(Full::All)?;
        Ok(Place { of_all, of_shares })
    }

    fn of(&self, sharer: &Sharer) -> Arc<Semaphore> {
        let mut sharers = self.sharers.lock();
        Arc::clone(sharers.entry(sharer.clone()).or_insert_with(|| Arc::new(Semaphore::new(self.share))))
    }
}

/// A place of these, as soon as there is one until then.
async fn freed(places: Arc<Semaphore>, until: Instant) -> Option<OwnedSemaphorePermit> {
    timeout_at(until, places.acquire_owned()).await.ok()?.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The shares of a token of these tenants; none = of all.
    fn sharers(name: &str, tenants: Option<&[&str]>) -> Vec<Sharer> {
        let tenants = tenants
            .map_or(Tenants::All, |names| Tenants::Only(names.iter().map(|name| Tenant::new(name).unwrap()).collect()));
        Sharer::of(&Principal { name: name.to_owned(), tenants, roles: Vec::new(), streams: Vec::new(), token: None })
    }

    #[test]
    fn a_caller_takes_no_more_than_its_share_and_others_have_the_rest() {
        let places = Places::new(4);
        let by = |name: &str| sharers(name, None);
        let mut held: Vec<Place> = (0..2).map(|_| places.take(&by("greedy")).ok().unwrap()).collect();
        assert_eq!(places.take(&by("greedy")).err(), Some(Full::Share { share: 2 }));
        held.push(places.take(&by("other")).ok().unwrap());
        held.push(places.take(&[]).ok().unwrap());
        assert_eq!(places.take(&by("third")).err(), Some(Full::All));
        held.clear();
        assert!((0..4).map(|_| places.take(&[])).collect::<Result<Vec<_>, _>>().is_ok());
    }

    #[test]
    fn there_is_always_one() {
        assert!(Places::new(1).take(&sharers("only", None)).is_ok());
    }

    #[test]
    fn a_tenant_has_one_share_over_all_tokens_that_name_it() {
        let places = Places::new(4);
        let (alone, beside) = (sharers("one", Some(&["a"])), sharers("two", Some(&["a", "b"])));
        let held = (places.take(&alone).ok().unwrap(), places.take(&beside).ok().unwrap());
        for more in [&alone, &beside, &sharers("three", Some(&["c", "a"]))] {
            assert_eq!(places.take(more).err(), Some(Full::Share { share: 2 }));
        }
        let other = sharers("four", Some(&["b", "c"]));
        let of_b = places.take(&other).ok().unwrap();
        assert_eq!(places.take(&other).err(), Some(Full::Share { share: 2 }), "b was named by two requests");
        drop((held, of_b));
        assert!((0..2).map(|_| places.take(&alone)).collect::<Result<Vec<_>, _>>().is_ok(), "refusals keep nothing");
        assert!(places.take(&other).is_ok());
    }

    #[test]
    fn who_needs_more_than_its_share_goes_alone() {
        let places = Places::new(10);
        let (one, other) = (sharers("one", None), sharers("other", None));
        let held = places.take_many(&one, 1_000).ok().unwrap();
        assert_eq!(places.take(&one).err(), Some(Full::Share { share: 5 }));
        let rest = places.take_many(&other, 4).ok().unwrap();
        assert_eq!(places.take_many(&other, 2).err(), Some(Full::Share { share: 5 }));
        assert_eq!(places.take_many(&[], 2).err(), Some(Full::All));
        drop(held);
        assert!(places.take_many(&one, 5).is_ok());
        drop(rest);
        assert!(places.take_many(&[], 1_000).is_ok());
    }

    #[test]
    fn who_may_not_have_less_gets_none_and_what_is_merged_is_given_back_together() {
        let places = Places::new(10);
        let (one, other) = (sharers("one", Some(&["a", "b"])), sharers("other", Some(&["b"])));
        assert_eq!(places.take_all(&one, 6).err(), Some(Full::Share { share: 5 }));
        assert_eq!(places.take_all(&[], 11).err(), Some(Full::All));
        let mut held = places.take_all(&one, 2).ok().unwrap();
        held.merge(places.take_all(&one, 2).ok().unwrap());
        assert_eq!((places.left(), places.take_all(&other, 2).err()), (6, Some(Full::Share { share: 5 })));
        held.keep(3);
        assert_eq!((places.left(), places.take_all(&other, 2).is_ok()), (7, true));
        drop(held);
        assert_eq!(places.left(), 10);
        assert!(places.take_all(&other, 5).is_ok());
    }

    #[test]
    fn each_token_of_all_tenants_has_a_share_of_its_own_and_so_have_those_without_any() {
        assert_eq!(sharers("one", Some(&["a", "b", "a"])), sharers("two", Some(&["b", "a"])));
        assert_eq!(sharers("one", None), [Sharer::Token("one".to_owned())]);
        assert_eq!(sharers("anonymous", Some(&[])), [Sharer::Nobody]);
    }
}
