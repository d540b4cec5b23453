//! Many streams that nobody reads, and pages whatever is asked for.

#![cfg(target_os = "linux")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures::future::join_all;

use super::support::*;

const STREAMS: usize = 10_000;
/// Appends that are under way at once.
const AT_ONCE: usize = 64;
/// Far less than a channel of 1,024 places for each would take.
const GROWTH_MAX: u64 = 384 << 20;

/// Resident memory of a process, in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

/// Acceptance 4: no channel without a reader.
#[tokio::test(flavor = "multi_thread")]
async fn ten_thousand_streams_without_readers_have_no_channel() {
    let mut site = Site::start("").await;
    let before = resident(site.pid());
    let next = Arc::new(AtomicUsize::new(0));
    let appenders = (0..AT_ONCE).map(|_| {
        let (door, next) = (site.door.clone(), Arc::clone(&next));
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::AcqRel);
                if number >= STREAMS {
                    return;
                }
                let stream = format!("idle.{number:05}");
                assert_eq!(door.append(&stream, &[event(&stream, "r")]).await, [1]);
            }
        })
    });
    for ended in join_all(appenders.collect::<Vec<_>>()).await {
        ended.unwrap();
    }
    for gauge in ["tx_stream_rings", "tx_stream_ring_bytes", "tx_stream_readers", "tx_stream_replay_bytes"] {
        assert_eq!(site.door.metric(gauge).await, 0.0, "{gauge}");
    }
    let growth = resident(site.pid()).saturating_sub(before);
    assert!(growth < GROWTH_MAX, "{STREAMS} streams take {growth} bytes");
    // A few of them are read without the others, also by a host that just began.
    site.restart().await;
    let mut reader = site.door.subscribe("prefix:idle.0123", None).await;
    let names: Vec<_> = reader.events(10).await.iter().map(|event| event["stream"].clone()).collect();
    assert_eq!(names, (0..10).map(|digit| format!("idle.0123{digit}")).collect::<Vec<_>>());
    assert_eq!(site.door.append("idle.01234", &[event("next", "r")]).await, [2]);
    assert_eq!(reader.event().await["event_id"], "next");
    until("it has a ring of its own", async || site.door.metric("tx_stream_rings").await == 1.0).await;
    site.end().await;
}

/// Acceptance 4: a piece is as large as the host allows, whatever is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_has_a_thousand_events_at_most_whatever_is_asked_for() {
    const EVENTS: usize = 3_000;
    let site = Site::start("").await;
    site.door.append("long", &events("e", EVENTS, "r")).await;
    let page = site.door.page("long", &[("limit", "1000000000")]).await;
    assert_eq!((page.status, page.code()), (400, Some("SCHEMA.VALIDATION_FAILED")), "{page:?}");
    assert!(page.body["detail"].as_str().unwrap().contains("1 to 1000"), "{page:?}");
    let page = site.door.page("long", &[("limit", "1000")]).await;
    let count = page.body["items"].as_array().unwrap().len();
    assert!((1..=1_000).contains(&count) && page.body["end"] == false, "{count}");
    assert_eq!(site.door.stored("long").await.len(), EVENTS, "page by page all of it");
    let mut order = Order::default();
    for event in site.door.subscribe("stream:long", None).await.events(EVENTS).await {
        order.take(&event);
    }
    site.end().await;
}
