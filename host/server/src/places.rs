//! Places of requests: so many for all, and no caller takes more than its share of them.

use std::collections::{BTreeSet, HashMap};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use waybill_core::ids::Tenant;

use crate::auth::{Principal, Tenants};
use crate::limits::CALLER_SHARE;

/// Places for requests of one kind.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    /// Places of one caller.
    share: usize,
    /// Callers that ever took one: as many as there are tokens, at most.
    callers: Mutex<HashMap<Sharer, Arc<Semaphore>>>,
}

/// Whose share a request counts against.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Sharer {
    /// All tokens of these tenants.
    Tenants(BTreeSet<Tenant>),
    /// This one token, which is of all tenants.
    Token(String),
}

impl Sharer {
    /// Of a caller.
    pub(crate) fn of(caller: &Principal) -> Self {
        match &caller.tenants {
            Tenants::Only(list) => Self::Tenants(list.iter().cloned().collect()),
            Tenants::All => Self::Token(caller.name.clone()),
        }
    }
}

/// A place, given back when it is dropped.
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
}

impl Place {
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
    /// All are taken.
    All,
    /// The caller has its share.
    Share {
        /// How many that are.
        share: usize,
    },
}

impl Places {
    /// So many.
    pub(crate) fn new(count: usize) -> Self {
        let count = count.min(Semaphore::MAX_PERMITS);
        let share = (count / CALLER_SHARE).max(1);
        Self { all: Arc::new(Semaphore::new(count)), share, callers: Mutex::default() }
    }

    /// A place that counts against a share; without one it counts against none.
    pub(crate) fn take(&self, sharer: Option<Sharer>) -> Result<Place, Full> {
        let own = match sharer {
            None => None,
            Some(sharer) => {
                let places = self.of(sharer);
                Some(places.try_acquire_owned().map_err(|_| Full::Share { share: self.share })?)
            }
        };
        let all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Full::All)?;
        Ok(Place { _of_all: all, _of_caller: own })
    }

    fn of(&self, sharer: Sharer) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        Arc::clone(callers.entry(sharer).or_insert_with(|| Arc::new(Semaphore::new(self.share))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_takes_no_more_than_its_share_and_others_have_the_rest() {
        let places = Places::new(4);
        let by = |name: &str| Some(Sharer::Token(name.to_owned()));
        let mut held: Vec<Place> = (0..2).map(|_| places.take(by("greedy")).ok().unwrap()).collect();
        assert_eq!(places.take(by("greedy")).err(), Some(Full::Share { share: 2 }));
        held.push(places.take(by("other")).ok().unwrap());
        held.push(places.take(None).ok().unwrap());
        assert_eq!(places.take(by("third")).err(), Some(Full::All));
        held.clear();
        assert!((0..4).map(|_| places.take(None)).collect::<Result<Vec<_>, _>>().is_ok());
    }

    #[test]
    fn there_is_always_one() {
        assert!(Places::new(1).take(Some(Sharer::Token("only".to_owned()))).is_ok());
    }

    #[test]
    fn tokens_of_the_same_tenants_are_one_caller_and_each_token_of_all_is_one() {
        let sharer = |name: &str, tenants: Option<&[&str]>| {
            let tenants = tenants.map_or(Tenants::All, |names| {
                Tenants::Only(names.iter().map(|name| Tenant::new(name).unwrap()).collect())
            });
            Sharer::of(&Principal { name: name.to_owned(), tenants, roles: Vec::new() })
        };
        assert_eq!(sharer("one", Some(&["a"])), sharer("two", Some(&["a"])));
        assert_eq!(sharer("one", Some(&["a", "b"])), sharer("two", Some(&["b", "a", "b"])));
        assert_ne!(sharer("one", Some(&["a"])), sharer("one", Some(&["a", "b"])));
        assert_ne!(sharer("one", None), sharer("two", None));
        assert_ne!(sharer("a", None), sharer("a", Some(&["a"])));
    }
}
