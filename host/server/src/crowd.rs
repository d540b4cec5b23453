//! Connections that never carried a valid credential: when all places are taken, the one of them that has been quiet for longest
//! gives way to who comes. Otherwise a few requests a minute that anybody may make would keep every place.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::progress::Progress;

/// Open connections of strangers. To find who gives way all of them are looked at, so it takes longer the more there are; that is
/// done only when every place is taken.
#[derive(Default)]
pub(crate) struct Crowd {
    next: AtomicU64,
    strangers: Mutex<HashMap<u64, Arc<Stranger>>>,
}

struct Stranger {
    progress: Arc<Progress>,
    leave: Notify,
    known: AtomicBool,
}

impl Crowd {
    /// A connection was opened. Its peer is a stranger until it shows a credential.
    pub(crate) fn enter(self: &Arc<Self>, progress: Arc<Progress>) -> Guest {
        let stranger = Arc::new(Stranger { progress, leave: Notify::new(), known: AtomicBool::new(false) });
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        self.strangers.lock().insert(id, Arc::clone(&stranger));
        Guest(Visit { crowd: Arc::clone(self), id, stranger })
    }

    /// Asks the stranger that has been quiet for longest to go, each only once; false = there is none.
    pub(crate) fn give_way(&self) -> bool {
        let mut strangers = self.strangers.lock();
        let quiet = strangers.iter().filter_map(|(id, stranger)| Some((stranger.progress.quiet_since()?, *id))).min();
        let Some(stranger) = quiet.and_then(|(_, id)| strangers.remove(&id)) else { return false };
        stranger.leave.notify_one();
        true
    }
}

/// A connection among the others, for its requests.
#[derive(Clone)]
pub(crate) struct Visit {
    crowd: Arc<Crowd>,
    id: u64,
    stranger: Arc<Stranger>,
}

impl Visit {
    /// A valid credential was shown: this connection isn't asked to give way any more.
    pub(crate) fn known(&self) {
        if !self.stranger.known.swap(true, Ordering::Relaxed) {
            self.crowd.strangers.lock().remove(&self.id);
        }
    }
}

/// A connection among the others, as long as it is open.
pub(crate) struct Guest(Visit);

impl Guest {
    /// For its requests, which may outlive it.
    pub(crate) fn visit(&self) -> Visit {
        self.0.clone()
    }

    /// How far it is.
    pub(crate) fn progress(&self) -> &Arc<Progress> {
        &self.0.stranger.progress
    }

    /// Ends when the connection has to give way, at most once.
    pub(crate) async fn has_to_go(&self) {
        self.0.stranger.leave.notified().await;
    }

    /// Whether nothing would be lost with it: it still is a stranger's, and nothing is being done for it.
    pub(crate) fn may_be_cut(&self) -> bool {
        !self.0.stranger.known.load(Ordering::Relaxed) && self.progress().quiet_since().is_some()
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        self.0.crowd.strangers.lock().remove(&self.0.id);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_longest_quiet_stranger_goes_first_and_nobody_twice() {
        let crowd = Arc::new(Crowd::default());
        let pause = || tokio::time::advance(Duration::from_secs(1));
        let enter = || crowd.enter(Progress::new(Duration::from_secs(60)));
        let (known, first) = (enter(), enter());
        pause().await;
        let (gone, busy, second) = (enter(), enter(), enter());
        known.visit().known();
        let request = gone.visit();
        drop(gone);
        pause().await;
        // Its answer is being made; and the first has just had one.
        let exchange = busy.progress().begin();
        drop(first.progress().begin());
        assert!(!busy.may_be_cut() && !known.may_be_cut() && first.may_be_cut());
        assert!(crowd.give_way());
        second.has_to_go().await;
        assert!(crowd.give_way());
        first.has_to_go().await;
        assert!(!crowd.give_way(), "the others are known, busy or gone");
        request.known();
        drop(exchange);
        assert!(crowd.give_way());
        busy.has_to_go().await;
        assert!(!crowd.give_way() && crowd.strangers.lock().is_empty());
    }
}
