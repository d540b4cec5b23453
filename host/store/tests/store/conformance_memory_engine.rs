//! The conformance suite on SurrealDB in memory.

use waybill_store::{StoreConfig, SurrealStore};

async fn open() -> ((), SurrealStore) {
    ((), SurrealStore::open(StoreConfig::new("mem://")).await.unwrap_or_else(|error| unreachable!("{error}")))
}

waybill_testkit::store_conformance!(open);
waybill_testkit::saga_store_conformance!(open);
waybill_testkit::inbox_store_conformance!(open);
waybill_testkit::stream_store_conformance!(open);
