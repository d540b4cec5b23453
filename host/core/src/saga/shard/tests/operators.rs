//! What operators decide.

use std::time::Duration;

use super::{bench, done, refused, step, unknown};
use crate::port::saga::{RetryMode, SagaAct};
use crate::saga::records::SagaWrite;
use crate::saga::state::SagaState;

fn approve() -> SagaAct {
    SagaAct::Approve { step: None, since: None }
}

fn again() -> SagaAct {
    SagaAct::Retry { step: None, mode: RetryMode::Compensate }
}

#[test]
fn an_unknown_result_of_a_step_that_is_not_idempotent_waits_for_an_operator() {
    let mut bench = bench(&step("a", "idempotent = false"));
    bench.start();
    bench.answer("a", unknown());
    assert_eq!(bench.state(), SagaState::Paused);
    assert_eq!(bench.tree().waiting().0.as_deref(), Some("operator"));
    let refused = bench.act(SagaAct::Resume);
    assert_eq!(bench.code(refused), "SAGA.STATE");
    bench.act(again()).unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_late_success_of_a_step_that_is_not_idempotent_lets_it_go_on() {
    let mut bench = bench(&step("a", "idempotent = false\ntimeout_ms = 10"));
    bench.start();
    let call = bench.call("a");
    bench.wait(5_000);
    assert_eq!(bench.state(), SagaState::Paused);
    bench.answer_to(&call, done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn an_approval_is_given_once_and_says_who_gave_it() {
    let mut bench =
        bench("[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\n[[steps]]\nname = \"b\"\naction = \"fn:b\"\n");
    bench.start();
    assert_eq!(bench.shard.stats().approvals, 1);
    bench.act(approve()).unwrap();
    assert_eq!(bench.shard.stats().approvals, 0, "it waits for nobody any more");
    assert!(bench.tree().sagas[0].steps[0].output.as_ref().unwrap().as_str().contains("\"by\":\"ann\""));
    let twice = bench.act(approve()).unwrap_err();
    assert_eq!(twice.code().as_str(), "SAGA.NOT_WAITING");
    assert!(twice.to_string().contains("approved already, by ann"), "{twice}");
}

#[test]
fn a_decision_about_an_earlier_wait_changes_nothing() {
    let mut bench = bench("[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\n");
    bench.start();
    let since = bench.tree().sagas[0].steps[0].since;
    bench.act(SagaAct::Pause).unwrap();
    bench.now = bench.now.plus(Duration::from_millis(5));
    bench.act(SagaAct::Retry { step: Some("ok".into()), mode: RetryMode::Compensate }).unwrap();
    assert_ne!(bench.tree().sagas[0].steps[0].since, since);
    for stale in [SagaAct::Approve { step: None, since }, SagaAct::Reject { step: Some("ok".into()), since }] {
        let refused = bench.act(stale).unwrap_err();
        assert_eq!(refused.code().as_str(), "SAGA.NOT_WAITING");
        assert!(refused.to_string().contains("another wait by now"), "{refused}");
    }
    let since = bench.tree().sagas[0].steps[0].since;
    bench.act(SagaAct::Approve { step: None, since }).unwrap();
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn an_approval_after_its_time_is_refused_and_counts_as_rejected() {
    let mut bench = bench(&(step("a", "") + "[[steps]]\nname = \"ok\"\naction = \"wait:approval\"\ntimeout_ms = 50\n"));
    bench.start();
    bench.answer("a", done());
    bench.now = bench.now.plus(Duration::from_millis(50));
    let late = bench.act(approve());
    assert_eq!(bench.code(late), "SAGA.APPROVAL_EXPIRED");
    bench.wait(1);
    let later = bench.act(approve());
    assert_eq!(bench.code(later), "SAGA.APPROVAL_EXPIRED");
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_compensation_that_gives_up_is_a_dead_letter_that_can_be_retried_or_accepted() {
    let mut stuck = bench(&(step("a", "retry = { max_attempts = 1 }") + &step("b", "")));
    stuck.start();
    stuck.answer("a", done());
    stuck.answer("b", refused());
    stuck.answer("a", refused());
    assert_eq!(stuck.state(), SagaState::Failed);
    let writes = &stuck.commits.last().unwrap().writes;
    assert!(writes.iter().any(|write| matches!(write, SagaWrite::PutDead(dead) if &*dead.step == "a")), "{writes:?}");
    stuck.act(again()).unwrap();
    stuck.answer("a", refused());
    stuck.act(SagaAct::Accept).unwrap();
    let writes = &stuck.commits.last().unwrap().writes;
    assert!(writes.iter().any(|write| matches!(write, SagaWrite::DeleteDead(_))));
    assert_eq!(stuck.state(), SagaState::Failed);
    assert!(stuck.tree().is_ended());
}

#[test]
fn a_stuck_saga_goes_forward_again_only_while_nothing_is_undone() {
    let mut bench = bench(&(step("a", "") + &step("b", "") + &step("c", "")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", done());
    bench.answer("c", refused());
    bench.answer("b", refused());
    bench.act(SagaAct::Retry { step: None, mode: RetryMode::Retry }).unwrap();
    bench.answer("c", refused());
    bench.answer("b", done());
    bench.answer("a", refused());
    let undone = bench.act(SagaAct::Retry { step: None, mode: RetryMode::Retry });
    assert_eq!(bench.code(undone), "SAGA.STATE");
}

#[test]
fn cancel_undoes_and_kill_does_not() {
    let mut cancelled = bench(&(step("a", "") + &step("b", "")));
    cancelled.start();
    cancelled.answer("a", done());
    cancelled.act(SagaAct::Cancel).unwrap();
    cancelled.answer("b", done());
    cancelled.answer("b", done());
    cancelled.answer("a", done());
    assert_eq!(cancelled.state(), SagaState::Cancelled);
    let mut killed = bench(&(step("a", "") + &step("b", "")));
    killed.start();
    killed.answer("a", done());
    let call = killed.call("b");
    killed.act(SagaAct::Kill).unwrap();
    killed.answer_to(&call, done());
    assert!(killed.calls.is_empty());
    assert_eq!(killed.state(), SagaState::Failed);
}

#[test]
fn a_paused_saga_begins_nothing_and_keeps_what_comes_back() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    bench.act(SagaAct::Pause).unwrap();
    bench.answer("a", done());
    assert!(bench.calls.is_empty());
    assert_eq!(bench.state(), SagaState::Paused);
    bench.act(SagaAct::Resume).unwrap();
    bench.answer("b", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_step_may_be_skipped_while_it_is_not_called() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.start();
    let called = bench.act(SagaAct::Skip { step: "a".into() });
    assert_eq!(bench.code(called), "SAGA.STATE");
    bench.act(SagaAct::Skip { step: "b".into() }).unwrap();
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
    let none = bench.act(SagaAct::Skip { step: "zz".into() });
    assert_eq!(bench.code(none), "SAGA.NOT_FOUND");
}
