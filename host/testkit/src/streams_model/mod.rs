//! The randomised check of the streams' protocol, on the real [`StreamOwner`](waybill_core::streams::owner::StreamOwner), readers, upkeep
//! and relay, and the reference store.
//!
//! A simulated world of one to three hosts owns two shards with four streams: two are trimmed, one is compacted. Callers append over the
//! doorstep, straight to owners, and at expected numbers; they commit late, hear nothing and try again. Five readers read one stream each,
//! two read all of them, two the events of a node, on rings of three entries that lose some. A relay, which in half of the runs holds
//! retention back and in some takes only what comes from some step on, sends to a broker that acknowledges, refuses, loses the answer or
//! stores late, and in some runs never takes anything of one stream; in half of them its windows have little room. Where there are two
//! hosts it sends several events of a key at once, of which each is taken when the one before is. Between any two commits hosts crash,
//! stand still for longer than their lease, get no word of a commit (it goes in, goes in late, or never). Every choice comes from the seed.
//!
//! | file | holds |
//! |---|---|
//! | `world` | time, and the order in which everybody acts |
//! | `setup` | names, bounds, what differs from run to run |
//! | `events` | what is appended, and what is known of it |
//! | `clients` | callers and their transactions |
//! | `host` | processes: taking over, their death |
//! | `commits` | the way of an owner's commit |
//! | `keep` | upkeep |
//! | `fanout` | rings, and who fills them |
//! | `named` | readers of one stream |
//! | `many` | readers of all streams |
//! | `relaying` | the relay at the owner |
//! | `broker` | what it sends to |
//! | `ledger` | what must hold at each commit |
//! | `audit` | what must hold at each delivery and at the end |
//! | `directed` | schedules that random seeds meet seldom |
//! | `indexed` | the index of resources under all that upkeep does |
//!
//! The rules can be left out one by one ([`Mutation`]), to prove that the checks would notice. It says nothing about speed, the packing of
//! the doorstep, large payloads and the store's own code.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a violation may end by panicking")]

mod audit;
mod broker;
mod clients;
mod commits;
#[cfg(test)]
mod directed;
mod events;
mod fanout;
mod host;
#[cfg(test)]
mod indexed;
mod keep;
mod ledger;
mod many;
mod named;
mod options;
mod relaying;
mod setup;
mod stats;
mod world;

pub use options::Mutation;
pub use stats::Stats;
pub use waybill_core::streams::rules::{Rule, Rules};

use crate::seeds;

/// What one seed found.
pub type Outcome = seeds::Outcome<Stats>;
/// What many seeds found.
pub type Report = seeds::Report<Stats>;

pub fn run(seed: u64, mutation: Option<Mutation>) -> Outcome {
    world::World::new(seed, mutation).run()
}

/// Runs `count` seeds from `first` on, on all processors.
pub fn run_many(first: u64, count: u64, mutation: Option<Mutation>) -> Report {
    seeds::run_many(first, count, |seed| run(seed, mutation))
}

#[cfg(test)]
mod tests {
    //! | variable | meaning |
    //! |---|---|
    //! | `WAYBILL_STREAMS_SEEDS` | how many seeds |
    //! | `WAYBILL_STREAMS_SEED` | the first of them |
    //! | `WAYBILL_STREAMS_MUTATION` | with this rule left out, by number from 1 |

    use super::*;

    const SEEDS: u64 = 600;

    fn number(variable: &str) -> Option<u64> {
        std::env::var(variable).ok().and_then(|text| text.parse().ok())
    }

    #[test]
    fn streams_keep_their_promises() {
        let first = number("WAYBILL_STREAMS_SEED").unwrap_or(1);
        let count = number("WAYBILL_STREAMS_SEEDS").unwrap_or(SEEDS);
        let mutation = number("WAYBILL_STREAMS_MUTATION").map(|number| usize::try_from(number).unwrap());
        let report = run_many(first, count, mutation.and_then(Mutation::numbered));
        println!("{report}");
        assert!(report.failed.is_empty(), "{report}");
        // A handful of seeds doesn't have to meet everything.
        if count >= SEEDS {
            let missing = report.stats.missing();
            assert!(missing.is_empty(), "the run proves nothing about what happened too seldom: {missing:?}, {report}");
        }
    }

    #[test]
    fn leaving_any_rule_out_is_noticed() {
        for mutation in Mutation::all() {
            let found = mutation.seeds().into_iter().any(|seed| !run(seed, Some(mutation)).violations.is_empty());
            assert!(found, "nobody noticed {mutation:?}");
        }
    }

    #[test]
    fn one_seed_is_one_history() {
        assert_eq!(run(7, None).stats, run(7, None).stats);
    }
}
