//! What marks do to the documents' tables, and what becomes of a claim whose mark the table refuses.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::table::{Ended, Mark, RowFate, Table, TableClaim};
use waybill_testkit::postgres::{BY_PUBLICATION, BY_STATUS, Client};

use super::support::*;

/// A claim of document 5's table with one row in it.
async fn insert_event(client: &mut Client) {
    client
        .query(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload) \
             VALUES (gen_random_uuid(), 'vibe', 'v1', 'vibe_created', '{}')",
        )
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn each_fate_marks_its_rows_in_one_commit() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b"), (3, "c"), (4, "d")]).await;
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    let fates = [RowFate::Published, again(Duration::from_secs(3_600)), failed()];
    let marks: Vec<Mark> = locked(&claimed)
        .iter()
        .zip(&fates)
        .map(|(row, fate)| Mark { token: row.token.clone(), fate: fate.clone() })
        .collect();
    assert_eq!(commit_marks(&table, &claimed, marks).await, Ended::Committed);
    let sql = "SELECT id, status, attempts, coalesce(last_error, '-'), available_at > now() + interval '55 minutes' FROM outbox_events ORDER BY id";
    assert_eq!(
        client.query(sql).await.unwrap(),
        [
            ["1", "published", "0", "-", "f"],
            ["2", "pending", "1", "NATS.ACK_TIMEOUT: no answer", "t"],
            ["3", "failed", "1", "NATS.MAX_PAYLOAD: too large", "f"],
            ["4", "pending", "0", "-", "f"],
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn document_5_counts_attempts_and_says_dead_in_its_error() {
    let (server, mut client) = with_table(BY_PUBLICATION).await;
    insert_event(&mut client).await;
    let table = table(&server, json!({ "topic": "bus:{event_type}" })).await;
    let claimed = claim(&table, order(10)).await;
    commit(&table, &claimed, &again(Duration::from_secs(3_600))).await;
    let sql = "SELECT publish_attempts, publish_error, published_at IS NULL FROM outbox_events";
    assert_eq!(client.query(sql).await.unwrap(), [["1", "NATS.ACK_TIMEOUT: no answer", "t"]]);
    // The table has no column for the time: the row is due at once, and the host holds it back.
    let claimed = claim(&table, order(10)).await;
    assert_eq!(locked(&claimed)[0].attempts, 1);
    commit(&table, &claimed, &failed()).await;
    assert_eq!(client.query(sql).await.unwrap(), [["2", "DEAD NATS.MAX_PAYLOAD: too large", "t"]]);
    assert_eq!(claim(&table, order(10)).await.seen, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_published_can_be_deleted_instead() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    let table = table(&server, json!({ "delete": true })).await;
    let claimed = claim(&table, order(1)).await;
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    assert_eq!(client.column("SELECT id FROM outbox_events").await.unwrap(), ["2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mark_that_the_table_refuses_undoes_its_batch_and_is_told() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    client
        .query(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'not this one'; END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON outbox_events FOR EACH ROW WHEN (old.id = 2) EXECUTE FUNCTION refuse()",
        )
        .await
        .unwrap();
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    let Ended::Refused(fault) = commit(&table, &claimed, &RowFate::Published).await else { panic!("marked") };
    assert!(fault.code == "POSTGRES.REFUSED_ROW" && fault.reason.contains("not this one"), "{fault:?}");
    assert_eq!(client.value("SELECT count(*) FROM outbox_events WHERE status = 'pending'").await.unwrap(), "2");
    // Its locks are gone, and the other row goes alone.
    let claimed = claim(&table, order(1)).await;
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    // A trigger that says nothing counts fewer rows.
    let quiet = "CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RETURN NULL; END $$";
    client.query(quiet).await.unwrap();
    let claimed = claim(&table, order(1)).await;
    let Ended::Refused(fault) = commit(&table, &claimed, &RowFate::Published).await else { panic!("marked") };
    assert!(fault.reason.contains("0 rows were changed of 1"), "{fault:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_right_that_is_missing_and_a_late_constraint_are_the_table_s_refusals_too() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    client
        .query(
            "CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'too late' USING ERRCODE = '23514'; END $$;
             CREATE CONSTRAINT TRIGGER late AFTER UPDATE ON outbox_events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION late()",
        )
        .await
        .unwrap();
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    let Ended::Refused(fault) = commit(&table, &claimed, &RowFate::Published).await else { panic!("marked") };
    assert!(fault.reason.contains("too late"), "{fault:?}");
    assert_eq!(client.value("SELECT status FROM outbox_events").await.unwrap(), "pending");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_that_the_server_ended_is_lost_and_its_rows_come_again() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, TableClaim { idle: Duration::from_millis(100), ..order(10) }).await;
    let gone = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'waybill shop' AND state = 'idle in transaction'";
    let mut superuser = server.superuser().await.unwrap();
    while superuser.value(gone).await.unwrap() != "0" {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(commit(&table, &claimed, &RowFate::Published).await, Ended::Lost(_)));
    assert_eq!(client.value("SELECT status FROM outbox_events").await.unwrap(), "pending");
    let claimed = claim(&table, order(10)).await;
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_rows_are_counted_listed_and_put_back() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b"), (3, "c")]).await;
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(2)).await;
    commit(&table, &claimed, &failed()).await;
    let stats = table.stats(AMPLE).await.unwrap();
    assert_eq!((stats[0].context.as_str(), stats[0].waiting, stats[0].dead), ("orders", 1, 2));
    assert!(stats[0].oldest.is_some());
    let first = table.dead(None, 1, AMPLE).await.unwrap();
    let row = &first.rows[0];
    assert_eq!((row.id.as_str(), row.aggregate.as_str(), row.attempts), ("1", "order/a", 1));
    assert_eq!((row.error.as_str(), row.topic.as_deref()), ("NATS.MAX_PAYLOAD: too large", Some("bus:orders.created")));
    let second = table.dead(first.next, 10, AMPLE).await.unwrap();
    assert_eq!((second.rows.len(), second.rows[0].id.as_str(), second.next), (1, "2", None));
    let ids = vec!["1".to_owned(), "3".to_owned(), "no key".to_owned()];
    assert_eq!(table.replay(ids, AMPLE).await.unwrap(), [true, false, false]);
    let sql = "SELECT status, attempts FROM outbox_events WHERE id = 1";
    assert_eq!(client.query(sql).await.unwrap(), [["pending", "0"]]);
}
