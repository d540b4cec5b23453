//! What upkeep does with a stream that is too large for one look.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use waybill_core::port::stream_store::StreamStore;
use waybill_core::streams::chunk::{Chunk, StoredEvent};
use waybill_core::streams::event::Event;
use waybill_core::streams::name::StreamPattern;
use waybill_core::streams::owner::PublishedPart;
use waybill_core::streams::records::{FeedPart, StreamHead, StreamWrite};
use waybill_core::streams::settings::PatternSettings;
use waybill_testkit::conformance::samples::SHARD;
use waybill_testkit::conformance::stream_samples::{ALL_BYTES, Writer, admitted, event, put_chunk, stream};
use waybill_testkit::memory_store::MemoryStore;

use super::*;

const NOW: UnixMillis = UnixMillis(1_000_000);

fn chunk(from: u64, resources: &[&str]) -> Chunk {
    let events = (from + 1..).zip(resources).map(|(seq, id)| {
        let event = Event { resource_id: (*id).to_owned(), ..event(&format!("e{seq}")) };
        StoredEvent { seq, pos: 1, packed: admitted(event, false).packed, apart: 0 }
    });
    let events: Vec<StoredEvent> = events.collect();
    Chunk { from, last: from + events.len() as u64, total: 1, at: UnixMillis(1), events }
}

/// What is left of a stream once nothing more is to be done in it.
async fn kept_up(
    upkeep: &mut Upkeep,
    settings: &StreamsSettings,
    chunks: &[Chunk],
    held_turns: u64,
) -> Vec<Arc<Chunk>> {
    let (store, mut writer, of, meter) = (MemoryStore::new(), Writer::new(), stream("a"), StreamMeter::new());
    let last = chunks.last().map_or(0, |chunk| chunk.last);
    let head = StreamHead { last, fed: last, bytes: 1 };
    let mut writes = vec![StreamWrite::PutHead { stream: of.clone(), head }];
    writes.extend(chunks.iter().map(|chunk| put_chunk(&of, chunk)));
    writer.write(&store, writes).await;
    let part = FeedPart { stream: of.clone(), from: 1, to: last };
    let chunks = Some(chunks.iter().cloned().map(Arc::new).collect());
    upkeep.published(&Published { shard: SHARD, pos: 1, parts: vec![PublishedPart { part, chunks }] }, settings);
    for turn in 0..400 {
        tokio::time::advance(AGES_EVERY).await;
        let (stream, after, bytes_max) = match upkeep.next(NOW, settings) {
            Some(UpkeepAsk::Stream { stream, after, bytes_max }) => (stream, after, bytes_max),
            Some(UpkeepAsk::Due) => {
                let rows = store.streams_due(SHARD, 10).await.unwrap();
                assert_eq!(upkeep.found_due(rows, writer.record.beat, NOW), None);
                continue;
            }
            None => continue,
        };
        let (slice, _) = store.upkeep_slice(&stream, &[], after, bytes_max).await.unwrap();
        let held = if turn < held_turns { vec![Checkpoint::default()] } else { Vec::new() };
        if let Some(act) = upkeep.decide(&slice, &held, writer.record.beat, NOW, settings) {
            writer.write(&store, act.writes).await;
            upkeep.applied(&meter);
        }
    }
    let slice = store.stream_slice(&of, 0, ALL_BYTES).await.unwrap();
    slice.chunks.into_iter().map(|stored| stored.chunk.unwrap()).collect()
}

fn seqs(chunks: &[Arc<Chunk>]) -> Vec<u64> {
    chunks.iter().flat_map(|chunk| chunk.events.iter().map(|event| event.seq)).collect()
}

fn compacting() -> StreamsSettings {
    let mut pattern = PatternSettings::new(StreamPattern::parse("**").unwrap());
    pattern.compact_lag = Some(Duration::ZERO);
    StreamsSettings { patterns: vec![pattern], ..StreamsSettings::default() }
}

#[tokio::test(start_paused = true)]
async fn a_stream_with_more_resources_than_a_pass_may_hold_is_compacted_all_of_it() {
    let settings = compacting();
    let mut upkeep = Upkeep { resources_max: 3, ..Upkeep::new(DueLooks::new(SHARD, 1)) };
    let chunks =
        [chunk(0, &["a", "b", "c", "d"]), chunk(4, &["e", "f", "g", "h"]), chunk(8, &["h", "g", "f", "e", "d"])];
    let left = kept_up(&mut upkeep, &settings, &chunks, 0).await;
    assert_eq!(seqs(&left), [1, 2, 3, 9, 10, 11, 12, 13], "a, b and c alone would fill a pass");
    assert!(upkeep.latest.is_none() && upkeep.queue.is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_a_relay_lacked_is_compacted_when_it_has_it_though_nothing_is_appended() {
    let mut upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
    let chunks = [chunk(0, &["a", "b"]), chunk(2, &["a", "b"])];
    let left = kept_up(&mut upkeep, &compacting(), &chunks, 100).await;
    assert_eq!(seqs(&left), [3, 4]);
}

#[tokio::test(start_paused = true)]
async fn what_compaction_makes_small_of_sealed_chunks_is_merged_by_the_same_owner() {
    let mut upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
    // Each has a resource of its own, and what the next chunk replaces.
    let chunks: Vec<Chunk> = (0..MERGE_FAN as u64)
        .map(|number| {
            let own = format!("r{number}");
            chunk(64 * number, &[&[own.as_str()][..], &["r"; 63]].concat())
        })
        .collect();
    assert!(chunks.iter().all(|chunk| MergeSettings::default().is_sealed(chunk)));
    let left = kept_up(&mut upkeep, &compacting(), &chunks, 0).await;
    let own = (0..MERGE_FAN as u64).map(|number| 64 * number + 1);
    assert_eq!(seqs(&left), own.chain([64 * MERGE_FAN as u64]).collect::<Vec<u64>>());
    assert_eq!(left.len(), 1, "{left:?}");
}

/// Streams that an upkeep wants to read at once, of those to which chunks of so many events were just added.
fn wanted(upkeep: &mut Upkeep, streams: &[&str], sizes: &[usize], settings: &StreamsSettings) -> Vec<(String, Stage)> {
    for name in streams {
        let mut last = 0;
        for size in sizes {
            let chunk = Arc::new(chunk(last, &vec!["r"; *size]));
            let part = FeedPart { stream: stream(name), from: last + 1, to: chunk.last };
            last = chunk.last;
            let parts = vec![PublishedPart { part, chunks: Some(vec![chunk]) }];
            upkeep.published(&Published { shard: SHARD, pos: 1, parts }, settings);
        }
    }
    let mut wanted = Vec::new();
    for _ in 0..100 {
        match upkeep.next(NOW, settings) {
            Some(UpkeepAsk::Stream { stream, .. }) => {
                wanted.extend(upkeep.current.take().map(|job| (stream.name.to_string(), job.stage)));
            }
            Some(UpkeepAsk::Due) => assert_eq!(upkeep.found_due(Vec::new(), 0, NOW), None),
            None => break,
        }
    }
    wanted
}

#[tokio::test(start_paused = true)]
async fn sealed_chunks_are_not_looked_at_for_merging_and_the_index_takes_one_stream_at_a_time_while_they_come() {
    let settings = StreamsSettings::default();
    let mut upkeep = Upkeep::new(DueLooks::new(SHARD, 1));
    let front = Front { last: 64, at: NOW, total: 1 };
    for name in ["a", "b"] {
        upkeep.notes.take_in(&stream(name)).unwrap().front = Some(front);
    }
    let looks = wanted(&mut upkeep, &["a", "b"], &[64; 100], &settings);
    assert!(looks.iter().all(|(_, stage)| *stage != Stage::Merge), "{looks:?}");
    assert_eq!(upkeep.notes.get(&stream("a")).unwrap().sealed_to, 100 * 64);
    for name in ["a", "b"] {
        upkeep.notes.get_mut(&stream(name)).unwrap().is_queued = false;
    }
    tokio::time::advance(AGES_EVERY).await;
    upkeep.appended_at = Some(Instant::now());
    assert_eq!(wanted(&mut upkeep, &[], &[], &settings), [("a".to_owned(), Stage::Index)]);
    tokio::time::advance(AGES_EVERY).await;
    upkeep.appended_at = Some(Instant::now());
    assert_eq!(wanted(&mut upkeep, &[], &[], &settings), [("b".to_owned(), Stage::Index)], "they take turns");
}
