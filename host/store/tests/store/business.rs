//! The Rust way to enqueue and to append: messages and events in an application's own transaction.

use bytes::Bytes;
use waybill_core::ids::{EventId, ShardId, Tenant};
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::streams::{AppendRequest, EventInput, StreamError};
use waybill_core::port::store::OwnerStore;
use waybill_core::port::stream_store::StreamStore;
use waybill_core::port::transact::Statement;
use waybill_core::streams::event::{Body, EventLimits, Op};
use waybill_core::streams::exact::ExactRefusal;
use waybill_core::streams::name::{StreamKey, StreamName};
use waybill_store::{AppendedInTx, BusinessError, StoreConfig, SurrealStore, append_in_tx, enqueue_in_tx};

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

fn stream() -> StreamKey {
    StreamKey { tenant: Tenant::unnamed(), name: StreamName::new("task").unwrap() }
}

fn events(ids: &[&str], expected_seq: Option<u64>) -> AppendRequest {
    let event = |id: &&str| EventInput {
        id: Some(EventId::new(*id).unwrap()),
        ts: None,
        resource_type: "TASK".to_owned(),
        resource_id: "t-1".to_owned(),
        op: Op::CREATE,
        schema_version: 1,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: Default::default(),
        content_type: None,
        body: Body::None,
    };
    AppendRequest { stream: stream(), events: ids.iter().map(event).collect(), expected_seq, traceparent: None }
}

async fn last(store: &SurrealStore) -> u64 {
    store.stream_slice(&stream(), 0, 1 << 20).await.unwrap().head.last
}

#[tokio::test]
async fn rows_messages_and_events_of_a_rust_application_commit_together() {
    let (store, limits) = (store().await, EventLimits::default());
    let mut tx = store.begin_business().await.unwrap();
    tx.run(&statement("CREATE invoice:1 SET total = 5")).await.unwrap();
    enqueue_in_tx(&mut tx, message(None, b"1"), PAYLOAD_BYTES_MAX).await.unwrap();
    let AppendedInTx { ids, seqs } = append_in_tx(&mut tx, events(&["a", "b"], Some(0)), &limits).await.unwrap();
    assert_eq!((ids.len(), seqs), (2, Some(vec![1, 2])));
    // It sees what it has written itself.
    assert_eq!(append_in_tx(&mut tx, events(&["c"], Some(2)), &limits).await.unwrap().seqs, Some(vec![3]));
    assert_eq!(append_in_tx(&mut tx, events(&["d"], None), &limits).await.unwrap().seqs, None);
    assert_eq!(last(&store).await, 0);
    tx.commit().await.unwrap();
    assert_eq!((last(&store).await, at_the_door(&store).await.len()), (3, 1));

    let mut tx = store.begin_business().await.unwrap();
    tx.run(&statement("CREATE invoice:2 SET total = 5")).await.unwrap();
    let refused = append_in_tx(&mut tx, events(&["e"], Some(2)), &limits).await.unwrap_err();
    assert!(
        matches!(&refused, BusinessError::Events(StreamError::Exact(ExactRefusal::ExpectedSeq { actual: 3, .. }))),
        "{refused:?}"
    );
    tx.cancel().await.unwrap();
    let mut tx = store.begin_business().await.unwrap();
    let rows = tx.run(&statement("SELECT VALUE id FROM invoice")).await.unwrap();
    assert_eq!((rows.as_array().unwrap().len(), last(&store).await), (1, 3));
}

#[tokio::test]
async fn of_two_open_transactions_that_append_at_one_end_one_commits() {
    let (store, limits) = (store().await, EventLimits::default());
    let mut first = store.begin_business().await.unwrap();
    let mut second = store.begin_business().await.unwrap();
    append_in_tx(&mut first, events(&["a"], Some(0)), &limits).await.unwrap();
    append_in_tx(&mut second, events(&["b"], Some(0)), &limits).await.unwrap();
    first.commit().await.unwrap();
    assert!(second.commit().await.is_err(), "it goes by an end that isn't there any more");
    assert_eq!(last(&store).await, 1);
}
