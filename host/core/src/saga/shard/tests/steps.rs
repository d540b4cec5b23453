//! Steps: their order, their retries, and what undoes them.

use super::{T0, bench, done, fault, key, refused, retry, step, unknown};
use crate::port::participant::StepError;
use crate::port::saga::ActedBy;
use crate::saga::call::{Answer, Call};
use crate::saga::event::StepDirection;
use crate::saga::json::Json;
use crate::saga::shard::SagaCommand;
use crate::saga::state::{SagaState, StepState};
use crate::time::UnixMillis;

#[test]
fn steps_go_one_after_another_and_every_call_waits_for_its_commit() {
    let mut bench = bench(&(step("a", "") + &step("b", "")));
    bench.shard.submit(
        None,
        SagaCommand::Signal {
            key: key(),
            name: "x".into(),
            data: Json::null(),
            by: ActedBy { actor: String::new(), note: None },
        },
        T0,
        0.5,
    );
    bench.start();
    assert_eq!(bench.calls.len(), 1);
    let call = bench.call("a");
    bench.shard.submit(None, SagaCommand::Answer { call: call.reference.clone(), answer: done() }, T0, 0.5);
    assert!(bench.shard.take_effects().is_empty(), "nothing before the commit");
    bench.settle();
    assert_eq!(bench.answer("b", done()).context.saga_id, "s");
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn a_failed_step_undoes_what_was_done_in_reverse_with_input_and_output() {
    let mut bench = bench(&(step("a", "") + &step("b", "") + &step("c", "")));
    bench.start();
    bench.answer("a", done());
    bench.answer("b", done());
    bench.answer("c", refused());
    assert_eq!(bench.calls.len(), 1);
    let undo = bench.answer("b", done());
    assert_eq!(
        (undo.reference.way, undo.output.unwrap().as_str().to_owned()),
        (StepDirection::Compensate, "{\"ok\":1}".into())
    );
    bench.answer("a", done());
    let tree = bench.tree();
    assert_eq!(tree.state(), SagaState::Cancelled);
    let states: Vec<StepState> = tree.sagas[0].steps.iter().map(|step| step.state).collect();
    assert_eq!(states, [StepState::Compensated, StepState::Compensated, StepState::Failed]);
}

#[test]
fn a_retry_has_the_same_key_and_waits_for_its_backoff() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 2, base_ms = 100, jitter = 0 }"));
    bench.start();
    let first = bench.answer("a", retry());
    assert!(bench.calls.is_empty());
    bench.wait(99);
    assert!(bench.calls.is_empty());
    bench.wait(2);
    let second = bench.answer("a", retry());
    let of = |call: &Call| call.context.idempotency_key(call.reference.way.direction());
    assert_eq!((of(&first), second.reference.attempt), (of(&second), 2));
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_step_whose_result_is_unknown_is_undone_without_output() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 1 }"));
    bench.start();
    bench.answer("a", unknown());
    let undo = bench.answer("a", done());
    assert_eq!((undo.reference.way, undo.output), (StepDirection::Compensate, None));
    assert_eq!(bench.state(), SagaState::Cancelled);
}

#[test]
fn a_late_success_spares_the_retry_and_a_second_one_changes_nothing() {
    let mut bench = bench(&(step("a", "timeout_ms = 10") + &step("b", "")));
    bench.start();
    let call = bench.call("a");
    bench.wait(1_500);
    assert!(bench.calls.is_empty(), "it waits for its retry");
    bench.answer_to(&call, done());
    bench.answer_to(&call, done());
    bench.wait(60_000);
    let names: Vec<String> = bench.calls.iter().map(|call| call.context.step.clone()).collect();
    assert_eq!(names, ["b"]);
}

#[test]
fn the_deadline_undoes_also_when_the_clock_was_set_back() {
    let mut bench = bench(&format!("deadline_ms = 1000\n{}{}", step("a", ""), step("b", "")));
    bench.start();
    bench.answer("a", done());
    bench.shard.tick(UnixMillis(T0.0 - 100_000), 0.5);
    bench.wait(1_000);
    bench.answer("b", refused());
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.DEADLINE");
}

#[test]
fn what_was_not_tried_costs_no_attempt() {
    let mut bench = bench(&step("a", "retry = { max_attempts = 1 }"));
    bench.start();
    for _ in 0..5 {
        let error = StepError::Blocked { scope: "fn:p".into(), fault: fault(false) };
        assert_eq!(bench.answer("a", Answer::failed(error)).reference.attempt, 1);
        assert_eq!(bench.tree().waiting().0.as_deref(), Some("blocked"));
        bench.wait(60_000);
    }
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Completed);
}

#[test]
fn inputs_and_outputs_are_bounded_and_an_output_too_large_is_undone() {
    let mut bench = bench(&step("a", ""));
    let large = format!("\"{}\"", "x".repeat(2_000));
    let refused = bench.start_as(&large, 0).unwrap_err();
    assert!(refused.code().as_str() == "SAGA.INPUT_TOO_LARGE" && refused.to_string().contains("1000"));
    bench.start();
    bench.answer("a", Answer::done(Json::parse(&large).unwrap()));
    bench.answer("a", done());
    assert_eq!(bench.state(), SagaState::Cancelled);
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.OUTPUT_TOO_LARGE");
}

#[test]
fn a_mapping_that_fails_undoes_what_was_done() {
    let mut bench = bench(&(step("a", "") + &step("b", "input = \"${ input.missing.x }\"")));
    bench.start();
    bench.answer("a", done());
    bench.answer("a", done());
    assert_eq!(&*bench.tree().sagas[0].failure.as_ref().unwrap().code, "SAGA.MAPPING");
    assert_eq!(bench.state(), SagaState::Cancelled);
}
