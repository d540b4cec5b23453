//! The calls now running in one instance, kept outside its Store: they are answered even when the Store is lost, and their
//! deadlines hold even when the guest never lets go of its thread.

use std::collections::HashMap;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::command::Reply;

pub(super) struct InFlight {
    pub(super) function: &'static str,
    pub(super) started: Instant,
    pub(super) deadline: Instant,
    /// Messages in the batch.
    pub(super) size: usize,
    /// Who waits; none for the host's own calls.
    pub(super) reply: Option<Reply>,
}

/// The calls of one instance.
#[derive(Default)]
pub(super) struct InFlightCalls {
    calls: Mutex<Calls>,
    earlier: Notify,
}

#[derive(Default)]
struct Calls {
    running: HashMap<u32, InFlight>,
    /// When the watch will look next.
    armed: Option<Instant>,
}

impl InFlightCalls {
    pub(super) fn begin(&self, id: u32, call: InFlight) {
        let mut calls = self.calls.lock();
        let wake = calls.armed.is_none_or(|armed| call.deadline < armed);
        calls.running.insert(id, call);
        drop(calls);
        if wake {
            self.earlier.notify_one();
        }
    }

    /// A call has ended.
    pub(super) fn end(&self, id: u32) -> Option<InFlight> {
        self.calls.lock().running.remove(&id)
    }

    /// All calls, because the instance has ended.
    pub(super) fn end_all(&self) -> Vec<(u32, InFlight)> {
        self.calls.lock().running.drain().collect()
    }

    /// Waits until a call is past its deadline.
    pub(super) async fn overdue(&self) -> u32 {
        loop {
            let earliest = {
                let mut calls = self.calls.lock();
                let earliest = calls.running.iter().map(|(id, call)| (call.deadline, *id)).min();
                calls.armed = earliest.map(|(deadline, _)| deadline);
                earliest
            };
            match earliest {
                None => self.earlier.notified().await,
                Some((deadline, id)) if deadline <= Instant::now() => return id,
                Some((deadline, _)) => tokio::select! {
                    () = sleep_until(deadline) => {}
                    () = self.earlier.notified() => {}
                },
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn call(deadline: Instant) -> InFlight {
        InFlight { function: "send-batch", started: Instant::now(), deadline, size: 0, reply: None }
    }

    #[tokio::test(start_paused = true)]
    async fn the_earliest_deadline_is_found_even_when_it_comes_later() {
        let in_flight = InFlightCalls::default();
        let start = Instant::now();
        in_flight.begin(1, call(start + Duration::from_secs(10)));
        let (overdue, ()) = tokio::join!(in_flight.overdue(), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            in_flight.begin(2, call(Instant::now() + Duration::from_secs(1)));
        });
        assert_eq!(overdue, 2);
        assert_eq!(start.elapsed().as_secs(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_ended_call_has_no_deadline() {
        let in_flight = InFlightCalls::default();
        let start = Instant::now();
        in_flight.begin(1, call(start + Duration::from_secs(1)));
        in_flight.begin(2, call(start + Duration::from_secs(5)));
        assert!(in_flight.end(1).is_some());
        assert_eq!(in_flight.overdue().await, 2);
        assert_eq!(in_flight.end_all().len(), 1);
    }
}
