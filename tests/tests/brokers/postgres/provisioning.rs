//! What is created when the operator asks for it, and what it says otherwise.

use serde_json::{Value, json};
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};
use waybill_core::port::table::Table;
use waybill_testkit::postgres::{BY_PUBLICATION, BY_STATUS, Server};

use super::support::*;

async fn provision(server: &Server, more: Value, apply: bool) -> Vec<ProvisionChange> {
    table(server, more).await.provision(apply).await.unwrap()
}

fn actions(changes: &[ProvisionChange]) -> Vec<ProvisionAction> {
    changes.iter().map(|change| change.action).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn document_4_s_index_is_created_once_and_used() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let planned = provision(&server, json!({}), false).await;
    assert_eq!(actions(&planned), [ProvisionAction::Create]);
    assert!(planned[0].detail.contains("CREATE INDEX CONCURRENTLY"), "{planned:?}");
    let indexes = "SELECT count(*) FROM pg_indexes WHERE tablename = 'outbox_events'";
    assert_eq!(client.value(indexes).await.unwrap(), "3", "a plan creates nothing");
    assert_eq!(actions(&provision(&server, json!({}), true).await), [ProvisionAction::Create]);
    assert_eq!(actions(&provision(&server, json!({}), true).await), [ProvisionAction::Keep]);
    assert_eq!(client.value(indexes).await.unwrap(), "4");
    insert(&mut client, &[(2, "a"), (1, "b")]).await;
    let table = table(&server, json!({})).await;
    assert_eq!(ids(&claim(&table, order(10)).await), ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn document_5_s_column_numbers_new_rows_and_writes_no_old_one() {
    let (server, mut client) = with_table(BY_PUBLICATION).await;
    let insert = "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) VALUES (gen_random_uuid(), 'a', 'b', 'c', '{}')";
    client.query(insert).await.unwrap();
    let before = client.value("SELECT xmin FROM outbox_events").await.unwrap();
    let config = json!({ "topic": "bus:{event_type}" });
    assert_eq!(actions(&provision(&server, config.clone(), true).await), [ProvisionAction::Create; 2]);
    assert_eq!(actions(&provision(&server, config, true).await), [ProvisionAction::Keep; 2]);
    client.query(insert).await.unwrap();
    let rows = client.query("SELECT coalesce(seq, 0), xmin FROM outbox_events ORDER BY 1").await.unwrap();
    assert_eq!((rows[0][0].as_str(), rows[0][1].as_str(), rows[1][0].as_str()), ("0", before.as_str(), "1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_trigger_is_made_only_where_it_is_asked_for_and_notifies_once_a_statement() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let quiet = json!({ "listen": "outbox", "provision": { "index": false } });
    assert_eq!(provision(&server, quiet, true).await, []);
    let asked = json!({ "listen": "outbox", "provision": { "index": false, "notify": true } });
    assert_eq!(actions(&provision(&server, asked.clone(), true).await), [ProvisionAction::Create]);
    assert_eq!(actions(&provision(&server, asked, true).await), [ProvisionAction::Keep]);
    insert(&mut client, &[(1, "a")]).await;
    assert_eq!(client.value("SELECT count(*) FROM outbox_events").await.unwrap(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_that_is_of_no_use_is_told_and_left_alone() {
    let (server, mut client) = with_table(BY_STATUS).await;
    client
        .query("CREATE INDEX outbox_events_waybill_waits ON outbox_events (id, status) WHERE status = 'pending'")
        .await
        .unwrap();
    let done = provision(&server, json!({}), true).await;
    assert_eq!(actions(&done), [ProvisionAction::Conflict], "{done:?}");
    assert!(done[0].detail.contains("DROP INDEX"), "{done:?}");
}
