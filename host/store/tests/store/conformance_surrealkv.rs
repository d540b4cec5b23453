//! The conformance suite on SurrealDB on disk.

use waybill_store::{StoreConfig, SurrealStore};

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

#[tokio::test]
async fn a_commit_that_is_too_large_is_refused_and_leaves_nothing() {
    let (_dir, store) = open_with(MEMTABLE_BYTES as u64).await;
    waybill_testkit::conformance::bounds::a_commit_that_is_too_large_is_refused_and_leaves_nothing(
        &store,
        MEMTABLE_BYTES,
    )
    .await;
}
