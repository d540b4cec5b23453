//! How one generation of a plugin does since it serves, for people who hold it against the one before.
//!
//! Counting is an addition or two a call; nothing is allocated, and nothing looks at it but who asks. What it takes is fixed:
//! [`TIMES`] numbers and a dozen more.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use waybill_api::plugin_outcomes::{CallTimes, GenerationOutcomes};
use waybill_core::port::handler::Verdict;
use waybill_core::port::participant::StepError;
use waybill_core::port::transport::Outcome;

use crate::instance::Answer;

/// Steps of the histogram in which a time doubles: a quantile is told a quarter too long at most.
const STEPS_OF_DOUBLING: u32 = 4;
/// The longest time that is told from longer ones is 2 to the power of this, in microseconds: some 70 minutes.
const LONGEST_BITS: u32 = 32;
/// Numbers of a histogram.
const TIMES: usize = 128;

/// What becomes of what a plugin is given: a message, a received one, a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Delivered,
    Refused,
    Retried,
    /// Not tried, or somebody else was at fault.
    Held,
}

impl From<&Outcome> for Fate {
    fn from(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Ack(_) => Self::Delivered,
            Outcome::Retryable(_) => Self::Retried,
            Outcome::Permanent(_) => Self::Refused,
            Outcome::Blocked { .. } | Outcome::Release(_) => Self::Held,
        }
    }
}

impl From<&Verdict> for Fate {
    fn from(verdict: &Verdict) -> Self {
        match verdict {
            Verdict::Processed(_) | Verdict::Duplicate => Self::Delivered,
            Verdict::Poison(_) => Self::Refused,
            Verdict::Retry(_) => Self::Retried,
            Verdict::Busy(_) | Verdict::Blocked { .. } => Self::Held,
        }
    }
}

impl<T> From<&Result<T, StepError>> for Fate {
    fn from(done: &Result<T, StepError>) -> Self {
        match done {
            Ok(_) => Self::Delivered,
            Err(StepError::Retryable(_)) => Self::Retried,
            Err(StepError::Permanent(_)) => Self::Refused,
            Err(StepError::Blocked { .. } | StepError::Release(_)) => Self::Held,
        }
    }
}

/// Counts of one generation, over all its instances.
#[derive(Debug)]
pub(crate) struct Tally {
    /// One count a [`Fate`].
    fates: [AtomicU64; 4],
    calls: AtomicU64,
    failed: AtomicU64,
    lost: AtomicU64,
    took_us: AtomicU64,
    times: [AtomicU64; TIMES],
    memory: AtomicU64,
    memory_peak: AtomicU64,
}

impl Default for Tally {
    fn default() -> Self {
        let zero = AtomicU64::default;
        Self {
            fates: std::array::from_fn(|_| zero()),
            calls: zero(),
            failed: zero(),
            lost: zero(),
            took_us: zero(),
            times: std::array::from_fn(|_| zero()),
            memory: zero(),
            memory_peak: zero(),
        }
    }
}

impl Tally {
    /// A call that gave work to a guest was answered, or failed as a whole.
    pub(crate) fn called(&self, took: Duration, failed: bool) {
        let took = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        add(&self.calls, 1);
        add(&self.failed, u64::from(failed));
        add(&self.took_us, took);
        if let Some(times) = self.times.get(place(took)) {
            add(times, 1);
        }
    }

    /// An instance was lost: it trapped, ran out of time or broke the contract.
    pub(crate) fn lost(&self) {
        add(&self.lost, 1);
    }

    /// A guest told of one message before its answer.
    pub(crate) fn told_early(&self, outcome: &Outcome) {
        self.add(outcome.into(), 1);
    }

    /// The same of a received one.
    pub(crate) fn judged_early(&self, verdict: &Verdict) {
        self.add(verdict.into(), 1);
    }

    /// A guest answered. Of what was told before its answer says nothing new.
    pub(crate) fn answered(&self, answer: &Answer, told: &[bool]) {
        match answer {
            Answer::Outcomes(outcomes) => self.count(outcomes.iter().map(Fate::from), told),
            Answer::Verdicts(verdicts) => self.count(verdicts.iter().map(Fate::from), told),
            Answer::Executed(done) => self.add(done.into(), 1),
            Answer::Compensated(done) => self.add(done.into(), 1),
            _ => {}
        }
    }

    fn count(&self, fates: impl Iterator<Item = Fate>, told: &[bool]) {
        let mut counts = [0; 4];
        for (index, fate) in fates.enumerate() {
            let is_new = !told.get(index).is_some_and(|told| *told);
            if let Some(count) = counts.get_mut(fate as usize).filter(|_| is_new) {
                *count += 1;
            }
        }
        let known = self.fates.iter().zip(counts).filter(|(_, count)| *count > 0);
        known.for_each(|(sum, count)| add(sum, count));
    }

    fn add(&self, fate: Fate, count: u64) {
        if let Some(sum) = self.fates.get(fate as usize) {
            add(sum, count);
        }
    }

    /// An instance holds more memory.
    pub(crate) fn memory_grew(&self, bytes: usize) {
        let bytes = bytes as u64;
        let now = self.memory.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.memory_peak.fetch_max(now, Ordering::Relaxed);
    }

    /// An instance is gone with its memory.
    pub(crate) fn memory_freed(&self, bytes: usize) {
        self.memory.fetch_sub(bytes as u64, Ordering::Relaxed);
    }

    /// What was counted so far, of this generation.
    pub(crate) fn read(&self, generation: u32) -> GenerationOutcomes {
        let of = |fate: Fate| self.fates.get(fate as usize).map_or(0, read);
        GenerationOutcomes {
            generation,
            delivered: of(Fate::Delivered),
            refused: of(Fate::Refused),
            retried: of(Fate::Retried),
            held: of(Fate::Held),
            calls: read(&self.calls),
            failed_calls: read(&self.failed),
            traps: read(&self.lost),
            took: self.took(),
            memory_peak_bytes: read(&self.memory_peak),
        }
    }

    fn took(&self) -> Option<CallTimes> {
        let times: Vec<u64> = self.times.iter().map(read).collect();
        let calls: u64 = times.iter().sum();
        let quantile = |of_100: u64| {
            // The first step in which so many calls are done.
            let wanted = calls.saturating_mul(of_100).div_ceil(100).max(1);
            let mut seen = 0_u64;
            let found = times.iter().position(|count| {
                seen = seen.saturating_add(*count);
                seen >= wanted
            });
            longest(found.unwrap_or(TIMES))
        };
        let mean_us = read(&self.took_us).checked_div(calls)?;
        Some(CallTimes { mean_us, p50_us: quantile(50), p95_us: quantile(95), p99_us: quantile(99) })
    }

    /// Goes on from another, whose instances have ended: the same generation was opened again.
    pub(crate) fn take_over(&self, before: &Self) {
        let pairs = self.fates.iter().zip(&before.fates).chain(self.times.iter().zip(&before.times));
        let further = [
            (&self.calls, &before.calls),
            (&self.failed, &before.failed),
            (&self.lost, &before.lost),
            (&self.took_us, &before.took_us),
        ];
        pairs.chain(further).for_each(|(sum, before)| add(sum, read(before)));
        self.memory_peak.fetch_max(read(&before.memory_peak), Ordering::Relaxed);
    }
}

fn add(sum: &AtomicU64, count: u64) {
    sum.fetch_add(count, Ordering::Relaxed);
}

fn read(sum: &AtomicU64) -> u64 {
    sum.load(Ordering::Relaxed)
}

/// The step of the histogram that a time belongs to.
fn place(us: u64) -> usize {
    let us = us.clamp(u64::from(STEPS_OF_DOUBLING), (1 << LONGEST_BITS) - 1);
    // A power of two below it, and in which part of its doubling it lies.
    let doubling = us.ilog2() - STEPS_OF_DOUBLING.ilog2();
    let part = (us >> doubling) - u64::from(STEPS_OF_DOUBLING);
    usize::try_from(u64::from(doubling * STEPS_OF_DOUBLING) + part).unwrap_or(TIMES)
}

/// The longest time of a step, in microseconds.
fn longest(place: usize) -> u64 {
    let place = u32::try_from(place).unwrap_or(u32::MAX).min(u32::try_from(TIMES).unwrap_or(u32::MAX));
    let (doubling, part) = (place / STEPS_OF_DOUBLING, place % STEPS_OF_DOUBLING);
    (u64::from(STEPS_OF_DOUBLING + part + 1) << doubling) - 1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use waybill_core::port::transport::{Fault, Receipt};

    fn us(us: u64) -> Duration {
        Duration::from_micros(us)
    }

    #[test]
    fn a_time_is_told_a_quarter_too_long_at_most() {
        for time in (4..5_000).chain([1 << 20, 90_000_000, (1 << 32) - 1]) {
            let told = longest(place(time));
            assert!(told >= time && told <= time + time / 4, "{time} us: {told}");
        }
        assert_eq!((place(0), place(u64::MAX)), (0, place((1 << LONGEST_BITS) - 1)));
        assert!(place(u64::MAX) < TIMES);
    }

    #[test]
    fn quantiles_and_mean_are_those_of_the_calls() {
        let tally = Tally::default();
        assert_eq!(tally.read(1).took, None);
        for _ in 0..98 {
            tally.called(us(1_000), false);
        }
        tally.called(us(100_000), true);
        tally.called(us(1_000_000), true);
        let read = tally.read(3);
        assert_eq!((read.generation, read.calls, read.failed_calls), (3, 100, 2));
        let took = read.took.unwrap();
        assert_eq!((took.mean_us, took.p50_us, took.p95_us), (11_980, 1_023, 1_023));
        assert!(took.p99_us >= 100_000 && took.p99_us < 125_000, "{took:?}");
    }

    #[test]
    fn what_was_told_early_counts_once() {
        let tally = Tally::default();
        let fault = || Fault::new("T.NO", "no");
        tally.told_early(&Outcome::Ack(Receipt::default()));
        let outcomes = vec![
            Outcome::Ack(Receipt::default()),
            Outcome::Permanent(fault()),
            Outcome::Retryable(fault()),
            Outcome::Release(fault()),
        ];
        tally.answered(&Answer::Outcomes(outcomes), &[true, false, false, false]);
        tally.answered(&Answer::Executed(Err(StepError::Permanent(fault()))), &[]);
        tally.answered(&Answer::Quiesced, &[]);
        let read = tally.read(1);
        assert_eq!((read.delivered, read.refused, read.retried, read.held), (1, 2, 1, 1));
    }

    #[test]
    fn the_peak_of_memory_is_that_of_all_instances_together() {
        let tally = Tally::default();
        tally.memory_grew(100);
        tally.memory_grew(50);
        tally.memory_freed(100);
        tally.memory_grew(20);
        assert_eq!(tally.read(1).memory_peak_bytes, 150);
    }

    #[test]
    fn a_generation_that_is_opened_again_goes_on_counting() {
        let before = Tally::default();
        before.called(us(10), false);
        before.lost();
        before.memory_grew(9);
        let again = Tally::default();
        again.take_over(&before);
        again.called(us(10), false);
        let read = again.read(1);
        assert_eq!((read.calls, read.traps, read.memory_peak_bytes, read.took.unwrap().mean_us), (2, 1, 9, 10));
    }
}
