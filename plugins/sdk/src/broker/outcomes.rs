//! What becomes of each message of a batch.

use std::time::{Duration, Instant};

use crate::transport::{CallInfo, Fault, Outcome};

/// Outcomes of a batch that ends sooner are told at its end only: each early word is a crossing into the host.
const EARLY_AFTER: Duration = Duration::from_millis(2);

/// The outcomes of a batch that are known, by the places of its messages.
pub struct Outcomes<'a> {
    call: &'a CallInfo,
    known: Vec<Option<Outcome>>,
    began: Instant,
    /// Known and not told early.
    untold: Vec<usize>,
}

impl<'a> Outcomes<'a> {
    /// None yet, of so many messages.
    pub fn new(call: &'a CallInfo, count: usize) -> Self {
        Self { call, known: vec![None; count], began: Instant::now(), untold: Vec::new() }
    }

    /// Whether there is such a message, and its outcome isn't known.
    pub fn is_open(&self, place: usize) -> bool {
        self.known.get(place).is_some_and(Option::is_none)
    }

    /// The outcome of one.
    pub fn settle(&mut self, place: usize, outcome: Outcome) {
        if let Some(slot) = self.known.get_mut(place) {
            *slot = Some(outcome);
            self.untold.push(place);
        }
    }

    /// Tells the host what is known of a batch that has gone on for a while. For one that still goes on.
    pub fn tell_early(&mut self) {
        if !self.untold.is_empty() && self.began.elapsed() >= EARLY_AFTER {
            self.tell();
        }
    }

    /// Tells the host what is known, so that it stands whatever the call answers.
    pub fn tell(&mut self) {
        for place in self.untold.drain(..) {
            if let Some(Some(outcome)) = self.known.get(place) {
                self.call.settled(place, outcome);
            }
        }
    }

    /// One outcome a message. `fault` is why nothing is known of the others: one that was written may be there all the same, and
    /// says so; one that wasn't is given back untried.
    pub fn end(self, fault: &Fault, is_written: impl Fn(usize) -> bool) -> Vec<Outcome> {
        let all = self.known.into_iter().enumerate().map(|(place, outcome)| {
            outcome.unwrap_or_else(|| match is_written(place) {
                true => Outcome::Retryable(fault.clone().with_maybe_delivered(true)),
                false => Outcome::Release(fault.clone()),
            })
        });
        all.collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::panic)]
    use super::*;
    use crate::transport::Receipt;

    #[test]
    fn what_was_written_may_be_delivered_and_the_rest_is_given_back_untried() {
        let call = CallInfo { id: 1, timeout: 1_000, traceparent: None, attributes: Vec::new() };
        let mut outcomes = Outcomes::new(&call, 3);
        outcomes.settle(0, Outcome::Ack(Receipt::new()));
        outcomes.settle(7, Outcome::Ack(Receipt::new()));
        assert!(!outcomes.is_open(0) && outcomes.is_open(1) && !outcomes.is_open(7));
        let ended = outcomes.end(&Fault::new("FAKE.LOST", "gone"), |place| place < 2);
        let [Outcome::Ack(_), Outcome::Retryable(written), Outcome::Release(unwritten)] = ended.as_slice() else {
            panic!("{ended:?}")
        };
        assert_eq!((written.maybe_delivered, unwritten.maybe_delivered), (true, false));
        assert_eq!((written.code.as_str(), unwritten.reason.as_str()), ("FAKE.LOST", "gone"));
    }
}
