//! Large payloads: they lie beside their chunks, come back with whatever reads events, and go with these.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::limits::INLINE_PAYLOAD_BYTES_MAX;
use waybill_core::port::stream_store::{ScanFrom, ScanQuery, StreamSlice, StreamStore as Store};
use waybill_core::streams::blob;
use waybill_core::streams::chunk::{Chunk, StoredChunk, StoredEvent};
use waybill_core::streams::event::{Body, Event};
use waybill_core::streams::exact::ExactAppend;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{Append, FeedPart, FeedRecord, StreamHead, StreamWrite};

use super::samples::{SHARD, T0, tenant};
use super::stream_samples::{Writer, admitted, at, event, found, put_chunk, relay, stream};

const LARGE: usize = INLINE_PAYLOAD_BYTES_MAX + 1;
/// More than all payloads of a sample.
const ALL: usize = 64 * LARGE;

/// An event whose payload is large, and the same every time.
fn large(id: &str) -> Event {
    Event { body: Body::Bytes(Bytes::from(id.repeat(LARGE / id.len() + 1))), ..event(id) }
}

/// Events 1, 2, ... of a stream, whole; those whose ids begin with `l` are large.
fn whole(ids: &[&str]) -> Arc<Chunk> {
    let of = |id: &&str| if id.starts_with('l') { large(id) } else { event(id) };
    let events = (1..).zip(ids).map(|(seq, id)| {
        let packed = admitted(of(id), false).packed;
        StoredEvent { seq, pos: 1, packed, apart: 0 }
    });
    let (last, total) = (ids.len() as u64, (LARGE * ids.len()) as u64);
    Arc::new(Chunk { from: 0, last, total, at: T0, events: events.collect() })
}

/// Numbers them in one commit, and names them.
async fn numbered(store: &impl Store, writer: &mut Writer, of: &StreamKey, ids: &[&str]) -> Arc<Chunk> {
    let chunk = whole(ids);
    let head = StreamHead { last: chunk.last, fed: chunk.last, bytes: chunk.total };
    let part = FeedPart { stream: of.clone(), from: 1, to: chunk.last };
    let mut writes = blob::put_chunk(of, chunk.last, &chunk);
    writes.push(StreamWrite::PutHead { stream: of.clone(), head });
    writes.push(StreamWrite::PutFeed(FeedRecord { pos: 1, at: at(1), parts: vec![part] }));
    writer
        .commit(store, |commit| {
            commit.record.pos = 1;
            commit.writes = writes;
        })
        .await;
    chunk
}

/// Its events as they were read: of each whether its payload came with it.
fn come(slice: &StreamSlice) -> Vec<(u64, bool)> {
    let chunks = slice.chunks.iter().map(|stored| stored.chunk.as_ref().unwrap());
    chunks.flat_map(|chunk| chunk.events.iter().map(|event| (event.seq, event.apart == 0))).collect()
}

fn is_whole(stored: &[StoredChunk], chunk: &Arc<Chunk>) -> bool {
    matches!(stored, [stored] if stored.chunk.as_ref() == Ok(chunk))
}

pub async fn large_payloads_come_with_all_that_reads_events_and_not_with_what_only_looks(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let ids = ["l-1", "s-2", "l-3"];
    let chunk = numbered(store, &mut writer, &of, &ids).await;
    assert!(is_whole(&store.stream_slice(&of, 0, ALL).await.unwrap().chunks, &chunk), "a page");
    let record = store.feed_slice(SHARD, 1).await.unwrap().unwrap();
    assert!(is_whole(&record.parts[0].1, &chunk), "a feed record");
    let relayed = store.relay_slice(&relay("mail"), &of, 0, ALL).await.unwrap();
    assert!(is_whole(&relayed.slice.chunks, &chunk), "a relay");
    let (selector, from) = (Selector::Prefix("a".into()), ScanFrom::Behind(None));
    let query = ScanQuery { tenant: tenant("acme"), selector, from, since: Vec::new(), bytes_max: ALL };
    let (_, scanned) = store.scan_streams(&query).await.unwrap().unwrap();
    assert!(is_whole(&scanned.chunks, &chunk), "a scan");

    let (kept_up, _) = store.upkeep_slice(&of, &[], 0, ALL).await.unwrap();
    assert_eq!(come(&kept_up), [(1, false), (2, true), (3, false)], "upkeep moves none");
    let bare = kept_up.chunks[0].chunk.as_ref().unwrap();
    assert!(bare.packed_bytes() < LARGE && bare.bytes() > 2 * LARGE, "and counts them");
}

pub async fn a_slice_has_as_many_large_payloads_as_go_into_its_bytes_and_the_first_one(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    numbered(store, &mut writer, &of, &["l-1", "l-2", "s-3", "l-4", "l-5"]).await;
    let slice = async |after, bytes_max| come(&store.stream_slice(&of, after, bytes_max).await.unwrap());
    let all = |with: [bool; 5]| (1..).zip(with).collect::<Vec<(u64, bool)>>();
    assert_eq!(slice(0, 0).await, all([true, false, true, false, false]));
    assert_eq!(slice(0, 3 * LARGE).await, all([true, true, true, false, false]));
    assert_eq!(slice(1, LARGE).await, all([false, true, true, false, false]), "what is before its position isn't read");
    assert_eq!(slice(2, LARGE).await, all([false, false, true, false, false]), "the first one is small");
    assert_eq!(slice(3, 0).await, all([false, false, true, true, false]));
    let mut position = 0;
    while position < 5 {
        let slice = store.stream_slice(&of, position, 2 * LARGE).await.unwrap();
        let next = come(&slice).into_iter().filter(|(seq, _)| *seq > position).take_while(|(_, comes)| *comes);
        let upto = next.last().unwrap().0;
        assert!(upto > position, "each page goes on");
        position = upto;
    }
}

pub async fn a_chunk_that_is_written_again_leaves_large_payloads_where_they_are(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let chunk = numbered(store, &mut writer, &of, &["l-1", "s-2", "l-3"]).await;
    let (slice, _) = store.upkeep_slice(&of, &[], 0, ALL).await.unwrap();
    let bare = slice.chunks[0].chunk.clone().unwrap();
    // As compaction does with the second one.
    let left = Chunk { events: [&bare.events[..1], &bare.events[2..]].concat(), ..bare.as_ref().clone() };
    writer.write(store, vec![put_chunk(&of, &left)]).await;
    let read = store.stream_slice(&of, 0, ALL).await.unwrap();
    let events = &read.chunks[0].chunk.as_ref().unwrap().events;
    assert_eq!(events, &[chunk.events[0].clone(), chunk.events[2].clone()]);
}

pub async fn a_large_payload_that_is_gone_is_an_error_at_its_chunk_and_never_an_empty_one(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let chunk = numbered(store, &mut writer, &of, &["l-1", "s-2", "l-3"]).await;
    let gone: Vec<_> = blob::delete_of(&of, &bare(store, &of).await.events[2..]).collect();
    assert_eq!(gone, [StreamWrite::DeleteBlob { stream: of.clone(), seq: 3 }]);
    writer.write(store, gone).await;
    let read = store.stream_slice(&of, 0, ALL).await.unwrap();
    let reason = read.chunks[0].chunk.as_ref().unwrap_err();
    assert!(reason.contains("payload of event 3"), "{reason}");
    let small = store.stream_slice(&of, 0, LARGE).await.unwrap();
    assert_eq!(come(&small), [(1, true), (2, true), (3, false)], "who reads what is before it isn't told yet");
    assert_eq!(small.chunks[0].chunk.as_ref().unwrap().events[..2], chunk.events[..2]);
}

async fn bare(store: &impl Store, of: &StreamKey) -> Arc<Chunk> {
    let (slice, _) = store.upkeep_slice(of, &[], 0, ALL).await.unwrap();
    slice.chunks[0].chunk.clone().unwrap()
}

pub async fn a_large_payload_of_an_exact_append_is_written_once_and_adopted_where_it_is(store: &impl Store) {
    let of = stream("a");
    let events = vec![admitted(large("l-1"), true), admitted(event("s-2"), true)];
    let append = Append::new(of.clone(), events.clone());
    let exact = ExactAppend::new(append, 0, 1);
    assert_eq!(store.append_exact(&exact, T0).await.unwrap().unwrap().seqs, [1, 2]);
    assert!(store.append_exact(&exact, T0).await.unwrap().unwrap().is_repeat, "it is the same by its content");
    let unnamed = found(store, &of).await.unnamed;
    let chunk = unnamed[0].chunk.as_ref().unwrap();
    assert_eq!((chunk.events[0].apart as usize > INLINE_PAYLOAD_BYTES_MAX, chunk.events[1].apart), (true, 0));
    let adopted = chunk.adopted(7, T0);
    Writer::new().write(store, vec![put_chunk(&of, &adopted)]).await;
    let read = store.stream_slice(&of, 0, ALL).await.unwrap();
    let read = &read.chunks[0].chunk.as_ref().unwrap().events;
    let packed: Vec<_> = read.iter().map(|event| (event.pos, event.packed.clone())).collect();
    assert_eq!(packed, events.into_iter().map(|event| (7, event.packed)).collect::<Vec<_>>());
}
