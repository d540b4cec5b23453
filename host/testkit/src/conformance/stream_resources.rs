//! What is read of some resources: by the index as far as that goes, and everything behind.

use std::collections::BTreeMap;

use waybill_core::port::stream_store::{ScanFrom, ScanQuery, StreamStore as Store};
use waybill_core::streams::chunk::Chunk;
use waybill_core::streams::event::Event;
use waybill_core::streams::limits::{SLICE_IDS_MAX, SLICE_ROWS_MAX};
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{StreamHead, StreamRest, StreamWrite};

use super::samples::tenant;
use super::stream_samples::{ALL_BYTES, Writer, admitted, chunk, event, put_chunk, stream};

pub(crate) fn one(id: &str) -> Selector {
    Selector::OneResource { resource_type: "TASK".into(), resource_id: id.into() }
}

fn beginning(id_prefix: &str) -> Selector {
    Selector::Resource { resource_type: "TASK".into(), id_prefix: id_prefix.into() }
}

/// Chunks of events of these resources, one behind the other.
fn chunks_of(resources: &[Vec<String>]) -> Vec<Chunk> {
    let mut last = 0;
    let chunks = resources.iter().map(|resources| {
        let mut chunk = chunk(last, 1, &vec!["x"; resources.len()]);
        for (stored, id) in chunk.events.iter_mut().zip(resources) {
            let event = Event { resource_id: id.clone(), ..event(&format!("e{}", stored.seq)) };
            stored.packed = admitted(event, false).packed;
        }
        last = chunk.last;
        chunk
    });
    chunks.collect()
}

/// A row for the last event of each resource in a chunk that begins with `resources`.
fn rows(of: &StreamKey, chunk: &Chunk, resources: &[String]) -> Vec<StreamWrite> {
    let last: BTreeMap<&String, u64> = resources.iter().zip(chunk.from + 1..).collect();
    let put = |(id, seq): (&String, u64)| {
        let resource = ("TASK".to_owned(), id.clone());
        StreamWrite::PutResource { stream: of.clone(), resource, seq }
    };
    last.into_iter().map(put).collect()
}

/// A stream of such chunks, of which the first so many are indexed.
async fn stored(
    store: &impl Store,
    writer: &mut Writer,
    of: &StreamKey,
    resources: &[Vec<String>],
    indexed: usize,
) -> Vec<Chunk> {
    let chunks = chunks_of(resources);
    let mut writes: Vec<_> = chunks.iter().map(|chunk| put_chunk(of, chunk)).collect();
    for (chunk, resources) in chunks.iter().zip(resources).take(indexed) {
        writes.extend(rows(of, chunk, resources));
    }
    let last = chunks.last().map_or(0, |chunk| chunk.last);
    let indexed = indexed.checked_sub(1).map_or(0, |at| chunks[at].last);
    let rest = StreamRest { fed: last, indexed, ..StreamRest::default() };
    writes.push(StreamWrite::PutRest { stream: of.clone(), rest });
    writes.push(StreamWrite::PutHead { stream: of.clone(), head: StreamHead { last, fed: last, bytes: 1 } });
    writes.push(StreamWrite::PutType { stream: of.clone(), resource_type: "TASK".into() });
    writer.write(store, writes).await;
    chunks
}

/// What a reader has of a stream that it reads slice behind slice, and how many chunks with events came for that.
pub(crate) async fn read(
    store: &impl Store,
    of: &StreamKey,
    selector: &Selector,
    bytes_max: usize,
) -> (Vec<u64>, usize) {
    let (mut position, mut seqs, mut chunks) = (0, Vec::new(), 0);
    loop {
        let from = match position {
            0 => ScanFrom::Behind(None),
            position => ScanFrom::Within(of.name.clone(), position),
        };
        let query =
            ScanQuery { tenant: tenant("acme"), selector: selector.clone(), from, since: Vec::new(), bytes_max };
        let (name, slice) = store.scan_streams(&query).await.unwrap().unwrap();
        assert_eq!(name, of.name);
        for stored in &slice.chunks {
            let chunk = stored.chunk.as_ref().unwrap();
            assert!(position == 0 || chunk.from <= position, "a gap behind {position}");
            assert!(position < chunk.last && stored.last == chunk.last);
            chunks += usize::from(!chunk.events.is_empty());
            let wanted = chunk.events.iter().filter(|event| event.seq > position && selector.takes(event));
            seqs.extend(wanted.map(|event| event.seq));
            position = chunk.last;
        }
        if slice.is_all {
            let upto = position.max(slice.rest.first.saturating_sub(1));
            assert!(upto >= slice.head.last, "it ends at {upto}");
            return (seqs, chunks);
        }
        assert!(!slice.chunks.is_empty(), "it goes on behind {position}");
    }
}

fn ids(resources: &[&[&str]]) -> Vec<Vec<String>> {
    resources.iter().map(|ids| ids.iter().map(|id| (*id).to_owned()).collect()).collect()
}

pub async fn of_what_is_indexed_only_the_chunks_of_a_resource_are_read(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let resources = ids(&[&["a", "b", "a"], &["b"], &["c", "b"], &["a"], &["é", "a b"], &["b"]]);
    // Neighbours in the index.
    let elsewhere = StreamKey { tenant: tenant("other"), ..of.clone() };
    stored(store, &mut writer, &elsewhere, &resources, 6).await;
    for (indexed, of_a, of_c) in [(0, 6, 6), (2, 5, 4), (4, 4, 3), (6, 2, 1)] {
        stored(store, &mut writer, &of, &resources, indexed).await;
        for bytes_max in [0, 1, 200, ALL_BYTES] {
            let (seqs, chunks) = read(store, &of, &one("a"), bytes_max).await;
            assert_eq!((seqs, chunks), (vec![1, 3, 7], of_a), "{indexed} by {bytes_max}");
            let (seqs, chunks) = read(store, &of, &one("c"), bytes_max).await;
            assert_eq!((seqs, chunks), (vec![5], of_c), "{indexed} by {bytes_max}");
            assert_eq!(read(store, &of, &one("é"), bytes_max).await.0, [8]);
            assert_eq!(read(store, &of, &one("a b"), bytes_max).await.0, [9]);
            assert_eq!(read(store, &of, &one("nobody"), bytes_max).await.0, [0_u64; 0]);
            assert_eq!(read(store, &of, &beginning("a"), bytes_max).await.0, [1, 3, 7, 9]);
        }
    }
    assert_eq!(read(store, &of, &one("nobody"), ALL_BYTES).await.1, 0);
    assert_eq!(read(store, &of, &beginning("c"), ALL_BYTES).await, (vec![5], 1));
    assert_eq!(read(store, &of, &beginning("x"), ALL_BYTES).await, (vec![], 0));
    assert_eq!(read(store, &of, &beginning(""), ALL_BYTES).await.0.len(), 10);
}

pub async fn a_row_that_is_taken_away_names_nothing_and_one_of_what_was_merged_still_does(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    let chunks = stored(store, &mut writer, &of, &ids(&[&["a", "b"], &["c"], &["a"], &["d", "e"]]), 4).await;
    // The first two become one.
    let union = Chunk {
        from: 0,
        events: chunks[..2].iter().flat_map(|chunk| chunk.events.clone()).collect(),
        ..chunks[1].clone()
    };
    let gone = StreamWrite::DeleteChunk { stream: of.clone(), key: chunks[0].last };
    writer.write(store, vec![gone, put_chunk(&of, &union)]).await;
    assert_eq!(read(store, &of, &one("a"), ALL_BYTES).await, (vec![1, 4], 2));
    assert_eq!(read(store, &of, &one("c"), ALL_BYTES).await, (vec![3], 1));
    // The front leaves, and one of its rows was left behind.
    let rest = StreamRest { first: 4, fed: 6, indexed: 6, ..StreamRest::default() };
    let row = |id: &str, seq| StreamWrite::DeleteResource {
        stream: of.clone(),
        resource: ("TASK".to_owned(), id.to_owned()),
        seq,
    };
    let writes = vec![
        StreamWrite::DeleteChunk { stream: of.clone(), key: union.last },
        StreamWrite::PutRest { stream: of.clone(), rest },
        row("a", 1),
        row("c", 3),
    ];
    writer.write(store, writes).await;
    assert_eq!(read(store, &of, &one("a"), ALL_BYTES).await, (vec![4], 1));
    assert_eq!(read(store, &of, &one("b"), ALL_BYTES).await, (vec![], 0));
    writer.write(store, vec![row("d", 5)]).await;
    assert_eq!(read(store, &of, &one("d"), ALL_BYTES).await, (vec![], 0));
    assert_eq!(read(store, &of, &one("e"), ALL_BYTES).await, (vec![6], 1));
}

pub async fn a_resource_with_many_chunks_is_read_in_parts_and_many_ids_by_the_stream_itself(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    // More rows of one resource, and more ids with one beginning, than are looked at at once.
    let resources: Vec<Vec<String>> =
        (0..600).map(|number| vec![format!("r{}", number % 50), "often".to_owned()]).collect();
    stored(store, &mut writer, &of, &resources, 590).await;
    let often: Vec<u64> = (1..=600).map(|number| number * 2).collect();
    for bytes_max in [700, ALL_BYTES] {
        assert_eq!(read(store, &of, &one("often"), bytes_max).await, (often.clone(), 600));
        let (seqs, chunks) = read(store, &of, &one("r7"), bytes_max).await;
        let of_r7: Vec<u64> = (0..12).map(|round| round * 100 + 15).collect();
        assert_eq!((seqs, chunks), (of_r7, 12 + 10), "those that it names, and those behind");
        let (seqs, _) = read(store, &of, &beginning("r"), bytes_max).await;
        assert_eq!(seqs, (0..600).map(|number| number * 2 + 1).collect::<Vec<u64>>());
        // r4 and r40 to r49.
        assert_eq!(read(store, &of, &beginning("r4"), bytes_max).await.0.len(), 11 * 12);
    }
    let looked = async |selector: Selector| {
        let (tenant, from, since) = (tenant("acme"), ScanFrom::Behind(None), Vec::new());
        let query = ScanQuery { tenant, selector, from, since, bytes_max: ALL_BYTES };
        let (_, slice) = store.scan_streams(&query).await.unwrap().unwrap();
        (slice.chunks.len(), slice.is_all)
    };
    assert_eq!(looked(one("often")).await, (SLICE_ROWS_MAX, false), "one look goes by so many rows");
    assert_eq!(looked(beginning("r4")).await, (11 * 12, true));
    assert_eq!(looked(beginning("r")).await, (600, true), "too many ids: the stream is read as it is");
    // Ids of other streams count as well.
    let others = |count: usize| vec![(0..count).map(|number| format!("r4-{number}")).collect::<Vec<_>>()];
    for (count, chunks) in [(SLICE_IDS_MAX - 11, 11 * 12), (SLICE_IDS_MAX - 10, 600)] {
        stored(store, &mut writer, &stream("b"), &others(count), 1).await;
        assert_eq!(looked(beginning("r4")).await, (chunks, true), "{count} others");
    }
}

pub async fn what_the_index_names_and_nobody_has_any_more_is_missed(store: &impl Store) {
    let (mut writer, of) = (Writer::new(), stream("a"));
    stored(store, &mut writer, &of, &ids(&[&["a"], &["b"], &["a"], &["b"]]), 4).await;
    writer.write(store, vec![StreamWrite::DeleteChunk { stream: of.clone(), key: 3 }]).await;
    let within = ScanFrom::Within(of.name.clone(), 1);
    let (tenant, since, bytes_max) = (tenant("acme"), Vec::new(), ALL_BYTES);
    let query = ScanQuery { tenant, selector: one("a"), from: within, since, bytes_max };
    let (_, slice) = store.scan_streams(&query).await.unwrap().unwrap();
    let covers = slice.chunks.iter().map(|stored| stored.chunk.as_ref().unwrap().from).next();
    assert!(covers.is_none_or(|from| from > 1), "a reader would go over it: {covers:?}");
}
