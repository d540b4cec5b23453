//! The conformance suite on SurrealDB on disk.

use std::sync::Arc;

use waybill_core::inbox::message::InboundMessage;
use waybill_core::inbox::records::InboxWrite;
use waybill_core::port::inbox_store::InboxStore;
use waybill_core::port::store::StoreError;
use waybill_store::{StoreConfig, SurrealStore};
use waybill_testkit::conformance::inbox_samples::{Writer, inbound, mark, query, row};
use waybill_testkit::conformance::samples::SHARD;

/// The least write buffer.
const MEMTABLE_BYTES: usize = 8 << 20;

async fn open() -> (tempfile::TempDir, SurrealStore) {
    open_with(StoreConfig::new("").memtable_bytes).await
}

async fn open_with(memtable_bytes: u64) -> (tempfile::TempDir, SurrealStore) {
    let dir = tempfile::tempdir().unwrap_or_else(|error| unreachable!("{error}"));
    let url = format!("surrealkv://{}", dir.path().display());
    let config = StoreConfig { memtable_bytes, ..StoreConfig::new(url) };
    let store = SurrealStore::open(config).await.unwrap_or_else(|error| unreachable!("{error}"));
    (dir, store)
}

waybill_testkit::store_conformance!(open);
waybill_testkit::saga_store_conformance!(open);
waybill_testkit::inbox_store_conformance!(open);
waybill_testkit::stream_store_conformance!(open);

#[tokio::test]
async fn a_commit_that_is_too_large_is_refused_and_leaves_nothing() {
    let (_dir, store) = open_with(MEMTABLE_BYTES as u64).await;
    waybill_testkit::conformance::bounds::a_commit_that_is_too_large_is_refused_and_leaves_nothing(
        &store,
        MEMTABLE_BYTES,
    )
    .await;
}

#[tokio::test]
async fn a_commit_of_the_inbox_that_is_too_large_is_refused_and_leaves_nothing() {
    let (_dir, store) = open_with(MEMTABLE_BYTES as u64).await;
    let mut writer = Writer::new();
    writer.write(&store, Vec::new()).await;
    let mut large = writer.next();
    let row = |seq| row(seq, InboundMessage { payload: vec![b'x'; 256 << 10].into(), ..inbound(&format!("m-{seq}")) });
    large.writes = (1..=40).map(|seq| InboxWrite::PutRow(Arc::new(row(seq)))).collect();
    large.seen = vec![mark("ship", "m-1", 1)];
    assert_eq!(store.commit_inbox(large).await, Err(StoreError::TooLarge));
    assert_eq!(store.inbox_shard(SHARD).await.unwrap(), writer.record);
    assert!(store.inbox_takeover(SHARD).await.unwrap().rows.is_empty());
    assert_eq!(store.inbox_seen(SHARD, &[query("ship", "m-1")]).await.unwrap(), [None]);
    writer.write(&store, vec![InboxWrite::PutRow(Arc::new(row(1)))]).await;
    assert_eq!(store.inbox_takeover(SHARD).await.unwrap().rows.len(), 1);
}
