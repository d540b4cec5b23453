//! Several hosts on one store: one numbers a stream, and another takes it over.

use std::time::Duration;

use waybill_core::code::Code;
use waybill_core::port::service::streams::{AppendRequest, Appended, EventInput, Start};
use waybill_engine::EngineConfig;

use crate::support::*;

fn shared(config: &mut EngineConfig) {
    (config.exclusive, config.owner_ttl) = (false, Duration::from_secs(4));
}

#[tokio::test(start_paused = true)]
async fn when_the_owner_dies_another_host_goes_on_with_the_next_number() {
    let world = World::new();
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    let mut reader = second.subscribe(named(&["a"]), Start::Earliest).await;
    assert_eq!(numbered(first.append("a", &["x-1", "x-2"]).await), [1, 2]);
    // A host that doesn't own the stream follows the feed of the one that does.
    assert_eq!(seqs(&reader.take(2).await), [1, 2]);
    first.crash().await;
    second.until_owned().await;
    assert_eq!(numbered(second.append("a", &["x-3"]).await), [3]);
    assert_eq!(seqs(&reader.take(1).await), [3]);
}

#[tokio::test(start_paused = true)]
async fn an_append_to_another_hosts_stream_goes_over_its_doorstep_and_learns_its_number() {
    let world = World::new();
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    assert_eq!(numbered(second.append("a", &["x-1", "x-2"]).await), [1, 2]);
    let mut reader = first.subscribe(prefix("a"), Start::Earliest).await;
    assert_eq!(seqs(&reader.take(2).await), [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn an_append_repeated_at_a_host_that_does_not_own_the_stream_is_answered_with_its_numbers() {
    let world = World::new();
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    first.append("a", &["x-1", "x-2"]).await;
    for (ids, expected) in [(["x-1", "x-2"], (vec![1, 2], vec![0, 1])), (["x-2", "x-3"], (vec![2, 3], vec![0]))] {
        let appended = second.append("a", &ids).await;
        let Appended::Numbered { seqs, duplicates, .. } = appended else { panic!("{appended:?}") };
        assert_eq!((seqs, duplicates), expected);
    }
    let other = EventInput { cause: Some("another".into()), ..input("x-1") };
    let request = AppendRequest { stream: key("a"), events: vec![other], expected_seq: None, traceparent: None };
    assert_eq!(second.streams.append(request).await.unwrap_err().code(), Code::EVENT_ID_TAKEN);
    assert!(world.memory.read(|tables| tables.streams.dead.is_empty()), "it never lay on the doorstep");
}

#[tokio::test(start_paused = true)]
async fn an_append_that_nobody_numbers_in_time_is_durable_and_numbered_later() {
    let world = World::new();
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    pass(seconds(1)).await;
    first.crash().await;
    // The shard's owner is dead, and its time isn't over yet.
    let appended = second.append("a", &["x-1"]).await;
    if let Appended::Numbered { seqs, .. } = &appended {
        assert_eq!(seqs, &[1]);
    }
    second.until_owned().await;
    eventually("it is numbered", async || {
        let page = second.streams.read_stream(&key("a"), None, 0).await;
        page.is_ok_and(|page| page.events.len() == 1)
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_token_that_was_taken_at_one_host_is_good_at_the_next() {
    let world = World::new();
    let first = world.launch("first", shared);
    first.until_owned().await;
    first.append("task.1", &["x-1"]).await;
    let mut reader = first.subscribe(prefix("task."), Start::Earliest).await;
    reader.take(1).await;
    let cursor = reader.subscription.cursor().unwrap().to_string();
    drop(reader);
    first.append("task.2", &["x-2"]).await;
    first.drain().await;
    drop(first);
    let second = world.launch("second", shared);
    second.until_owned().await;
    second.append("task.3", &["x-3"]).await;
    let mut reader = second.subscribe(prefix("task."), Start::Cursor(cursor)).await;
    let taken = reader.take(2).await;
    assert_eq!(taken.iter().map(|taken| taken.2.as_str()).collect::<Vec<_>>(), ["x-2", "x-3"]);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_numbers_nothing() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    world.memory.write(|tables| {
        let record = tables.streams.shards.get_mut(&waybill_core::ids::ShardId(0)).unwrap();
        (record.token, record.beat) = (record.token + 1, record.beat + 1);
    });
    // Whether its commit went in before the other owner came, nobody can tell.
    let unknown = host.try_append("a", &["x-2"], None).await.unwrap_err();
    assert_eq!(unknown.code(), Code::TX_TIMEOUT);
    let appended = host.append("a", &["x-2"]).await;
    assert!(matches!(appended, Appended::Accepted { .. }), "it waits on the doorstep: {appended:?}");
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert_eq!(page.last, 1);
}
