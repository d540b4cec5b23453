//! Stopped messages whose payloads are large, and takeovers.

use std::sync::Arc;

use waybill_core::ids::Seq;
use waybill_core::inbox::records::InboxWrite;
use waybill_core::port::inbox_store::{InboxFilter, InboxStore};
use waybill_core::port::quarantine::{QuarantineStore, Restored};
use waybill_core::port::store::StoreError;
use waybill_surreal::{RecordIdKey, Value, bytes, object};
use waybill_testkit::conformance::inbox_samples::{Writer, mark, query};
use waybill_testkit::conformance::samples::SHARD;

use super::super::{memory, sql};
use super::{cold, finish, row_of, ship};
use crate::SurrealStore;
use crate::inbox::seen::bucket::{BucketKey, Part};
use crate::tables::{INBOX, INBOX_DATA, INBOX_SEEN, seq_key};

async fn is_there(store: &SurrealStore, table: &'static str, key: RecordIdKey) -> bool {
    store.begin(false).await.unwrap().get(table, key).await.unwrap().is_some()
}

#[tokio::test]
async fn a_large_message_lies_apart_and_goes_with_its_row() {
    let store = memory().await;
    let mut writer = Writer::new();
    let (small, large) = (Arc::new(row_of(1, 10)), Arc::new(row_of(2, 100_000)));
    let puts = [&small, &large].map(|row| InboxWrite::PutRow(Arc::clone(row)));
    writer.write(&store, puts.into()).await;
    assert!(!is_there(&store, INBOX_DATA, seq_key(SHARD, small.seq)).await);
    assert!(is_there(&store, INBOX_DATA, seq_key(SHARD, large.seq)).await);
    let found = store.inbox_rows(SHARD, &[large.seq, Seq(9), small.seq]).await.unwrap();
    assert_eq!(found, [Some(Arc::clone(&large)), None, Some(Arc::clone(&small))]);
    let takeover = store.inbox_takeover(SHARD).await.unwrap();
    assert_eq!(takeover.rows, [small.head(), large.head()]);
    let listed = store.inbox_list(&InboxFilter::default(), None, 10).await.unwrap();
    assert_eq!(listed.items, [(SHARD, small), (SHARD, Arc::clone(&large))]);
    writer.write(&store, vec![InboxWrite::DeleteRow(large.seq)]).await;
    assert!(!is_there(&store, INBOX, seq_key(SHARD, large.seq)).await);
    assert!(!is_there(&store, INBOX_DATA, seq_key(SHARD, large.seq)).await);
}

#[tokio::test]
async fn a_row_in_quarantine_keeps_its_message_and_comes_back_with_it() {
    let store = memory().await;
    let mut writer = Writer::new();
    let large = Arc::new(row_of(2, 100_000));
    writer.write(&store, vec![InboxWrite::PutRow(Arc::clone(&large))]).await;
    let head = match sql(&store, "SELECT VALUE head FROM inbox").await.unwrap().remove(0) {
        Value::Array(mut heads) => heads.0.remove(0),
        other => panic!("{other:?}"),
    };
    sql(&store, "UPDATE inbox SET head = <bytes> 'junk' RETURN NONE").await.unwrap();
    assert!(store.inbox_takeover(SHARD).await.unwrap().rows.is_empty());
    assert!(!is_there(&store, INBOX_DATA, seq_key(SHARD, large.seq)).await);
    let row = store.quarantined(Some("inbox"), None, 10).await.unwrap().items.remove(0);
    assert_eq!(row.tenant.as_deref(), Some("Größe & Söhne"));
    assert!(matches!(store.restore_row(&row.id).await, Err(StoreError::Corrupt(_))));
    // A version that reads it: here, its bytes are mended.
    let mend = "UPDATE outbox_quarantine SET row.head = $head RETURN NONE";
    store.engine.run(mend, vec![("head".to_owned(), head)]).await.unwrap();
    let (_, restored) = store.restore_row(&row.id).await.unwrap().unwrap();
    assert_eq!(restored, Restored::AtTakeover);
    assert_eq!(store.inbox_takeover(SHARD).await.unwrap().rows, [large.head()]);
    assert_eq!(store.inbox_rows(SHARD, &[large.seq]).await.unwrap(), [Some(large)]);
}

/// However large the seen set is: what a newer host wrote there would fail any read of it.
#[tokio::test]
async fn a_takeover_reads_nothing_of_the_seen_set() {
    let store = memory().await;
    let mut writer = Writer::new();
    finish(&mut writer, &store, 1_000, &["outbox-1".to_owned()]).await;
    let bucket = BucketKey::of(&ship(), &mark("ship", "outbox-1", 0).place.bucket, writer.record.age);
    let mut newer = b"WBQ\xff".to_vec();
    newer.extend_from_slice(&crc32fast::hash(b"Q\xff").to_le_bytes());
    let transaction = store.begin(true).await.unwrap();
    let key = bucket.record(SHARD, Part::Added(writer.record.beat));
    transaction.put(INBOX_SEEN, key, object([("data", bytes(newer))])).await.unwrap();
    transaction.commit().await.unwrap();
    let asked = cold(&store).inbox_seen(SHARD, &[query("ship", "outbox-1")]).await;
    assert!(matches!(asked, Err(StoreError::NewerData(_))), "{asked:?}");
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), writer.record);
    assert!(store.inbox_takeover(SHARD).await.is_ok());
}
