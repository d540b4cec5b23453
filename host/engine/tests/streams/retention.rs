//! Merging, retention and compaction beside readers and relays.

use std::time::Duration;

use waybill_core::code::Code;
use waybill_core::port::service::streams::{AppendRequest, Start};
use waybill_core::streams::event::Body;
use waybill_core::streams::name::StreamPattern;
use waybill_core::streams::settings::{OnOvertaken, PatternSettings, StreamsSettings};
use waybill_testkit::fake_transport::ack;

use crate::support::*;

fn keeping(settings: &mut StreamsSettings, events: u64) {
    settings.events.retention_events = events;
}

#[tokio::test(start_paused = true)]
async fn many_small_chunks_become_few_and_every_event_stays() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..100 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    eventually("they are merged", async || world.chunks("a") <= 20).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    assert_eq!(seqs(&reader.take(100).await), (1..=100).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn the_front_goes_within_seconds_and_a_reader_that_is_ahead_of_it_misses_nothing() {
    let world = World::with(|settings| {
        keeping(settings, 20);
        settings.events.replay.events = 5;
    });
    let host = world.start().await;
    let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
    let mut taken = Vec::new();
    for number in 0..200 {
        host.append("a", &[&format!("x-{number}")]).await;
        if number % 4 == 0 {
            taken.extend(reader.next().await.unwrap().iter().map(shown));
        }
    }
    while taken.len() < 200 {
        taken.extend(reader.next().await.unwrap().iter().map(shown));
    }
    assert_eq!(seqs(&taken), (1..=200).collect::<Vec<_>>());
    pass(seconds(5)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert!(page.first > 1 && page.last - page.first >= 19, "{}..{}", page.first, page.last);
    let late = host.try_subscribe(named(&["a"]), Start::Cursor("1".into())).await.err().unwrap();
    assert_eq!(late.code(), Code::EVENT_CURSOR_EXPIRED);
    assert!(host.streams.stream_stats().await.unwrap().trimmed > 0);
}

#[tokio::test(start_paused = true)]
async fn the_front_goes_by_bytes_also_where_there_are_few_chunks() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.retention.keep_bytes = Some(5_000);
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    for number in 0..4 {
        let mut event = input(&format!("x-{number}"));
        event.body = Body::Bytes("x".repeat(3_000).into());
        let request = AppendRequest { stream: key("a"), events: vec![event], expected_seq: None, traceparent: None };
        host.streams.append(request).await.unwrap();
    }
    pass(seconds(5)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert_eq!((page.first, page.events.len()), (3, 2), "two of 3,000 bytes are the least that holds 5,000");
}

#[tokio::test(start_paused = true)]
async fn old_events_go_by_their_age() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.retention.keep_age = Some(Duration::from_secs(60));
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    pass(seconds(50)).await;
    host.append("a", &["x-2"]).await;
    pass(seconds(20)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert_eq!((page.first, page.events.len()), (2, 1));
    pass(seconds(60)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    assert_eq!((page.first, page.last, page.events.len()), (3, 2, 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_event_of_each_resource_stays_where_a_stream_is_compacted() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.compact_lag = Some(Duration::from_secs(10));
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    for number in 0..10 {
        host.append("a", &[&format!("x-{number}"), &format!("y-{number}")]).await;
    }
    pass(seconds(300)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    let ids: Vec<_> = page.events.iter().map(|piece| shown(piece).2).collect();
    assert_eq!(ids, ["x-9", "y-9"]);
    assert_eq!(page.last, 20);
    host.append("a", &["z-1"]).await;
    let mut reader = host.subscribe(named(&["a"]), Start::Cursor("3".into())).await;
    assert_eq!(seqs(&reader.take(3).await), [19, 20, 21], "only what was replaced is left out");
}

/// Who began with nothing hasn't got what was dropped before that, so it lacks no delete of it.
#[tokio::test(start_paused = true)]
async fn a_compacted_stream_is_read_page_by_page_from_nothing_until_more_deletes_are_dropped() {
    let world = World::new();
    let host = world.start().await;
    for number in 0..6 {
        host.append("a", &[&format!("x-{number}")]).await;
    }
    let drop_deletes_to = |seq: u64| {
        world.memory.write(|tables| tables.streams.rests.entry(key("a")).or_default().purged = seq);
    };
    drop_deletes_to(5);
    let page = async |after: Option<&str>| host.streams.read_stream(&key("a"), after, 2).await;
    let first = page(None).await.unwrap();
    assert_eq!((&*first.next_after, first.is_end), ("2~5", false));
    let second = page(Some(&first.next_after)).await.unwrap();
    assert_eq!((second.events.len(), &*second.next_after), (2, "4~5"));
    let third = page(Some(&second.next_after)).await.unwrap();
    assert_eq!((third.events.len(), &*third.next_after, third.is_end), (2, "6", true));
    assert_eq!(page(Some("2")).await.unwrap_err().code(), Code::EVENT_CURSOR_EXPIRED, "it may have what they deleted");
    drop_deletes_to(6);
    assert_eq!(page(Some("2~5")).await.unwrap_err().code(), Code::EVENT_CURSOR_EXPIRED);
    for wrong in ["x", "1,2", ""] {
        assert_eq!(page(Some(wrong)).await.unwrap_err().code(), Code::EVENT_CURSOR, "{wrong}");
    }
}

#[tokio::test(start_paused = true)]
async fn retention_waits_for_a_relay_that_holds_and_not_for_one_that_does_not() {
    let held = |hold_max: Option<Duration>| {
        World::with(move |settings| {
            keeping(settings, 4);
            settings.relays = vec![plan("out")];
            settings.relays[0].hold_max = hold_max;
            settings.relays[0].on_overtaken = OnOvertaken::GoOn;
        })
    };
    for (hold_max, kept_first) in [(Some(Duration::from_secs(3_600)), true), (None, false)] {
        let world = held(hold_max);
        let host = world.start().await;
        host.streams.pause_relay(&relay_name("out"), "ops", "maintenance").await.unwrap();
        for number in 0..40 {
            host.append("a", &[&format!("x-{number}")]).await;
        }
        pass(seconds(30)).await;
        let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
        assert_eq!(page.first == 1, kept_first, "{hold_max:?}");
        // What a relay has in memory it sends, whatever retention takes: this one begins anew.
        host.crash().await;
        let host = world.start().await;
        world.bus.tell(|_| ack());
        host.streams.resume_relay(&relay_name("out"), "ops", "done").await.unwrap();
        eventually("it has caught up", async || {
            let relay = host.relay("out").await;
            relay.streams_behind == 0 && relay.lag.is_none()
        })
        .await;
        let relay = host.relay("out").await;
        assert_eq!(relay.delivered + relay.overtaken, 40, "{hold_max:?}");
        assert_eq!(relay.overtaken == 0, kept_first, "{hold_max:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn streams_that_nobody_appends_to_go_by_their_age_though_the_host_that_numbered_them_is_gone() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("aged.**").unwrap());
        pattern.retention.keep_age = Some(Duration::from_secs(600));
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    host.append("aged.a", &["x-1"]).await;
    host.append("other", &["x-2"]).await;
    pass(seconds(30)).await;
    host.append("aged.b", &["x-3"]).await;
    let rows = || world.memory.read(|tables| tables.streams.due.len());
    eventually("each has a row", async || rows() == 2).await;
    host.crash().await;
    let host = world.start().await;
    pass(seconds(540)).await;
    assert_eq!((world.chunks("aged.a"), rows()), (1, 2), "it isn't old yet");
    pass(seconds(45)).await;
    assert_eq!((world.chunks("aged.a"), world.chunks("aged.b"), rows()), (0, 1, 1), "the older one");
    pass(seconds(60)).await;
    assert_eq!((world.chunks("aged.b"), world.chunks("other"), rows()), (0, 1, 0));
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn an_id_is_known_for_its_time_and_is_a_new_one_then() {
    let world = World::with(|settings| settings.events.keep_ids = seconds(60));
    let host = world.start().await;
    assert_eq!(numbered(host.append("a", &["x-1"]).await), [1]);
    pass(seconds(50)).await;
    assert_eq!(numbered(host.append("a", &["x-1"]).await), [1], "a repeat");
    pass(seconds(100)).await;
    assert_eq!(world.memory.read(|tables| tables.streams.ids.len()), 0, "the index doesn't grow for ever");
    assert_eq!(numbered(host.append("a", &["x-1"]).await), [2]);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_keeps_nothing_longer() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.retention.keep_age = Some(Duration::from_secs(60));
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    world.stepped.step(-3_600);
    pass(seconds(50)).await;
    assert_eq!(host.streams.read_stream(&key("a"), None, 0).await.unwrap().events.len(), 1);
    pass(seconds(20)).await;
    assert_eq!(host.streams.read_stream(&key("a"), None, 0).await.unwrap().events.len(), 0);
}
