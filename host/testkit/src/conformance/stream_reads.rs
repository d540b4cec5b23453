//! What readers, relays and upkeep are shown: slices from any position, the feed, scans, checkpoints.

use waybill_core::ids::{RelayName, ShardId};
use waybill_core::outbox::records::DeadState;
use waybill_core::port::stream_store::{RelaySlice, ScanFrom, ScanQuery, ShardOf, StreamSlice, StreamStore as Store};
use waybill_core::streams::chunk::{Chunk, StoredEvent};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{
    Checkpoint, FeedPart, FeedRecord, Refusal, StreamDead, StreamHead, StreamRest, StreamWrite,
};
use waybill_core::time::UnixMillis;

use super::samples::{SHARD, tenant};
use super::stream_samples::{ALL_BYTES, Writer, at, chunk, name, put_chunk, relay, stored, stream};

/// Events of a slice behind a position, by seq.
fn seqs(slice: &StreamSlice, after: u64) -> Vec<u64> {
    let chunks = slice.chunks.iter().map(|stored| stored.chunk.as_ref().unwrap());
    chunks.flat_map(|chunk| chunk.events.iter().map(|event| event.seq)).filter(|seq| *seq > after).collect()
}

/// A stream of singles, each named by a feed record of its own.
async fn singles(store: &impl Store, writer: &mut Writer, of: &StreamKey, count: u64) {
    for number in 0..count {
        writer.number(store, of, &[format!("e{number}").as_str()]).await;
    }
}

/// Several chunks as one, under the last one's key.
fn merged(chunks: &[Chunk]) -> Chunk {
    let last = chunks.last().unwrap();
    let events: Vec<StoredEvent> = chunks.iter().flat_map(|chunk| chunk.events.clone()).collect();
    Chunk { from: chunks[0].from, last: last.last, total: last.total, at: last.at, events }
}

/// Merges what lies under these keys.
async fn merge(store: &impl Store, writer: &mut Writer, of: &StreamKey, keys: std::ops::RangeInclusive<u64>) {
    let slice = store.stream_slice(of, keys.start() - 1, ALL_BYTES).await.unwrap();
    let chunks = slice.chunks.iter().filter(|stored| keys.contains(&stored.last));
    let chunks: Vec<Chunk> = chunks.map(|stored| stored.chunk.as_ref().unwrap().as_ref().clone()).collect();
    let (_, merged_away) = chunks.split_last().unwrap();
    let delete = |chunk: &Chunk| StreamWrite::DeleteChunk { stream: of.clone(), key: chunk.last };
    let mut writes: Vec<StreamWrite> = merged_away.iter().map(delete).collect();
    writes.push(put_chunk(of, &merged(&chunks)));
    writer.write(store, writes).await;
}

pub async fn a_stream_that_is_not_there_is_empty(store: &impl Store) {
    let slice = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
    assert_eq!(slice, StreamSlice { is_all: true, ..StreamSlice::default() });
    assert_eq!(store.feed_slice(SHARD, 1).await.unwrap(), None);
    assert_eq!(store.feed_ends(3).await.unwrap(), [0, 0, 0]);
}

pub async fn a_slice_goes_on_behind_any_position_whatever_was_merged(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    singles(store, &mut writer, &of, 40).await;
    // Neighbours in the table.
    for other in ["", "-"].map(|end| stream(&format!("a{end}b"))) {
        writer.number(store, &other, &["x"]).await;
    }
    let all: Vec<u64> = (1..=40).collect();
    for keys in [None, Some(1..=16), Some(17..=32), Some(16..=32), Some(1..=40)] {
        if let Some(keys) = keys {
            merge(store, &mut writer, &of, keys).await;
        }
        for after in 0..=40 {
            let slice = store.stream_slice(&of, after, ALL_BYTES).await.unwrap();
            assert_eq!(seqs(&slice, after), all[after as usize..], "behind {after}");
            assert!(slice.is_all && slice.head.last == 40);
            let first = slice.chunks.first().map(|stored| stored.chunk.as_ref().unwrap().from);
            assert!(first.is_none_or(|from| from <= after), "it covers what comes behind {after}");
        }
    }
    let beyond = store.stream_slice(&of, 41, ALL_BYTES).await.unwrap();
    assert_eq!((beyond.chunks, beyond.head.last, beyond.is_all), (Vec::new(), 40, true));
}

pub async fn a_slice_ends_at_its_bytes_and_has_one_chunk_at_least(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    singles(store, &mut writer, &of, 300).await;
    let one = store.stream_slice(&of, 7, 0).await.unwrap();
    assert_eq!((seqs(&one, 0), one.is_all), (vec![8], false));
    let last = store.stream_slice(&of, 299, 0).await.unwrap();
    assert_eq!((seqs(&last, 0), last.is_all), (vec![300], true));
    let bytes = |slice: &StreamSlice| -> usize {
        slice.chunks.iter().map(|stored| stored.chunk.as_ref().unwrap().bytes()).sum()
    };
    let (mut after, mut pages) = (0, 0);
    while after < 300 {
        let slice = store.stream_slice(&of, after, 4_000).await.unwrap();
        assert!(bytes(&slice) <= 4_000 && seqs(&slice, 0)[0] == after + 1);
        after = seqs(&slice, 0).pop().unwrap();
        assert_eq!(slice.is_all, after == 300);
        pages += 1;
    }
    assert!((2..100).contains(&pages), "{pages}");
}

pub async fn what_is_kept_of_a_stream_is_told_with_what_is_left_of_it(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    singles(store, &mut writer, &of, 5).await;
    let rest = StreamRest { first: 4, fed: 5, purged: 2, gone: 3, due: Some(at(7)), indexed: 4 };
    let delete = (1..=3).map(|key| StreamWrite::DeleteChunk { stream: of.clone(), key });
    let writes = delete.chain([StreamWrite::PutRest { stream: of.clone(), rest }]);
    writer.write(store, writes.collect()).await;
    let slice = store.stream_slice(&of, 0, ALL_BYTES).await.unwrap();
    assert_eq!((seqs(&slice, 0), slice.rest, slice.head.last), (vec![4, 5], rest, 5));
    // Compaction leaves holes, and chunks without events.
    let hole = Chunk { events: chunk(3, 4, &["e3"]).events, ..chunk(3, 4, &["e3", "e4"]) };
    let empty = Chunk { events: Vec::new(), ..chunk(5, 5, &["e5"]) };
    let head = StreamHead { last: 6, fed: 6, bytes: 1 << 40 };
    let writes = vec![
        StreamWrite::DeleteChunk { stream: of.clone(), key: 4 },
        put_chunk(&of, &hole),
        put_chunk(&of, &empty),
        StreamWrite::PutHead { stream: of.clone(), head },
    ];
    writer.write(store, writes).await;
    let slice = store.stream_slice(&of, 4, ALL_BYTES).await.unwrap();
    assert_eq!((slice.chunks, slice.head), (vec![stored(&hole), stored(&empty)], head));
}

/// `spoil` writes bytes that don't decode over what lies under a number of a stream.
pub async fn a_chunk_that_can_not_be_read_is_an_error_at_its_range<S: Store>(
    store: &S,
    spoil: impl AsyncFn(&S, &StreamKey, u64),
) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    singles(store, &mut writer, &of, 4).await;
    spoil(store, &of, 2).await;
    // Again and again: it stays where it is.
    for _ in 0..2 {
        let slice = store.stream_slice(&of, 0, ALL_BYTES).await.unwrap();
        let read: Vec<(u64, bool)> = slice.chunks.iter().map(|stored| (stored.last, stored.chunk.is_ok())).collect();
        assert_eq!(read, [(1, true), (2, false), (3, true), (4, true)]);
        assert!(slice.is_all && slice.head.last == 4);
        let part = store.feed_slice(SHARD, 2).await.unwrap().unwrap().parts.remove(0).1;
        assert!(part[0].chunk.is_err() && part.len() == 1, "{part:?}");
    }
    writer.write(store, vec![StreamWrite::DeleteChunk { stream: of.clone(), key: 2 }]).await;
    assert_eq!(seqs(&store.stream_slice(&of, 1, ALL_BYTES).await.unwrap(), 0), [3, 4]);
}

pub async fn the_feed_comes_in_order_until_it_is_trimmed(store: &impl Store) {
    let (mut writer, mut other) = (Writer::new(), Writer::of(ShardId(1)));
    singles(store, &mut writer, &stream("a"), 6).await;
    other.number(store, &stream("b"), &["x", "y"]).await;
    let feed = store.feed(SHARD, 0, 10).await.unwrap();
    let record = |pos| {
        let part = FeedPart { stream: stream("a"), from: pos, to: pos };
        FeedRecord { pos, at: at(pos), parts: vec![part] }
    };
    assert_eq!(feed, (1..=6).map(record).collect::<Vec<_>>());
    assert_eq!(store.feed(SHARD, 2, 2).await.unwrap(), feed[2..4]);
    assert!(store.feed(SHARD, 6, 10).await.unwrap().is_empty());
    assert_eq!(store.feed(ShardId(1), 0, 10).await.unwrap()[0].parts[0].to, 2, "shards are apart");
    assert_eq!(store.feed_ends(2).await.unwrap(), [6, 1]);
    let before = async |instant, limit| store.feed_before(SHARD, instant, limit).await.unwrap();
    assert_eq!(before(at(1), 10).await, None);
    assert_eq!((before(at(4), 10).await, before(at(4), 2).await), (Some(3), Some(2)));
    for (upto, left) in [(3, 4..=6), (3, 4..=6), (5, 6..=6)] {
        writer.write(store, vec![StreamWrite::TrimFeed(upto)]).await;
        let feed = store.feed(SHARD, 0, 10).await.unwrap();
        assert_eq!(feed.iter().map(|record| record.pos).collect::<Vec<_>>(), left.collect::<Vec<_>>());
    }
    assert_eq!((before(at(9), 10).await, before(at(6), 10).await), (Some(6), None));
    assert_eq!(store.feed_slice(SHARD, 5).await.unwrap(), None);
    assert_eq!(store.feed_ends(1).await.unwrap(), [6], "the numbers go on");
    assert_eq!(store.feed(ShardId(1), 0, 10).await.unwrap().len(), 1);
}

pub async fn a_feed_record_comes_with_its_events_whatever_was_merged(store: &impl Store) {
    let (mut writer, a, b) = (Writer::new(), stream("a"), stream("b"));
    singles(store, &mut writer, &a, 4).await;
    // One record with parts of two streams, one of them in two chunks.
    let (one, two) = (writer.numbering(StreamHead { last: 4, fed: 4, bytes: 0 }, &a, &["x", "y"]), chunk(0, 5, &["z"]));
    let part = |stream: &StreamKey, from, to| FeedPart { stream: stream.clone(), from, to };
    let parts = vec![part(&a, 5, 7), part(&b, 1, 1)];
    let exact = chunk(6, 5, &["w"]);
    writer
        .commit(store, |commit| {
            *commit = one;
            commit.writes.pop();
            let last = StreamHead { last: 7, fed: 7, bytes: 0 };
            commit.writes.extend([
                put_chunk(&a, &exact),
                put_chunk(&b, &two),
                StreamWrite::PutHead { stream: a.clone(), head: last },
                StreamWrite::PutHead { stream: b.clone(), head: StreamHead { last: 1, fed: 1, bytes: 0 } },
                StreamWrite::PutFeed(FeedRecord { pos: 5, at: at(5), parts: parts.clone() }),
            ]);
        })
        .await;
    let slice = store.feed_slice(SHARD, 5).await.unwrap().unwrap();
    assert_eq!(slice.record.parts, parts);
    let lasts = |at: usize| slice.parts[at].1.iter().map(|stored| stored.last).collect::<Vec<_>>();
    assert_eq!((lasts(0), lasts(1)), (vec![6, 7], vec![1]));
    let rest = StreamRest { first: 1, fed: 7, purged: 3, gone: 2, ..StreamRest::default() };
    writer.write(store, vec![StreamWrite::PutRest { stream: a.clone(), rest }]).await;
    merge(store, &mut writer, &a, 3..=7).await;
    for pos in 3..=5 {
        let (found, chunks) = store.feed_slice(SHARD, pos).await.unwrap().unwrap().parts.remove(0);
        let covers: Vec<_> = chunks.iter().map(|stored| (stored.chunk.as_ref().unwrap().from, stored.last)).collect();
        assert_eq!((found, covers), (rest, vec![(2, 7)]), "{pos}");
    }
    let (_, chunks) = store.feed_slice(SHARD, 1).await.unwrap().unwrap().parts.remove(0);
    assert_eq!(chunks.iter().map(|stored| stored.last).collect::<Vec<_>>(), [1]);
}

/// A scan to its end: each stream, and what was read of it.
async fn scanned(store: &impl Store, selector: &Selector, since: &[u64]) -> Vec<(String, Vec<u64>)> {
    let (mut from, mut found) = (ScanFrom::Behind(None), Vec::new());
    loop {
        let (tenant, since) = (tenant("acme"), since.to_vec());
        let query = ScanQuery { tenant, selector: selector.clone(), from, since, bytes_max: ALL_BYTES };
        let Some((name, slice)) = store.scan_streams(&query).await.unwrap() else { return found };
        found.push((name.to_string(), seqs(&slice, 0)));
        from = ScanFrom::Behind(Some(name));
    }
}

pub async fn streams_are_scanned_by_name_and_by_what_selects_them(store: &impl Store) {
    let mut writer = Writer::new();
    let names = ["task.b", "task", "task.a", "Task.a", "task-a", "task.a/b", "task/a", "tasks", "task:a", "0"];
    for name in names {
        writer.number(store, &stream(name), &["x"]).await;
    }
    let elsewhere = StreamKey { tenant: tenant("other"), ..stream("task.z") };
    writer.number(store, &elsewhere, &["x"]).await;
    let mut writes = Vec::new();
    for of in [&stream("task.b"), &stream("0"), &elsewhere] {
        writes.push(StreamWrite::PutNode { stream: of.clone(), node: "n 1".into() });
        writes.push(StreamWrite::PutType { stream: of.clone(), resource_type: "TÄSK".into() });
    }
    writes.push(StreamWrite::PutType { stream: stream("task"), resource_type: "TÄSK 2".into() });
    // A second time changes nothing.
    writer.write(store, writes.clone()).await;
    writer.write(store, writes).await;
    let prefix = |text: &str| Selector::Prefix(text.into());
    let mut sorted = names;
    sorted.sort_unstable();
    for (selector, expected) in [
        (prefix(""), sorted.to_vec()),
        (prefix("task."), vec!["task.a", "task.a/b", "task.b"]),
        (prefix("task"), sorted.iter().copied().filter(|name| name.starts_with("task")).collect()),
        (prefix("task.a"), vec!["task.a", "task.a/b"]),
        (prefix("zzz"), vec![]),
        (Selector::Node("n 1".into()), vec!["0", "task.b"]),
        (Selector::Node("n".into()), vec![]),
        (Selector::Resource { resource_type: "TÄSK".into(), id_prefix: "t-".into() }, vec!["0", "task.b"]),
    ] {
        let found = scanned(store, &selector, &[]).await;
        let found: Vec<_> = found.iter().map(|(name, seqs)| (name.as_str(), seqs.as_slice())).collect();
        assert_eq!(found, expected.iter().map(|name| (*name, [1].as_slice())).collect::<Vec<_>>(), "{selector:?}");
    }
    let of_type = |text: &str| Selector::Resource { resource_type: text.into(), id_prefix: String::new() };
    for (name, selector, expected) in [
        ("task.b", Selector::Node("n 1".into()), true),
        ("task.a", Selector::Node("n 1".into()), false),
        ("task.b", Selector::Node("n".into()), false),
        ("0", of_type("TÄSK"), true),
        ("task", of_type("TÄSK"), false),
        ("task", of_type("TÄSK 2"), true),
        ("task.a", prefix("task."), true),
        ("tasks", prefix("task."), false),
    ] {
        let found = store.is_selected(&stream(name), &selector).await.unwrap();
        assert_eq!(found, expected, "{name} {selector:?}");
    }
    let within = ScanQuery {
        tenant: tenant("acme"),
        selector: prefix("task."),
        from: ScanFrom::Within(name("task.a"), 1),
        since: Vec::new(),
        bytes_max: ALL_BYTES,
    };
    let (found, slice) = store.scan_streams(&within).await.unwrap().unwrap();
    assert_eq!((found, slice.chunks.len(), slice.head.last), (name("task.a"), 0, 1));
}

pub async fn streams_are_listed_by_name_in_pages_with_where_they_stand(store: &impl Store) {
    let mut writer = Writer::new();
    for name in ["task.b", "task", "Task.a", "task.a", "tasks"] {
        writer.number(store, &stream(name), &["x", "y"]).await;
    }
    writer.number(store, &StreamKey { tenant: tenant("other"), ..stream("task.z") }, &["x"]).await;
    let rest = StreamRest { first: 2, ..StreamRest::default() };
    writer.write(store, vec![StreamWrite::PutRest { stream: stream("task.a"), rest }]).await;
    for (prefix, expected) in [
        ("", vec!["Task.a", "task", "task.a", "task.b", "tasks"]),
        ("task", vec!["task", "task.a", "task.b", "tasks"]),
        ("task.", vec!["task.a", "task.b"]),
        ("zzz", vec![]),
    ] {
        for limit in [1, 2, 100] {
            let (mut found, mut behind) = (Vec::new(), None);
            for _page in 0..=expected.len() {
                let page = store.streams_named(&tenant("acme"), prefix, behind.as_ref(), limit).await.unwrap();
                assert!(page.len() <= limit);
                behind = page.last().map(|last| last.stream.name.clone()).or(behind);
                found.extend(page);
            }
            let names: Vec<_> = found.iter().map(|found| found.stream.name.as_str()).collect();
            assert_eq!(names, expected, "{prefix:?} by {limit}");
            for found in found {
                let first = if found.stream == stream("task.a") { 2 } else { 1 };
                assert_eq!((found.rest.first, found.head.last, found.stream.tenant), (first, 2, tenant("acme")));
            }
        }
    }
}

pub async fn who_scans_again_reads_what_he_lacks(store: &impl Store) {
    let (mut writer, a, b) = (Writer::new(), stream("a"), stream("b"));
    singles(store, &mut writer, &a, 20).await;
    singles(store, &mut writer, &b, 3).await;
    merge(store, &mut writer, &a, 1..=8).await;
    // What exact appenders put there isn't named yet.
    let (unnamed, head) = (chunk(3, 0, &["exact"]), StreamHead { last: 4, fed: 3, bytes: 0 });
    writer.write(store, vec![put_chunk(&b, &unnamed), StreamWrite::PutHead { stream: b.clone(), head }]).await;
    let all = Selector::Prefix(String::new());
    for (since, of_a, of_b) in [
        (vec![], 1..21, 1..5),
        (vec![0], 1..21, 1..5),
        // The chunk that it had a part of.
        (vec![5], 1..21, 1..5),
        (vec![8], 9..21, 1..5),
        (vec![19], 20..21, 1..5),
        (vec![22], 21..21, 3..5),
        (vec![23], 21..21, 4..5),
    ] {
        let found = scanned(store, &all, &since).await;
        let expected = [("a".to_owned(), of_a.collect()), ("b".to_owned(), of_b.collect())];
        assert_eq!(found, expected, "behind {since:?}");
    }
}

pub async fn what_compaction_emptied_tells_nothing_of_what_a_reader_had(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let empty = |from: u64| Chunk { events: Vec::new(), ..chunk(from, 1, &["gone"]) };
    let chunks = [empty(0), chunk(1, 5, &["x"]), empty(2), chunk(3, 6, &["y"]), empty(4)];
    let head = StreamHead { last: 5, fed: 5, bytes: 1 };
    let mut writes: Vec<StreamWrite> = chunks.iter().map(|chunk| put_chunk(&of, chunk)).collect();
    writes.push(StreamWrite::PutHead { stream: of.clone(), head });
    writer.write(store, writes).await;
    for (since, from) in [(4, 0), (5, 2), (6, 4)] {
        let (tenant, selector) = (tenant("acme"), Selector::Prefix(String::new()));
        let (from_first, since) = (ScanFrom::Behind(None), vec![since]);
        let query = ScanQuery { tenant, selector, from: from_first, since, bytes_max: ALL_BYTES };
        let (_, slice) = store.scan_streams(&query).await.unwrap().unwrap();
        let lasts: Vec<u64> = slice.chunks.iter().map(|stored| stored.last).collect();
        assert_eq!(lasts, (from + 1..=5).collect::<Vec<u64>>(), "behind {from}");
    }
}

pub async fn checkpoints_come_back_and_relays_read_on_behind_them(store: &impl Store) {
    let (mut writer, of, relay, other) = (Writer::new(), stream("a"), relay("mail"), relay("größe"));
    singles(store, &mut writer, &of, 9).await;
    let slice = store.relay_slice(&relay, &of, 0, ALL_BYTES).await.unwrap();
    assert_eq!((slice.checkpoint, seqs(&slice.slice, 0).len()), (Checkpoint::default(), 9));
    let checkpoint = Checkpoint { upto: 4, done: [6, 8, 1 << 40].into(), generation: 3 };
    let put = |checkpoint: &Checkpoint| StreamWrite::PutCheckpoint {
        relay: relay.clone(),
        stream: of.clone(),
        checkpoint: checkpoint.clone(),
    };
    let note = StreamWrite::NoteOvertaken { relay: relay.clone(), stream: of.clone(), from: 1, to: 3 };
    writer.write(store, vec![put(&checkpoint), note]).await;
    let RelaySlice { checkpoint: found, slice } = store.relay_slice(&relay, &of, 0, ALL_BYTES).await.unwrap();
    assert_eq!((&found, seqs(&slice, 0)), (&checkpoint, vec![5, 6, 7, 8, 9]));
    let later = store.relay_slice(&relay, &of, 7, ALL_BYTES).await.unwrap();
    assert_eq!((&later.checkpoint, seqs(&later.slice, 0)), (&checkpoint, vec![8, 9]));
    let relays = [other.clone(), relay.clone()];
    let (slice, checkpoints) = store.upkeep_slice(&of, &relays, 2, ALL_BYTES).await.unwrap();
    assert_eq!((seqs(&slice, 0).len(), checkpoints), (7, vec![Checkpoint::default(), checkpoint]));
    let settled = Checkpoint { upto: 9, done: [].into(), generation: 4 };
    writer.write(store, vec![put(&settled)]).await;
    assert_eq!(store.relay_slice(&relay, &of, 0, ALL_BYTES).await.unwrap().checkpoint, settled);
    assert_eq!(store.relay_slice(&other, &of, 0, 0).await.unwrap().checkpoint, Checkpoint::default());
}

pub async fn dead_letters_and_what_a_relay_never_had_are_listed_in_pages(store: &impl Store) {
    let (mut writer, of, relay, other) = (Writer::new(), stream("a"), relay("mail"), relay("other"));
    let dead = |seq: u64| {
        let why = Refusal { code: "POISON".into(), reason: format!("no {seq}") };
        let packed = bytes::Bytes::from_static(b"packed");
        StreamWrite::PutDead(Box::new(StreamDead::Relay { relay: relay.clone(), stream: of.clone(), seq, packed, why }))
    };
    let note = |relay: &RelayName, from: u64| StreamWrite::NoteOvertaken {
        relay: relay.clone(),
        stream: of.clone(),
        from,
        to: from + 1,
    };
    assert!(store.stream_dead(None, 10).await.unwrap().is_empty());
    writer.write(store, vec![dead(1), dead(2), note(&relay, 1), note(&other, 3)]).await;
    writer.write(store, vec![dead(3), note(&relay, 7)]).await;
    let (mut behind, mut places, mut seqs) = (None, Vec::new(), Vec::new());
    loop {
        let page = store.stream_dead(behind, 2).await.unwrap();
        seqs.extend(page.iter().filter_map(|letter| letter.seq()));
        places.extend(page.iter().map(|letter| letter.place));
        behind = places.last().copied();
        if page.len() < 2 {
            break;
        }
    }
    assert_eq!(seqs, [1, 2, 3]);
    let letter = store.stream_dead_letter(places[1]).await.unwrap().unwrap();
    assert_eq!((letter.seq(), letter.why().code.as_str(), &letter.state), (Some(2), "POISON", &DeadState::Dead));
    assert!(letter.died_at.0 > 0 && letter.relay() == Some(&relay) && letter.packed() == b"packed");
    let fenced = DeadState::Quarantined { note: "later".into(), at: UnixMillis(77) };
    assert!(store.mark_stream_dead(places[1], &fenced).await.unwrap());
    let letter = store.stream_dead_letter(places[1]).await.unwrap().unwrap();
    assert_eq!((letter.seq(), &letter.state), (Some(2), &fenced));
    assert!(store.remove_stream_dead(places[1]).await.unwrap());
    assert!(!store.remove_stream_dead(places[1]).await.unwrap(), "it is gone");
    assert!(!store.mark_stream_dead(places[1], &fenced).await.unwrap());
    assert_eq!(store.stream_dead_letter(places[1]).await.unwrap(), None);
    assert_eq!(store.stream_dead(None, 10).await.unwrap().len(), 2);
    let ranges = store.overtaken(&relay, None, 1).await.unwrap();
    assert_eq!(ranges.iter().map(|range| (range.from, range.to)).collect::<Vec<_>>(), [(1, 2)]);
    let next = store.overtaken(&relay, Some((&of, 1)), 10).await.unwrap();
    assert_eq!(next.iter().map(|range| (range.from, range.to)).collect::<Vec<_>>(), [(7, 8)]);
    assert!(next[0].at.0 > 0 && next[0].stream == of);
    assert_eq!(store.overtaken(&other, None, 10).await.unwrap().len(), 1);
}

pub async fn a_relay_goes_through_all_streams_of_its_shard(store: &impl Store) {
    let (mut writer, relay) = (Writer::new(), relay("mail"));
    let names: Vec<String> = (0..10).map(|number| format!("s{number}")).collect();
    for name in &names {
        writer.number(store, &stream(name), &["x"]).await;
    }
    let elsewhere = StreamKey { tenant: tenant("Zoo"), ..stream("s0") };
    let rest = StreamRest { fed: 7, ..StreamRest::default() };
    let checkpoint = Checkpoint { upto: 1, done: [].into(), generation: 0 };
    writer.number(store, &elsewhere, &["x"]).await;
    let (of, to) = (stream("s3"), relay.clone());
    let put = StreamWrite::PutCheckpoint { relay: to, stream: of.clone(), checkpoint: checkpoint.clone() };
    writer.write(store, vec![StreamWrite::PutRest { stream: of.clone(), rest }, put]).await;
    let mut all: Vec<StreamKey> = names.iter().map(|name| stream(name)).chain([elsewhere]).collect();
    all.sort();
    let mut met = Vec::new();
    for shard in 0..3 {
        let of_shard = ShardOf { shard: ShardId(shard), count: 3 };
        let (mut behind, mut found) = (None, Vec::new());
        loop {
            let page = store.relay_streams(&relay, of_shard, behind.as_ref(), 4).await.unwrap();
            found.extend(page.streams);
            let Some(last) = page.last else { break };
            assert!(behind.is_none_or(|behind| behind < last));
            behind = Some(last);
        }
        assert!(found.iter().all(|found| found.stream.shard(3) == of_shard.shard));
        met.extend(found);
    }
    met.sort_by(|one, other| one.stream.cmp(&other.stream));
    assert_eq!(met.iter().map(|found| found.stream.clone()).collect::<Vec<_>>(), all, "each once");
    for found in met {
        let expected = if found.stream == of { (7, checkpoint.clone()) } else { (1, Checkpoint::default()) };
        assert_eq!((found.named_to, found.checkpoint), expected);
    }
}
