//! Places of requests: so many for all, and no caller takes more than its share of them.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::limits::CALLER_SHARE;

/// Places for requests of one kind.
pub(crate) struct Places {
    all: Arc<Semaphore>,
    /// Places of one caller.
    share: usize,
    /// Callers that ever took one: as many as there are tokens, at most.
    callers: Mutex<HashMap<String, Arc<Semaphore>>>,
}

/// A place, given back when it is dropped.
pub(crate) struct Place {
    _of_all: OwnedSemaphorePermit,
    _of_caller: Option<OwnedSemaphorePermit>,
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

    /// A place for a caller; one without a name has no share of its own.
    pub(crate) fn take(&self, caller: Option<&str>) -> Result<Place, Full> {
        let own = match caller {
            None => None,
            Some(name) => {
                let places = self.of(name);
                Some(places.try_acquire_owned().map_err(|_| Full::Share { share: self.share })?)
            }
        };
        let all = Arc::clone(&self.all).try_acquire_owned().map_err(|_| Full::All)?;
        Ok(Place { _of_all: all, _of_caller: own })
    }

    fn of(&self, name: &str) -> Arc<Semaphore> {
        let mut callers = self.callers.lock();
        if let Some(places) = callers.get(name) {
            return Arc::clone(places);
        }
        let places = Arc::new(Semaphore::new(self.share));
        callers.insert(name.to_owned(), Arc::clone(&places));
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_caller_takes_no_more_than_its_share_and_others_have_the_rest() {
        let places = Places::new(4);
        let mut held: Vec<Place> = (0..2).map(|_| places.take(Some("greedy")).ok().unwrap()).collect();
        assert_eq!(places.take(Some("greedy")).err(), Some(Full::Share { share: 2 }));
        held.push(places.take(Some("other")).ok().unwrap());
        held.push(places.take(None).ok().unwrap());
        assert_eq!(places.take(Some("third")).err(), Some(Full::All));
        held.clear();
        assert!((0..4).map(|_| places.take(None)).collect::<Result<Vec<_>, _>>().is_ok());
    }

    #[test]
    fn there_is_always_one() {
        assert!(Places::new(0).take(Some("only")).is_ok());
    }
}
