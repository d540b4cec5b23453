//! The release binary killed with `kill -9` at random moments under load, a hundred times in a row; then the clients'
//! ledger, the receiver's ledger and the store are compared (`waybill_testkit::kill`).
//!
//! `cargo xtask chaos kill --cycles N --seed S` runs the same for any number of cycles.

use std::io::Write;
use std::path::Path;

use waybill_testkit::kill::{Options, run};
use waybill_testkit::process::binary;

/// Kills in the suite: one to two minutes.
const CYCLES: u32 = 100;
/// Kills while somebody sets the clock.
const CLOCK_CYCLES: u32 = 30;
/// What is sent and when the kills come. What the machine makes of it differs from run to run all the same.
const SEED: u64 = 1;
/// A word every so many kills.
const PROGRESS_EVERY: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_loses_nothing_doubles_nothing_without_cause_and_keeps_every_key_in_order() {
    prove(CYCLES, false).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wall_clock_that_is_set_an_hour_back_and_ahead_breaks_no_law_and_holds_nothing() {
    prove(CLOCK_CYCLES, true).await;
}

async fn prove(cycles: u32, clock_steps: bool) {
    let name = if clock_steps { "kill-clock" } else { "kill" };
    let evidence = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{SEED}"));
    let options = Options { cycles, seed: SEED, clock_steps, binary: binary().unwrap(), evidence };
    let report = run(&options, |kills, acknowledged, arrived| {
        if kills.is_multiple_of(PROGRESS_EVERY) {
            say(&format!("{kills} kills, {acknowledged} messages acknowledged, {arrived} arrivals"));
        }
    })
    .await
    .unwrap();
    say(&report.to_string());
    assert!(report.passed(), "{report}");
}

/// To stderr itself, which the test harness doesn't capture: it takes minutes, and the table is worth seeing.
fn say(text: &str) {
    // Without a stderr there is nobody to tell.
    let _ = writeln!(std::io::stderr(), "{text}");
}
