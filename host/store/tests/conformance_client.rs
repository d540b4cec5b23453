//! The conformance suite through SurrealDB's client library, as against a server: here its in-memory engine.

use waybill_store::{StoreConfig, SurrealStore};

async fn open() -> ((), SurrealStore) {
    (
        (),
        SurrealStore::open_through_client(StoreConfig::new("mem://"))
            .await
            .unwrap_or_else(|error| unreachable!("{error}")),
    )
}

waybill_testkit::store_conformance!(open);
waybill_testkit::saga_store_conformance!(open);
