//! From replay to live, without a gap and without a repeat.

use waybill_core::code::Code;
use waybill_core::port::service::streams::{Start, StreamAct, SubscriptionEnd};

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_reader_has_everything_once_whenever_it_was_appended() {
    let world = World::with(|settings| settings.events.replay.events = 3);
    let host = world.start().await;
    for number in 1..=10 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    // Appended between pages of its replay, and when it is live.
    let mut taken = Vec::new();
    for number in 11..=40 {
        if number % 3 == 0 {
            taken.extend(reader.next().await.unwrap().iter().map(shown));
        }
        host.append("a", &[&format!("x-{number}")]).await;
    }
    while taken.len() < 40 {
        taken.extend(reader.next().await.unwrap().iter().map(shown));
    }
    assert_eq!(seqs(&taken), (1..=40).collect::<Vec<_>>());
    assert!(reader.is_quiet(seconds(5)).await);
}

#[tokio::test(start_paused = true)]
async fn a_reader_that_comes_back_with_its_cursor_goes_on_with_the_next_event() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1", "x-2", "x-3"]).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let pieces = reader.next().await.unwrap();
    assert_eq!(pieces.iter().map(|piece| &*piece.cursor).collect::<Vec<_>>(), ["1", "2", "3"]);
    drop(reader);
    host.append("a", &["x-4"]).await;
    for (cursor, expected) in [("3", vec![4]), ("1", vec![2, 3, 4])] {
        let mut reader = host.subscribe(named(&["a"]), Start::Cursor(cursor.into())).await;
        assert_eq!(seqs(&reader.take(expected.len()).await), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn several_streams_have_a_cursor_each() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    host.append("b", &["y-1"]).await;
    let mut reader = host.subscribe(named(&["b", "a"]), Start::Earliest).await;
    let mut taken = reader.take(2).await;
    taken.sort();
    assert_eq!(taken.iter().map(|taken| taken.0.as_str()).collect::<Vec<_>>(), ["a", "b"]);
    let cursor = reader.subscription.cursor().unwrap();
    assert_eq!(&*cursor, "1,1");
    drop(reader);
    host.append("b", &["y-2"]).await;
    let mut reader = host.subscribe(named(&["b", "a"]), Start::Cursor(cursor.to_string())).await;
    assert_eq!(reader.take(1).await[0].2, "y-2");
    let error = host.try_subscribe(named(&["b"]), Start::Cursor(cursor.to_string())).await.err().unwrap();
    assert_eq!(error.code(), Code::EVENT_CURSOR);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_there_yet_is_waited_for_and_latest_begins_with_what_comes() {
    let world = World::new();
    let host = world.start().await;
    host.append("old", &["x-1"]).await;
    let mut early = host.subscribe(named(&["new"]), Start::Earliest).await;
    let mut latest = host.subscribe(named(&["old"]), Start::Latest).await;
    assert!(early.is_quiet(seconds(3)).await && latest.is_quiet(seconds(3)).await);
    host.append("new", &["y-1"]).await;
    host.append("old", &["x-2"]).await;
    assert_eq!(early.take(1).await[0].2, "y-1");
    assert_eq!(latest.take(1).await[0].2, "x-2");
}

#[tokio::test(start_paused = true)]
async fn events_at_an_expected_number_reach_live_readers_in_their_place() {
    let world = World::new();
    let host = world.start().await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    assert!(reader.is_quiet(seconds(2)).await);
    for number in 0..6 {
        let expected = (number % 2 == 0).then_some(number);
        host.try_append("a", &[&format!("x-{number}")], expected).await.unwrap();
    }
    assert_eq!(seqs(&reader.take(6).await), [1, 2, 3, 4, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_of_what_is_gone_is_told_at_once_and_a_chunk_that_cannot_be_read_is_never_skipped() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    host.append("a", &["x-2"]).await;
    host.append("a", &["x-3"]).await;
    world.memory.spoil_chunk(&key("a"), 2);
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    assert_eq!(reader.take(1).await[0].1, 1);
    let SubscriptionEnd::Failed(error) = reader.next().await.unwrap_err() else { panic!() };
    assert_eq!(error.code(), Code::STORAGE_CORRUPT);
    let act = StreamAct { stream: key("a"), is_plan: false, actor: "ops".into(), reason: "test".into() };
    host.streams.purge(&act, Some(2)).await.unwrap();
    let error = host.try_subscribe(named(&["a"]), Start::Cursor("0".into())).await.err().unwrap();
    assert_eq!(error.code(), Code::EVENT_CURSOR_EXPIRED);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_away_for_a_moment_ends_no_reader() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let away = waybill_core::port::store::StoreError::Unavailable("away".into());
    world.memory.fail_all(Some(away.clone()));
    assert!(reader.is_quiet(seconds(5)).await);
    world.memory.fail_all(None);
    assert_eq!(reader.take(1).await[0].2, "x-1");
    world.memory.fail_all(Some(away));
    let end = reader.next().await.unwrap_err();
    assert_eq!(end.code(), Code::PROVIDER_UNAVAILABLE, "{end}");
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_its_readers() {
    let world = World::new();
    let host = world.start().await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let (end, ()) = tokio::join!(reader.next(), host.drain());
    assert_eq!(end.unwrap_err().code(), Code::PROVIDER_UNAVAILABLE);
}
