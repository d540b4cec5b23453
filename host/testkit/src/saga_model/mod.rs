//! The randomised check of sagas, on the real [`SagaShard`](waybill_core::saga::shard::SagaShard) and the reference store.
//!
//! A simulated world runs one shard: random definitions with parallel groups and sub-sagas, participants that fail, time out,
//! answer late, twice or never, hosts that die between any two commits and between a commit and its effects, commits that get
//! lost or whose outcome is unknown, operators. Every choice comes from the seed. Every call is judged when it is made, and
//! after a calm phase every saga has to have ended, or to be visibly stuck, with the right steps undone in the right order.
//!
//! | file | holds |
//! |---|---|
//! | `definitions` | random definitions |
//! | `world` | time, commits, deaths, operators |
//! | `calls` | what participants do |
//! | `ledger` | what participants saw; what has to hold at each call |
//! | `audit` | what has to hold at the end |
//!
//! The rules can be left out one by one ([`Rule`]), to prove that the checks would notice. It says nothing about speed.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a violation may end by panicking")]

mod audit;
mod calls;
mod definitions;
mod ledger;
mod world;

pub use waybill_core::saga::machine::{Rule, Rules};

/// What one seed came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// What didn't hold; empty when all did.
    pub violations: Vec<String>,
    pub sagas: u64,
    pub calls: u64,
    pub deaths: u64,
    /// Commits whose outcome was unknown.
    pub unknown: u64,
    /// Commits with steps whose events were refused.
    pub refused: u64,
    /// How the sagas ended, in words.
    pub ends: std::collections::BTreeMap<String, u64>,
}

/// Runs one seed with this many sagas.
pub fn run(seed: u64, sagas: u64, rules: Rules) -> Outcome {
    world::World::new(seed, sagas, rules).run()
}

/// Runs seeds from `first` on, on all processors, and adds them up.
pub fn run_many(first: u64, count: u64, sagas: u64, rules: Rules) -> Outcome {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let work = |thread: u64| {
            let mut sum = Outcome::default();
            for seed in (first + thread..first + count).step_by(usize::try_from(threads).unwrap_or(1)) {
                sum.add(seed, run(seed, sagas, rules));
            }
            sum
        };
        let workers: Vec<_> = (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        let mut sum = Outcome::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => sum.add(u64::MAX, part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        sum
    })
}

impl Outcome {
    fn add(&mut self, seed: u64, other: Self) {
        let named = |text: String| if seed == u64::MAX { text } else { format!("seed {seed}: {text}") };
        self.violations.extend(other.violations.into_iter().map(named));
        self.sagas += other.sagas;
        self.calls += other.calls;
        self.deaths += other.deaths;
        self.unknown += other.unknown;
        self.refused += other.refused;
        for (end, count) in other.ends {
            *self.ends.entry(end).or_default() += count;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn twenty_thousand_sagas_end_as_they_should() {
        let sum = run_many(1, 500, 40, Rules::default());
        assert!(sum.violations.is_empty(), "{:#?}", &sum.violations[..sum.violations.len().min(10)]);
        assert_eq!(sum.sagas, 20_000);
        for end in ["completed", "cancelled", "failed"] {
            assert!(sum.ends.get(end).is_some_and(|count| *count > 200), "{:?}", sum.ends);
        }
        assert!(sum.deaths > 1_000 && sum.unknown > 1_000, "{} deaths, {} unknown", sum.deaths, sum.unknown);
        assert!(sum.refused > 1_000, "{} commits with events that were refused", sum.refused);
    }

    #[test]
    fn leaving_any_rule_out_is_noticed() {
        for rule in Rule::ALL {
            let found = (1..60).any(|seed| !run(seed, 40, Rules::without(rule)).violations.is_empty());
            assert!(found, "nobody noticed that {rule:?} was left out");
        }
    }

    #[test]
    fn one_seed_is_one_history() {
        let (one, two) = (run(7, 40, Rules::default()), run(7, 40, Rules::default()));
        assert_eq!((one.calls, one.deaths, one.ends), (two.calls, two.deaths, two.ends));
    }
}
