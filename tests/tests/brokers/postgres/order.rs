//! The rows' locks keep the order, nothing else does.

use serde_json::json;
use waybill_core::port::table::{Ended, Found, RowFate, Table, TableClaim};
use waybill_testkit::postgres::{BY_PUBLICATION, BY_STATUS};

use super::support::*;

#[tokio::test(flavor = "multi_thread")]
async fn behind_a_row_that_a_stranger_holds_its_aggregate_waits_and_the_others_go() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "a"), (3, "b")]).await;
    let mut stranger = server.client().await.unwrap();
    stranger.query("BEGIN; SELECT id FROM outbox_events WHERE id = 1 FOR UPDATE").await.unwrap();
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    let found: Vec<(&str, bool)> =
        claimed.rows.iter().map(|row| (row.aggregate.as_str(), matches!(row.found, Found::Elsewhere))).collect();
    assert_eq!(found, [("order/a", true), ("order/a", false), ("order/b", false)]);
    commit_marks(&table, &claimed, Vec::new()).await;
    // With nothing of its own a claim holds no transaction open, and still tells what is elsewhere.
    let only = TableClaim { held: vec!["order/b".to_owned()], ..order(1) };
    let claimed = claim(&table, only).await;
    assert!(claimed.claim.is_none() && matches!(claimed.rows[0].found, Found::Elsewhere));
    stranger.query("COMMIT").await.unwrap();
    assert_eq!(ids(&claim(&table, order(10)).await), ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_that_was_published_meanwhile_is_not_claimed() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    let table = table(&server, json!({})).await;
    let first = claim(&table, order(1)).await;
    assert_eq!(commit(&table, &first, &RowFate::Published).await, Ended::Committed);
    client.query("UPDATE outbox_events SET status = 'published' WHERE id = 2").await.unwrap();
    assert_eq!(claim(&table, order(10)).await.seen, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_committed_late_with_an_early_key_is_found() {
    let (server, mut client) = with_table(BY_STATUS).await;
    let mut late = server.client().await.unwrap();
    late.query("BEGIN").await.unwrap();
    insert(&mut late, &[(1, "a")]).await;
    insert(&mut client, &[(2, "b")]).await;
    let table = table(&server, json!({})).await;
    let claimed = claim(&table, order(10)).await;
    assert_eq!(ids(&claimed), ["2"]);
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);
    late.query("COMMIT").await.unwrap();
    assert_eq!(ids(&claim(&table, order(10)).await), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_worker_s_claim_blocks_its_aggregate_until_its_time_is_over() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "a"), (3, "b")]).await;
    client.query("UPDATE outbox_events SET status = 'processing', updated_at = now() WHERE id = 1").await.unwrap();
    let table = table(&server, json!({ "claim_ttl": "1h" })).await;
    let claimed = claim(&table, order(10)).await;
    assert_eq!((claimed.seen, ids(&claimed)), (3, vec!["3"]));
    commit_marks(&table, &claimed, Vec::new()).await;
    client.query("UPDATE outbox_events SET updated_at = now() - interval '2 hours' WHERE id = 1").await.unwrap();
    assert_eq!(ids(&claim(&table, order(10)).await), ["1", "2", "3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_of_document_5_go_by_their_stamp_and_by_the_column_that_is_offered() {
    let (server, mut client) = with_table(BY_PUBLICATION).await;
    let id = |last: u32| format!("00000000-0000-0000-0000-00000000000{last}");
    for (last, ago) in [(1, 10), (2, 30), (3, 20)] {
        let sql = format!(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at) \
             VALUES ('{}', 'vibe', 'v', 'a', '{{}}', now() - interval '{ago} seconds')",
            id(last)
        );
        client.query(&sql).await.unwrap();
    }
    let config = json!({ "topic": "bus:{event_type}" });
    let by_stamp = table(&server, config.clone()).await;
    let claimed = claim(&by_stamp, order(10)).await;
    assert_eq!(ids(&claimed), [id(2), id(3), id(1)]);
    commit_marks(&by_stamp, &claimed, Vec::new()).await;
    by_stamp.provision(true).await.unwrap();
    client
        .query(&format!(
            "INSERT INTO outbox_events (id, aggregate_type, aggregate_id, event_type, payload, occurred_at) \
             VALUES ('{}', 'vibe', 'v', 'a', '{{}}', now() - interval '1 hour')",
            id(4)
        ))
        .await
        .unwrap();
    let by_number = table(&server, config).await;
    assert_eq!(ids(&claim(&by_number, order(10)).await), [id(2), id(3), id(1), id(4)], "older rows have no number");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hosts_that_drain_one_table_publish_each_row_once_and_in_order() {
    const ROWS: usize = 2_000;
    let (server, mut client) = with_table(BY_STATUS).await;
    client
        .query(&format!(
            "INSERT INTO outbox_events (routing_key, aggregate_type, aggregate_id, payload) \
             SELECT 'orders.created', 'order', (n % 37)::text, json_build_object('n', n) FROM generate_series(1, {ROWS}) n"
        ))
        .await
        .unwrap();
    let drain = |table: std::sync::Arc<waybill_sandbox::WasmTable>, lanes: u32| async move {
        let (mut published, mut lane) = (Vec::<(String, u64, std::time::Instant)>::new(), 0);
        let mut idle = 0;
        while idle < lanes {
            lane = (lane + 1) % lanes;
            let claimed = claim(&table, TableClaim { lane, lanes, without_lock: true, ..order(50) }).await;
            if claimed.claim.is_none() {
                idle += u32::from(claimed.seen == 0);
                continue;
            }
            idle = 0;
            // The run of an aggregate ends where a row of it is elsewhere.
            let (mut ended, mut marks) = (std::collections::BTreeSet::new(), Vec::new());
            for row in &claimed.rows {
                match &row.found {
                    Found::Locked(found) if !ended.contains(&row.aggregate) => {
                        let mark =
                            waybill_core::port::table::Mark { token: found.token.clone(), fate: RowFate::Published };
                        published.push((row.aggregate.clone(), found.id.parse().unwrap(), std::time::Instant::now()));
                        marks.push(mark);
                    }
                    _ => {
                        ended.insert(row.aggregate.clone());
                    }
                }
            }
            assert_eq!(commit_marks(&table, &claimed, marks).await, Ended::Committed);
        }
        published
    };
    let (one, two) = (table(&server, json!({})).await, table(&server, json!({})).await);
    let (one, two) = tokio::join!(drain(one, 2), drain(two, 3));
    let mut all: Vec<_> = one.into_iter().chain(two).collect();
    all.sort_by_key(|(_, _, when)| *when);
    assert_eq!(all.len(), ROWS, "each row once");
    for aggregate in 0..37 {
        let of: Vec<u64> =
            all.iter().filter(|(key, ..)| *key == format!("order/{aggregate}")).map(|(_, id, _)| *id).collect();
        assert!(of.is_sorted(), "{aggregate}: {of:?}");
    }
    assert_eq!(client.value("SELECT count(*) FROM outbox_events WHERE status <> 'published'").await.unwrap(), "0");
}
