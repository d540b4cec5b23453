//! Another configuration while messages flow and wait.

use std::sync::Arc;

use waybill_core::new_message::NewMessage;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::port::transport::ErrorKind;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, FakeTransport, Gate, ack, blocked, retryable};

use crate::support::*;

fn route(pattern: &str, transport: &str) -> Route {
    Route::new(Pattern::parse(pattern).unwrap(), transport)
}

impl World {
    /// The settings with other routes.
    fn routed(&self, routes: Vec<Route>) -> EngineConfig {
        EngineConfig { routes: Routes(routes), ..self.config("host-a") }
    }
}

#[tokio::test(start_paused = true)]
async fn what_waits_goes_by_the_new_routes() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "test").await.unwrap();
    let ids = host.send((0..50).map(|n| keyed(&format!("m{n}"), &format!("k{}", n % 7)))).await;
    pass(seconds(2)).await;
    assert!(world.main.log().sent.is_empty());
    host.engine.reconfigure(world.routed(vec![route("bus:**", "other")])).await;
    host.until_done(&ids).await;
    assert_eq!(world.other.log().sent.len(), 50);
    assert!(world.main.log().sent.is_empty(), "nothing went the old way");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_held_destination_and_a_waiting_retry_find_their_new_transport() {
    let world = World::new();
    world.main.tell(|delivery| match delivery.payload.as_ref() {
        b"held" => blocked("", "HTTP.401"),
        _ => retryable("HTTP.503"),
    });
    let host = world.start().await;
    let held = host.send_one(message("held")).await;
    let failing = |text| NewMessage { topic: "bus:orders.failing".to_owned(), ..keyed(text, "k") };
    let retried = host.send_one(failing("retried")).await;
    let behind = host.send_one(failing("behind")).await;
    pass(millis(200)).await;
    host.engine.reconfigure(world.routed(vec![route("bus:**", "other")])).await;
    host.until_done(&[held, retried.clone(), behind]).await;
    assert_eq!(world.other.log().of_key("k"), ["retried", "behind"]);
    let attempts = host.view(&retried).await.history;
    assert!(attempts.len() >= 2, "the attempt by the old transport is in its history: {attempts:?}");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_route_that_disappears_leaves_its_messages_blocked_until_one_comes_back() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "test").await.unwrap();
    let ids = host.send([message("a"), keyed("b", "k")]).await;
    host.engine.reconfigure(world.routed(vec![route("custom:**", "other")])).await;
    let holds = host.outbox.blocked(None).await.unwrap();
    let hold = holds.iter().find(|hold| hold.code.as_deref() == Some("OUTBOX.NO_ROUTE")).expect("it is shown");
    assert_eq!(hold.waiting, 2);
    let refused = host.try_send([message("c")]).await.unwrap_err();
    assert!(matches!(refused, ServiceError::Message { index: 0, .. }), "{refused}");
    host.engine.reconfigure(world.routed(vec![route("bus:**", "other")])).await;
    host.until_done(&ids).await;
    let holds = host.outbox.blocked(None).await.unwrap();
    assert!(holds.iter().all(|hold| hold.code.as_deref() != Some("OUTBOX.NO_ROUTE")), "{holds:?}");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_transport_ends_what_it_has_and_is_closed() {
    let world = World::new();
    let gate = Gate::default();
    let held = gate.clone();
    world.main.answer(move |batch| Answer::each(batch, |_| ack()).behind(&held));
    let host = world.start().await;
    let under_way = host.send_one(message("under way")).await;
    let main = Arc::clone(&world.main);
    eventually("the call is under way", async || main.under_way() == 1).await;
    let mut config = world.routed(vec![route("bus:**", "other")]);
    config.transports = vec![world.other.clone()];
    host.engine.reconfigure(config).await;
    let later = host.send_one(message("later")).await;
    host.until_state(&later, MessageState::Done).await;
    let names: Vec<String> = host.outbox.transports().await.into_iter().map(|view| view.name).collect();
    assert_eq!(names, ["other"], "nobody sees it any more");
    assert!(!world.main.is_closed(), "it still has a call");
    gate.open();
    host.until_state(&under_way, MessageState::Done).await;
    eventually("it is closed", async || main.is_closed()).await;
    assert_eq!(world.main.log().texts(), ["under way"], "sent once");
    // Back under its name, as another one.
    let again = FakeTransport::new("main");
    let mut config = world.config("host-a");
    config.transports = vec![again.clone(), world.other.clone()];
    host.engine.reconfigure(config).await;
    let back = host.send_one(message("back")).await;
    host.until_state(&back, MessageState::Done).await;
    assert_eq!(again.log().texts(), ["back"]);
    host.drain().await;
    assert!(again.is_closed());
}

#[tokio::test(start_paused = true)]
async fn keys_keep_their_order_while_they_are_moved_to_and_fro() {
    let world = World::new();
    for transport in [&world.main, &world.other] {
        transport.set_limits(|limits| (limits.lanes, limits.calls_per_lane) = (3, 2));
        transport.answer(|batch| Answer::each(batch, |_| ack()).after(millis(3)));
    }
    let host = world.start().await;
    let mut ids = Vec::new();
    for round in 0..60_u32 {
        ids.extend(host.send((0..20).map(|n| keyed(&format!("{:05}", round * 20 + n), &format!("k{}", n % 5)))).await);
        let to = if round % 2 == 0 { "other" } else { "main" };
        host.engine.reconfigure(world.routed(vec![route("bus:**", to)])).await;
        pass(millis(u64::from(round % 7))).await;
    }
    host.until_done(&ids).await;
    let mut sent = world.main.log().sent;
    let moved = world.other.log().sent;
    assert!(!sent.is_empty() && !moved.is_empty(), "both took some");
    sent.extend(moved);
    assert_eq!(sent.len(), 1_200, "each exactly once");
    sent.sort_by_key(|sent| sent.at);
    for key in (0..5).map(|n| format!("k{n}")) {
        let texts: Vec<&str> =
            sent.iter().filter(|sent| sent.key.as_deref() == Some(&key)).map(|sent| sent.text()).collect();
        assert!(texts.is_sorted(), "{key}: {texts:?}");
    }
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_backlog_skipped_because_of_a_hold_is_found_again() {
    let world = World::new();
    world.main.answer(|_| Answer::failing(ErrorKind::Unavailable, "PROVIDER.UNAVAILABLE"));
    let host = world
        .start_with(|config| {
            (config.limits.window_messages, config.limits.key_messages) = (64, 4);
            config.limits.resume_points = 1_000;
        })
        .await;
    let mut ids = Vec::new();
    for part in 0..20 {
        ids.extend(host.send((0..25).map(|n| message(&format!("free {part} {n}")))).await);
        ids.extend(host.send((0..25).map(|n| keyed(&format!("{part:02} {n:02}"), &format!("k{}", n % 3)))).await);
    }
    pass(seconds(5)).await;
    host.engine
        .reconfigure(EngineConfig { limits: host_limits(), ..world.routed(vec![route("bus:**", "other")]) })
        .await;
    host.until_done(&ids).await;
    let log = world.other.log();
    assert_eq!(log.sent.len(), 1_000);
    for key in ["k0", "k1", "k2"] {
        assert!(log.of_key(key).is_sorted(), "{key}");
    }
    host.drain().await;
}

fn host_limits() -> waybill_core::limits::SchedulerLimits {
    waybill_core::limits::SchedulerLimits {
        window_messages: 64,
        key_messages: 4,
        resume_points: 1_000,
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn retries_and_times_are_those_in_force() {
    let world = World::new();
    world.main.tell(|_| retryable("HTTP.503"));
    let host = world.start().await;
    let id = host.send_one(message("a")).await;
    let main = Arc::clone(&world.main);
    eventually("it was tried", async || main.log().count("a") == 1).await;
    let mut config = world.config("host-a");
    config.retries.policy.max_attempts = 2;
    host.engine.reconfigure(config).await;
    host.until_state(&id, MessageState::Dead).await;
    assert_eq!(world.main.log().count("a"), 2);
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_paused_transport_stays_paused() {
    let world = World::new();
    let host = world.start().await;
    host.outbox.pause("main", "", "test").await.unwrap();
    let mut without = world.routed(vec![route("custom:**", "other")]);
    without.transports = vec![world.other.clone()];
    host.engine.reconfigure(without).await;
    host.engine.reconfigure(world.config("host-a")).await;
    let id = host.send_one(message("a")).await;
    pass(seconds(10)).await;
    assert!(world.main.log().sent.is_empty());
    host.outbox.resume("main", "", "test").await.unwrap();
    host.until_state(&id, MessageState::Done).await;
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn what_workers_have_is_taken_back_when_it_goes_elsewhere() {
    use waybill_api::workers::ClaimRequest;
    let world = World::new();
    let host = world.start_with(|config| config.routes.0.insert(0, route("bus:**", "external"))).await;
    let id = host.send_one(keyed("a", "k")).await;
    let ask = ClaimRequest {
        worker: "w".to_owned(),
        limit: 10,
        lease: seconds(600),
        topic: None,
        tenants: None,
        wait: seconds(1),
    };
    let claimed = host.outbox.claim(ask.clone()).await.unwrap();
    assert_eq!(claimed.len(), 1);
    host.engine.reconfigure(world.config("host-a")).await;
    host.until_state(&id, MessageState::Done).await;
    assert_eq!(world.main.log().texts(), ["a"]);
    assert!(matches!(host.outbox.claim(ask).await, Err(ServiceError::NotFound { .. })), "no route leads to workers");
    host.drain().await;
}
