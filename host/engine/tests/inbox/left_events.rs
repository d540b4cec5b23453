//! Events that handlers leave in streams.

use std::sync::Arc;

use waybill_core::port::store::StoreError;
use waybill_core::streams::envelope;
use waybill_core::streams::event::Event;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_tracer::FakeTracer;
use waybill_testkit::memory_store::Fate;

use crate::support::*;

const LEAVES: &str = r#"{"messages": [{"topic": "bus:shipped", "payload": 1}],
    "events": [{"stream": "order", "resource_id": "o-1"}, {"stream": "order", "resource_id": "o-2"}]}"#;

async fn start(world: &World) -> Host {
    let (memory, inbound) = (world.memory.clone(), world.inbound(vec![world.source()], vec![world.consumer()]));
    let host = world.launch("host-a", inbound, |config| config.streams.store = Some(memory));
    host.until_written().await;
    host
}

/// All events that are stored, by stream and number.
fn stored(world: &World) -> Vec<Event> {
    world.memory.read(|tables| {
        let chunks = tables.streams.chunks.values().flat_map(|chunk| chunk.as_ref().unwrap().events.clone());
        chunks.map(|event| envelope::unpack(&event.packed).unwrap()).collect()
    })
}

#[tokio::test(start_paused = true)]
async fn events_commit_with_the_mark_that_the_message_is_processed() {
    let world = World::new();
    let _host = start(&world).await;
    // The first attempt fails; what the second one leaves is there once.
    world.http.answer(|posted| if posted.attempt() == 1 { Reply::status(500) } else { Reply::handled(LEAVES) });
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    eventually("they are numbered", async || stored(&world).len() == 2).await;
    pass(seconds(30)).await;
    let events = stored(&world);
    let resources: Vec<_> = events.iter().map(|event| event.resource_id.as_str()).collect();
    assert_eq!((resources, world.seen(), world.messages().len()), (vec!["o-1", "o-2"], 1, 1));
    assert!(events.iter().all(|event| event.id.as_str().starts_with("left-")));
}

#[tokio::test(start_paused = true)]
async fn events_that_a_handler_leaves_are_appended_in_the_trace_of_its_call() {
    let (world, tracer) = (World::new(), FakeTracer::recording());
    let (memory, inbound) = (world.memory.clone(), world.inbound(vec![world.source()], vec![world.consumer()]));
    let kept = tracer.clone();
    let host = world.launch("host-a", inbound, |config| {
        config.streams.store = Some(memory);
        config.tracer = Some(Arc::new(kept));
    });
    host.until_written().await;
    world.http.answer(|_| Reply::handled(r#"{"events": [{"stream": "order", "resource_id": "o-1"}]}"#));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    let spans = tracer.ended();
    let of = |start: &str| spans.iter().find(|span| span.name.starts_with(start)).unwrap();
    let (process, append) = (of("process "), of("append"));
    assert_eq!((append.parent.as_ref(), append.failed.as_deref()), (Some(&process.context), None));
    assert_eq!(append.attributes["messaging.destination.name"], "order");
    assert_eq!(of("commit inbox").parent.as_ref(), Some(&process.context));
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_leaves_is_numbered_at_once_though_nothing_else_rings() {
    let world = World::new();
    let _host = start(&world).await;
    // A doorstep that is found empty is looked at again after 2 s, and then every 30 s: the message comes between two of these.
    pass(seconds(5)).await;
    world.http.answer(|_| Reply::handled(r#"{"events": [{"stream": "order", "resource_id": "o-1"}]}"#));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_acknowledged(1).await;
    pass(millis(500)).await;
    assert_eq!(stored(&world).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_refused_or_unknown_leaves_them_once() {
    for fate in [Fate::Lose, Fate::ApplyUnknown] {
        let world = World::new();
        let _host = start(&world).await;
        let (memory, planned) = (world.memory.clone(), fate.clone());
        world.http.answer(move |_| {
            memory.plan_inbox([planned.clone()]);
            Reply::handled(LEAVES)
        });
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(1).await;
        eventually("they are numbered", async || stored(&world).len() == 2).await;
        pass(seconds(30)).await;
        assert_eq!((stored(&world).len(), world.seen()), (2, 1), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_can_not_be_appended_is_a_failed_attempt_and_nothing_of_it_is_left() {
    for bad in [
        r#"{"stream": "saga.one", "resource_id": "o-1"}"#,
        r#"{"stream": "order", "resource_id": ""}"#,
        r#"{"stream": "order", "resource_id": "o-1", "expected_seq": 0}"#,
    ] {
        let world = World::new();
        let _host = start(&world).await;
        let body = format!(
            r#"{{"messages": [{{"topic": "bus:shipped", "payload": 1}}], "events": [{{"stream": "order", "resource_id": "o-1"}}, {bad}]}}"#
        );
        world.http.answer(move |_| Reply::handled(&body));
        world.shop.send("m-1", "orders.paid", "1");
        world.until_dead(1).await;
        pass(seconds(30)).await;
        assert_eq!((stored(&world).len(), world.messages().len()), (0, 0), "{bad}");
    }
}

/// What a handler leaves whose stream has to end at a number: a message and two events.
fn exact(stream: &str, expected: u64) -> String {
    format!(
        r#"{{"messages": [{{"topic": "bus:shipped", "payload": 1}}],
        "events": [{{"stream": "{stream}", "resource_id": "o-1", "expected_seq": {expected}}}, {{"stream": "{stream}", "resource_id": "o-2"}}]}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn mark_message_and_exact_events_are_there_together_or_not_at_all() {
    let world = World::new();
    let host = start(&world).await;
    world.http.answer(|posted| Reply::handled(&exact("order", if posted.attempt() == 1 { 7 } else { 0 })));
    world.shop.send("m-1", "orders.paid", "1");
    eventually("it has failed", async || world.rows().iter().any(|row| row.last_error.is_some())).await;
    let error = world.rows()[0].last_error.clone().unwrap();
    assert!(error.code == "STREAM.EXPECTED_SEQ" && error.reason.contains("ends at 0, not at 7"), "{error:?}");
    assert_eq!((stored(&world).len(), world.seen(), world.messages().len()), (0, 0, 0));
    eventually("it is processed", async || world.seen() == 1).await;
    assert_eq!((stored(&world).len(), world.messages().len(), host.dead().await.len()), (2, 1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_message_whose_stream_never_ends_there_is_a_dead_letter_and_its_neighbours_are_processed() {
    let world = World::new();
    let host = start(&world).await;
    world.http.answer(|posted| Reply::handled(&exact(&posted.id, if posted.id == "m-1" { 7 } else { 0 })));
    for id in ["m-1", "m-2", "m-3", "m-4", "m-5"] {
        world.shop.send(id, "orders.paid", "1");
    }
    world.until_dead(1).await;
    let dead = host.dead().await;
    assert!(dead[0].code == "STREAM.EXPECTED_SEQ" && dead[0].attempts == 3, "{dead:?}");
    eventually("the others are processed", async || stored(&world).len() == 8).await;
    assert_eq!(world.messages().len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_exact_events_that_is_refused_or_unknown_leaves_them_once() {
    let conflict = StoreError::Conflict("the head of a stream".into());
    for fate in [Fate::Refuse(conflict), Fate::Lose, Fate::ApplyUnknown] {
        let world = World::new();
        let _host = start(&world).await;
        let (memory, planned) = (world.memory.clone(), fate.clone());
        world.http.answer(move |_| {
            memory.plan_inbox([planned.clone()]);
            Reply::handled(&exact("order", 0))
        });
        world.shop.send("m-1", "orders.paid", "1");
        world.until_acknowledged(1).await;
        pass(seconds(30)).await;
        assert_eq!((stored(&world).len(), world.seen(), world.messages().len()), (2, 1, 1), "{fate:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_host_without_streams_takes_no_events() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|_| Reply::handled(LEAVES));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_dead(1).await;
    assert!(host.dead().await[0].reason.contains("no event streams"));
}
