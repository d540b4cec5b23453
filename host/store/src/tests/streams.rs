//! Event streams as only this store keeps them: encodings, and records that can't be read.

use std::sync::Arc;

use bytes::Bytes;
use waybill_core::ids::{EventId, ShardId};
use waybill_core::outbox::records::DoorKey;
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::store::StoreError;
use waybill_core::port::stream_store::{PassQuery, ScanFrom, ScanQuery, ShardOf, StreamStore};
use waybill_core::streams::event::EventDigest;
use waybill_core::streams::exact::ExactRefusal;
use waybill_core::streams::name::StreamKey;
use waybill_core::streams::reading::Selector;
use waybill_core::streams::records::{
    Append, Checkpoint, DoorContent, FeedPart, FeedRecord, Refusal, StreamCommitted, StreamDead, StreamHead,
    StreamRest, StreamWrite,
};
use waybill_core::time::UnixMillis;
use waybill_testkit::conformance::samples::{SHARD, T0, tenant};
use waybill_testkit::conformance::stream_reads;
use waybill_testkit::conformance::stream_samples::{
    ALL_BYTES, Writer, admitted, all_at_door, append, event, event_id, exact, full_event, id_of, relay, stream,
};

use super::{memory, sql};
use crate::SurrealStore;
use crate::codec::CodecError;
use crate::codec::streams::{
    decode_append, decode_dead, decode_feed, decode_marks, decode_settled, encode_append, encode_dead, encode_feed,
    encode_marks, encode_settled,
};

/// A commit with one of everything that streams keep.
pub(super) async fn one_of_each(store: &SurrealStore) {
    let (mut writer, good) = (Writer::new(), append("good", &["x"]));
    writer.number(store, &good.stream, &["x"]).await;
    let rest = StreamRest { fed: 1, indexed: 1, ..StreamRest::default() };
    let writes = vec![
        StreamWrite::PutResource { stream: good.stream.clone(), resource: ("T".into(), "r".into()), seq: 1 },
        StreamWrite::PutRest { stream: good.stream.clone(), rest },
        StreamWrite::PutDue { shard: SHARD, at: UnixMillis(9), stream: good.stream.clone() },
        StreamWrite::PutNode { stream: good.stream.clone(), node: "n".into() },
        StreamWrite::PutType { stream: good.stream.clone(), resource_type: "T".into() },
        id_of(&good, 0, 1),
    ];
    writer.write(store, writes).await;
    store.append_at_door(&[(SHARD, Arc::new(good))]).await.unwrap();
}

/// All that is read of streams, as a text.
pub(super) async fn read_all(store: &SurrealStore) -> String {
    store.stream_shard(SHARD).await.unwrap();
    let (good, bad) = (stream("good"), stream("bad"));
    let ids = ["x", "bad"].map(|id| (tenant("acme"), event_id(id))).into();
    let query = PassQuery { ids, ..PassQuery::default() };
    let mut asked = store.stream_pass(SHARD, &query).await.unwrap();
    asked.ids.remove(&(tenant("acme"), event_id("bad")));
    store.forget_ids(UnixMillis(1_000), 100).await.unwrap();
    let due = store.streams_due(SHARD, 100).await.unwrap();
    let pass = all_at_door(store, SHARD).await;
    let for_operators =
        (store.stream_dead(None, 100).await.unwrap(), store.overtaken(&relay("mail"), None, 100).await.unwrap());
    let _found_anew = store.stream_slice(&bad, 0, ALL_BYTES).await.unwrap();
    let mut of_relay =
        store.relay_streams(&relay("mail"), ShardOf { shard: SHARD, count: 1 }, None, 100).await.unwrap().streams;
    of_relay.retain(|found| found.stream != bad);
    let mut scans = Vec::new();
    for selector in [
        Selector::Prefix("good".into()),
        Selector::Node("n".into()),
        Selector::Resource { resource_type: "T".into(), id_prefix: String::new() },
        Selector::OneResource { resource_type: "T".into(), resource_id: "r".into() },
    ] {
        let (from, since) = (ScanFrom::Behind(None), Vec::new());
        let query = ScanQuery { tenant: tenant("acme"), selector, from, since, bytes_max: ALL_BYTES };
        scans.push(store.scan_streams(&query).await.unwrap());
        let behind = ScanQuery { from: ScanFrom::Behind(Some(good.name.clone())), ..query };
        scans.push(store.scan_streams(&behind).await.unwrap());
    }
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {of_relay:?} {due:?} {scans:?} {for_operators:?}",
        asked.ids,
        pass.rows,
        pass.streams,
        store.stream_slice(&good, 0, ALL_BYTES).await.unwrap(),
        store.feed(SHARD, 0, 100).await.unwrap(),
        store.relay_slice(&relay("mail"), &good, 0, ALL_BYTES).await.unwrap(),
    )
}

/// That what was encoded comes back, and that no bit of it may be another.
fn comes_back<T: PartialEq + std::fmt::Debug>(
    value: &T,
    encoded: Vec<u8>,
    decode: impl Fn(&Bytes) -> Result<T, CodecError>,
) {
    assert_eq!(decode(&Bytes::from(encoded.clone())).as_ref(), Ok(value));
    for at in 0..encoded.len() {
        let mut flipped = encoded.clone();
        flipped[at] ^= 1 << (at % 8);
        assert!(decode(&Bytes::from(flipped)).is_err(), "byte {at}");
    }
}

#[test]
fn what_is_packed_comes_back_and_a_flipped_bit_is_found() {
    let events = vec![admitted(full_event("full"), true), admitted(event("plain"), false)];
    let packed = Append::new(StreamKey { tenant: tenant("Größe"), ..stream("a/b") }, events);
    comes_back(&packed, encode_append(&packed).unwrap(), decode_append);

    let part = |tenant_of: &str, from, to| FeedPart {
        stream: StreamKey { tenant: tenant(tenant_of), ..stream("a") },
        from,
        to,
    };
    let parts = vec![part("acme", 1, 1), part("acme", 7, 1 << 40), part("other", 3, 4), part("acme", 2, 2)];
    let feed = FeedRecord { pos: 9, at: T0, parts };
    comes_back(&feed, encode_feed(&feed).unwrap(), |bytes| decode_feed(9, bytes));

    let marks = [(relay("größe"), 1 << 40), (relay("mail"), 0)].into();
    comes_back(&marks, encode_marks(&marks).unwrap(), |bytes| decode_marks(bytes));
    let settled = [18, 20, 1 << 40].into();
    comes_back(&settled, encode_settled(17, &settled).unwrap(), |bytes| decode_settled(17, bytes));

    let why = Refusal { code: "EVENT.ID_TAKEN".into(), reason: "größe".into() };
    let door = StreamDead::Door {
        key: DoorKey { nanos: 7, ordinal: 1, ulid: "u".into() },
        stream: stream("a"),
        event: admitted(full_event("x"), true),
        why: why.clone(),
    };
    let packed = admitted(event("y"), false).packed;
    let relayed = StreamDead::Relay { relay: relay("mail"), stream: stream("a"), seq: 1 << 40, packed, why };
    for dead in [door, relayed] {
        comes_back(&dead, encode_dead(&dead).unwrap(), |bytes| decode_dead(bytes));
    }
}

/// A stream of which three events are named and one isn't.
async fn worked(store: &SurrealStore) -> Writer {
    let mut writer = Writer::new();
    writer.number(store, &stream("a"), &["one", "two"]).await;
    writer.number(store, &stream("a"), &["three"]).await;
    store.append_exact(&exact("a", &["four"], 3), T0).await.unwrap().unwrap();
    writer
}

async fn spoil(store: &SurrealStore, record: &str) {
    sql(store, &format!("UPSERT {record} CONTENT {{ junk: 17 }} RETURN NONE")).await.unwrap();
}

async fn in_quarantine(store: &SurrealStore) -> Vec<String> {
    let rows = store.quarantined(None, None, 10).await.unwrap().items;
    rows.into_iter().map(|row| row.table).collect()
}

#[tokio::test]
async fn a_chunk_that_can_not_be_read_is_an_error_at_its_range() {
    let store = memory().await;
    let spoil = async |store: &SurrealStore, of: &StreamKey, last| {
        let (tenant, name) = (&of.tenant, &of.name);
        let text = format!("UPDATE event:['{tenant}', '{name}', {last}] SET data = <bytes> 'junk' RETURN NONE");
        sql(store, &text).await.unwrap();
    };
    stream_reads::a_chunk_that_can_not_be_read_is_an_error_at_its_range(&store, spoil).await;
    assert!(in_quarantine(&store).await.is_empty());
}

#[tokio::test]
async fn a_head_that_can_not_be_read_gives_no_number_twice() {
    let store = memory().await;
    let mut writer = worked(&store).await;
    let before = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
    spoil(&store, "stream:['acme', 'a']").await;
    // Before and behind its move, which leaves a marker.
    for _ in 0..2 {
        let after = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap();
        assert_eq!((after.head.last, after.head.fed), (4, 3));
        assert_eq!((after.rest, &after.chunks), (before.rest, &before.chunks));
        assert_eq!(in_quarantine(&store).await, ["stream"]);
    }
    let moved = writer.numbering(StreamHead { last: 3, fed: 3, bytes: 0 }, &stream("a"), &["x"]);
    let moved = store.commit_streams(moved).await.unwrap();
    assert_eq!(moved, StreamCommitted::Moved(vec![(stream("a"), 4)]));
    let appended = store.append_exact(&exact("a", &["five"], 4), T0).await.unwrap().unwrap();
    assert_eq!(appended.seqs, [5]);
    let row = store.quarantined(None, None, 10).await.unwrap().items.remove(0);
    assert!(matches!(store.restore_row(&row.id).await, Err(StoreError::Corrupt(_))));

    // Also where nothing is kept of it, and where the row is gone altogether.
    let delete = [2, 3, 4, 5].map(|key| StreamWrite::DeleteChunk { stream: stream("a"), key });
    let rest = StreamRest { first: 6, gone: 2, ..StreamRest::default() };
    let put = StreamWrite::PutRest { stream: stream("a"), rest };
    writer.write(&store, delete.into_iter().chain([put]).collect()).await;
    sql(&store, "DELETE stream:['acme', 'a']").await.unwrap();
    let head = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap().head;
    assert_eq!((head.last, head.fed), (5, 5), "what was trimmed had been named");
    let refused = store.append_exact(&exact("a", &["x"], 0), T0).await.unwrap().unwrap_err();
    assert_eq!(refused, ExactRefusal::ExpectedSeq { stream: stream("a"), expected: 0, actual: 5 });
    writer.number(&store, &stream("a"), &["six"]).await;
    assert_eq!(store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap().chunks[0].last, 6);
}

#[tokio::test]
async fn where_nobody_knows_what_is_kept_readers_from_before_begin_anew() {
    let store = memory().await;
    let mut writer = worked(&store).await;
    let rest = StreamRest { first: 3, fed: 3, purged: 1, gone: 1, ..StreamRest::default() };
    let writes = vec![
        StreamWrite::DeleteChunk { stream: stream("a"), key: 2 },
        StreamWrite::PutRest { stream: stream("a"), rest },
    ];
    writer.write(&store, writes).await;
    spoil(&store, "stream_rest:['acme', 'a']").await;
    for _ in 0..2 {
        let found = store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap().rest;
        assert_eq!(found, StreamRest { first: 3, fed: 3, purged: 4, gone: writer.record.pos, ..StreamRest::default() });
    }
    assert_eq!(in_quarantine(&store).await, ["stream_rest"]);
    writer.write(&store, vec![StreamWrite::PutRest { stream: stream("a"), rest }]).await;
    assert_eq!(store.stream_slice(&stream("a"), 0, ALL_BYTES).await.unwrap().rest, rest);
}

#[tokio::test]
async fn a_shard_record_that_can_not_be_read_is_made_anew_behind_its_feed() {
    let store = memory().await;
    let mut writer = worked(&store).await;
    let ran = [("größe", "a"), ("größe", "b"), ("mail", "a")].map(|(of, to)| {
        let checkpoint = Checkpoint { upto: 1, ..Checkpoint::default() };
        StreamWrite::PutCheckpoint { relay: relay(of), stream: stream(to), checkpoint }
    });
    writer.write(&store, ran.into()).await;
    let marks = [(relay("größe"), 0), (relay("mail"), 0)].into();
    for junk in ["UPDATE stream_shard:0 SET pos = 'x'", "UPSERT stream_shard:0 CONTENT { junk: 17 }"] {
        sql(&store, junk).await.unwrap();
        let rebuilt = store.stream_shard(SHARD).await.unwrap();
        assert_eq!((rebuilt.pos, &rebuilt.marks), (2, &marks), "{junk}");
        assert!(rebuilt.beat > writer.record.beat && rebuilt.token <= writer.record.token, "{junk}");
        let fenced = store.commit_streams(writer.next()).await;
        assert!(matches!(fenced, Err(StoreError::Conflict(_))), "{junk}: {fenced:?}");
        assert_eq!(store.stream_shard(SHARD).await.unwrap(), rebuilt, "once");
        writer.record = rebuilt;
        writer.write(&store, Vec::new()).await;
    }
    assert_eq!(in_quarantine(&store).await, ["stream_shard", "stream_shard"]);
}

#[tokio::test]
async fn a_row_whose_key_names_no_stream_ends_no_walk() {
    let (store, mut writer) = (memory().await, Writer::new());
    for name in ["a", "b"] {
        writer.number(&store, &stream(name), &["x"]).await;
    }
    for misplaced in ["a a", "b b"] {
        spoil(&store, &format!("stream:['acme', '{misplaced}']")).await;
    }
    // Before and behind their move, which leaves markers.
    for _ in 0..2 {
        let (mut behind, mut met) = (None, Vec::new());
        for _page in 0..4 {
            let of = ShardOf { shard: SHARD, count: 1 };
            let page = store.relay_streams(&relay("mail"), of, behind.as_ref(), 1).await.unwrap();
            met.extend(page.streams.into_iter().map(|found| found.stream));
            let Some(last) = page.last else { break };
            behind = Some(last);
        }
        assert_eq!(met, [stream("a"), stream("b")]);
        assert_eq!(in_quarantine(&store).await, ["stream", "stream"]);
    }
    let named = store.streams_named(&tenant("acme"), "", None, 10).await.unwrap();
    assert_eq!(named.into_iter().map(|found| found.stream).collect::<Vec<_>>(), [stream("a"), stream("b")]);
}

#[tokio::test]
async fn of_an_id_that_was_forgotten_nothing_is_left() {
    let store = memory().await;
    store.append_exact(&exact("a", &["x", "y"], 0), T0).await.unwrap().unwrap();
    store.append_exact(&exact("b", &["z"], 0), UnixMillis(T0.0 + 1)).await.unwrap().unwrap();
    assert_eq!(store.forget_ids(T0, 10).await.unwrap(), 0);
    assert_eq!(store.forget_ids(UnixMillis(T0.0 + 1), 10).await.unwrap(), 2);
    assert_eq!(store.forget_ids(UnixMillis(T0.0 + 2), 10).await.unwrap(), 1);
    assert_eq!(sql(&store, "SELECT * FROM event_id, event_id_due").await.unwrap(), [waybill_surreal::array([])]);
    store.append_exact(&exact("c", &["x"], 0), T0).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_id_of_which_nobody_knows_whose_it_is_is_taken() {
    let store = memory().await;
    store.append_exact(&exact("a", &["x"], 0), T0).await.unwrap().unwrap();
    spoil(&store, "event_id:['acme', 'x']").await;
    for _ in 0..2 {
        let refused = store.append_exact(&exact("a", &["x"], 0), T0).await.unwrap();
        assert_eq!(refused, Err(ExactRefusal::IdTaken { id: EventId::new("x").unwrap() }));
        let query = PassQuery { ids: vec![(tenant("acme"), event_id("x"))], ..PassQuery::default() };
        let found = store.stream_pass(SHARD, &query).await.unwrap().ids;
        assert_eq!(found.values().map(|record| record.digest).collect::<Vec<_>>(), [EventDigest::default()]);
    }
    assert_eq!(in_quarantine(&store).await, ["event_id"]);
}

#[tokio::test]
async fn a_row_of_the_doorstep_that_can_not_be_read_is_its_owners_to_move_and_comes_back_when_it_is_mended() {
    let store = memory().await;
    let rows = [(SHARD, Arc::new(append("a", &["x"]))), (SHARD, Arc::new(append("b", &["y"])))];
    store.append_at_door(&rows).await.unwrap();
    let bytes = sql(&store, "SELECT VALUE data FROM stream_door").await.unwrap();
    sql(&store, "UPDATE (SELECT VALUE id FROM stream_door LIMIT 1) SET data = <bytes> 'WBdjunkjunk' RETURN NONE")
        .await
        .unwrap();
    let found = all_at_door(&store, SHARD).await.rows;
    let reason = found[0].content.clone().unwrap_err().reason;
    assert!(found[1].content.is_ok() && in_quarantine(&store).await.is_empty());
    let mut writer = Writer::new();
    writer.write(&store, vec![StreamWrite::QuarantineDoor { key: found[0].key.clone(), reason }]).await;
    assert_eq!(all_at_door(&store, SHARD).await.rows, found[1..]);
    let row = store.quarantined(Some("stream_door"), None, 10).await.unwrap().items.remove(0);
    assert!(matches!(store.restore_row(&row.id).await, Err(StoreError::Corrupt(_))));
    let mended = "UPDATE outbox_quarantine SET row.data = $bytes[0][0] RETURN NONE";
    let bindings = vec![("bytes".to_owned(), waybill_surreal::array(bytes))];
    store.engine.run(mended, bindings).await.unwrap();
    let (_, restored) = store.restore_row(&row.id).await.unwrap().unwrap();
    assert_eq!(restored, Restored::InPlace);
    let found = all_at_door(&store, SHARD).await.rows;
    assert_eq!(found[0].content, Ok(DoorContent::Append(Arc::new(append("a", &["x"])))));
}

#[tokio::test]
async fn a_feed_record_that_can_not_be_read_is_as_one_that_was_trimmed() {
    let store = memory().await;
    worked(&store).await;
    spoil(&store, "stream_feed:[0, 1]").await;
    assert_eq!(store.feed_slice(SHARD, 1).await.unwrap(), None);
    let left: Vec<u64> = store.feed(SHARD, 0, 10).await.unwrap().iter().map(|record| record.pos).collect();
    assert_eq!((left, in_quarantine(&store).await), (vec![2], vec!["stream_feed".to_owned()]));
    assert_eq!(store.feed_before(SHARD, UnixMillis(u64::MAX), 10).await.unwrap(), Some(2));
    assert_eq!(store.feed_ends(1).await.unwrap(), [2]);
    assert!(store.feed(ShardId(1), 0, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_store_is_the_same_incarnation_at_every_start() {
    let dir = tempfile::tempdir().unwrap();
    let config = || crate::StoreConfig::new(format!("surrealkv://{}", dir.path().display()));
    let store = SurrealStore::open(config()).await.unwrap();
    let number = store.incarnation().await.unwrap();
    assert_eq!(store.incarnation().await.unwrap(), number);
    store.close().await.unwrap();
    drop(store);
    let store = SurrealStore::open(config()).await.unwrap();
    assert_eq!(store.incarnation().await.unwrap(), number);
    assert_ne!(memory().await.incarnation().await.unwrap(), number);
    store.close().await.unwrap();
}
