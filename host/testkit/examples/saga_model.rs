//! Runs the randomised check of sagas from a seed on, and prints what doesn't hold.
//!
//! `cargo run --release -p waybill-testkit --example saga_model -- [FIRST_SEED] [SEEDS] [SAGAS_A_SEED]`
#![allow(clippy::print_stdout, reason = "a tool")]

use waybill_testkit::saga_model::{Rules, run_many};

fn main() {
    let mut args = std::env::args().skip(1).filter_map(|arg| arg.parse::<u64>().ok());
    let (first, seeds, sagas) = (args.next().unwrap_or(1), args.next().unwrap_or(100), args.next().unwrap_or(40));
    let sum = run_many(first, seeds, sagas, Rules::default());
    for violation in &sum.violations {
        println!("{violation}");
    }
    println!(
        "{} sagas, {} calls, {} deaths, {} unknown commits, ends {:?}, {} violations",
        sum.sagas,
        sum.calls,
        sum.deaths,
        sum.unknown,
        sum.ends,
        sum.violations.len()
    );
    if !sum.violations.is_empty() {
        std::process::exit(1);
    }
}
