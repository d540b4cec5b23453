//! The Rust way to enqueue: messages in an application's own transaction.

use bytes::Bytes;
use waybill_core::ids::ShardId;
use waybill_core::new_message::NewMessage;
use waybill_core::port::store::OwnerStore;
use waybill_core::port::transact::Statement;
use waybill_store::{BusinessError, StoreConfig, SurrealStore, enqueue_in_tx};

const PAYLOAD_BYTES_MAX: usize = 1024;

async fn store() -> SurrealStore {
    SurrealStore::open(StoreConfig::new("mem://")).await.unwrap()
}

fn statement(query: &str) -> Statement {
    Statement { query: query.to_owned(), bindings: serde_json::Map::new() }
}

fn message(id: Option<&str>, payload: &'static [u8]) -> NewMessage {
    NewMessage {
        topic: "bus:orders".to_owned(),
        key: Some("c-1".to_owned()),
        id: id.map(str::to_owned),
        payload: Bytes::from_static(payload),
        ..NewMessage::default()
    }
}

async fn at_the_door(store: &SurrealStore) -> Vec<String> {
    let rows = store.door(ShardId(0), 0, u64::MAX >> 1, None, 100).await.unwrap();
    rows.into_iter().flat_map(|row| row.content.unwrap()).map(|message| message.id.to_string()).collect()
}

#[tokio::test]
async fn rows_and_messages_of_a_rust_application_commit_together_and_in_order() {
    let store = store().await;
    let mut tx = store.begin_business().await.unwrap();
    let row = tx.run(&statement("CREATE invoice:1 SET total = 5")).await.unwrap();
    assert_eq!(row[0]["total"], 5);
    let first = enqueue_in_tx(&mut tx, message(None, b"1"), PAYLOAD_BYTES_MAX).await.unwrap();
    let second = enqueue_in_tx(&mut tx, message(Some("mine"), b"2"), PAYLOAD_BYTES_MAX).await.unwrap();
    assert!(at_the_door(&store).await.is_empty());
    tx.commit().await.unwrap();
    assert_eq!(at_the_door(&store).await, [first.to_string(), second.to_string()]);
}

#[tokio::test]
async fn a_dropped_transaction_leaves_neither_row_nor_message() {
    let store = store().await;
    let mut tx = store.begin_business().await.unwrap();
    tx.run(&statement("CREATE invoice:1 SET total = 3")).await.unwrap();
    tx.commit().await.unwrap();
    let mut tx = store.begin_business().await.unwrap();
    tx.run(&statement("CREATE invoice:2 SET total = 5")).await.unwrap();
    enqueue_in_tx(&mut tx, message(None, b"1"), PAYLOAD_BYTES_MAX).await.unwrap();
    tx.cancel().await.unwrap();
    assert!(at_the_door(&store).await.is_empty());
    let mut tx = store.begin_business().await.unwrap();
    let rows = tx.run(&statement("SELECT VALUE total FROM invoice")).await.unwrap();
    assert_eq!(rows, serde_json::json!([3]));
}

#[tokio::test]
async fn bad_messages_and_waybills_own_tables_are_refused() {
    let store = store().await;
    let mut tx = store.begin_business().await.unwrap();
    let large = NewMessage { payload: Bytes::from(vec![0; PAYLOAD_BYTES_MAX + 1]), ..message(None, b"") };
    assert!(matches!(enqueue_in_tx(&mut tx, large, PAYLOAD_BYTES_MAX).await, Err(BusinessError::Message(_))));
    let error = tx.run(&statement("DELETE outbox_door")).await.unwrap_err();
    assert!(matches!(error, BusinessError::Store(error) if error.code().as_str() == "AUTH.TABLE"));
}
