//! Upkeep that merges and trims all the time under readers that come and go, and under a clock that is set.

use std::collections::BTreeMap;
use std::time::Duration;

use waybill_core::port::service::streams::{Start, Subscribed};
use waybill_core::streams::name::StreamPattern;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::settings::PatternSettings;

use crate::support::*;

const NODES: [&str; 3] = [
    "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e6f",
    "0190a2f0-7b1e-7c3d-9e4f-1a2b3c4d5e70",
    "7f000000-0000-4000-8000-000000000001",
];
const READERS: usize = 100;
const ROUNDS: usize = 60;
/// Appends to each stream in a round.
const APPENDS: usize = 3;
/// Far more than any reader is behind, and far less than is appended.
const KEPT: u64 = 40;

fn stream(node: &str) -> String {
    format!("task.node.{node}")
}

/// A reader that is cut off again and again, and goes on behind its last event.
struct Resuming {
    what: Subscribed,
    cursor: Option<String>,
    last: BTreeMap<String, u64>,
}

impl Resuming {
    /// One of each selector, in turn, each before its first event.
    fn new(number: usize) -> Self {
        let all = NODES.map(stream);
        let (what, streams) = match number % 4 {
            0 => (named(&all.each_ref().map(String::as_str)), all.to_vec()),
            1 => (prefix("task."), all.to_vec()),
            2 => {
                let selector = Selector::Resource { resource_type: "TASK".into(), id_prefix: String::new() };
                (Subscribed::Many(selector), all.to_vec())
            }
            _ => (Subscribed::Many(Selector::Node(NODES[0].to_owned())), vec![stream(NODES[0])]),
        };
        Self { what, cursor: None, last: streams.into_iter().map(|stream| (stream, 0)).collect() }
    }

    /// Subscribes, and takes events until it has all up to this number of each stream, or so many pieces.
    async fn read(&mut self, host: &Host, upto: u64, pieces: usize) {
        let start = self.cursor.clone().map_or(Start::Earliest, Start::Cursor);
        let mut reader = host.subscribe(self.what.clone(), start).await;
        for _ in 0..pieces {
            if self.last.values().all(|last| *last >= upto) {
                return;
            }
            for piece in reader.next().await.unwrap() {
                let last = self.last.get_mut(piece.stream.name.as_str()).unwrap();
                assert_eq!(piece.seq, *last + 1, "{} by {:?}", piece.stream.name, self.what);
                *last = piece.seq;
                self.cursor = Some(piece.cursor.to_string());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hundred_readers_of_every_selector_that_come_and_go_miss_nothing_while_upkeep_merges_and_trims() {
    let world = World::with(|settings| {
        settings.events.retention_events = KEPT;
        settings.events.replay.events = 7;
    });
    let host = world.start().await;
    let mut readers: Vec<Resuming> = (0..READERS).map(Resuming::new).collect();
    for round in 1..=ROUNDS {
        for append in 0..APPENDS {
            for (place, node) in NODES.iter().enumerate() {
                host.append(&stream(node), &[&format!("r{place}.{round}.{append}-0")]).await;
            }
        }
        // Upkeep has its turn, and its time.
        pass(millis(700)).await;
        for (number, reader) in readers.iter_mut().enumerate() {
            match (number + round) % 3 {
                // It is away.
                0 => {}
                // It is cut off after its first piece.
                1 => reader.read(&host, (round * APPENDS) as u64, 1).await,
                _ => reader.read(&host, (round * APPENDS) as u64, usize::MAX).await,
            }
        }
    }
    for reader in &mut readers {
        reader.read(&host, (ROUNDS * APPENDS) as u64, usize::MAX).await;
    }
    let stats = host.streams.stream_stats().await.unwrap();
    assert!(stats.trimmed > 0, "upkeep did nothing under them");
    for node in NODES {
        assert!(world.chunks(&stream(node)) < ROUNDS * APPENDS / 2, "they were merged");
    }
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_an_hour_ahead_for_a_while_takes_nothing_early() {
    let world = World::with(|settings| {
        let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
        pattern.retention.keep_age = Some(Duration::from_secs(1_800));
        settings.patterns = vec![pattern];
    });
    let host = world.start().await;
    host.append("a", &["x-1"]).await;
    let kept = async || host.streams.read_stream(&key("a"), None, 0).await.unwrap().events.len();
    pass(seconds(10)).await;
    // It isn't believed at once, and somebody sets it right before it would be.
    world.stepped.step(3_600);
    pass(seconds(200)).await;
    assert_eq!(kept().await, 1);
    world.stepped.step(-3_600);
    pass(seconds(1_500)).await;
    assert_eq!(kept().await, 1);
    pass(seconds(120)).await;
    assert_eq!(kept().await, 0);
}
