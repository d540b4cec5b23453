//! Work of a length that a stranger decides, on threads of its own: given up at a deadline, and few at a time.
//!
//! A thread can't be stopped from outside: one whose work is given up goes on, and keeps its place until it ends. So at most as
//! many hang as there are places, and after that everybody is refused after the same time.

use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};

/// Stack of such a thread, in bytes: as much as the main thread has.
const STACK_BYTES: usize = 8 * 1024 * 1024;

/// Places for such work.
pub(crate) struct Bounded {
    most: usize,
    taken: Mutex<usize>,
    freed: Condvar,
}

/// Frees its place when it goes, also when the work panics.
struct Place(&'static Bounded);

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.0.taken.lock();
        *taken = taken.saturating_sub(1);
        self.0.freed.notify_one();
    }
}

impl Bounded {
    /// So many at a time.
    pub(crate) const fn new(most: usize) -> Self {
        Self { most, taken: Mutex::new(0), freed: Condvar::new() }
    }

    /// Does some work and waits for it, and for a place, this long at most; else says what went wrong. Blocks; other tasks of a
    /// runtime with several threads go on meanwhile.
    pub(crate) fn run<T: Send + 'static>(
        &'static self,
        time: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let many = Handle::try_current().is_ok_and(|runtime| runtime.runtime_flavor() == RuntimeFlavor::MultiThread);
        let wait = || self.wait(time, work);
        if many { tokio::task::block_in_place(wait) } else { wait() }
    }

    fn wait<T: Send + 'static>(
        &'static self,
        time: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, String> {
        let until = Instant::now() + time;
        let place = self.take(until).ok_or_else(|| {
            format!("{} others like it have run for longer than {time:?} and can't be stopped: start the host again without them", self.most)
        })?;
        let (tell, told) = sync_channel(1);
        let run = move || {
            let done = work();
            drop(place);
            // Nobody may be waiting any more.
            let _ = tell.send(done);
        };
        let thread = thread::Builder::new().name("waybill-bounded".to_owned()).stack_size(STACK_BYTES).spawn(run);
        thread.map_err(|error| format!("there is no thread for it: {error}"))?;
        told.recv_timeout(until.saturating_duration_since(Instant::now())).map_err(|error| match error {
            RecvTimeoutError::Timeout => format!("it takes longer than {time:?}"),
            RecvTimeoutError::Disconnected => "it panicked".to_owned(),
        })
    }

    fn take(&'static self, until: Instant) -> Option<Place> {
        let mut taken = self.taken.lock();
        while *taken >= self.most {
            if self.freed.wait_until(&mut taken, until).timed_out() && *taken >= self.most {
                return None;
            }
        }
        *taken += 1;
        Some(Place(self))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Ends whatever the machine does meanwhile.
    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn what_takes_too_long_is_given_up_and_few_hang() {
        static PLACES: Bounded = Bounded::new(2);
        let hang = || -> Sender<()> {
            let (release, held): (Sender<()>, Receiver<()>) = channel();
            let given_up = PLACES.run(Duration::from_millis(1), move || held.recv().is_ok());
            assert!(given_up.unwrap_err().contains("longer than 1ms"));
            release
        };
        assert_eq!(PLACES.run(PATIENCE, || 7), Ok(7));
        let (first, second) = (hang(), hang());
        let full = PLACES.run(Duration::from_millis(1), || 7).unwrap_err();
        assert!(full.contains("2 others"), "{full}");
        first.send(()).unwrap();
        assert_eq!(PLACES.run(PATIENCE, || 7), Ok(7), "its place is free again");
        drop(second);
    }

    #[test]
    fn a_panic_is_told_and_takes_no_place() {
        static PLACES: Bounded = Bounded::new(1);
        for _ in 0..2 {
            assert_eq!(PLACES.run(PATIENCE, || -> u8 { panic!("as told to") }), Err("it panicked".to_owned()));
        }
        assert_eq!(PLACES.run(PATIENCE, || 7), Ok(7));
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn it_runs_on_a_runtime_too() {
        static PLACES: Bounded = Bounded::new(1);
        let on_a_worker = tokio::spawn(async { PLACES.run(PATIENCE, || 7) });
        assert_eq!(on_a_worker.await.unwrap(), Ok(7));
    }
}
