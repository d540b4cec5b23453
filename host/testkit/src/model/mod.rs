//! The randomised check of the outbox protocol, on the real owner and a real store.
//!
//! A simulated world of one to three hosts, clients, receivers and operators runs one to three shards: processes die and pause
//! with all that they own, shards are taken over one by one, transactions leave messages on several doorsteps, commits come late, get lost or have unknown outcomes, clients' transactions stamp early and commit late, poison
//! messages kill whoever sends them. Every choice comes from the seed. Each host drives an
//! [`Owner`](waybill_core::outbox::owner::Owner) as the engine does; every commit is booked message by message, every
//! send is judged over all shards, and after a calm phase everything has to have come to its end.
//!
//! | file | holds |
//! |---|---|
//! | `world` | time, and the order in which everybody acts |
//! | `setup` | what differs from run to run |
//! | `transit` | commits that are on their way |
//! | `clients` | what is enqueued |
//! | `host` | processes: their shards, their death |
//! | `takeover` | a shard that is watched and taken over |
//! | `driver` | what an engine does for an owner, until it is given back or lost |
//! | `commits` | the way to an owner's next commit, and its fate |
//! | `loads` | reads beside its commits |
//! | `sends` | what receivers see and answer |
//! | `rates` | what may be sent a second, reckoned apart from the owners |
//! | `calls` | what is sent in one go over a lane |
//! | `operators` | commands |
//! | `clocks` | wall clocks that are set, and stamps |
//! | `retention` | history that is removed after its time |
//! | `past` | a store that loses what it had |
//! | `unreadable` | rows that can't be read |
//! | `ledger`, `arrivals` | double entry of commits: what leaves, what arrives |
//! | `tx_events` | audit events: those of what a commit does, and no others |
//! | `suspicion` | who is blamed for a death |
//! | `audit` | what has to hold at the end |
//!
//! It says nothing about speed, transports or the engine's tasks. The protocol's rules can be left out one by one
//! ([`Mutation`]), to prove that the checks would notice.

mod arrivals;
mod audit;
mod calls;
mod clients;
mod clocks;
mod commits;
mod driver;
mod host;
mod known;
mod ledger;
mod loads;
mod operators;
mod options;
mod past;
mod rates;
mod retention;
pub(crate) mod rng;
mod sends;
mod setup;
mod stats;
mod store;
mod suspicion;
mod takeover;
mod transit;
mod tx_events;
mod unreadable;
mod world;

pub use options::{Mutation, Options, Outcome, Report};
pub use stats::Stats;
pub use store::{ModelStore, PutBack, Spoilt};

use crate::memory_store::MemoryStore;
use world::World;

/// Runs one seed on the in-memory store.
pub fn run(seed: u64, options: &Options) -> Outcome {
    run_on(MemoryStore::new(), seed, options)
}

/// Runs one seed on an empty store.
pub fn run_on<S: ModelStore>(store: S, seed: u64, options: &Options) -> Outcome {
    World::new(store, seed, options).run(seed)
}

/// Runs `count` seeds from `first_seed` on, on all processors.
pub fn run_many(first_seed: u64, count: u64, options: &Options) -> Report {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut report = Report::default();
                    for seed in (first_seed + thread..first_seed + count).step_by(usize::try_from(threads).unwrap_or(1))
                    {
                        report.add(&run(seed, options));
                    }
                    report
                })
            })
            .collect();
        let mut report = Report::default();
        for worker in workers {
            match worker.join() {
                Ok(part) => report.join(part),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        report
    })
}
