//! Calls: bounds, what is held, what a step leaves behind, HTTP, retry plugins.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use waybill_core::annotation::Annotation;
use waybill_core::port::backoff::{BackoffDecision, BackoffPolicy, FailedAttempt, WorkKind};
use waybill_core::port::followup::Outgoing;
use waybill_core::port::participant::{Direction, Participant, StepError, StepOutput};
use waybill_core::port::transport::Fault;
use waybill_core::saga::state::SagaState;
use waybill_engine::Participants;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_allowed_are_under_way_and_no_tenant_takes_all_of_them() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.sagas.calls_max = 4;
            config.sagas.calls_per_tenant_max = 3;
        })
        .await;
    world.shop.on(|_| Some(Does::DoneAfter(seconds(1), serde_json::json!({}))));
    host.define(&definition(&steps(&["a"]))).await;
    for index in 0..12 {
        host.begin(&format!("s{index}")).await;
    }
    let mut other = start("other");
    other.tenant = tenant("small");
    host.sagas.start(other).await.unwrap();
    eventually("all are done", async || host.list("state=completed", 100).await.len() == 13).await;
    assert_eq!(world.shop.most_at_once(), 4);
    let position = world.shop.calls().iter().position(|call| call.tenant == "small").unwrap();
    assert!(position <= 4, "the small tenant had its turn at once, not after the others: {position}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_finds_no_room_in_time_is_given_back_and_costs_no_attempt() {
    let world = World::new();
    let host = world.start_with(|config| config.sagas.calls_max = 1).await;
    world.shop.on(|call| {
        let wait = if call.saga == "one" { seconds(20) } else { millis(1) };
        Some(Does::DoneAfter(wait, serde_json::json!({})))
    });
    host.run(&step("a", "timeout_ms = 30000")).await;
    pass(millis(10)).await;
    let quick = "name = \"s\"\nversion = 2\n".to_owned() + &step("a", "timeout_ms = 2000");
    host.define(&quick).await;
    host.begin("two").await;
    host.until_waiting("two", "blocked").await;
    assert_eq!(host.step("two", "a").await.failure.unwrap().code, "SAGA.BUSY");
    host.until("two", SagaState::Completed).await;
    assert_eq!(host.step("two", "a").await.failures, 0);
}

#[tokio::test(start_paused = true)]
async fn what_is_blocked_is_probed_by_one_saga_and_burns_no_attempt() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|_| Some(blocked("bank")));
    host.define(&definition(&steps(&["a"]))).await;
    for index in 0..50 {
        host.begin(&format!("s{index}")).await;
    }
    pass(seconds(120)).await;
    let probes = world.shop.calls().len();
    assert!(probes < 120, "50 sagas for two minutes make few calls: {probes}");
    assert_eq!(host.step("s7", "a").await.failures, 0);
    world.shop.on(|_| None);
    eventually("all go on", async || host.list("state=completed", 100).await.len() == 50).await;
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_participant_is_missing_waits_until_it_is_there() {
    let world = World::new();
    let participants = Arc::new(Participants::default());
    let late = Arc::clone(&participants);
    let host = world.start_with(|config| config.sagas.participants = late).await;
    host.run(&steps(&["a"])).await;
    host.until_waiting("one", "blocked").await;
    assert_eq!(host.step("one", "a").await.failure.unwrap().code, "PLUGIN.NO_PARTICIPANT");
    participants.replace([world.shop.clone() as Arc<dyn Participant>]);
    host.until("one", SagaState::Completed).await;
}

#[tokio::test(start_paused = true)]
async fn a_call_whose_task_panics_has_an_unknown_result() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.before == 0).then_some(Does::Panics));
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Completed).await;
    assert_eq!(view.saga.as_ref().unwrap().steps[0].attempts, 2);
    assert!(view.history.as_ref().unwrap().iter().any(|line| line.text.contains("UNKNOWN.INTERNAL")));
}

fn outgoing(topic: &str) -> Outgoing {
    Outgoing {
        id: None,
        topic: topic.to_owned(),
        key: None,
        headers: Vec::new(),
        payload: Bytes::from_static(b"1"),
        event_type: None,
        annotations: [(Annotation::AggregateType, "order")].into(),
        not_before: None,
        attributes: Vec::new(),
    }
}

fn leaving(topics: &[&str]) -> Does {
    let messages = topics.iter().map(|topic| outgoing(topic)).collect();
    Does::Leaves(StepOutput { data: Bytes::from_static(b"{}"), messages, ..StepOutput::default() })
}

#[tokio::test(start_paused = true)]
async fn messages_that_a_step_leaves_go_out_once_with_its_success() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.step == "a").then(|| leaving(&["bus:x.one", "bus:x.two"])));
    host.run(&steps(&["a", "b"])).await;
    host.until("one", SagaState::Completed).await;
    eventually("they are delivered", async || world.messages().len() == 2).await;
    let sent = world.messages();
    let text = |annotation| sent[0].annotation(annotation);
    assert_eq!(
        (text(Annotation::CausationId), text(Annotation::AggregateType), text(Annotation::ReplyTo)),
        (Some("one"), Some("order"), None)
    );
    assert!(sent.iter().all(|message| message.id.as_str().starts_with("saga-")));
}

#[tokio::test(start_paused = true)]
async fn a_step_that_leaves_a_message_without_a_route_has_failed_for_good_and_is_compensated() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.direction == Direction::Execute).then(|| leaving(&["custom:nowhere"])));
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("OUTBOX.NO_ROUTE"));
    assert_eq!(world.shop.names(), ["a", "-a"]);
    assert!(world.messages().is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_http_step_posts_its_input_with_key_and_context() {
    let world = World::new();
    let host = world.start().await;
    let http = "[[steps]]\nname = \"pay\"\naction = \"http://pay.example/charge\"\ncompensation = \"http://pay.example/refund\"\n";
    host.define(&definition(&format!("{http}{}", step("b", "")))).await;
    world.shop.on(|_| Some(permanent("SHOP.NO")));
    let mut with_headers = start("one");
    with_headers.headers = vec![("x-a".to_owned(), "1".to_owned()), ("Idempotency-Key".to_owned(), "mine".to_owned())];
    host.sagas.start(with_headers).await.unwrap();
    host.until("one", SagaState::Cancelled).await;
    let posted = world.http.posted.lock().clone();
    let header = |index: usize, name: &str| {
        let found: Vec<String> = posted[index]
            .headers
            .iter()
            .filter(|(known, _)| known.eq_ignore_ascii_case(name))
            .map(|(_, value)| value.clone())
            .collect();
        found.join("|")
    };
    assert_eq!(posted[0].body, "{\"n\":7}");
    assert_eq!(header(0, "idempotency-key"), "one/pay/execute", "the host's own, once");
    assert_eq!((header(0, "x-a"), header(0, "waybill-saga-attempt")), ("1".to_owned(), "1".to_owned()));
    assert_eq!(posted[1].url.as_ref(), "http://pay.example/refund");
    assert_eq!(posted[1].body, "{\"input\":{\"n\":7},\"output\":{\"ok\":true}}");
    assert_eq!(header(1, "waybill-saga-direction"), "compensate");
}

#[tokio::test(start_paused = true)]
async fn an_origin_that_refuses_is_blocked() {
    let world = World::new();
    let host = world.start().await;
    let scope = "http://pay.example".to_owned();
    *world.http.answer.lock() = Some(Err(StepError::Blocked { scope, fault: Fault::new("HTTP.CONNECT", "nobody") }));
    host.run(
        "[[steps]]\nname = \"pay\"\naction = \"http://pay.example/charge\"\ncompensation = \"http://pay.example/x\"\n",
    )
    .await;
    host.until_waiting("one", "blocked").await;
    *world.http.answer.lock() = None;
    host.until("one", SagaState::Completed).await;
}

/// Waits a minute after every failure, and gives up at the third.
struct Slow;

#[async_trait]
impl BackoffPolicy for Slow {
    fn name(&self) -> &str {
        "slow"
    }
    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision {
        assert_eq!((attempt.work, attempt.endpoint.as_str()), (WorkKind::Step, "fn:shop/a"));
        if attempt.number >= 3 {
            return BackoffDecision::Dead("enough".to_owned());
        }
        BackoffDecision::Delay(Duration::from_secs(60))
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_plugin_decides_instead_of_the_formula() {
    let world = World::new();
    let host = world
        .start_with(|config| {
            config.sagas.policies.insert("slow".to_owned(), Arc::new(Slow));
        })
        .await;
    world.shop.on(|_| Some(retryable("SHOP.BUSY")));
    let began = world.clock.wall();
    let text = "[[steps]]\nname = \"a\"\naction = \"fn:shop/a\"\ncompensation = \"fn:shop/a\"\n\
                retry = { policy = \"slow\", max_attempts = 10 }\n";
    host.run(text).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(world.shop.count("a"), 3);
    assert!(world.clock.wall().since(began) >= seconds(120));
    assert!(view.reason.unwrap().contains("enough"));
}
