//! What a claim brings: rows of the documents' tables as messages, only what is due, only as much as there is room for.

use serde_json::json;
use waybill_core::port::table::{Ended, Found, RowFate, Table, TableClaim};
use waybill_core::time::UnixMillis;
use waybill_testkit::postgres::{BY_PUBLICATION, BY_STATUS};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_document_4_is_a_message_for_its_routing_key() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(7, "o-1")]).await;
    let table = table(&server, json!({})).await;
    assert!(table.facts().keeps_due && table.facts().keeps_attempts);
    let claimed = claim(&table, order(10)).await;
    assert_eq!((claimed.seen, claimed.refused, ids(&claimed)), (1, false, vec!["7"]));
    assert_eq!(claimed.rows[0].aggregate, "order/o-1");
    let message = messages(&claimed)[0];
    assert_eq!((message.id.as_str(), message.topic.as_str()), ("outbox-7", "bus:orders.created"));
    assert_eq!((message.key.as_deref(), message.context.as_deref()), (Some("o-1"), Some("orders")));
    assert_eq!(&*message.payload, br#"{"order": 7}"#, "the bytes that were inserted");
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    let marked = client.query("SELECT status, attempts, published_at IS NOT NULL FROM outbox_events").await.unwrap();
    assert_eq!(marked, [["published", "0", "t"]]);
    let empty = claim(&table, order(10)).await;
    assert_eq!((empty.claim, empty.seen, empty.rows.len()), (None, 0, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_of_document_5_is_a_message_for_its_type() {
    let (server, mut client) = with_table(BY_PUBLICATION).await;
    let id = "0b5bb0a5-6bd7-4f4c-9f5b-1b5e6b5b1a01";
    let insert = format!(
        "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, event_version, payload, occurred_at, correlation_id) \
         VALUES ('{id}', 'vibe', 'v1', 'vibe_created', 2, '{{\"a\":1}}', '2025-12-28T22:00:00Z', '{id}')"
    );
    client.query(&insert).await.unwrap();
    let table = table(&server, json!({ "topic": "bus:sea.event.{event_type}.v{event_version}" })).await;
    assert!(!table.facts().keeps_due && table.facts().keeps_attempts);
    let claimed = claim(&table, order(10)).await;
    let message = messages(&claimed)[0];
    assert_eq!((message.id.as_str(), message.topic.as_str()), (id, "bus:sea.event.vibe_created.v2"));
    assert_eq!((message.event_type.as_deref(), message.event_version), (Some("vibe_created"), Some(2)));
    assert_eq!(message.correlation_id.as_deref(), Some(id));
    assert_eq!(message.occurred_at, Some(UnixMillis(1_766_959_200_000)));
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    let sql = "SELECT published_at IS NOT NULL, publish_attempts, publish_error IS NULL FROM outbox_events";
    assert_eq!(client.query(sql).await.unwrap(), [["t", "1", "t"]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_due_blocks_its_aggregate_unless_it_stands_aside() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "a"), (3, "b")]).await;
    client.query("UPDATE outbox_events SET available_at = now() + interval '1 hour' WHERE id = 1").await.unwrap();
    let block = table(&server, json!({})).await;
    let claimed = claim(&block, order(10)).await;
    assert_eq!((claimed.seen, ids(&claimed)), (3, vec!["3"]));
    commit_marks(&block, &claimed, Vec::new()).await;
    let aside = table(&server, json!({ "undue": "aside" })).await;
    let claimed = claim(&aside, order(10)).await;
    assert_eq!(ids(&claimed), ["2", "3"]);
    commit_marks(&aside, &claimed, Vec::new()).await;
    // A retry blocks all the same.
    client.query("UPDATE outbox_events SET attempts = 1 WHERE id = 1").await.unwrap();
    assert_eq!(ids(&claim(&aside, order(10)).await), ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_leaves_out_what_is_held_and_what_other_lanes_have() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let rows: Vec<(u32, String)> = (1..=40).map(|id| (id, format!("a{id}"))).collect();
    let rows: Vec<(u32, &str)> = rows.iter().map(|(id, key)| (*id, key.as_str())).collect();
    insert(&mut client, &rows).await;
    let table = table(&server, json!({})).await;
    let mut all: Vec<u32> = Vec::new();
    for lane in 0..3 {
        let claimed = claim(&table, TableClaim { lane, lanes: 3, ..order(100) }).await;
        all.extend(ids(&claimed).iter().map(|id| id.parse::<u32>().unwrap()));
        commit_marks(&table, &claimed, Vec::new()).await;
    }
    all.sort_unstable();
    assert_eq!(all, (1..=40).collect::<Vec<_>>(), "each row is in one lane");
    let held = vec!["order/a1".to_owned(), "order/a2".to_owned()];
    let claimed = claim(&table, TableClaim { held, ..order(1) }).await;
    assert_eq!(ids(&claimed), ["3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lane_s_lock_is_refused_to_the_second_and_can_be_left_alone() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    let table = table(&server, json!({})).await;
    let first = claim(&table, order(1)).await;
    let second = claim(&table, order(1)).await;
    assert!(second.refused && second.claim.is_none());
    let without = TableClaim { without_lock: true, ..order(10) };
    let third = claim(&table, without).await;
    assert_eq!((ids(&first), ids(&third)), (vec!["1"], vec!["2"]));
    assert!(matches!(third.rows[0].found, Found::Elsewhere), "the first one has it");
    commit_marks(&table, &first, Vec::new()).await;
    commit_marks(&table, &third, Vec::new()).await;
    assert!(!claim(&table, order(1)).await.refused, "locks end with their transactions");
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_are_bounded_and_a_payload_that_is_too_large_fails() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b"), (3, "c"), (4, "c")]).await;
    client.query("UPDATE outbox_events SET payload = to_json(repeat('x', 5000)) WHERE id = 2").await.unwrap();
    client.query("UPDATE outbox_events SET payload = to_json(repeat('x', 600)) WHERE id = 1 OR id = 3").await.unwrap();
    let table = table(&server, json!({ "max_payload_bytes": 1000 })).await;
    let claimed = claim(&table, TableClaim { batch_bytes: 700, ..order(10) }).await;
    let rows = locked(&claimed);
    assert_eq!(rows.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(), ["1", "2"]);
    let fault = rows[1].message.as_ref().unwrap_err();
    assert!(fault.code == "INVALID_OUTBOX" && fault.reason.contains("5002 bytes"), "{fault:?}");
    assert!(matches!(claimed.rows[2].found, Found::Unread) && matches!(claimed.rows[3].found, Found::Unread));
    commit_marks(&table, &claimed, Vec::new()).await;
    // One that fits alone always goes.
    let claimed = claim(&table, TableClaim { batch_bytes: 10, ..order(1) }).await;
    assert_eq!(messages(&claimed)[0].payload.len(), 602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_breaks_the_rules_is_invalid_and_can_be_marked() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    client.query("UPDATE outbox_events SET routing_key = NULL").await.unwrap();
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    let fault = locked(&claimed)[0].message.clone().unwrap_err();
    assert!(fault.code == "INVALID_OUTBOX" && fault.reason.contains("routing_key"), "{fault:?}");
    assert_eq!(commit(&table, &claimed, &RowFate::Failed { attempts: 0, cause: fault }).await, Ended::Committed);
    let sql = "SELECT status, attempts, last_error LIKE 'INVALID_OUTBOX: %' FROM outbox_events";
    assert_eq!(client.query(sql).await.unwrap(), [["failed", "0", "t"]]);
}
