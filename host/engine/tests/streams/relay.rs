//! Relays: order, a broker that fails, pausing, seeking, dead letters.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use waybill_api::status::CheckStatus;
use waybill_core::audit::AuditQuery;
use waybill_core::code::Code;
use waybill_core::ids::Tenant;
use waybill_core::port::service::streams::{AppendRequest, EventInput, RelayState, SeekRequest, SeekTo};
use waybill_core::port::store::StoreError;
use waybill_core::port::transport::ErrorKind;
use waybill_core::streams::event::Body;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::settings::{OnOvertaken, OnRefused, RelayFrom, StreamsSettings};
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::{Answer, Gate, ack, blocked, permanent, retryable};

use crate::support::*;

fn relayed(settings: &mut StreamsSettings) {
    settings.relays = vec![plan("out")];
}

/// Ids as they reached the broker.
fn ids(world: &World) -> Vec<String> {
    world.bus.log().sent.iter().map(|sent| sent.id.clone()).collect()
}

/// Of one resource, in the order of their first arrivals.
fn first_arrivals(ids: &[String], resource: &str) -> Vec<String> {
    let mut seen = Vec::new();
    for id in ids.iter().filter(|id| id.split('-').next() == Some(resource)) {
        if !seen.contains(id) {
            seen.push(id.clone());
        }
    }
    seen
}

async fn until_sent(world: &World, count: usize) {
    eventually(&format!("{count} events reach the broker"), async || ids(world).len() >= count).await;
}

async fn until_settled(host: &Host) {
    eventually("the relay has caught up", async || {
        let relay = host.relay("out").await;
        relay.streams_behind == 0 && relay.in_flight == 0 && relay.lag.is_none()
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn events_reach_the_broker_in_the_order_of_their_keys() {
    let world = World::with(relayed);
    let host = world.start().await;
    for number in 0..20 {
        host.append("task.1", &[&format!("x-{number}"), &format!("y-{number}")]).await;
    }
    until_sent(&world, 40).await;
    until_settled(&host).await;
    let ids = ids(&world);
    assert_eq!(ids.len(), 40);
    let of = |resource: &str| (0..20).map(|number| format!("{resource}-{number}")).collect::<Vec<_>>();
    assert_eq!((first_arrivals(&ids, "x"), first_arrivals(&ids, "y")), (of("x"), of("y")));
    let sent = &world.bus.log().sent[0];
    assert_eq!((sent.destination.as_str(), sent.attempt), ("events.task.1", 1));
    let relay = host.relay("out").await;
    assert_eq!((relay.state, relay.delivered), (RelayState::Running, 40));
}

#[tokio::test(start_paused = true)]
async fn a_failing_broker_keeps_the_order_of_a_key_and_holds_up_no_other() {
    let world = World::with(relayed);
    world.bus.tell(|delivery| {
        if delivery.message.id.as_str() == "x-1" && delivery.attempt < 4 { retryable("BUSY") } else { ack() }
    });
    let host = world.start().await;
    host.append("a", &["x-0", "x-1", "x-2", "y-0", "y-1"]).await;
    until_settled(&host).await;
    let ids = ids(&world);
    assert_eq!(ids.iter().filter(|id| *id == "x-1").count(), 4);
    assert_eq!(first_arrivals(&ids, "x"), ["x-0", "x-1", "x-2"]);
    let at = |id: &str| ids.iter().position(|sent| sent == id).unwrap();
    assert!(at("y-1") < at("x-2"), "{ids:?}");
    let after_failures = ids.iter().rposition(|id| id == "x-1").unwrap();
    assert!(at("x-2") > after_failures, "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn streams_that_their_destination_does_not_take_hold_up_no_other_however_much_they_have() {
    let world = World::with(relayed);
    world.bus.stop_logging();
    let (is_open, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeSet::new())));
    let (opens, takes) = (Arc::clone(&is_open), Arc::clone(&taken));
    world.bus.tell(move |delivery| {
        if delivery.destination != "events.z" && !opens.load(Ordering::Acquire) {
            return blocked("there", "BUSY");
        }
        takes.lock().unwrap().insert(delivery.message.id.to_string());
        ack()
    });
    let host = world.start().await;
    // Together more than the relay has room for.
    for stream in 0..26 {
        let event = |number| EventInput {
            body: Body::Bytes(vec![b'x'; 250_000].into()),
            ..input(&format!("x{stream}-{number}"))
        };
        let events = (0..3).map(event).collect();
        let request =
            AppendRequest { stream: key(&format!("a.{stream:02}")), events, expected_seq: None, traceparent: None };
        host.streams.append(request).await.unwrap();
    }
    pass(seconds(20)).await;
    host.append("z", &["z-0"]).await;
    let count = || taken.lock().unwrap().len();
    eventually("the other stream's event is taken", async || count() == 1).await;
    is_open.store(true, Ordering::Release);
    until_settled(&host).await;
    assert_eq!(count(), 79);
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_is_away_loses_nothing_and_costs_no_attempt() {
    let world = World::with(relayed);
    world.bus.answer(|_| Answer::failing(ErrorKind::Unavailable, "NATS.LOST"));
    let host = world.start().await;
    host.append("a", &["x-0", "x-1"]).await;
    pass(seconds(600)).await;
    assert!(world.bus.calls() > 1);
    let relay = host.relay("out").await;
    assert!(relay.reason.is_some_and(|reason| reason.contains("NATS.LOST")) && relay.delivered == 0);
    world.bus.tell(|_| ack());
    until_settled(&host).await;
    assert_eq!(first_arrivals(&ids(&world), "x"), ["x-0", "x-1"]);
    assert!(world.memory.read(|tables| tables.streams.dead.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_waits_for_its_transport_leaves_its_host_asleep_and_hears_when_that_goes_on() {
    let world = World::with(relayed);
    world.bus.answer(|_| Answer::failing(ErrorKind::Unavailable, "NATS.LOST"));
    let host = world.start().await;
    let idle = world.clock_reads_in(seconds(60)).await;
    host.append("a", &["x-0"]).await;
    // What is due all the time waits for the transport, and was looked at a hundred times a second.
    let held = world.clock_reads_in(seconds(60)).await;
    assert!(held < idle + 1_000, "{held} looks, {idle} without an event");
    host.outbox.pause("bus", "", "ops").await.unwrap();
    let paused = world.clock_reads_in(seconds(60)).await;
    assert!(paused < idle + 1_000, "{paused} looks, {idle} without an event");
    let calls = world.bus.calls();
    world.bus.tell(|_| ack());
    pass(seconds(60)).await;
    assert_eq!(world.bus.calls(), calls);
    host.outbox.resume("bus", "", "ops").await.unwrap();
    pass(millis(20)).await;
    assert_eq!(world.bus.calls(), calls + 1, "it was told");
    until_settled(&host).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_that_the_broker_refuses_is_a_dead_letter_before_its_key_goes_on() {
    let world = World::with(relayed);
    world.bus.tell(|delivery| if delivery.message.id.as_str() == "x-0" { permanent("POISON") } else { ack() });
    let host = world.start().await;
    host.append("a", &["x-0", "x-1"]).await;
    until_settled(&host).await;
    assert_eq!(ids(&world), ["x-0", "x-1"]);
    assert_eq!(world.memory.read(|tables| tables.streams.dead.len()), 1);
    assert_eq!(host.relay("out").await.refused, 1);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_stops_at_a_refusal_goes_on_when_it_is_resumed() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.relays[0].on_refused = OnRefused::Stop;
    });
    world.bus.tell(|_| permanent("POISON"));
    let host = world.start().await;
    host.append("a", &["x-0"]).await;
    eventually("it stops", async || host.relay("out").await.state == RelayState::Stopped).await;
    let calls = world.bus.calls();
    pass(seconds(60)).await;
    assert_eq!(world.bus.calls(), calls);
    world.bus.tell(|_| ack());
    host.streams.resume_relay(&relay_name("out"), "ops", "mended").await.unwrap();
    until_settled(&host).await;
    assert!(world.memory.read(|tables| tables.streams.dead.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_paused_relay_sends_nothing_and_stays_paused_over_a_restart() {
    let world = World::with(relayed);
    let host = world.start().await;
    let paused = host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    assert_eq!(paused.state, RelayState::Paused);
    host.append("a", &["x-0"]).await;
    pass(seconds(30)).await;
    assert_eq!(world.bus.calls(), 0);
    host.drain().await;
    drop(host);
    let host = world.start().await;
    pass(seconds(30)).await;
    assert_eq!((world.bus.calls(), host.relay("out").await.state), (0, RelayState::Paused));
    host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    until_settled(&host).await;
    assert_eq!(ids(&world), ["x-0"]);
    let missing = host.streams.pause_relay(&relay_name("nope"), "ops", "").await.unwrap_err();
    assert_eq!(missing.code(), Code::RELAY_NOT_FOUND);
}

#[tokio::test(start_paused = true)]
async fn a_pause_and_a_resume_reach_the_host_that_relays_whichever_was_asked() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.relays[0].on_refused = OnRefused::Stop;
    });
    let shared = |config: &mut EngineConfig| (config.exclusive, config.owner_ttl) = (false, seconds(4));
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    let is = async |state| {
        eventually("the host that relays has heard", async || first.relay("out").await.state == state).await;
    };
    second.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    is(RelayState::Paused).await;
    first.append("a", &["x-0"]).await;
    pass(seconds(30)).await;
    assert_eq!(world.bus.calls(), 0);
    world.bus.tell(|_| permanent("POISON"));
    second.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    eventually("the host that doesn't relay shows that it has stopped", async || {
        let relay = second.relay("out").await;
        relay.state == RelayState::Stopped && relay.reason.is_some_and(|reason| reason.contains("POISON"))
    })
    .await;
    world.bus.tell(|_| ack());
    second.streams.resume_relay(&relay_name("out"), "ops", "mended").await.unwrap();
    until_settled(&first).await;
    assert_eq!(world.bus.log().sent.last().map(|sent| sent.id.clone()), Some("x-0".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_has_stopped_stays_so_over_a_crash_and_is_in_the_trail_and_the_readiness() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.relays[0].on_refused = OnRefused::Stop;
    });
    world.bus.tell(|_| permanent("POISON"));
    let host = world.start().await;
    host.append("a", &["x-0"]).await;
    let told = || world.memory.read(|tables| tables.streams.notes.values().any(|note| note.stopped.is_some()));
    eventually("the store is told", async || told()).await;
    host.crash().await;
    world.bus.tell(|_| ack());
    let calls = world.bus.calls();
    let host = world.start().await;
    pass(seconds(60)).await;
    assert_eq!((world.bus.calls(), host.relay("out").await.state), (calls, RelayState::Stopped));
    let stopped = host
        .outbox
        .audit(&AuditQuery::default(), None, 100)
        .await
        .unwrap()
        .items
        .into_iter()
        .filter(|event| event.kind == "RelayStopped");
    assert_eq!(stopped.map(|event| event.object).collect::<Vec<_>>(), ["out"]);
    let check = host.outbox.ready().await.into_iter().find(|check| check.name == "relay out").unwrap();
    assert_eq!(check.status, CheckStatus::Warn);
    assert!(check.detail.contains("has stopped") && check.detail.contains("POISON"), "{}", check.detail);
    host.streams.resume_relay(&relay_name("out"), "ops", "mended").await.unwrap();
    until_settled(&host).await;
    assert!(host.outbox.ready().await.iter().all(|check| check.name != "relay out"));
}

#[tokio::test(start_paused = true)]
async fn a_stop_that_the_store_could_not_be_told_is_told_later() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.relays[0].on_refused = OnRefused::Stop;
    });
    let gate = Gate::default();
    let behind = gate.clone();
    world.bus.answer(move |batch| Answer::each(batch, |_| permanent("POISON")).behind(&behind));
    let host = world.start().await;
    host.append("a", &["x-0"]).await;
    eventually("it is under way", async || host.relay("out").await.in_flight == 1).await;
    world.memory.fail_all(Some(StoreError::Unavailable("away".into())));
    gate.open();
    eventually("it stops here", async || host.streams.relays().await.unwrap()[0].state == RelayState::Stopped).await;
    let told = || world.memory.read(|tables| tables.streams.notes.values().any(|note| note.stopped.is_some()));
    pass(seconds(2)).await;
    assert!(!told());
    world.memory.fail_all(None);
    eventually("the store is told", async || told()).await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_begins_with_the_latest_sends_what_is_appended_from_then_on() {
    let mut world = World::new();
    let host = world.start().await;
    host.append("a", &["x-0", "x-1"]).await;
    host.append("b", &["y-0"]).await;
    host.drain().await;
    drop(host);
    relayed(&mut world.settings);
    world.settings.relays[0].from = RelayFrom::Latest;
    let host = world.start().await;
    host.append("a", &["x-2"]).await;
    host.append("c", &["z-0"]).await;
    until_sent(&world, 2).await;
    until_settled(&host).await;
    host.drain().await;
    drop(host);
    let host = world.start().await;
    host.append("b", &["y-1"]).await;
    until_sent(&world, 3).await;
    until_settled(&host).await;
    let mut sent = ids(&world);
    sent.sort_unstable();
    assert_eq!(sent, ["x-2", "y-1", "z-0"]);
    assert_eq!(host.relay("out").await.overtaken, 0);
}

#[tokio::test(start_paused = true)]
async fn a_seek_waits_for_what_is_in_flight_and_sends_again_from_there() {
    let world = World::with(relayed);
    let host = world.start().await;
    host.append("a", &["x-0", "x-1", "x-2"]).await;
    until_settled(&host).await;
    let gate = Gate::default();
    let behind = gate.clone();
    world.bus.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    host.append("a", &["x-3"]).await;
    until_sent(&world, 4).await;
    let seek = |to| SeekRequest {
        relay: relay_name("out"),
        stream: key("a"),
        to,
        actor: "ops".into(),
        reason: "a consumer lost them".into(),
    };
    let mut waiting = Box::pin(host.streams.seek_relay(seek(SeekTo::After(1))));
    assert!(tokio::time::timeout(seconds(5), &mut waiting).await.is_err(), "something is in flight");
    let second = host.streams.seek_relay(seek(SeekTo::After(2))).await.unwrap_err();
    assert!(second.to_string().contains("seeking in"), "one at a time: {second}");
    gate.open();
    let sought = waiting.await.unwrap();
    assert_eq!((sought.upto, sought.generation), (1, 1));
    until_sent(&world, 7).await;
    until_settled(&host).await;
    assert_eq!(ids(&world)[4..], ["x-1", "x-2", "x-3"]);
    let beyond = host.streams.seek_relay(seek(SeekTo::After(99))).await.unwrap_err();
    assert_eq!(beyond.code(), Code::RELAY_SEEK);
}

#[tokio::test(start_paused = true)]
async fn what_was_settled_is_not_sent_again_after_a_crash() {
    let world = World::with(relayed);
    let host = world.start().await;
    host.append("a", &["x-0", "x-1"]).await;
    until_settled(&host).await;
    host.crash().await;
    let host = world.start().await;
    host.append("a", &["x-2"]).await;
    until_settled(&host).await;
    assert_eq!(ids(&world), ["x-0", "x-1", "x-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_keeps_up_is_not_late_however_long_it_is_busy() {
    let world = World::with(relayed);
    world.bus.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(1)));
    let host = world.start().await;
    for number in 0..600 {
        host.append("a", &[&format!("r{number}-0")]).await;
        pass(millis(200)).await;
        let relay = host.relay("out").await;
        assert!(relay.lag.is_none_or(|lag| lag < seconds(10)), "{number}: {relay:?}");
    }
    assert!(host.relay("out").await.streams_behind > 0, "it was never done");
    until_settled(&host).await;
    assert_eq!(ids(&world).len(), 600);
}

#[tokio::test(start_paused = true)]
async fn a_relay_that_may_not_send_reads_nothing_ahead() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.events.retention_events = 2;
        settings.relays[0].hold_max = None;
        settings.relays[0].on_overtaken = OnOvertaken::GoOn;
    });
    let host = world.start().await;
    host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    for number in 0..40 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    pass(seconds(30)).await;
    host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    until_settled(&host).await;
    let relay = host.relay("out").await;
    assert!(relay.overtaken > 0, "it had them in memory all the time");
    assert_eq!(relay.delivered + relay.overtaken, 40);
}

#[tokio::test(start_paused = true)]
async fn how_far_a_relay_is_behind_is_known_by_tenant() {
    let world = World::with(relayed);
    let host = world.start().await;
    host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
    host.append("a", &["x-0", "x-1"]).await;
    host.append("b", &["x-2"]).await;
    let stream = StreamKey { tenant: Tenant::new("globex").unwrap(), name: name("a") };
    host.streams
        .append(AppendRequest { stream, events: vec![input("x-0")], expected_seq: None, traceparent: None })
        .await
        .unwrap();
    let lags = async || {
        let relay = host.relay("out").await;
        let of = |name: &str| relay.tenants.get(&Tenant::new(name).unwrap()).map(|lag| (lag.streams, lag.events));
        (relay.lag_events, of("acme"), of("globex"))
    };
    eventually("all of it is named", async || lags().await == (4, Some((2, 3)), Some((1, 1)))).await;
    host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
    until_settled(&host).await;
    assert_eq!(lags().await, (0, None, None));
}

#[tokio::test(start_paused = true)]
async fn what_waits_for_a_busy_broker_goes_in_one_call() {
    let world = World::with(relayed);
    world.bus.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(1)));
    let host = world.start().await;
    for number in 0..40 {
        host.append("a", &[&format!("r{number}-0")]).await;
        pass(millis(10)).await;
    }
    until_settled(&host).await;
    assert_eq!(ids(&world).len(), 40);
    assert!(world.bus.calls() <= 4, "{} calls", world.bus.calls());
}

#[tokio::test(start_paused = true)]
async fn a_relay_whose_topic_can_not_be_used_stays_stopped_when_it_is_resumed() {
    let world = World::with(|settings| {
        relayed(settings);
        settings.relays[0].topic = Some("{nonsense}".into());
    });
    let host = world.start().await;
    eventually("it stops", async || host.relay("out").await.state == RelayState::Stopped).await;
    let resumed = host.streams.resume_relay(&relay_name("out"), "ops", "mended").await.unwrap();
    assert_eq!(resumed.state, RelayState::Stopped);
    assert!(resumed.reason.is_some_and(|reason| reason.contains("nonsense")));
}
