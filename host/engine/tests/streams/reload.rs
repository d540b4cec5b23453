//! The settings of streams that count while the host runs, each of them.

use waybill_core::code::Code;
use waybill_core::port::service::streams::{AppendRequest, Start, SubscriptionEnd};
use waybill_core::streams::event::Body;
use waybill_core::streams::settings::StreamsSettings;
use waybill_testkit::fake_transport::{Answer, Gate, ack};

use crate::support::*;

/// Puts other settings in force.
async fn reload(world: &mut World, host: &Host, change: impl FnOnce(&mut StreamsSettings)) {
    change(&mut world.settings);
    host.engine.reconfigure(world.config("host-a")).await;
}

/// Ten events, one after the other.
async fn append_ten(host: &Host, stream: &str) {
    for number in 0..10 {
        host.append(stream, &[&format!("{stream}{number}-0")]).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_ring_that_begins_after_a_reload_has_the_new_live_buffer_size_and_a_live_one_keeps_its_own() {
    let mut world = World::with(|settings| settings.events.live_entries = 4);
    let host = world.start().await;
    let mut live = host.subscribe(named(&["a"]), Start::Latest).await;
    assert!(live.is_quiet(seconds(3)).await);
    reload(&mut world, &host, |settings| settings.events.live_entries = 64).await;
    let mut later = host.subscribe(named(&["b"]), Start::Latest).await;
    assert!(later.is_quiet(seconds(3)).await);
    append_ten(&host, "a").await;
    append_ten(&host, "b").await;
    assert_eq!(live.next().await.unwrap_err(), SubscriptionEnd::Lagged);
    assert_eq!(seqs(&later.take(10).await), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn pages_go_by_the_new_replay_max_batch() {
    let mut world = World::new();
    let host = world.start().await;
    append_ten(&host, "a").await;
    let page = async |limit| host.streams.read_stream(&key("a"), None, limit).await.unwrap().events.len();
    assert_eq!((page(0).await, page(1_000_000_000).await), (10, 10));
    reload(&mut world, &host, |settings| settings.events.replay.events = 3).await;
    assert_eq!((page(0).await, page(1_000_000_000).await), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn the_front_goes_by_the_new_retention_per_stream() {
    let mut world = World::new();
    let host = world.start().await;
    append_ten(&host, "a").await;
    pass(seconds(5)).await;
    let first = async || host.streams.read_stream(&key("a"), None, 0).await.unwrap().first;
    assert_eq!(first().await, 1);
    reload(&mut world, &host, |settings| settings.events.retention_events = 3).await;
    host.append("a", &["last-0"]).await;
    pass(seconds(5)).await;
    assert!(first().await > 1, "eleven are kept where three are enough");
}

#[tokio::test(start_paused = true)]
async fn payloads_are_measured_by_the_new_max_payload_bytes() {
    let mut world = World::new();
    let host = world.start().await;
    let append = async |id: &str| {
        let mut event = input(id);
        event.body = Body::Bytes("x".repeat(100).into());
        let request = AppendRequest { stream: key("a"), events: vec![event], expected_seq: None, traceparent: None };
        host.streams.append(request).await
    };
    append("x-1").await.unwrap();
    reload(&mut world, &host, |settings| settings.events.payload_bytes_max = 99).await;
    assert_eq!(append("x-2").await.unwrap_err().code(), Code::EVENT_PAYLOAD_TOO_LARGE);
    reload(&mut world, &host, |settings| settings.events.payload_bytes_max = 100).await;
    append("x-2").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_relay_has_as_many_under_way_as_the_new_max_inflight_allows() {
    let mut world = World::with(|settings| {
        settings.relays = vec![plan("out")];
        settings.relays[0].in_flight_max = 2;
    });
    let gate = Gate::default();
    let behind = gate.clone();
    world.bus.answer(move |batch| Answer::each(batch, |_| ack()).behind(&behind));
    let host = world.start().await;
    let until = async |count: u64| {
        eventually(&format!("{count} are under way"), async || host.relay("out").await.in_flight == count).await;
        pass(seconds(5)).await;
        assert_eq!(host.relay("out").await.in_flight, count, "it stays so");
    };
    append_ten(&host, "a").await;
    until(2).await;
    reload(&mut world, &host, |settings| settings.relays[0].in_flight_max = 8).await;
    // What is under way ends as it was begun.
    gate.open();
    eventually("the relay has caught up", async || host.relay("out").await.delivered == 10).await;
    gate.shut();
    append_ten(&host, "b").await;
    until(8).await;
    gate.open();
    eventually("all are sent", async || host.relay("out").await.delivered == 20).await;
}
