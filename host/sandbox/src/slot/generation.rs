//! One generation of a slot while it has instances, and the calls under way on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::served::{Recipe, Served};

/// A generation with its instances.
pub(super) struct Generation {
    pub number: u32,
    pub recipe: Recipe,
    pub served: Served,
    /// Cancelled when it takes no more calls.
    pub retired: CancellationToken,
    under_way: AtomicUsize,
    idle: Notify,
    /// How long its calls may take when another one takes its place.
    drain_timeout: Mutex<Duration>,
}

impl Generation {
    pub fn new(number: u32, recipe: Recipe, served: Served) -> Arc<Self> {
        let drain_timeout = Mutex::new(recipe.spec.settings.policy.drain_timeout);
        Arc::new(Self {
            number,
            recipe,
            served,
            retired: CancellationToken::new(),
            under_way: AtomicUsize::new(0),
            idle: Notify::new(),
            drain_timeout,
        })
    }

    pub fn drain_timeout(&self) -> Duration {
        *self.drain_timeout.lock()
    }

    /// Its calls may take this long from now on. Never less than before: some may have been begun with that time.
    pub fn extend_drain(&self, within: Duration) {
        let mut known = self.drain_timeout.lock();
        *known = within.max(*known);
    }

    /// Waits until no call is under way on it, at most this long. True: none is.
    pub async fn drained(&self, within: Duration) -> bool {
        let idle = async {
            loop {
                let rung = self.idle.notified();
                tokio::pin!(rung);
                // Before the look, so that a call that ends right after it isn't missed.
                rung.as_mut().enable();
                if self.under_way.load(Ordering::Acquire) == 0 {
                    return;
                }
                rung.await;
            }
        };
        tokio::time::timeout(within, idle).await.is_ok()
    }
}

/// Holds a generation for one call. It is taken while the slot's place is read-locked, so that whoever exchanges the place
/// sees every call that got the old one.
pub(super) struct Hold(Arc<Generation>);

impl Hold {
    pub fn new(generation: &Arc<Generation>) -> Self {
        generation.under_way.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(generation))
    }
}

impl std::ops::Deref for Hold {
    type Target = Generation;
    fn deref(&self) -> &Generation {
        &self.0
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.idle.notify_waiters();
        }
    }
}
