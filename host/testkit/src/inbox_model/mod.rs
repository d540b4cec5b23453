//! The randomised check of the inbox's protocol, on the real [`InboxOwner`](waybill_core::inbox::owner::InboxOwner) and the reference
//! store.
//!
//! A simulated world of one to three hosts owns one home of two sources and two consumers. By seed each source is a queue, a queue that
//! replays in order (a table), or a log with partitions and offsets; with or without `extend`, with or without a limit of deliveries; the
//! second consumer is a handler or a topic. Messages have a key or none; they are published twice, also by the other source, with other
//! content under a used id; some kill the host, some are always answered 503. Between any two commits hosts crash, stand still for longer
//! than their lease, get no word of a commit (it goes in, goes in late, or never), sources restart with other tokens, bring nothing for a time, partitions move,
//! acknowledgements get lost, clocks are set, operators replay dead letters. Every choice comes from the seed.
//!
//! | file | holds |
//! |---|---|
//! | `world` | time, publishing, and the order in which everybody acts |
//! | `setup` | what differs from run to run |
//! | `broker` | sources' brokers |
//! | `messages` | ids and contents |
//! | `host` | processes: taking over, their death |
//! | `commits` | the way of a commit |
//! | `pulls` | sources: deliveries, settling, revocations |
//! | `handlers` | calls and answers |
//! | `ledger` | double entry: what must hold at each commit, call and acknowledgement |
//! | `trail` | audit events: those of what a commit does, and no others |
//! | `audit` | what must hold at the end |
//!
//! The rules can be left out one by one ([`Mutation`]), to prove that the checks would notice. It says nothing about speed, batches of
//! calls, sources' own code and the packing of the seen set.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a violation may end by panicking")]

mod audit;
mod broker;
mod commits;
mod handlers;
mod host;
mod ledger;
mod messages;
mod options;
mod pulls;
mod setup;
mod stats;
mod trail;
mod world;

pub use options::Mutation;
pub use stats::Stats;
pub use waybill_core::inbox::owner::{Rule, Rules};

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
    use super::*;

    #[test]
    fn what_sources_bring_is_handled_as_promised() {
        let report = run_many(1, 400, None);
        assert!(report.failed.is_empty(), "{report}");
        let stats = &report.stats;
        assert!(stats.takeovers > 1_000 && stats.unknown > 500 && stats.redeliveries > 1_000, "{report}");
        assert!(stats.reused > 100 && stats.convicted > 20 && stats.replays > 100, "{report}");
        assert!(stats.refused > 100 && stats.conflicts > 100, "{report}");
    }

    #[test]
    fn leaving_any_rule_out_is_noticed() {
        for mutation in Mutation::all() {
            let seeds = mutation.seeds();
            let found = seeds.into_iter().any(|seed| !run(seed, Some(mutation)).violations.is_empty());
            assert!(found, "nobody noticed {mutation:?}");
        }
    }

    #[test]
    fn one_seed_is_one_history() {
        assert_eq!(run(7, None).stats, run(7, None).stats);
    }
}
