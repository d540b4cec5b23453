//! Events that steps leave in streams.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::Tenant;
use waybill_core::port::followup::{Outgoing, StreamEvent};
use waybill_core::port::participant::{Direction, StepOutput};
use waybill_core::port::saga::StartSaga;
use waybill_core::port::store::StoreError;
use waybill_core::saga::state::SagaState;
use waybill_core::streams::envelope;
use waybill_core::streams::event::Event;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_testkit::fake_tracer::FakeTracer;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

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
async fn events_that_a_step_leaves_are_appended_in_the_trace_of_its_call() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let (memory, kept) = (world.memory.clone(), tracer.clone());
    let host = world
        .start_with(|config| {
            config.streams.store = Some(memory);
            config.tracer = Some(Arc::new(kept));
        })
        .await;
    world.shop.on(|call| (call.step == "a").then(|| leaving(vec![left("order", &[]), left("order", &[])])));
    host.define(&definition(&steps(&["a"]))).await;
    host.sagas.start(StartSaga { traceparent: Some(CALLER.to_owned()), ..crate::support::start("one") }).await.unwrap();
    host.until("one", SagaState::Completed).await;
    let spans = tracer.ended();
    let of = |name: &str| spans.iter().find(|span| span.name == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"));
    let (step, append) = (of("step a"), of("append"));
    assert_eq!(step.parent.as_deref(), Some(CALLER));
    assert_eq!((append.parent.as_ref(), append.failed.as_deref()), (Some(&step.context), None));
    assert_eq!(append.attributes["messaging.destination.name"], "order");
    assert_eq!(append.attributes["messaging.batch.message_count"], "2");
    assert_eq!(of("commit sagas").parent.as_ref(), Some(&step.context));
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
        // The one before it in its stream names none.
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

/// What a step leaves whose order stream has to end at a number: a message and two events.
fn exact(expected: u64) -> Does {
    let first = left("order", &[("expected-seq", &expected.to_string())]);
    let message = Outgoing {
        id: None,
        topic: "bus:x.one".into(),
        key: None,
        headers: Vec::new(),
        payload: Bytes::from_static(b"1"),
        event_type: None,
        annotations: Default::default(),
        not_before: None,
        attributes: Vec::new(),
    };
    let (messages, events) = (vec![message], vec![first, left("order", &[])]);
    Does::Leaves(StepOutput { data: Bytes::from_static(b"{}"), messages, events, ..StepOutput::default() })
}

#[tokio::test(start_paused = true)]
async fn state_message_and_exact_events_of_a_step_are_there_together_or_not_at_all() {
    let world = World::new();
    let host = start(&world).await;
    world.shop.on(|call| match (call.direction, call.before) {
        (Direction::Execute, 0) => Some(exact(7)),
        (Direction::Execute, _) => Some(exact(0)),
        _ => None,
    });
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Completed).await;
    let told: Vec<String> = view.history.unwrap().iter().map(|line| line.text.clone()).collect();
    let refused: Vec<&String> = told.iter().filter(|text| text.contains("STREAM.EXPECTED_SEQ")).collect();
    assert!(refused.len() == 1 && refused[0].contains("ends at 0, not at 7"), "{told:?}");
    let ids: Vec<String> = stored(&world, &acme(), "order").iter().map(|event| event.id.to_string()).collect();
    assert!(ids.len() == 2 && ids.iter().all(|id| id.starts_with("left-")), "{ids:?}");
    assert_eq!(world.messages().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_step_whose_stream_never_ends_there_fails_and_leaves_nothing() {
    let world = World::new();
    let host = start(&world).await;
    world.shop.on(|call| (call.direction == Direction::Execute).then(|| exact(7)));
    host.run(&steps(&["a"])).await;
    let view = host.until("one", SagaState::Cancelled).await;
    assert_eq!(view.code.as_deref(), Some("STREAM.EXPECTED_SEQ"));
    assert_eq!((stored(&world, &acme(), "order").len(), world.messages().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_exact_events_that_is_refused_or_unknown_leaves_them_once() {
    for fate in [Fate::Refuse(StoreError::Conflict("the head of a stream".into())), Fate::Lose, Fate::ApplyUnknown] {
        let world = World::new();
        let host = start(&world).await;
        let (memory, planned) = (world.memory.clone(), fate.clone());
        world.shop.on(move |call| {
            memory.plan_sagas([planned.clone()]);
            (call.direction == Direction::Execute && call.before == 0).then(|| exact(0))
        });
        host.run(&steps(&["a"])).await;
        host.until("one", SagaState::Completed).await;
        assert_eq!((stored(&world, &acme(), "order").len(), world.messages().len()), (2, 1), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn sagas_beside_a_hammered_stream_go_on_and_each_event_of_it_is_there_once() {
    let world = World::new();
    let host = start(&world).await;
    let memory = world.memory.clone();
    // Each looks where the stream ends, and eight do so at once: one of them is right each time.
    world.shop.on(move |call| {
        let stream = StreamKey { tenant: acme(), name: StreamName::new("order").unwrap() };
        let last = memory.read(|tables| tables.streams.head(&stream).last);
        match (call.direction, call.step.as_str()) {
            (Direction::Execute, "hammer") => {
                Some(leaving(vec![left("order", &[("expected-seq", &last.to_string())])]))
            }
            _ => None,
        }
    });
    let hammer = step("hammer", "").replace("max_attempts = 3", "max_attempts = 100, factor = 1.0");
    host.define(&definition(&hammer)).await;
    for number in 0..8 {
        host.begin(&format!("hammer-{number}")).await;
    }
    host.define(&definition(&steps(&["a", "b"])).replace("version = 1", "version = 2")).await;
    for number in 0..8 {
        host.begin(&format!("calm-{number}")).await;
    }
    for number in 0..8 {
        host.until(&format!("calm-{number}"), SagaState::Completed).await;
        host.until(&format!("hammer-{number}"), SagaState::Completed).await;
    }
    let events = stored(&world, &acme(), "order");
    assert_eq!(events.len(), 8);
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
