//! What one reader does, step by step. Schedules are drawn by the model (`waybill_testkit::streams_model`).

use std::sync::Arc;

use bytes::Bytes;

use super::scan::{Between, ScanStop, Scanned, scan};
use super::token::ScanAt;
use super::*;
use crate::ids::{ShardId, Tenant};
use crate::port::stream_store::{FeedSlice, ScanFrom, StreamSlice};
use crate::streams::chunk::{Chunk, StoredChunk};
use crate::streams::fixtures::stream;
use crate::streams::records::{FeedPart, FeedRecord, StreamHead, StreamRest};
use crate::streams::rules::Rules;
use crate::time::UnixMillis;

fn event(seq: u64) -> StoredEvent {
    StoredEvent { seq, pos: seq * 10, packed: Bytes::from_static(&[]), apart: 0 }
}

fn chunk(from: u64, last: u64, seqs: &[u64]) -> StoredChunk {
    let events = seqs.iter().map(|seq| event(*seq)).collect();
    let chunk = Chunk { from, last, total: 0, at: UnixMillis(0), events };
    StoredChunk { last, chunk: Ok(Arc::new(chunk)) }
}

fn slice(first: u64, last: u64, chunks: Vec<StoredChunk>) -> StreamSlice {
    let rest = StreamRest { first, fed: last, ..StreamRest::default() };
    StreamSlice { head: StreamHead { last, fed: last, bytes: 0 }, rest, chunks, is_all: true }
}

fn seqs(events: &[StoredEvent]) -> Vec<u64> {
    events.iter().map(|event| event.seq).collect()
}

fn paged(slice: &StreamSlice, after: u64, events: usize) -> Result<(Vec<u64>, u64, bool), PageError> {
    let limits = PageLimits { events, ..PageLimits::default() };
    page(slice, after, 0, limits, Rules::default()).map(|page| (seqs(&page.events), page.upto, page.is_end))
}

#[test]
fn a_page_goes_over_what_compaction_took_and_ends_at_its_bound() {
    let slice = slice(1, 6, vec![chunk(0, 4, &[1, 3]), chunk(4, 6, &[])]);
    assert_eq!(paged(&slice, 0, 9), Ok((vec![1, 3], 6, true)));
    assert_eq!(paged(&slice, 2, 9), Ok((vec![3], 6, true)));
    assert_eq!(paged(&slice, 0, 1), Ok((vec![1], 1, false)));
    assert_eq!(PageLimits::default().asked(1_000_000_000).events, 1_000);
}

#[test]
fn a_position_that_isnt_kept_any_more_is_told_with_what_is() {
    let trimmed = slice(4, 6, vec![chunk(3, 6, &[4, 5, 6])]);
    assert_eq!(paged(&trimmed, 2, 9), Err(PageError::Expired { after: 2, first: 4, last: 6 }));
    assert_eq!(paged(&trimmed, 3, 9), Ok((vec![4, 5, 6], 6, true)));
    assert_eq!(paged(&trimmed, 7, 9), Err(PageError::Ahead { after: 7, last: 6 }));
    let hole = slice(1, 6, vec![chunk(3, 6, &[4])]);
    assert!(matches!(paged(&hole, 2, 9), Err(PageError::Expired { .. })), "nothing covers 3");
}

#[test]
fn who_stands_before_a_dropped_tombstone_begins_anew_and_who_knew_of_the_mark_goes_on() {
    let mut purged = slice(1, 6, vec![chunk(0, 6, &[5, 6])]);
    purged.rest.purged = 4;
    let read = |after, base| page(&purged, after, base, PageLimits::default(), Rules::default()).is_ok();
    assert_eq!((read(3, 0), read(4, 0), read(0, 4), read(0, 3)), (false, true, true, false));
}

/// Events 1 to 4, of which only the first two came with their payloads.
fn first_two() -> StreamSlice {
    let StoredChunk { last, chunk } = chunk(0, 4, &[1, 2, 3, 4]);
    let mut chunk = chunk.unwrap().as_ref().clone();
    chunk.events[2..].iter_mut().for_each(|event| event.apart = 70_000);
    slice(1, 4, vec![StoredChunk { last, chunk: Ok(Arc::new(chunk)) }])
}

#[test]
fn a_page_and_a_scan_end_before_an_event_whose_payload_was_not_read() {
    let slice = first_two();
    assert_eq!(paged(&slice, 0, 9), Ok((vec![1, 2], 2, false)));
    assert!(matches!(paged(&slice, 2, 9), Err(PageError::Unreadable { from: 3, to: 3, .. })), "never without it");

    let name = StreamName::new("a").unwrap();
    let within = |seq| ScanAt::Within { stream: name.clone(), seq, purged: 0 };
    let scanned = |at: &ScanAt, low| scan(at, &name, &slice, Between { low, feed: 40 }, Rules::default());
    let begun = scanned(&ScanAt::Behind(None), None).unwrap();
    assert_eq!((begun.len(), begun.back()), (3, Some(&Scanned::At(within(2)))));
    let again = scanned(&ScanAt::Behind(None), Some(20)).unwrap();
    assert_eq!(again, [Scanned::At(within(2))], "what it had is behind it all the same");
    assert!(matches!(scanned(&within(2), None), Err(ScanStop::Unreadable(_))));
}

#[test]
fn a_live_entry_without_a_payload_has_its_readers_look_into_the_store() {
    let StreamSlice { rest, chunks, .. } = first_two();
    let entry = |from, to| {
        let record = FeedRecord { pos: 1, at: UnixMillis(0), parts: vec![FeedPart { stream: stream("a"), from, to }] };
        let slice = FeedSlice { record, parts: vec![(rest, chunks.clone())] };
        LiveEntry::of_slice(ShardId(0), &slice, |_| true).parts[0].1.events.as_deref().map(seqs)
    };
    assert_eq!((entry(1, 2), entry(2, 4)), (Some(vec![1, 2]), None));
}

#[test]
fn an_unreadable_chunk_is_an_error_at_its_range_and_never_skipped() {
    let bad = StoredChunk { last: 4, chunk: Err("cut".into()) };
    let slice = slice(1, 6, vec![chunk(0, 2, &[1, 2]), bad, chunk(4, 6, &[5])]);
    assert_eq!(paged(&slice, 0, 9), Ok((vec![1, 2], 2, false)));
    let rest = StreamSlice { chunks: slice.chunks[1..].to_vec(), ..slice };
    assert!(matches!(paged(&rest, 2, 9), Err(PageError::Unreadable { from: 3, to: 4, .. })));
}

#[test]
fn a_lost_chunk_at_a_streams_end_is_an_error_at_its_range() {
    let cut = slice(1, 6, vec![chunk(0, 4, &[1, 4])]);
    assert_eq!(paged(&cut, 0, 9), Ok((vec![1, 4], 4, false)));
    let rest = StreamSlice { chunks: vec![], ..cut.clone() };
    assert!(matches!(paged(&rest, 4, 9), Err(PageError::Unreadable { from: 5, to: 6, .. })));
    let more = StreamSlice { is_all: false, ..rest.clone() };
    assert_eq!(paged(&more, 4, 9), Ok((vec![], 4, false)), "it wasn't read to its end");

    let ring = Ring::default();
    let mut reader = feed_reader();
    reader.wants(&ring);
    reader.take_ends(vec![90]);
    reader.wants(&ring);
    reader.take_scan(Some((stream("a").name, cut))).unwrap();
    assert_eq!(drain(&mut reader), [1, 4]);
    let FeedWants::Scan(query) = reader.wants(&ring) else { panic!("no scan") };
    assert_eq!(query.from, ScanFrom::Within(stream("a").name, 4));
    assert!(matches!(reader.take_scan(Some((stream("a").name, rest))), Err(Restart::Unreadable(_))));

    let mut reader = scanned(&ring);
    reader.wants(&ring);
    reader.take_ends(vec![21]);
    reader.wants(&ring);
    let mut found = feed_slice(21, 3, 5, 1);
    found.parts[0].1 = vec![chunk(2, 4, &[3, 4])];
    assert!(matches!(reader.take_feed(Some(found)), Err(Restart::Unreadable(_))));
}

fn live(shard: u16, pos: u64, from: u64, to: u64, whole: bool) -> Arc<LiveEntry> {
    let events = whole.then(|| (from..=to).map(event).collect());
    let part = LivePart { stream: stream("a"), from, to, events };
    Arc::new(LiveEntry { shard: ShardId(shard), pos, parts: vec![(0, part)] })
}

fn push(ring: &mut Ring, entry: Arc<LiveEntry>) {
    ring.push(entry, 3, 1 << 20);
}

#[test]
fn a_reader_joins_the_ring_before_its_last_look() {
    let (mut ring, all) = (Ring::default(), slice(1, 2, vec![chunk(0, 2, &[1, 2])]));
    let mut reader = NamedReader::after(stream("a"), 0, PageLimits::default(), Rules::default());
    assert_eq!(reader.wants(), NamedWants::Slice(0));
    assert_eq!(seqs(&reader.take_slice(&all, &ring).unwrap()), [1, 2]);
    assert!(!reader.is_live());
    // Committed and published between the two looks.
    push(&mut ring, live(0, 3, 3, 3, true));
    let more = slice(1, 3, vec![chunk(2, 3, &[3])]);
    assert_eq!(seqs(&reader.take_slice(&more, &ring).unwrap()), [3]);
    assert_eq!(reader.wants(), NamedWants::Live);
    assert_eq!(reader.take_live(&ring), Some(vec![]), "it had that");
    assert!(reader.is_idle(&ring));
}

#[test]
fn who_is_called_looks_into_the_store_once() {
    let mut ring = Ring::default();
    ring.call();
    let mut reader = NamedReader::after(stream("a"), 2, PageLimits::default(), Rules::default());
    reader.take_slice(&slice(1, 2, vec![]), &ring).unwrap();
    // Between its two looks: the second one may have been before it.
    ring.call();
    reader.take_slice(&slice(1, 2, vec![]), &ring).unwrap();
    assert!(reader.is_live() && !reader.is_idle(&ring));
    assert_eq!((reader.take_live(&ring), reader.wants()), (Some(vec![]), NamedWants::Slice(2)));
    // It finds nothing, and isn't called again.
    reader.take_slice(&slice(1, 2, vec![]), &ring).unwrap();
    assert!(reader.is_idle(&ring) && reader.wants() == NamedWants::Live);
    ring.call();
    reader.take_live(&ring).unwrap();
    assert_eq!(seqs(&reader.take_slice(&slice(1, 3, vec![chunk(2, 3, &[3])]), &ring).unwrap()), [3]);
    assert!(reader.is_idle(&ring));
}

#[test]
fn the_ring_is_a_hint() {
    let mut ring = Ring::default();
    let mut reader = NamedReader::after(stream("a"), 2, PageLimits::default(), Rules::default());
    for _ in 0..2 {
        reader.take_slice(&slice(1, 2, vec![]), &ring).unwrap();
    }
    // 3 and 4 were lost on the way.
    push(&mut ring, live(0, 5, 5, 6, true));
    assert_eq!(reader.take_live(&ring), Some(vec![]));
    assert_eq!(reader.wants(), NamedWants::Slice(2));
    let stored = slice(1, 6, vec![chunk(2, 5, &[3, 4, 5])]);
    assert_eq!(seqs(&reader.take_slice(&stored, &ring).unwrap()), [3, 4, 5]);
    assert_eq!(seqs(&reader.take_live(&ring).unwrap()), [6], "of an entry what it lacks");
    for number in 7..11 {
        push(&mut ring, live(0, number, number, number, true));
    }
    assert_eq!(reader.take_live(&ring), None, "watch lagged; resync required");
}

fn feed_reader() -> FeedReader {
    FeedReader::from_earliest(Tenant::unnamed(), Selector::Prefix(String::new()), 1, 1, Rules::default())
}

fn feed_slice(pos: u64, from: u64, to: u64, first: u64) -> FeedSlice {
    let part = FeedPart { stream: stream("a"), from, to };
    let seqs: Vec<u64> = (from..=to).collect();
    let rest = StreamRest { first, ..StreamRest::default() };
    FeedSlice {
        record: FeedRecord { pos, at: UnixMillis(0), parts: vec![part] },
        parts: vec![(rest, vec![chunk(from - 1, to, &seqs)])],
    }
}

fn drain(reader: &mut FeedReader) -> Vec<u64> {
    std::iter::from_fn(|| reader.next()).map(|read| read.event.seq).collect()
}

/// A reader that has scanned up to feed record 20, and has events 1 and 2.
fn scanned(ring: &Ring) -> FeedReader {
    let mut reader = feed_reader();
    assert_eq!(reader.wants(ring), FeedWants::Ends);
    reader.take_ends(vec![20]);
    let FeedWants::Scan(query) = reader.wants(ring) else { panic!("no scan") };
    assert_eq!(query.from, ScanFrom::Behind(None));
    // 3 is named by record 30: the feed will tell.
    reader.take_scan(Some((stream("a").name, slice(1, 3, vec![chunk(0, 3, &[1, 2, 3])])))).unwrap();
    assert_eq!(drain(&mut reader), [1, 2]);
    let FeedWants::Scan(query) = reader.wants(ring) else { panic!("no scan") };
    assert_eq!(query.from, ScanFrom::Behind(Some(stream("a").name)));
    reader.take_scan(None).unwrap();
    reader
}

#[test]
fn a_scan_leaves_to_the_feed_what_is_named_behind_its_beginning() {
    let mut ring = Ring::default();
    let mut reader = scanned(&ring);
    assert_eq!(reader.wants(&ring), FeedWants::Ends);
    reader.take_ends(vec![21]);
    assert_eq!(reader.wants(&ring), FeedWants::Feed(ShardId(0), 21));
    reader.take_feed(Some(feed_slice(21, 3, 4, 1))).unwrap();
    assert_eq!(drain(&mut reader), [3, 4]);
    // It joins, and looks once more.
    assert_eq!(reader.wants(&ring), FeedWants::Ends);
    push(&mut ring, live(0, 22, 5, 5, true));
    reader.take_ends(vec![21]);
    assert_eq!(reader.wants(&ring), FeedWants::Live);
    reader.take_live(&ring).unwrap();
    assert_eq!(drain(&mut reader), [5]);
    assert!(reader.is_idle(&ring, &[22]));
    push(&mut ring, live(0, 24, 7, 7, true));
    reader.take_live(&ring).unwrap();
    assert_eq!(reader.wants(&ring), FeedWants::Feed(ShardId(0), 23), "one is missing in between");
}

#[test]
fn what_is_gone_of_a_stream_without_wanted_events_ends_no_reader() {
    let ring = Ring::default();
    let token = Token { scope: 0, incarnation: 1, place: Place::Feed { pos: vec![20], part: None } };
    let node = Selector::Node("n".into());
    let begin = || {
        let mut reader = FeedReader::resume(Tenant::unnamed(), node.clone(), &token, 1, Rules::default());
        reader.wants(&ring);
        reader.take_ends(vec![21]);
        assert_eq!(reader.wants(&ring), FeedWants::Feed(ShardId(0), 21));
        reader.take_feed(Some(feed_slice(21, 3, 5, 4))).unwrap();
        assert_eq!(reader.wants(&ring), FeedWants::Selected(stream("a"), node.clone()));
        reader
    };
    assert_eq!(begin().take_selected(true), Err(Restart::Expired), "it had some, and what went may have been of them");
    let mut reader = begin();
    reader.take_selected(false).unwrap();
    assert_eq!(reader.wants(&ring), FeedWants::Feed(ShardId(0), 21));
    reader.take_feed(Some(feed_slice(21, 3, 5, 4))).unwrap();
    assert_eq!(
        (drain(&mut reader).len(), reader.token().unwrap().place),
        (0, Place::Feed { pos: vec![21], part: None })
    );
}

#[test]
fn a_token_goes_on_within_a_record_and_a_shortened_record_is_told() {
    let ring = Ring::default();
    let mut reader = scanned(&ring);
    reader.wants(&ring);
    reader.take_ends(vec![21]);
    reader.wants(&ring);
    reader.take_feed(Some(feed_slice(21, 3, 5, 1))).unwrap();
    assert_eq!(reader.next().map(|read| read.event.seq), Some(3));
    let token = reader.token().unwrap();
    let resume = || FeedReader::resume(Tenant::unnamed(), Selector::Prefix(String::new()), &token, 1, Rules::default());
    let mut again = resume();
    assert_eq!(again.wants(&ring), FeedWants::Ends);
    again.take_ends(vec![21]);
    assert_eq!(again.wants(&ring), FeedWants::Feed(ShardId(0), 21));
    again.take_feed(Some(feed_slice(21, 3, 5, 1))).unwrap();
    assert_eq!(drain(&mut again), [4, 5]);
    for found in [None, Some(feed_slice(21, 3, 5, 4))] {
        let mut again = resume();
        again.wants(&ring);
        again.take_ends(vec![21]);
        again.wants(&ring);
        assert_eq!(again.take_feed(found), Err(Restart::Expired));
    }
}

#[test]
fn who_finds_the_feed_trimmed_scans_again_for_what_came_between() {
    let ring = Ring::default();
    let begin = || {
        let mut reader = scanned(&ring);
        reader.wants(&ring);
        reader.take_ends(vec![40]);
        reader.wants(&ring);
        reader.take_feed(None).unwrap();
        assert_eq!(reader.wants(&ring), FeedWants::Ends);
        reader.take_ends(vec![50]);
        let FeedWants::Scan(query) = reader.wants(&ring) else { panic!("no scan") };
        assert_eq!((query.from, query.since), (ScanFrom::Behind(None), vec![20]));
        reader
    };
    let mut stored = slice(1, 6, vec![chunk(0, 6, &[1, 2, 3, 4, 5, 6])]);
    let mut reader = begin();
    reader.take_scan(Some((stream("a").name, stored.clone()))).unwrap();
    assert_eq!(drain(&mut reader), [3, 4, 5], "6 is named by record 60");
    // Something behind record 20 was trimmed or purged meanwhile.
    stored.rest.gone = 21;
    assert_eq!(begin().take_scan(Some((stream("a").name, stored))), Err(Restart::Expired));
}

#[test]
fn a_scan_hands_on_what_is_before_an_unreadable_chunk_and_a_feed_tells_it_from_one_that_is_gone() {
    let ring = Ring::default();
    let bad = |last| StoredChunk { last, chunk: Err("cut".into()) };
    let mut reader = feed_reader();
    reader.wants(&ring);
    reader.take_ends(vec![20]);
    reader.wants(&ring);
    reader.take_scan(Some((stream("a").name, slice(1, 2, vec![chunk(0, 1, &[1]), bad(2)])))).unwrap();
    assert_eq!(drain(&mut reader), [1]);
    let FeedWants::Scan(query) = reader.wants(&ring) else { panic!("no scan") };
    assert_eq!(query.from, ScanFrom::Within(stream("a").name, 1));
    let followed = reader.take_scan(Some((stream("a").name, slice(1, 2, vec![bad(2)]))));
    assert_eq!(followed, Err(Restart::Unreadable("cut".into())));

    let mut reader = scanned(&ring);
    reader.wants(&ring);
    reader.take_ends(vec![21]);
    reader.wants(&ring);
    let mut found = feed_slice(21, 3, 4, 1);
    found.parts[0].1 = vec![bad(4)];
    assert_eq!(reader.take_feed(Some(found)), Err(Restart::Unreadable("cut".into())));
}

#[test]
fn a_selector_takes_what_it_names() {
    let packed = crate::streams::fixtures::new_event("x").packed;
    let event = StoredEvent { seq: 1, pos: 1, packed, apart: 0 };
    let of = |resource_type: &str, id_prefix: &str| Selector::Resource {
        resource_type: resource_type.into(),
        id_prefix: id_prefix.into(),
    };
    assert!(of("TASK", "t-").takes(&event) && of("TASK", "").takes(&event));
    assert!(!of("TASK", "u").takes(&event) && !of("NODE", "").takes(&event));
    let one = |resource_type: &str, resource_id: &str| Selector::OneResource {
        resource_type: resource_type.into(),
        resource_id: resource_id.into(),
    };
    assert!(one("TASK", "t-1").takes(&event));
    assert!(!one("TASK", "t-").takes(&event) && !one("NODE", "t-1").takes(&event));
    assert_ne!(one("TASK", "t-1").hash(), of("TASK", "t-1").hash());
    assert_eq!(one("TASK", "t-1").resources(), Some(("TASK", ResourceIds::One("t-1"))));
    assert_eq!(
        (of("TASK", "t-").resources(), of("TASK", "").resources()),
        (Some(("TASK", ResourceIds::Beginning("t-"))), None)
    );
    assert!(!Selector::Node("n".into()).takes(&event));
    assert!(Selector::Prefix("a".into()).may_take(&stream("a.b").name));
    assert!(!Selector::Prefix("b".into()).may_take(&stream("a.b").name));
}
