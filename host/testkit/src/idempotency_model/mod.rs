//! Random lives of idempotency keys on a real store, checked act by act against what was promised.
//!
//! Clients begin keys, finish, fail, release, give up and renew them, crash and come back with tokens from before; time passes,
//! the clock is set back, hosts restart, entries are collected, answers get lost and acts are done again. What it doesn't
//! cover: the engine's cache and batches (`host/engine/tests/outbox/idempotency.rs`), two hosts with differing clocks.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a broken promise panics")]

mod promise;
mod world;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use world::run;

/// Keys that steps choose from: few, so that clients meet.
pub const KEYS: u8 = 3;
/// Clients that steps choose from.
pub const CLIENTS: u8 = 4;
/// Hashes that steps choose from.
pub const HASHES: u8 = 2;

/// What happens next. Numbers are taken modulo what there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client begins a key.
    Begin {
        client: u8,
        key: u8,
        hash: u8,
        /// Remembered for this many seconds.
        ttl: u8,
        /// Reserved for this many seconds.
        lease: u8,
    },
    /// A client finishes what it has, with one of two results.
    Finish(u8, bool),
    /// A client fails what it has.
    Fail(u8),
    /// A client releases what it has.
    Release(u8),
    /// A client gives up what it has.
    Yield(u8),
    /// A client renews what it has, for this many seconds.
    Renew(u8, u8),
    /// A client acts with a token it had before: finish, fail, release, give up or renew.
    Stale(u8, u8),
    /// A client dies with what it has; its token becomes an old one.
    Crash(u8),
    /// An operator releases a key, also a finished one.
    Forget(u8, bool),
    /// The latest act's answer was lost: it is done again, and answers the same.
    Again,
    /// This many seconds pass.
    Pass(u8),
    /// The wall clock is set back by this many seconds.
    SetBack(u8),
    /// The host starts anew and reads the wall clock as it is.
    Restart,
    /// What is over is collected, one at a time.
    Collect,
}

/// A step that comes about as often as it should.
pub fn random_step(random: &mut impl Rng) -> Step {
    let client = random.random_range(0..CLIENTS);
    let key = random.random_range(0..KEYS);
    match random.random_range(0..100) {
        0..32 => Step::Begin {
            client,
            key,
            hash: u8::from(random.random_range(0..5) == 0),
            ttl: random.random_range(1..60),
            lease: random.random_range(1..12),
        },
        32..44 => Step::Finish(client, random.random()),
        44..48 => Step::Fail(client),
        48..52 => Step::Release(client),
        52..55 => Step::Yield(client),
        55..60 => Step::Renew(client, random.random_range(1..20)),
        60..68 => Step::Stale(client, random.random_range(0..5)),
        68..74 => Step::Crash(client),
        74..76 => Step::Forget(key, random.random()),
        76..83 => Step::Again,
        83..92 => Step::Pass(random.random_range(1..15)),
        92..94 => Step::SetBack(random.random_range(1..60)),
        94..96 => Step::Restart,
        _ => Step::Collect,
    }
}

/// Steps of a seed, always the same.
pub fn steps(seed: u64, count: usize) -> Vec<Step> {
    let mut random = StdRng::seed_from_u64(seed);
    (0..count).map(|_| random_step(&mut random)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::memory_store::MemoryStore;

    fn any_step() -> impl Strategy<Value = Step> {
        let (client, key) = (0..CLIENTS, 0..KEYS);
        prop_oneof![
            6 => (client.clone(), key.clone(), 0..HASHES, 1..60_u8, 1..12_u8)
                .prop_map(|(client, key, hash, ttl, lease)| Step::Begin { client, key, hash, ttl, lease }),
            3 => (client.clone(), any::<bool>()).prop_map(|(client, result)| Step::Finish(client, result)),
            1 => client.clone().prop_map(Step::Fail),
            1 => client.clone().prop_map(Step::Release),
            1 => client.clone().prop_map(Step::Yield),
            1 => (client.clone(), 1..20_u8).prop_map(|(client, lease)| Step::Renew(client, lease)),
            2 => (client.clone(), 0..5_u8).prop_map(|(client, act)| Step::Stale(client, act)),
            1 => client.prop_map(Step::Crash),
            1 => (key, any::<bool>()).prop_map(|(key, finished)| Step::Forget(key, finished)),
            2 => Just(Step::Again),
            2 => (1..15_u8).prop_map(Step::Pass),
            1 => (1..60_u8).prop_map(Step::SetBack),
            1 => Just(Step::Restart),
            1 => Just(Step::Collect),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]
        #[test]
        fn keys_live_as_promised(steps in prop::collection::vec(any_step(), 1..80)) {
            futures::executor::block_on(run(&MemoryStore::new(), &steps));
        }
    }

    #[test]
    fn keys_of_many_seeds_live_as_promised() {
        let mut counts = world::Counts::default();
        for seed in 0..500 {
            counts += futures::executor::block_on(run(&MemoryStore::new(), &steps(seed, 200)));
        }
        // What has to have come up for this to prove anything.
        assert!(
            counts.takeovers > 500 && counts.replays > 500 && counts.mismatches > 500 && counts.busy > 500,
            "too little came up: {counts:?}"
        );
        assert!(counts.lost > 500 && counts.repeats > 500 && counts.collected > 100, "too little came up: {counts:?}");
    }
}
