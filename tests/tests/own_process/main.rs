//! Tests of what a process has only once: the recorder of measurements, the subscriber of the log, its peak memory. Each runs once more as a
//! process of its own, so that none sees what the others do.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod guest_memory;
mod hostile;
mod metric_series;
mod sandbox_metrics;

#[path = "../sandbox/guests/support.rs"]
#[allow(dead_code)]
mod support;

use std::process::Output;

use tokio::process::Command;

/// Tells a test that its process is its own.
const ALONE: &str = "WAYBILL_TEST_ALONE";

/// Whether this process is the test's own. If it isn't, the test has now passed in one.
async fn is_alone(name: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    has_passed(&by_itself(name).env(ALONE, "1").output().await.unwrap());
    false
}

/// This program with nothing but one of its tests.
fn by_itself(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture"]).kill_on_drop(true);
    command
}

/// A program that finds no test of a name ends well, too.
fn has_passed(output: &Output) {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains(" 1 passed;"), "{text}");
}
