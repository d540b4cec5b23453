//! Events that steps leave in streams.

use bytes::Bytes;
use waybill_core::ids::Tenant;
use waybill_core::port::followup::StreamEvent;
use waybill_core::port::participant::{Direction, StepOutput};
use waybill_core::saga::state::SagaState;
use waybill_core::streams::envelope;
use waybill_core::streams::event::Event;
use waybill_core::streams::name::{StreamKey, StreamName};

use crate::support::*;

fn left(stream: &str, attributes: &[(&str, &str)]) -> StreamEvent {
    StreamEvent {
        stream: stream.to_owned(),
        resource_type: "ORDER".into(),
        resource_id: "o-1".into(),
        op: "UPDATE".into(),
        content_type: Some("application/json".into()),
        payload: Bytes::from_static(b"{}"),
        headers: Vec::new(),
        attributes: attributes.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect(),
    }
}

fn leaving(events: Vec<StreamEvent>) -> Does {
    Does::Leaves(StepOutput { data: Bytes::from_static(b"{}"), events, ..StepOutput::default() })
}

async fn start(world: &World) -> Host {
    let memory = world.memory.clone();
    world.start_with(|config| config.streams.store = Some(memory)).await
}

/// Events that are stored of a stream of the sagas' tenant, in order.
fn stored(world: &World, tenant: &Tenant, name: &str) -> Vec<Event> {
    let stream = StreamKey { tenant: tenant.clone(), name: StreamName::new(name).unwrap() };
    world.memory.read(|tables| {
        let chunks = tables.streams.chunks_after(&stream, 0);
        let events = chunks.flat_map(|stored| stored.chunk.unwrap().events.clone());
        events.map(|event| envelope::unpack(&event.packed).unwrap()).collect()
    })
}

fn acme() -> Tenant {
    key("one").tenant
}

#[tokio::test(start_paused = true)]
async fn events_that_a_step_leaves_are_numbered_once_with_its_success() {
    let world = World::new();
    let host = start(&world).await;
    // Its first answer is lost with the connection: the step is called again, and leaves the same.
    world.shop.on(|call| match (call.step.as_str(), call.before) {
        ("a", 0) => Some(Does::Panics),
        ("a", _) => Some(leaving(vec![left("order", &[]), left("order", &[("cause", "saga")])])),
        _ => None,
    });
    host.run(&steps(&["a", "b"])).await;
    host.until("one", SagaState::Completed).await;
    eventually("they are numbered", async || stored(&world, &acme(), "order").len() == 2).await;
    pass(seconds(30)).await;
    let events = stored(&world, &acme(), "order");
    assert_eq!((events.len(), events[1].cause.as_deref()), (2, Some("saga")));
    assert!(events.iter().all(|event| event.id.as_str().starts_with("left-")));
    assert_ne!(events[0].id, events[1].id);
}

#[tokio::test(start_paused = true)]
async fn what_a_step_leaves_is_numbered_at_once_though_nothing_else_rings() {
    let world = World::new();
    let host = start(&world).await;
    // A doorstep that is found empty is looked at again after 2 s, and then every 30 s: the step comes between two of these.
    pass(seconds(5)).await;
    world.shop.on(|call| (call.direction == Direction::Execute).then(|| leaving(vec![left("order", &[])])));
    host.run(&steps(&["a"])).await;
    host.until("one", SagaState::Completed).await;
    pass(millis(500)).await;
    assert_eq!(stored(&world, &acme(), "order").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_success_is_not_committed_leaves_no_event() {
    let world = World::new();
    let host = start(&world).await;
    // The output is more than is kept, so the step has failed, whatever it left.
    let large = Bytes::from(format!("\"{}\"", "x".repeat(4 << 20)));
    world.shop.on(move |call| {
        let output = StepOutput { data: large.clone(), events: vec![left("order", &[])], ..StepOutput::default() };
        (call.direction == Direction::Execute).then_some(Does::Leaves(output))
    });
    host.run(&steps(&["a"])).await;
    host.until("one", SagaState::Cancelled).await;
    pass(seconds(30)).await;
    assert!(stored(&world, &acme(), "order").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_step_that_leaves_an_event_that_can_not_be_appended_has_failed_for_good() {
    for (event, code) in [
        (left("saga.one", &[]), "STREAM.READ_ONLY"),
        (left("order", &[("schema-version", "0")]), "SCHEMA.VERSION"),
        (left("order", &[("expected-seq", "3")]), "SCHEMA.VALIDATION_FAILED"),
        (left("a b", &[]), "SCHEMA.VALIDATION_FAILED"),
    ] {
        let world = World::new();
        let host = start(&world).await;
        let bad = event.clone();
        world.shop.on(move |call| {
            (call.direction == Direction::Execute).then(|| leaving(vec![left("order", &[]), bad.clone()]))
        });
        host.run(&steps(&["a"])).await;
        let view = host.until("one", SagaState::Cancelled).await;
        assert_eq!(view.code.as_deref(), Some(code), "{event:?}");
        pass(seconds(30)).await;
        assert!(stored(&world, &acme(), "order").is_empty(), "all of it or nothing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_without_streams_says_so() {
    let world = World::new();
    let host = world.start().await;
    world.shop.on(|call| (call.direction == Direction::Execute).then(|| leaving(vec![left("order", &[])])));
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("SAGA.NO_STREAMS"));
}
