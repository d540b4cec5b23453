//! Events whose payloads lie beside their chunks: the whole way, and that nothing of it stays behind.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use waybill_core::message::Payload;
use waybill_core::port::service::streams::{AppendRequest, EventInput, EventPiece, Start, StreamAct};
use waybill_core::streams::envelope;
use waybill_core::streams::event::Body;
use waybill_core::streams::name::StreamPattern;
use waybill_core::streams::settings::{PatternSettings, StreamsSettings};
use waybill_engine::EngineConfig;
use waybill_testkit::fake_transport::ack;

use crate::support::*;

const KIB: usize = 1024;

fn shared(config: &mut EngineConfig) {
    (config.exclusive, config.owner_ttl) = (false, Duration::from_secs(4));
}

/// A payload that no other event has.
fn payload(id: &str, bytes: usize) -> Bytes {
    Bytes::from(id.bytes().cycle().take(bytes).collect::<Vec<_>>())
}

fn sized(id: &str, bytes: usize) -> EventInput {
    EventInput { body: Body::Bytes(payload(id, bytes)), ..input(id) }
}

async fn append(host: &Host, name: &str, events: Vec<EventInput>, expected_seq: Option<u64>) -> Vec<u64> {
    let request = AppendRequest { stream: key(name), events, expected_seq, traceparent: None };
    numbered(host.streams.append(request).await.unwrap())
}

fn body(piece: &EventPiece) -> (u64, Body) {
    (piece.seq, envelope::unpack(&piece.packed).unwrap().body)
}

async fn bodies(reader: &mut Reader, count: usize) -> Vec<(u64, Body)> {
    let mut taken = Vec::new();
    while taken.len() < count {
        taken.extend(reader.next().await.unwrap().iter().map(body));
    }
    taken
}

/// Payloads that lie apart.
fn blobs(world: &World) -> Vec<u64> {
    world.memory.read(|tables| tables.streams.blobs.keys().map(|(_, seq)| *seq).collect())
}

#[tokio::test(start_paused = true)]
async fn large_payloads_arrive_byte_for_byte_whatever_way_they_go() {
    let world = World::with(|settings| {
        settings.relays = vec![plan("out")];
    });
    let relayed: Arc<Mutex<Vec<Body>>> = Arc::default();
    let sent = Arc::clone(&relayed);
    world.bus.tell(move |delivery| {
        let Payload::Inline(wire) = &delivery.message.payload else { panic!("{delivery:?}") };
        sent.lock().unwrap().push(envelope::unpack(wire).unwrap().body);
        ack()
    });
    let first = world.launch("first", shared);
    first.until_owned().await;
    let second = world.launch("second", shared);
    let mut live = first.subscribe(named(&["a"]), Start::Earliest).await;
    // A host that doesn't own the stream follows the feed.
    let mut following = second.subscribe(named(&["a"]), Start::Earliest).await;
    let mut of_prefix = second.subscribe(prefix("a"), Start::Earliest).await;
    let sizes = [65 * KIB, 10, 256 * KIB, 64 * KIB, 200 * KIB];
    let expected: Vec<_> = (1..)
        .zip(sizes)
        .map(|(seq, bytes): (u64, usize)| (seq, Body::Bytes(payload(&format!("x-{seq}"), bytes))))
        .collect();
    let event = |seq: usize| sized(&format!("x-{seq}"), sizes[seq - 1]);
    assert_eq!(append(&first, "a", vec![event(1), event(2)], None).await, [1, 2]);
    assert_eq!(append(&second, "a", vec![event(3)], None).await, [3], "over the doorstep");
    assert_eq!(append(&second, "a", vec![event(4), event(5)], Some(3)).await, [4, 5], "by itself");
    for reader in [&mut live, &mut following, &mut of_prefix] {
        assert_eq!(bodies(reader, 5).await, expected);
    }
    assert_eq!(blobs(&world), [1, 3, 5]);
    eventually("all are relayed", async || relayed.lock().unwrap().len() >= 5).await;
    assert_eq!(*relayed.lock().unwrap(), expected.iter().map(|(_, body)| body.clone()).collect::<Vec<_>>());
    let replayed = async |host: &Host| {
        let mut reader = host.subscribe(named(&["a"]), Start::Earliest).await;
        assert_eq!(bodies(&mut reader, 5).await, expected);
        let mut reader = host.subscribe(prefix("a"), Start::Earliest).await;
        assert_eq!(bodies(&mut reader, 5).await, expected);
        let page = host.streams.read_stream(&key("a"), Some("2"), 0).await.unwrap();
        assert_eq!(page.events.iter().map(body).collect::<Vec<_>>(), expected[2..]);
    };
    replayed(&first).await;
    // A repeat is one by its content, wherever that lies by now.
    assert_eq!(append(&first, "a", vec![event(1), event(2)], None).await, [1, 2]);
    drop(live);
    first.crash().await;
    second.until_owned().await;
    replayed(&second).await;
    assert_eq!(append(&second, "a", vec![sized("x-6", 100 * KIB)], None).await, [6]);
    assert_eq!(bodies(&mut following, 1).await, [(6, Body::Bytes(payload("x-6", 100 * KIB)))]);
}

#[tokio::test(start_paused = true)]
async fn a_page_of_large_events_is_no_larger_than_pages_are() {
    let world = World::with(|settings| settings.events.replay.bytes = 512 * KIB);
    let host = world.start().await;
    // One commit, one chunk.
    let ids: Vec<String> = (0..12).map(|number| format!("x-{number}")).collect();
    append(&host, "a", ids.iter().map(|id| sized(id, 200 * KIB)).collect(), None).await;
    assert_eq!(world.chunks("a"), 1);
    let read = world.memory.read(|tables| tables.streams.slice(&key("a"), 4, 512 * KIB));
    let chunk = read.chunks[0].chunk.as_ref().unwrap();
    assert!(chunk.packed_bytes() < 512 * KIB, "the store reads no more than goes into a page");
    let (mut after, mut seqs) = (String::new(), Vec::new());
    while seqs.len() < 12 {
        let cursor = (!after.is_empty()).then_some(after.as_str());
        let page = host.streams.read_stream(&key("a"), cursor, 0).await.unwrap();
        assert_eq!(page.events.len(), 2, "two go into half a megabyte");
        seqs.extend(page.events.iter().map(|piece| piece.seq));
        after = page.next_after.to_string();
    }
    assert_eq!(seqs, (1..=12).collect::<Vec<_>>());
    for what in [named(&["a"]), prefix("a")] {
        let mut reader = host.subscribe(what, Start::Earliest).await;
        let taken = bodies(&mut reader, 12).await;
        let expected = (1..).zip(&ids).map(|(seq, id)| (seq, Body::Bytes(payload(id, 200 * KIB))));
        assert_eq!(taken, expected.collect::<Vec<(u64, Body)>>());
    }
}

fn patterned(settings: &mut StreamsSettings, change: impl FnOnce(&mut PatternSettings)) {
    let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
    change(&mut pattern);
    settings.patterns = vec![pattern];
}

#[tokio::test(start_paused = true)]
async fn a_large_payload_goes_with_its_event_by_retention_purge_and_deletion() {
    let world = World::with(|settings| patterned(settings, |pattern| pattern.retention.keep_count = Some(3)));
    let host = world.start().await;
    for number in 1..=6 {
        append(&host, "a", vec![sized(&format!("x-{number}"), 70 * KIB)], None).await;
        append(&host, "b", vec![sized(&format!("y-{number}"), 70 * KIB)], None).await;
    }
    eventually("what is kept of each is three", async || blobs(&world) == [4, 5, 6, 4, 5, 6]).await;
    let act = StreamAct { stream: key("b"), is_plan: false, actor: "ops".into(), reason: "test".into() };
    host.streams.delete(&act).await.unwrap();
    assert_eq!(blobs(&world), [4, 5, 6], "those of the other stream");
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    let expected = (4..=6).map(|seq| (seq, Body::Bytes(payload(&format!("x-{seq}"), 70 * KIB))));
    assert_eq!(page.events.iter().map(body).collect::<Vec<_>>(), expected.collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn merging_and_compaction_leave_large_payloads_where_they_are_and_take_those_that_were_replaced() {
    let world = World::with(|settings| patterned(settings, |pattern| pattern.compact_lag = Some(seconds(10))));
    let host = world.start().await;
    for number in 0..40_usize {
        // Each tenth is large, and the resource of each is one of two.
        let bytes = if number % 10 == 0 { 80 * KIB } else { 10 };
        append(&host, "a", vec![sized(&format!("{}-{number}", ["x", "y"][number % 2]), bytes)], None).await;
    }
    assert_eq!(append(&host, "a", vec![sized("z-1", 90 * KIB), sized("x-40", 100 * KIB)], None).await, [41, 42]);
    assert_eq!(blobs(&world), [1, 11, 21, 31, 41, 42]);
    pass(seconds(300)).await;
    let page = host.streams.read_stream(&key("a"), None, 0).await.unwrap();
    let kept: Vec<_> = page.events.iter().map(|piece| (shown(piece).2, body(piece).1)).collect();
    let of = |id: &str, bytes| (id.to_owned(), Body::Bytes(payload(id, bytes)));
    assert_eq!(kept, [of("y-39", 10), of("z-1", 90 * KIB), of("x-40", 100 * KIB)]);
    assert_eq!(blobs(&world), [41, 42]);
}
