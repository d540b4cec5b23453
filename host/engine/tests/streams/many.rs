//! Readers of many streams.

use std::collections::BTreeMap;

use waybill_core::code::Code;
use waybill_core::port::service::streams::{Start, Subscribed};
use waybill_core::streams::reading::Selector;

use crate::support::*;

/// Of one stream, its numbers in the order in which they came.
fn of(taken: &[(String, u64, String)], stream: &str) -> Vec<u64> {
    taken.iter().filter(|taken| taken.0 == stream).map(|taken| taken.1).collect()
}

#[tokio::test(start_paused = true)]
async fn a_prefix_has_every_event_once_from_replay_to_live() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..10 {
        host.append(&format!("task.{}", number % 3), &[&format!("x-{number}")]).await;
        host.append("node.1", &[&format!("y-{number}")]).await;
    }
    let mut reader = host.subscribe(prefix("task."), Start::Earliest).await;
    let mut taken = reader.take(10).await;
    assert_eq!((of(&taken, "task.0"), of(&taken, "task.1")), (vec![1, 2, 3, 4], vec![1, 2, 3]));
    assert!(reader.is_quiet(seconds(3)).await);
    for number in 10..20 {
        host.append(&format!("task.{}", number % 4), &[&format!("x-{number}")]).await;
        host.append("node.1", &[&format!("y-{number}")]).await;
        taken.extend(reader.take(1).await);
    }
    for stream in ["task.0", "task.1", "task.2", "task.3"] {
        let numbers = of(&taken, stream);
        assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "{stream}");
    }
    assert_eq!(taken.len(), 20);
    assert!(taken.iter().all(|taken| taken.0.starts_with("task.")));
    assert!(reader.is_quiet(seconds(3)).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_goes_on_from_within_a_scan_and_from_live() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..6 {
        host.append(&format!("task.{number}"), &[&format!("x-{number}")]).await;
    }
    let mut reader = host.subscribe(prefix("task."), Start::Earliest).await;
    let pieces = reader.next().await.unwrap();
    let (first, cursor) = (shown(&pieces[0]), pieces[0].cursor.to_string());
    drop(reader);
    host.append("task.0", &["x-9"]).await;
    let mut reader = host.subscribe(prefix("task."), Start::Cursor(cursor)).await;
    let mut taken = vec![first];
    taken.extend(reader.take(6).await);
    let mut ids: Vec<_> = taken.iter().map(|taken| taken.2.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["x-0", "x-1", "x-2", "x-3", "x-4", "x-5", "x-9"]);
    let live = reader.subscription.cursor().unwrap().to_string();
    drop(reader);
    host.append("task.7", &["x-10"]).await;
    let mut reader = host.subscribe(prefix("task."), Start::Cursor(live.clone())).await;
    assert_eq!(reader.take(1).await[0].2, "x-10");
    let error = host.try_subscribe(prefix("other."), Start::Cursor(live)).await.err().unwrap();
    assert_eq!(error.code(), Code::EVENT_CURSOR);
}

#[tokio::test(start_paused = true)]
async fn a_prefix_goes_on_behind_the_numbers_that_a_client_kept() {
    let world = World::new();
    let host = world.start().await;
    for stream in ["task.a", "task.b", "task.c"] {
        host.append(stream, &[&format!("{stream}-1"), &format!("{stream}-2")]).await;
    }
    let positions = |had: &[(&str, u64)]| Start::Positions(had.iter().map(|(of, seq)| (name(of), *seq)).collect());
    let mut reader = host.subscribe(prefix("task."), positions(&[("task.a", 2), ("task.b", 1)])).await;
    let mut pieces = Vec::new();
    while pieces.len() < 3 {
        pieces.extend(reader.next().await.unwrap());
    }
    let ids: Vec<_> = pieces.iter().map(|piece| shown(piece).2).collect();
    assert_eq!(ids, ["task.b-2", "task.c-1", "task.c-2"]);
    assert!(pieces[1..].iter().all(|piece| !piece.cursor.is_empty()), "behind task.b a token tells all of it");
    assert!(reader.is_quiet(seconds(3)).await);
    host.append("task.a", &["task.a-3"]).await;
    assert_eq!(reader.take(1).await[0].2, "task.a-3");
    let cursor = reader.subscription.cursor().unwrap().to_string();
    drop(reader);
    host.append("task.b", &["task.b-3"]).await;
    let mut reader = host.subscribe(prefix("task."), Start::Cursor(cursor)).await;
    assert_eq!(reader.take(1).await[0].2, "task.b-3");
    let ahead = host.try_subscribe(prefix("task."), positions(&[("task.a", 9)])).await.err().unwrap();
    assert_eq!(ahead.code(), Code::EVENT_CURSOR_AHEAD);
    let by_type = Selector::Resource { resource_type: "TASK".into(), id_prefix: String::new() };
    let refused = host.try_subscribe(Subscribed::Many(by_type), positions(&[("task.a", 1)])).await.err().unwrap();
    assert_eq!(refused.code(), Code::EVENT_CURSOR);
}

#[tokio::test(start_paused = true)]
async fn a_number_of_a_stream_that_a_prefix_does_not_give_is_refused_with_its_name() {
    let world = World::new();
    let host = world.start().await;
    host.append("task.a", &["a-1"]).await;
    for (of, beside) in [("task.", "node.1"), ("sag", "saga.x"), ("", "saga.x"), ("task.a.", "task.a")] {
        let mut had = BTreeMap::from([(name(beside), 0)]);
        if of == "task." {
            had.insert(name("task.a"), 1);
        }
        let refused = host.try_subscribe(prefix(of), Start::Positions(had)).await.err().unwrap();
        assert_eq!(refused.code(), Code::EVENT_CURSOR, "{of}: {refused}");
        assert!(refused.to_string().contains(&format!("names stream {beside},")), "{of}: {refused}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_selector_by_node_finds_the_streams_that_name_it() {
    let uuid = "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f";
    let world = World::new();
    let host = world.start().await;
    host.append(&format!("task.node.{uuid}"), &["x-1"]).await;
    host.append("task.other", &["y-1"]).await;
    let what = Subscribed::Many(Selector::Node(uuid.to_owned()));
    let mut reader = host.subscribe(what, Start::Earliest).await;
    assert_eq!(reader.take(1).await[0].2, "x-1");
    host.append("task.other", &["y-2"]).await;
    host.append(&format!("task.node.{uuid}"), &["x-2"]).await;
    assert_eq!(reader.take(1).await[0].2, "x-2");
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_prefix_go_on_where_they_were() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..5 {
        host.append(&format!("task.{number}"), &[&format!("x-{number}")]).await;
    }
    let selector = Selector::Prefix("task.".into());
    let (mut ids, mut cursor) = (Vec::new(), None);
    for _ in 0..3 {
        let page = host.streams.read_many(&tenant(), &selector, cursor.as_deref(), 2).await.unwrap();
        ids.extend(page.events.iter().map(|piece| shown(piece).2));
        cursor = page.next_cursor;
    }
    assert_eq!(ids, ["x-0", "x-1", "x-2", "x-3", "x-4"]);
    assert_eq!(cursor, None, "there is nothing else, and whoever goes from page to page stops");
}

#[tokio::test(start_paused = true)]
async fn a_page_of_little_among_much_ends_short_and_goes_on() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..600 {
        host.append(&format!("task.{number:03}"), &[&format!("x-{number}")]).await;
    }
    host.append("task.zzz", &["rare-1"]).await;
    let selector = Selector::Resource { resource_type: "TASK".into(), id_prefix: "rare".into() };
    let (mut ids, mut cursor, mut pages) = (Vec::new(), None, 0);
    loop {
        let page = host.streams.read_many(&tenant(), &selector, cursor.as_deref(), 10).await.unwrap();
        ids.extend(page.events.iter().map(|piece| shown(piece).2));
        (cursor, pages) = (page.next_cursor, pages + 1);
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(ids, ["rare-1"]);
    assert!(pages > 1, "one request doesn't go through everything");
}

#[tokio::test(start_paused = true)]
async fn a_live_reader_of_a_prefix_lags_as_any_other() {
    let world = World::with(|settings| settings.events.live_entries = 4);
    let host = world.start().await;
    let mut reader = host.subscribe(prefix("task."), Start::Earliest).await;
    assert!(reader.is_quiet(millis(2_500)).await);
    for number in 0..10 {
        host.append("task.1", &[&format!("x-{number}")]).await;
    }
    assert_eq!(reader.next().await.unwrap_err().code(), Code::EVENT_LAGGED);
}

#[tokio::test(start_paused = true)]
async fn readers_of_one_selector_share_a_ring_and_another_one_has_its_own() {
    let world = World::new();
    let host = world.start().await;
    let mut first = host.subscribe(prefix("task."), Start::Earliest).await;
    let mut second = host.subscribe(prefix("task."), Start::Earliest).await;
    let mut other = host.subscribe(prefix("node."), Start::Earliest).await;
    for reader in [&mut first, &mut second, &mut other] {
        assert!(reader.is_quiet(millis(2_500)).await);
    }
    assert_eq!(host.streams.stream_stats().await.unwrap().rings, 2);
    host.append("task.1", &["x-1"]).await;
    assert_eq!((first.take(1).await[0].1, second.take(1).await[0].1), (1, 1));
    drop(first);
    assert_eq!(host.streams.stream_stats().await.unwrap().rings, 2);
    host.append("task.1", &["x-2"]).await;
    assert_eq!(second.take(1).await[0].2, "x-2");
    drop(second);
    let stats = host.streams.stream_stats().await.unwrap();
    assert_eq!(stats.rings, 1);
    host.append("node.1", &["y-1"]).await;
    assert_eq!(other.take(1).await[0].2, "y-1");
    drop(other);
    let stats = host.streams.stream_stats().await.unwrap();
    assert_eq!((stats.rings, stats.ring_bytes), (0, 0));
}
