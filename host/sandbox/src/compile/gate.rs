//! How many compilations run at once; the others wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// How often one that waits looks whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A number of places, taken and given back by threads.
pub(super) struct Gate {
    free: Mutex<usize>,
    given_back: Condvar,
}

/// A place; given back when it is dropped.
pub(super) struct Pass<'a>(&'a Gate);

impl Gate {
    pub(super) fn new(places: usize) -> Self {
        Self { free: Mutex::new(places), given_back: Condvar::new() }
    }

    /// Waits for a place; none when it was given up. Each place is held for a bounded time, so the wait is bounded too.
    pub(super) fn enter(&self, given_up: &AtomicBool) -> Option<Pass<'_>> {
        let mut free = self.free.lock();
        while *free == 0 {
            if given_up.load(Ordering::Acquire) {
                return None;
            }
            self.given_back.wait_for(&mut free, LOOK_EVERY);
        }
        *free -= 1;
        Some(Pass(self))
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.given_back.notify_one();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_place_is_given_back_and_a_wait_given_up() {
        let gate = Gate::new(1);
        let pass = gate.enter(&AtomicBool::new(false)).unwrap();
        assert!(gate.enter(&AtomicBool::new(true)).is_none());
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| gate.enter(&AtomicBool::new(false)).is_some());
            drop(pass);
            assert!(waits.join().unwrap());
        });
        assert_eq!(*gate.free.lock(), 1);
    }
}
