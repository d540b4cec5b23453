//! Signals.

use super::{bench, done, step};
use crate::saga::call::{Answer, AnswerResult};
use crate::saga::json::Json;
use crate::saga::limits::SIGNALS_MAX;
use crate::saga::state::SagaState;

#[test]
fn a_signal_may_come_early_and_none_is_taken_after_the_end() {
    let mut bench = bench(&(step("a", "") + "[[steps]]\nname = \"w\"\naction = \"wait:paid\"\n"));
    bench.start();
    bench.signal("paid").unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let late = bench.signal("paid");
    assert_eq!(bench.code(late), "SAGA.NOT_FOUND", "it left memory: the store knows that it ended");
}

#[test]
fn a_signal_with_a_bad_name_is_told_what_a_name_may_be() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let told = bench.signal("all paid").unwrap_err();
    assert_eq!(told.code().as_str(), "SCHEMA.VALIDATION_FAILED");
    assert!(told.to_string().contains("signal \"all paid\" isn't a name: it takes 1 to 64 letters"), "{told}");
}

#[test]
fn early_signals_are_bounded() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    for _ in 0..SIGNALS_MAX {
        bench.signal("x").unwrap();
    }
    let full = bench.signal("x").unwrap_err();
    assert!(full.code().as_str() == "SAGA.SIGNALS_FULL" && full.retryable());
}

#[test]
fn a_pending_step_is_completed_by_its_signal() {
    let mut bench = bench(&step("a", ""));
    bench.start();
    let pending = AnswerResult::Pending { signal: "shipped".into(), timeout: None, data: Json::null() };
    bench.answer("a", Answer::of(pending));
    assert_eq!(bench.tree().waiting().0.as_deref(), Some("signal:shipped"));
    bench.signal("shipped").unwrap();
    assert_eq!(bench.tree().sagas[0].steps[0].output.as_ref().unwrap().as_str(), "7");
}
