//! A saga's history, read as the event stream `saga.{id}`.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::time::timeout;
use waybill_core::code::Code;
use waybill_core::port::participant::Direction;
use waybill_core::port::service::streams::{
    EventPiece, Start, StreamAct, StreamService, SubscribeRequest, Subscribed, Subscription,
};
use waybill_core::saga::state::SagaState;
use waybill_core::streams::envelope;
use waybill_core::streams::event::{Body, Event, Op};
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_engine::EngineConfig;

use crate::support::*;

/// Waits for a signal.
const WAITS: &str = "[[steps]]\nname = \"w\"\naction = \"wait:go\"\n";

async fn start(world: &World) -> Host {
    let memory = world.memory.clone();
    world.start_with(|config| config.streams.store = Some(memory)).await
}

fn streams(host: &Host) -> Arc<dyn StreamService> {
    host.engine.streams().unwrap()
}

fn stream(id: &str) -> StreamKey {
    StreamKey { tenant: tenant("default"), name: StreamName::of_saga(id).unwrap() }
}

/// All that is read of a history, two events a page.
async fn read(host: &Host, id: &str) -> Vec<EventPiece> {
    let (mut all, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = streams(host).read_stream(&stream(id), after.as_deref(), 2).await.unwrap();
        after = Some(page.next_after.to_string());
        all.extend(page.events);
        if page.is_end {
            return all;
        }
    }
}

async fn subscribe(host: &Host, id: &str, start: Start) -> Box<dyn Subscription> {
    let what = Subscribed::Streams(vec![stream(id).name]);
    let request = SubscribeRequest { tenant: tenant("default"), what, start, replay_events: 0 };
    streams(host).subscribe(request).await.unwrap()
}

fn unpacked(pieces: &[EventPiece]) -> Vec<Event> {
    pieces.iter().map(|piece| envelope::unpack(&piece.packed).unwrap()).collect()
}

fn lines(pieces: &[EventPiece]) -> Vec<Value> {
    let payload = |event: &Event| match &event.body {
        Body::Bytes(bytes) => serde_json::from_slice(bytes).unwrap(),
        other => panic!("{other:?}"),
    };
    unpacked(pieces).iter().map(payload).collect()
}

/// The history as the saga itself has it, which may be ahead of the store.
async fn history(host: &Host, id: &str) -> Vec<Value> {
    let lines = host.view(id).await.history.unwrap();
    lines.iter().map(|line| serde_json::to_value(line).unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_history_is_read_as_a_stream_while_the_saga_runs_and_after_its_end() {
    let world = World::new();
    let host = start(&world).await;
    world.shop.on(|call| match (call.step.as_str(), call.direction) {
        ("b", Direction::Execute) => Some(permanent("SHOP.NO")),
        _ => None,
    });
    host.run(&(step("a", "") + WAITS + &step("b", ""))).await;
    host.until_waiting("one", "signal:go").await;
    pass(seconds(10)).await;
    let begun = read(&host, "one").await;
    assert_eq!(lines(&begun), history(&host, "one").await);
    host.signal("one", "go", json!({})).await.unwrap();
    assert_eq!(host.at_rest("one", 60).await.unwrap(), Some(SagaState::Cancelled));

    let all = read(&host, "one").await;
    assert_eq!(lines(&all), history(&host, "one").await);
    assert_eq!(all[..begun.len()], begun, "what was read stays as it was");
    let seqs: Vec<u64> = all.iter().map(|piece| piece.seq).collect();
    assert_eq!(seqs, (1..=all.len() as u64).collect::<Vec<_>>());
    let events = unpacked(&all);
    assert!(events.iter().all(|event| (&*event.resource_type, &*event.resource_id) == ("SAGA", "one")));
    assert!(events.iter().enumerate().all(|(at, event)| (event.op == Op::CREATE) == (at == 0)));
    assert!(events.iter().any(|event| event.cause.as_deref().is_some_and(|cause| cause.starts_with("SHOP.NO: "))));
    let shown = streams(&host).stream(&stream("one")).await.unwrap();
    assert_eq!((shown.summary.first, shown.summary.last), (1, all.len() as u64));
}

#[tokio::test(start_paused = true)]
async fn no_other_tenant_and_no_other_name_finds_it() {
    let world = World::new();
    let host = start(&world).await;
    host.run(WAITS).await;
    host.until_waiting("one", "signal:go").await;
    pass(seconds(10)).await;
    assert!(!read(&host, "one").await.is_empty());
    let named = |name: &str| StreamKey { tenant: tenant("default"), name: StreamName::new(name).unwrap() };
    let of_others = StreamKey { tenant: tenant("other"), ..stream("one") };
    for key in [of_others, stream("two"), named("saga.%6Fne"), named("saga.one%7Ew")] {
        let refused = streams(&host).read_stream(&key, None, 0).await.unwrap_err();
        assert_eq!(refused.code().as_str(), "STREAM.NOT_FOUND", "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_goes_from_what_is_stored_to_what_comes() {
    let world = World::new();
    let host = start(&world).await;
    // There is no such saga yet.
    let mut reader = subscribe(&host, "one", Start::Earliest).await;
    assert!(timeout(millis(100), reader.next()).await.is_err());
    host.run(&(step("a", "") + WAITS)).await;
    // By itself it looks each second: it was called.
    let mut pieces = timeout(millis(500), reader.next()).await.expect("it wasn't called").unwrap();
    host.until_waiting("one", "signal:go").await;
    host.signal("one", "go", json!({})).await.unwrap();
    assert_eq!(host.at_rest("one", 60).await.unwrap(), Some(SagaState::Completed));
    let all = history(&host, "one").await;
    while pieces.len() < all.len() {
        pieces.extend(timeout(seconds(60), reader.next()).await.expect("nothing came").unwrap());
    }
    assert_eq!(lines(&pieces), all);
    assert!(timeout(seconds(60), reader.next()).await.is_err(), "it has ended, and nothing is said twice");

    let behind = Start::Cursor(pieces[1].cursor.to_string());
    let mut resumed = subscribe(&host, "one", behind).await;
    let rest = timeout(seconds(60), resumed.next()).await.unwrap().unwrap();
    assert_eq!(rest, pieces[2..]);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_committed_is_not_read() {
    let world = World::new();
    let host = start(&world).await;
    host.run(WAITS).await;
    host.until_waiting("one", "signal:go").await;
    pass(seconds(10)).await;
    let before = read(&host, "one").await;
    world.shim.on(|call| match call {
        Call::Commit(_) => Act::Slow(seconds(8)),
        _ => Act::Pass,
    });
    let (signalled, ()) = tokio::join!(host.signal("one", "go", json!({})), async {
        pass(seconds(4)).await;
        assert!(history(&host, "one").await.len() > before.len(), "memory is ahead");
        assert_eq!(read(&host, "one").await, before);
    });
    signalled.unwrap();
    assert!(read(&host, "one").await.len() > before.len());
}

#[tokio::test(start_paused = true)]
async fn numbers_and_cursors_stay_over_a_crash() {
    let world = World::new();
    let host = start(&world).await;
    host.run(&(step("a", "") + WAITS)).await;
    host.until_waiting("one", "signal:go").await;
    pass(seconds(10)).await;
    let before = read(&host, "one").await;
    host.crash().await;
    let host = start(&world).await;
    assert_eq!(read(&host, "one").await, before);
    let mut reader = subscribe(&host, "one", Start::Cursor(before.last().unwrap().cursor.to_string())).await;
    host.signal("one", "go", json!({})).await.unwrap();
    let next = timeout(seconds(60), reader.next()).await.unwrap().unwrap();
    assert_eq!(next[0].seq, before.len() as u64 + 1);
}

#[tokio::test(start_paused = true)]
async fn another_host_reads_what_rests_and_says_where_more_is_known() {
    let world = World::new();
    let shared = |config: &mut EngineConfig| {
        config.exclusive = false;
        config.streams.store = Some(world.memory.clone());
    };
    let first = world.start_with(shared).await;
    first.run(&(step("a", "") + WAITS)).await;
    first.until_waiting("one", "signal:go").await;
    let second = world.launch("host-b", shared);
    pass(seconds(10)).await;
    let rests = read(&first, "one").await;
    assert_eq!(read(&second, "one").await, rests);
    let cursor = |pieces: &[EventPiece]| pieces.last().unwrap().cursor.to_string();
    let mut reader = subscribe(&second, "one", Start::Cursor(cursor(&rests))).await;

    // It moves and doesn't rest yet: there is more than its row tells. And one that has begun only now has no row.
    first.signal("one", "early", json!({})).await.unwrap();
    first.begin("two").await;
    let ahead = cursor(&read(&first, "one").await);
    for (id, after) in [("one", Some(ahead.as_str())), ("two", None)] {
        let refused = streams(&second).read_stream(&stream(id), after, 0).await.unwrap_err();
        assert!(refused.code() == Code::PROVIDER_UNAVAILABLE && refused.to_string().contains("host-a"), "{refused}");
    }
    first.signal("one", "go", json!({})).await.unwrap();
    assert_eq!(first.at_rest("one", 60).await.unwrap(), Some(SagaState::Completed));
    let all = read(&first, "one").await;
    let mut seen = rests;
    while seen.len() < all.len() {
        seen.extend(timeout(seconds(60), reader.next()).await.expect("nothing came").unwrap());
    }
    assert_eq!(seen, all);
}

#[tokio::test(start_paused = true)]
async fn nobody_takes_anything_out_of_a_history() {
    let world = World::new();
    let host = start(&world).await;
    host.run(WAITS).await;
    host.until_waiting("one", "signal:go").await;
    for is_plan in [false, true] {
        let act = StreamAct { stream: stream("one"), is_plan, actor: "ann".into(), reason: String::new() };
        assert_eq!(streams(&host).purge(&act, None).await.unwrap_err().code().as_str(), "STREAM.READ_ONLY");
        assert_eq!(streams(&host).delete(&act).await.unwrap_err().code().as_str(), "STREAM.READ_ONLY");
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_goes_with_its_saga() {
    let world = World::new();
    let memory = world.memory.clone();
    let host = world
        .start_with(|config| {
            config.streams.store = Some(memory);
            config.sagas.keep_done = seconds(60);
        })
        .await;
    host.run(&step("a", "")).await;
    assert_eq!(host.at_rest("one", 60).await.unwrap(), Some(SagaState::Completed));
    let last = read(&host, "one").await.len();
    eventually("it is gone", async || streams(&host).read_stream(&stream("one"), None, 0).await.is_err()).await;
    let what = Subscribed::Streams(vec![stream("one").name]);
    let start = Start::Cursor(last.to_string());
    let request = SubscribeRequest { tenant: tenant("default"), what, start, replay_events: 0 };
    let refused = streams(&host).subscribe(request).await.map(drop).unwrap_err();
    assert_eq!(refused.code().as_str(), "EVENT.CURSOR_AHEAD");
}
