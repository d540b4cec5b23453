//! Events that handlers leave in streams.

use waybill_core::streams::envelope;
use waybill_core::streams::event::Event;
use waybill_testkit::fake_handler::Reply;
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

#[tokio::test(start_paused = true)]
async fn a_host_without_streams_takes_no_events() {
    let world = World::new();
    let host = world.start().await;
    world.http.answer(|_| Reply::handled(LEAVES));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_dead(1).await;
    assert!(host.dead().await[0].reason.contains("no event streams"));
}
