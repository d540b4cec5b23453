//! Records that can't be read are reported, never skipped.

use std::sync::Arc;

use waybill_core::ids::{Seq, ShardId};
use waybill_core::port::quarantine::QuarantineStore;
use waybill_core::port::store::{OwnerStore, StoreError, Write};
use waybill_core::port::transact::{DoorGroup, TransactStore};
use waybill_testkit::conformance::samples::{Owner, SHARD, message, parked, segment, segment_of, seq};

use super::{door, memory, sql};

async fn with_segments() -> crate::SurrealStore {
    let store = memory().await;
    let segments = [segment(seq(0, 0), 2), segment_of(seq(1, 0), 100, 100)];
    let writes = segments.into_iter().map(|segment| Write::PutSegment(Arc::new(segment)));
    Owner::new().commit(&store, writes.collect()).await;
    store
}

#[tokio::test]
async fn a_damaged_segment_is_malformed_and_its_neighbour_is_read() {
    let store = with_segments().await;
    sql(&store, "UPDATE outbox SET data = <bytes> 'WBSxxxxxxx' WHERE data != NONE RETURN NONE").await.unwrap();
    let found = store.segments(SHARD, &[seq(0, 0), seq(1, 0)]).await.unwrap();
    let malformed = found[0].segment.clone().unwrap_err();
    assert!(malformed.reason.contains("checksum"), "{}", malformed.reason);
    assert_eq!(malformed.raw, "V0JTeHh4eHh4eA==");
    assert!(found[1].segment.is_ok());
    assert_eq!(store.directory(SHARD, Seq(0), 10).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_segment_without_its_data_is_malformed() {
    let store = with_segments().await;
    sql(&store, "DELETE outbox_data").await.unwrap();
    let found = store.segments(SHARD, &[seq(0, 0), seq(1, 0)]).await.unwrap();
    assert!(found[0].segment.is_ok());
    assert!(found[1].segment.clone().unwrap_err().reason.contains("missing"));
}

#[tokio::test]
async fn a_damaged_segment_goes_to_quarantine_with_its_bytes() {
    let store = with_segments().await;
    let mut owner = Owner::new();
    owner.record = store.shard(SHARD).await.unwrap();
    sql(&store, "UPDATE outbox_data SET data = <bytes> 'junk' RETURN NONE").await.unwrap();
    owner.commit(&store, vec![Write::QuarantineSegment { first: seq(1, 0), reason: "junk".into() }]).await;
    let row = store.quarantined(Some("outbox"), None, 10).await.unwrap().items.remove(0);
    assert_eq!((row.reason.as_str(), row.tenant.as_deref()), ("junk", Some("acme")));
    let shown = store.quarantined_row(&row.id).await.unwrap().unwrap();
    assert_eq!((&shown.columns["messages"], &shown.columns["data"]), (&100.into(), &"anVuaw==".into()));
    assert!(shown.unreadable.is_some_and(|reason| reason.contains("can't be read")));
}

#[tokio::test]
async fn data_of_a_newer_host_gives_the_shard_back() {
    let store = with_segments().await;
    // Version 9 with a checksum that is right for it: kind 'S', version 9, no body.
    let crc = crc32fast::hash(b"S\x09").to_le_bytes();
    let bytes: Vec<u8> = [b'W', b'B', b'S', 9].into_iter().chain(crc).collect();
    let bindings = vec![("data".to_owned(), waybill_surreal::bytes(bytes))];
    store.engine.run("UPDATE outbox SET data = $data RETURN NONE", bindings).await.unwrap();
    let error = store.segments(SHARD, &[seq(0, 0)]).await.unwrap_err();
    assert!(matches!(&error, StoreError::NewerData(text) if text.contains("version 9")), "{error:?}");
}

#[tokio::test]
async fn a_damaged_parked_row_is_left_out_and_named_in_quarantine() {
    let store = memory().await;
    Owner::new().commit(&store, vec![Write::PutParked(Arc::new(parked(seq(0, 0), 3)))]).await;
    sql(&store, "UPDATE parked SET data = <bytes> 'WBPxxxxxxxx' RETURN NONE").await.unwrap();
    assert!(store.parked(SHARD, None, 10).await.unwrap().is_empty());
    let row = store.quarantined(None, None, 10).await.unwrap().items.remove(0);
    assert!(row.reason.contains("parked") && row.reason.contains("checksum"), "{row:?}");
}

#[tokio::test]
async fn malformed_doorstep_rows_are_reported_between_good_ones() {
    let store = memory().await;
    let group = |name: &str| DoorGroup { shard: SHARD, messages: vec![Arc::new(message(name))] };
    sql(&store, "CREATE outbox_door:[0, 1, 0, 'a'] SET topic = 'bus:x'").await.unwrap();
    sql(&store, "CREATE outbox_door:[0, 2, 0, 'b'] SET topic = 'nowhere', message_id = 'm', payload = { a: 1 }")
        .await
        .unwrap();
    sql(&store, "CREATE outbox_door:[0, 3, 0, 'c'] SET data = <bytes> 'WBGjunkjunk'").await.unwrap();
    store.transact(Vec::new(), vec![group("good")], Default::default(), None).await.unwrap();
    let rows = door(&store, ShardId(0)).await;
    let bad: Vec<_> = rows.iter().filter_map(|row| row.content.clone().err()).collect();
    assert_eq!((rows.len(), bad.len()), (4, 3));
    assert!(bad[0].reason.contains("payload") && bad[0].raw.contains("bus:x"), "{:?}", bad[0]);
    assert!(bad[1].reason.contains("topic \"nowhere\""), "{:?}", bad[1]);
    assert!(bad[2].reason.contains("checksum"), "{:?}", bad[2]);
}
