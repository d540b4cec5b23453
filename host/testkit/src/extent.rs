//! How much of what a test could try it tries: a choice, or all.
//!
//! Where all combinations take longer than a run of the suite may, a test takes a choice of them and says what it left out. With
//! `WAYBILL_TESTS=full` it takes all, which is what `cargo xtask test --full` sets.

use std::io::Write;

/// The variable that asks for all, with the value `full`.
pub const VARIABLE: &str = "WAYBILL_TESTS";

/// Whether all combinations are to be tried.
pub fn is_full() -> bool {
    std::env::var(VARIABLE).is_ok_and(|extent| extent == "full")
}

/// Says what this run didn't try, on a line of its own, where `cargo xtask test` finds it and tells it again at its end. It goes past
/// the test harness, which shows nothing of a test that passes.
pub fn leave_out(what: &str) {
    // Without a stderr there is nobody to say it to.
    let _gone = std::io::stderr().write_all(format!("\nleft out: {what}\n").as_bytes());
}
