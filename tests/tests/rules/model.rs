//! The outbox protocol under random schedules, on the real owner: see `waybill_testkit::model`.
//!
//! | variable | meaning |
//! |---|---|
//! | `WAYBILL_MODEL_SEEDS` | how many seeds |
//! | `WAYBILL_MODEL_SEED` | only this one, with its trace |
//! | `WAYBILL_MODEL_MUTATION` | with this rule left out, by number from 1 |
//! | `WAYBILL_MODEL_SURREAL_SEEDS` | how many seeds on SurrealDB |

use std::time::Duration;

use waybill_core::port::store::StoreError;
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::model::{self, ModelStore, Mutation, Options, Report};

/// About a minute on two processors; `cargo xtask chaos model` runs more.
const SEEDS: u64 = 5_000;
/// Each mutation is caught within so many seeds; most take fewer than ten.
const MUTATION_SEEDS: u64 = 2_000;
/// Seeds of a mutation that run before one looks whether it was caught.
const MUTATION_CHUNK: u64 = 100;
/// SurrealDB's in-memory engine takes a few tenths of a second a seed.
const SURREAL_SEEDS: u64 = 60;

/// Schedules that only one run in tens of thousands meets, and that once found a message that waited for ever.
const RARE_SEEDS: [u64; 2] = [519_960, 2_034_179];

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn chosen_mutation() -> Option<(usize, Mutation)> {
    let number = usize::try_from(number("WAYBILL_MODEL_MUTATION")?).ok()?;
    Some((
        number,
        Mutation::numbered(number)
            .unwrap_or_else(|| panic!("WAYBILL_MODEL_MUTATION is a number from 1 to {}", Mutation::all().len())),
    ))
}

fn expect_clean(report: &Report, flags: &str) {
    println!("{report}");
    if let Some((seed, violation)) = report.failed.first_key_value() {
        panic!(
            "{} of {} seeds fail, the first is {seed}: {violation}\nreplay it: cargo xtask chaos model --seed {seed}{flags}",
            report.failed.len(),
            report.seeds
        );
    }
}

#[test]
fn no_schedule_loses_reorders_or_repeats_a_message() {
    let mutation = chosen_mutation();
    let flags = mutation.map(|(number, _)| format!(" --mutation {number}")).unwrap_or_default();
    let mutation = mutation.map(|(_, mutation)| mutation);
    if let Some(seed) = number("WAYBILL_MODEL_SEED") {
        let outcome = model::run(seed, &Options { mutation, trace: true });
        for line in &outcome.trace {
            println!("{line}");
        }
        println!("{}", outcome.stats);
        assert!(
            outcome.violations.is_empty(),
            "{:#?}\nreplay it: cargo xtask chaos model --seed {seed}{flags}",
            outcome.violations
        );
        return;
    }
    let seeds = number("WAYBILL_MODEL_SEEDS").unwrap_or(SEEDS);
    let report = model::run_many(1, seeds, &Options { mutation, trace: false });
    expect_clean(&report, &flags);
    // A handful of seeds doesn't have to meet everything.
    if seeds >= 500 {
        let missing = report.stats.missing();
        assert!(missing.is_empty(), "the run proves nothing about what never happened in it: {missing:?}");
    }
}

#[test]
fn every_rule_that_is_left_out_is_noticed() {
    let mut unnoticed = Vec::new();
    for (number, mutation) in (1..).zip(Mutation::all()) {
        let options = Options { mutation: Some(mutation), trace: false };
        let caught = (0..MUTATION_SEEDS / MUTATION_CHUNK).find_map(|chunk| {
            let report = model::run_many(1 + chunk * MUTATION_CHUNK, MUTATION_CHUNK, &options);
            report.failed.into_iter().next()
        });
        match caught {
            Some((seed, violation)) => println!("mutation {number} {mutation:?}: seed {seed}: {violation}"),
            None => unnoticed.push(mutation),
        }
    }
    assert!(unnoticed.is_empty(), "not noticed within {MUTATION_SEEDS} seeds: {unnoticed:?}");
}

#[test]
fn a_seed_always_gives_the_same_run() {
    for seed in [3, 17] {
        let (first, second) = (model::run(seed, &Options::default()), model::run(seed, &Options::default()));
        assert_eq!(first.stats, second.stats);
    }
}

struct Surreal {
    store: SurrealStore,
    runtime: std::sync::Arc<tokio::runtime::Runtime>,
}

impl ModelStore for Surreal {
    type Port = SurrealStore;
    fn port(&self) -> &SurrealStore {
        &self.store
    }
    fn wait<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.runtime.block_on(async {
            let answer = tokio::time::timeout(Duration::from_secs(30), call).await;
            answer.unwrap_or_else(|_| Err(StoreError::Unavailable("no answer in 30 s".to_owned())))
        })
    }
}

#[test]
fn the_same_schedules_hold_on_surrealdb() {
    let runtime = std::sync::Arc::new(
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap(),
    );
    let mut failed = Vec::new();
    for seed in 1..=number("WAYBILL_MODEL_SURREAL_SEEDS").unwrap_or(SURREAL_SEEDS) {
        let config = StoreConfig { shards: Some(4), ..StoreConfig::new("mem://") };
        let store = runtime.block_on(SurrealStore::open(config)).expect("an in-memory store opens");
        let outcome =
            model::run_on(Surreal { store, runtime: std::sync::Arc::clone(&runtime) }, seed, &Options::default());
        if let Some(violation) = outcome.violations.first() {
            failed.push((seed, violation.clone()));
        }
        // The same choices on the same rules give the same run, whatever stores it.
        assert_eq!(outcome.stats, model::run(seed, &Options::default()).stats, "seed {seed}: {failed:?}");
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

#[test]
fn schedules_that_were_once_stuck_come_to_their_end() {
    for seed in RARE_SEEDS {
        expect_clean(&model::run_many(seed, 1, &Options { mutation: None, trace: false }), "");
    }
}
