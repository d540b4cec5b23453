//! Readers that take too slowly, or nothing.

use waybill_core::code::Code;
use waybill_core::port::service::streams::{AppendRequest, LAGGED, Start, SubscriptionEnd};
use waybill_core::streams::event::Body;

use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_live_reader_that_the_ring_has_passed_is_told_so_and_nothing_else() {
    let world = World::with(|settings| settings.events.live_entries = 4);
    let host = world.start().await;
    host.append("a", &["x-0"]).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let mut brisk = host.subscribe(named(&["a"]), Start::Earliest).await;
    assert_eq!(reader.take(1).await.len() + brisk.take(1).await.len(), 2);
    // Live from here on.
    assert!(reader.is_quiet(millis(2_500)).await && brisk.is_quiet(millis(2_500)).await);
    let cursor = reader.subscription.cursor().unwrap();
    for number in 1..=10 {
        host.append("a", &[&format!("x-{number}")]).await;
        assert_eq!(brisk.take(1).await[0].1, number + 1);
    }
    let end = reader.next().await.unwrap_err();
    assert_eq!(
        (end.clone(), end.to_string().as_str(), end.code()),
        (SubscriptionEnd::Lagged, LAGGED, Code::EVENT_LAGGED)
    );
    assert_eq!(reader.next().await.unwrap_err(), SubscriptionEnd::Lagged, "nothing after it");
    assert_eq!(host.streams.stream_stats().await.unwrap().lagged, 1);
    // With its last cursor it misses nothing.
    let mut again = host.subscribe(named(&["a"]), Start::Cursor(cursor.to_string())).await;
    assert_eq!(seqs(&again.take(10).await), (2..=11).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_replay_cannot_lag_however_much_comes_meanwhile() {
    let world = World::with(|settings| (settings.events.live_entries, settings.events.replay.events) = (2, 2));
    let host = world.start().await;
    for number in 0..8 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let mut taken = Vec::new();
    for number in 8..40 {
        host.append("a", &[&format!("x-{number}")]).await;
        if number % 8 == 0 {
            taken.extend(reader.next().await.unwrap().iter().map(shown));
        }
    }
    while taken.len() < 40 {
        taken.extend(reader.next().await.unwrap().iter().map(shown));
    }
    assert_eq!(seqs(&taken), (1..=40).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_gives_its_page_back_and_reads_it_again() {
    let world = World::new();
    let host = world.start().await;
    let big = "x".repeat(20_000);
    for number in 0..10 {
        let mut event = input(&format!("x-{number}"));
        event.body = Body::Bytes(big.clone().into());
        let request = AppendRequest { stream: key("a"), events: vec![event], expected_seq: None, traceparent: None };
        host.streams.append(request).await.unwrap();
    }
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let first = reader.next().await.unwrap();
    assert!(first.len() < 10, "a surface gets a little at once");
    assert!(host.streams.stream_stats().await.unwrap().replay_bytes > 0);
    pass(seconds(2)).await;
    assert_eq!(host.streams.stream_stats().await.unwrap().replay_bytes, 0, "its page was given back");
    let mut taken: Vec<_> = first.iter().map(shown).collect();
    taken.extend(reader.take(10 - taken.len()).await);
    assert_eq!(seqs(&taken), (1..=10).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn who_takes_nothing_for_long_is_cut_off() {
    let world = World::new();
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    assert_eq!(reader.take(1).await.len(), 1);
    // A surface that hangs in a write.
    reader.subscription.cut().await;
    let end = reader.next().await.unwrap_err();
    assert_eq!(end.code(), Code::EVENT_STALLED, "{end}");
    // One that only waits isn't.
    let mut waiting = host.subscribe(named(&["a"]), Start::Latest).await;
    assert!(waiting.is_quiet(seconds(120)).await);
    host.append("a", &["x-2"]).await;
    assert_eq!(waiting.take(1).await[0].1, 2);
}

#[tokio::test(start_paused = true)]
async fn more_subscriptions_than_allowed_are_refused_until_one_ends() {
    let world = World::with(|settings| settings.events.subscriptions_max = 2);
    let host = world.start().await;
    let first = host.subscribe(named(&["a"]), Start::Earliest).await;
    let _second = host.subscribe(prefix("a"), Start::Earliest).await;
    let error = host.try_subscribe(named(&["a"]), Start::Earliest).await.err().unwrap();
    assert_eq!(error.code(), Code::PROVIDER_UNAVAILABLE);
    drop(first);
    host.subscribe(named(&["a"]), Start::Earliest).await;
}
