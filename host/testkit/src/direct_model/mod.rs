//! The randomised check of direct publishing, on the real lanes ([`DirectTable`](waybill_core::inbox::direct::DirectTable)).
//!
//! One table, the application that fills it, one to three hosts with two or three lanes that drain it, a broker. By seed the table is
//! document 4's (status, attempts, due time, `processing`) or document 5's (no due time); rows are marked or deleted. Application
//! transactions draw their ids early and commit late or never; foreign sessions lock, touch, publish, delete and resend rows, leave them in
//! `processing`, hold a row or an advisory lock for ever; hosts die, vanish without closing their sessions, stand still, change their
//! lanes, have wrong clocks; the server is killed, a proxy ends long transactions, operators replay. The broker loses answers, takes
//! messages twice or long after their sender gave up, is down or slow. Rows are refused once in a while, always, for good, always blocked;
//! by seed some go to a destination that is down until the calm phase, or have no route until then; one kills the host, one traps the transport, one lets nobody mark it, one is due in a hundred years. Every choice comes from the seed.
//!
//! What must hold: a row is marked published only by a transaction whose own send of it the broker has (`PUBLISHED`); none is sent while an
//! earlier one of its aggregate, in the table when the claim began, has neither arrived nor left (`ORDER`); nothing settled is marked
//! again, and the wire id stays (`REPEAT`); a row fails by its own failures, for good, or as a suspect, and being blocked is a failure only where something else went through (`ATTEMPTS`); none is sent before
//! its retry is due (`BACKOFF`); none that failed is published behind an operator's back (`FATE`); in the end every row is published or
//! failed, but what has a reason to wait for ever (`STUCK`).
//!
//! | file | holds |
//! |---|---|
//! | `world` | time, the server, and the order in which everybody acts |
//! | `setup` | what differs from run to run |
//! | `table` | rows, transactions, locks |
//! | `strangers` | the application, foreign sessions, operators |
//! | `broker` | sends, and what must hold at each |
//! | `rows` | what is true of a row, whoever knows it |
//! | `host` | processes and claims |
//! | `batches` | waves, marks, COMMIT |
//!
//! The rules can be left out one by one ([`Mutation`]), to prove that the checks would notice. Not in it: SQL, the bound of what is held,
//! steps of the database's clock, poolers.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a violation may end by panicking")]

mod batches;
mod broker;
mod host;
mod options;
mod rows;
mod setup;
mod stats;
mod strangers;
mod table;
mod world;

pub use options::Mutation;
pub use stats::Stats;
pub use waybill_core::inbox::direct::{Rule, Rules};

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
    fn tables_are_published_as_promised() {
        let report = run_many(1, 500, None);
        assert!(report.failed.is_empty(), "{report}");
        let stats = &report.stats;
        assert!(stats.lost > 1_000 && stats.crashes > 500 && stats.judged_again > 100, "{report}");
        assert!(stats.convicted > 20 && stats.refused > 50 && stats.unlocked > 20 && stats.replays > 100, "{report}");
    }

    #[test]
    fn leaving_any_rule_out_is_noticed() {
        for mutation in Mutation::all() {
            let found = mutation.seeds().any(|seed| !run(seed, Some(mutation)).violations.is_empty());
            assert!(found, "nobody noticed {mutation:?}");
        }
    }

    #[test]
    fn one_seed_is_one_history() {
        assert_eq!(run(7, None).stats, run(7, None).stats);
    }
}
