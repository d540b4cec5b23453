//! Forward, back, retries, timeouts.

use waybill_core::port::participant::Direction;
use waybill_core::port::saga::StartSaga;
use waybill_core::saga::state::{Effect, SagaState, StepState};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn steps_run_in_order_and_read_earlier_outputs() {
    let world = World::new();
    let host = world.start().await;
    let text = format!(
        "{}{}",
        step("a", ""),
        step("b", "input = { from = \"${ steps.a.output.did }\", n = \"${ input.n }\" }")
    );
    host.run(&text).await;
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "b"]);
    let calls = world.shop.calls();
    assert_eq!(calls[1].input, serde_json::json!({ "from": "a", "n": 7 }));
    assert_eq!(calls[0].key, "one/a/execute");
    assert_eq!(view.saga.as_ref().unwrap().steps[0].output.as_ref().unwrap().get(), "{\"did\":\"a\"}");
    assert_eq!(view.plugins.as_ref().unwrap().len(), 1);
    assert_eq!(view.saga.as_ref().unwrap().steps[0].plugin.as_ref().unwrap().plugin, "fake-shop");
}

#[tokio::test(start_paused = true)]
async fn an_id_that_the_host_makes_tells_when_its_saga_began() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    for _ in 0..3 {
        pass(millis(1_234)).await;
        let id = host.sagas.start(StartSaga { id: None, ..start("") }).await.unwrap().id;
        let view = host.until(id.as_str(), SagaState::Completed).await;
        let told = ulid::Ulid::from_string(id.as_str()).unwrap().timestamp_ms();
        assert_eq!(told, view.started_at.0.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_step_that_fails_for_good_has_the_ones_before_it_compensated_in_reverse() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "c" && call.direction == Direction::Execute).then(|| permanent("SHOP.NO")));
    host.run(&steps(&["a", "b", "c", "d"])).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(world.shop.names(), ["a", "b", "c", "-b", "-a"]);
    let back = &world.shop.calls()[3];
    assert_eq!(
        (back.output.clone().unwrap(), back.key.as_str()),
        (serde_json::json!({ "did": "b" }), "one/b/compensate")
    );
    assert_eq!(view.code.as_deref(), Some("SHOP.NO"));
    assert_eq!(view.saga.as_ref().unwrap().steps[2].state, StepState::Failed);
    assert_eq!(view.saga.as_ref().unwrap().steps[0].state, StepState::Compensated);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_retried_with_backoff_and_under_one_key_until_it_succeeds() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.before < 2).then(|| retryable("SHOP.BUSY")));
    host.run(&steps(&["a"])).await;
    host.until("one", SagaState::Completed).await;
    let calls = world.shop.calls();
    assert_eq!(calls.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(calls.iter().all(|call| call.key == "one/a/execute"));
}

#[tokio::test(start_paused = true)]
async fn when_the_retries_are_used_up_the_saga_compensates_and_an_unknown_effect_too() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "b" && call.direction == Direction::Execute).then(|| unknown("SHOP.LOST")));
    host.run(&steps(&["a", "b"])).await;
    host.until("one", SagaState::Cancelled).await;
    assert_eq!(world.shop.names(), ["a", "b", "b", "b", "-b", "-a"]);
    let back = world.shop.calls()[4].clone();
    assert_eq!(back.output, None, "nothing is known of what it did");
}

#[tokio::test(start_paused = true)]
async fn steps_with_one_tag_run_together_forward_and_back() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| match (call.step.as_str(), call.direction) {
        ("d", Direction::Execute) => Some(permanent("SHOP.NO")),
        _ => Some(Does::DoneAfter(seconds(1), serde_json::json!({}))),
    });
    let tag = "concurrency_tag = \"both\"";
    let text = format!("{}{}{}{}", step("a", ""), step("b", tag), step("c", tag), step("d", ""));
    host.run(&text).await;
    let began = world.clock.wall();
    host.until("one", SagaState::Cancelled).await;
    assert_eq!(world.shop.most_at_once(), 2);
    let took = world.clock.wall().since(began);
    assert!(took < millis(4_500), "two of five waits of a second were shared: {took:?}");
    let names = world.shop.names();
    assert_eq!((names[0].as_str(), names[3].as_str(), names[6].as_str()), ("a", "d", "-a"));
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_is_repeated_with_its_key() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.before == 0).then_some(Does::Never));
    host.run(&step("a", "timeout_ms = 2000")).await;
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[0].attempts, 2);
    let calls = world.shop.calls();
    assert_eq!(calls[0].key, calls[1].key);
    assert!(
        view.history
            .as_ref()
            .unwrap()
            .iter()
            .any(|line| line.kind == "attempt_failed" && line.text.contains("SAGA.TIMEOUT"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_step_that_is_not_idempotent_waits_for_an_operator_when_its_result_is_unknown() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "a" && call.before == 0).then(|| unknown("SHOP.LOST")));
    host.run(&format!("{}{}", step("a", "idempotent = false"), step("b", ""))).await;
    host.until("one", SagaState::Paused).await;
    pass(seconds(600)).await;
    assert_eq!(world.shop.names(), ["a"], "it isn't repeated by itself");
    host.act("one", waybill_core::port::saga::SagaAct::Retry { step: None, mode: Default::default() }).await.unwrap();
    host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.names(), ["a", "a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn past_its_deadline_a_saga_compensates() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "b" && call.direction == Direction::Execute).then(|| blocked("bank")));
    host.define(&definition(&steps(&["a", "b"]))).await;
    let mut timed = start("one");
    timed.deadline = Some(seconds(30));
    host.sagas.start(timed).await.unwrap();
    host.until_waiting("one", "blocked").await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.DEADLINE"));
    assert_eq!(world.shop.names().last().unwrap(), "-a");
    assert_eq!(view.saga.as_ref().unwrap().steps[1].effect, Effect::None);
}

#[tokio::test(start_paused = true)]
async fn a_mapping_that_fails_fails_its_step_and_says_so() {
    let world = World::new();
    let host = world.start().await;
    let text = format!("{}{}", step("a", ""), step("b", "input = { x = \"${ steps.a.output.missing.deep }\" }"));
    host.run(&text).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.MAPPING"));
    assert_eq!(world.shop.names(), ["a", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn an_output_past_the_bound_fails_the_step_for_good_and_is_compensated() {
    let world = World::new();
    let host = world.start_with(|config| config.sagas.limits.output_bytes_max = 100).await;
    world.shop.on(|call| (call.direction == Direction::Execute).then(|| Does::Done("x".repeat(101).into())));
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.OUTPUT_TOO_LARGE"));
    assert_eq!(world.shop.names(), ["a", "-a"]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_holds_no_retry_of_this_host_or_of_the_next() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.before == 0).then(|| retryable("SHOP.BUSY")));
    host.run(
        "[[steps]]\nname = \"a\"\naction = \"fn:shop/a\"\nretry = { max_attempts = 3, base_ms = 1000, jitter = 0.0 }\n",
    )
    .await;
    host.until_waiting("one", "retry").await;
    assert_eq!(world.shop.count("a"), 1);
    world.stepped.step(-3_600);
    pass(seconds(2)).await;
    host.until("one", SagaState::Completed).await;
    assert_eq!(world.shop.count("a"), 2);
    host.begin("two").await;
    pass(seconds(2)).await;
    assert_eq!(host.state("two").await, SagaState::Completed, "what begins later isn't held either");
    host.begin("three").await;
    host.until_waiting("three", "retry").await;
    host.crash().await;
    world.stepped.step(-3_600);
    let host = world.start().await;
    pass(seconds(2)).await;
    assert_eq!(host.state("three").await, SagaState::Completed, "its next host goes on at the shard's time");
}

#[tokio::test(start_paused = true)]
async fn a_step_is_shown_with_the_key_that_its_tenant_calls_with() {
    let world = World::new();
    let host = world.start().await;
    host.define(&definition(&steps(&["a"]))).await;
    for (owner, key) in [("default", "s/a/execute"), ("acme", "~acme/s/a/execute")] {
        host.sagas.start(StartSaga { tenant: tenant(owner), ..start("s") }).await.unwrap();
        eventually("it is called", async || world.shop.calls().iter().any(|call| call.key == key)).await;
        let id = waybill_core::saga::id::SagaId::new("s").unwrap();
        let shown = host.sagas.saga(&tenant(owner), &id).await.unwrap();
        assert_eq!(shown.saga.unwrap().steps[0].idempotency_key, key);
    }
}
