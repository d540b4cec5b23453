//! The conformance suite on SurrealDB on disk.

use waybill_store::{StoreConfig, SurrealStore};

async fn open() -> (tempfile::TempDir, SurrealStore) {
    let dir = tempfile::tempdir().unwrap_or_else(|error| unreachable!("{error}"));
    let config = StoreConfig::new(format!("surrealkv://{}", dir.path().display()));
    let store = SurrealStore::open(config).await.unwrap_or_else(|error| unreachable!("{error}"));
    (dir, store)
}

waybill_testkit::store_conformance!(open);
waybill_testkit::saga_store_conformance!(open);
