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
/// What is sent and when the kills come. What the machine makes of it differs from run to run all the same.
const SEED: u64 = 1;
/// A word every so many kills.
const PROGRESS_EVERY: u32 = 20;

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_host_loses_nothing_doubles_nothing_without_cause_and_keeps_every_key_in_order() {
    let evidence = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("kill-{SEED}"));
    let options = Options { cycles: CYCLES, seed: SEED, binary: binary().unwrap(), evidence };
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
