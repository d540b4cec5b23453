//! What operators do.

use waybill_core::port::participant::Direction;
use waybill_core::port::saga::{RetryMode, SagaAct};
use waybill_core::saga::state::{SagaState, StepState};

use crate::support::*;

fn retry(step: Option<&str>, mode: RetryMode) -> SagaAct {
    SagaAct::Retry { step: step.map(str::to_owned), mode }
}

#[tokio::test(start_paused = true)]
async fn a_paused_saga_begins_nothing_until_it_is_resumed() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|_| Some(Does::DoneAfter(seconds(2), serde_json::json!({}))));
    host.run(&steps(&["a", "b"])).await;
    pass(seconds(1)).await;
    host.act("one", SagaAct::Pause).await.unwrap();
    pass(seconds(60)).await;
    assert_eq!((host.state("one").await, world.shop.names()), (SagaState::Paused, vec!["a".to_owned()]));
    assert!(host.act("one", SagaAct::Pause).await.unwrap().unchanged);
    host.act("one", SagaAct::Resume).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!(host.audit_kinds().await, ["SagaDefined", "SagaPaused", "SagaResumed"]);
}

#[tokio::test(start_paused = true)]
async fn cancel_compensates_and_kill_does_not() {
    let world = World::new();
    let host = world.start().await;
    let wait = "[[steps]]\nname = \"w\"\naction = \"wait:never\"\n";
    host.run(&format!("{}{wait}", step("a", ""))).await;
    host.until_waiting("one", "signal:never").await;
    host.act("one", SagaAct::Cancel).await.unwrap();
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.CANCELLED"));
    assert_eq!(world.shop.names(), ["a", "-a"]);
    host.begin("two").await;
    host.until_waiting("two", "signal:never").await;
    host.act("two", SagaAct::Kill).await.unwrap();
    let view = host.until("two", SagaState::Failed).await;
    assert_eq!(view.saga.unwrap().cause.as_deref(), Some("killed"));
    assert_eq!(world.shop.count("-a"), 1, "nothing of the second was compensated");
    assert_eq!(host.act("two", SagaAct::Cancel).await.unwrap_err().code().as_str(), "SAGA.ENDED");
    assert_eq!(host.act("three", SagaAct::Cancel).await.unwrap_err().code().as_str(), "SAGA.NOT_FOUND");
}

#[tokio::test(start_paused = true)]
async fn a_compensation_that_fails_for_good_is_a_dead_letter_until_somebody_decides() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| match (call.step.as_str(), call.direction) {
        ("c", Direction::Execute) | ("b", Direction::Compensate) => Some(permanent("SHOP.NO")),
        _ => None,
    });
    host.run(&steps(&["a", "b", "c"])).await;
    let view = host.until("one", SagaState::Failed).await;
    assert_eq!(view.saga.as_ref().unwrap().cause.as_deref(), Some("compensation_failed"));
    assert_eq!(view.saga.as_ref().unwrap().steps[1].state, StepState::CompensationFailed);
    assert_eq!(world.shop.count("-a"), 0, "nothing goes on past it");
    let dead = world.dead("one").await.unwrap();
    assert_eq!((&*dead.step, &*dead.code), ("b", "SHOP.NO"));
    world.shop.on(|_| None);
    host.act("one", retry(None, RetryMode::Compensate)).await.unwrap();
    host.until("one", SagaState::Cancelled).await;
    assert!(world.dead("one").await.is_none());
    assert_eq!(world.shop.names().last().unwrap(), "-a");
}

#[tokio::test(start_paused = true)]
async fn a_stuck_compensation_can_be_accepted_with_a_note() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| match (call.step.as_str(), call.direction) {
        ("b", Direction::Execute) | ("a", Direction::Compensate) => Some(permanent("SHOP.NO")),
        _ => None,
    });
    host.run(&steps(&["a", "b"])).await;
    eventually("it is stuck", async || world.dead("one").await.is_some()).await;
    host.act("one", SagaAct::Accept).await.unwrap();
    let view = host.view("one").await;
    assert_eq!((view.state, view.saga.unwrap().cause.as_deref()), (SagaState::Failed, Some("accepted")));
    assert!(view.ended_at.is_some() && world.dead("one").await.is_none());
    assert!(
        view.history
            .as_ref()
            .unwrap()
            .iter()
            .any(|line| line.text.contains("because") && line.actor.as_deref() == Some("ann"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_can_be_skipped_and_a_saga_retried_from_a_step() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "b").then(|| blocked("bank")));
    host.run(&steps(&["a", "b", "c"])).await;
    host.until_waiting("one", "blocked").await;
    host.act("one", SagaAct::Skip { step: "b".to_owned() }).await.unwrap();
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[1].state, StepState::Skipped);
    world.shop.on(|call| (call.step == "c").then_some(Does::DoneAfter(seconds(2), serde_json::json!({}))));
    host.begin("two").await;
    eventually("c is called", async || world.shop.count("c") == 2).await;
    host.act("two", SagaAct::Pause).await.unwrap();
    pass(seconds(5)).await;
    host.act("two", retry(Some("b"), RetryMode::Compensate)).await.unwrap();
    host.act("two", SagaAct::Resume).await.unwrap();
    host.until("two", SagaState::Completed).await;
    let of_two: Vec<String> =
        world.shop.calls().iter().filter(|call| call.saga == "two").map(|call| call.step.clone()).collect();
    assert_eq!(of_two, ["a", "b", "c", "b", "c"]);
}
