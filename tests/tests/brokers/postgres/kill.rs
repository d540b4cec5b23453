//! The server is killed while claims are open: nothing is marked that wasn't committed, and everything goes on by itself.

use std::time::Duration;

use serde_json::json;
use waybill_core::port::table::{Ended, RowFate, Table};
use waybill_sandbox::WasmTable;
use waybill_testkit::postgres::BY_STATUS;

use super::support::*;

/// Claims until the server answers again.
async fn claim_when_it_is_back(table: &WasmTable) -> waybill_core::port::table::Claimed {
    let claimed = async {
        loop {
            match table.claim(0, order(10), AMPLE).await {
                Ok(claimed) if claimed.claim.is_some() => return claimed,
                _ => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        }
    };
    tokio::time::timeout(AMPLE, claimed).await.expect("it goes on by itself")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_claim_is_lost_with_its_server_and_its_rows_come_again() {
    let (mut server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a"), (2, "b")]).await;
    let table = table(&server, json!({})).await;
    let published = claim(&table, order(1)).await;
    assert_eq!(commit(&table, &published, &RowFate::Published).await, Ended::Committed);
    let open = claim(&table, order(10)).await;
    assert_eq!(ids(&open), ["2"]);
    server.kill().await.unwrap();
    assert!(matches!(commit(&table, &open, &RowFate::Published).await, Ended::Lost(_)));
    server.restart().await.unwrap();
    let again = claim_when_it_is_back(&table).await;
    assert_eq!(ids(&again), ["2"], "what was committed stays, what wasn't comes again");
    assert_eq!(commit(&table, &again, &RowFate::Published).await, Ended::Committed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_that_waits_for_a_frozen_server_ends_with_its_call() {
    let (mut server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    // New connections wait for a stopped postmaster.
    let table = table(&server, json!({ "connect_timeout": "500ms" })).await;
    let open = claim(&table, order(1)).await;
    server.freeze().unwrap();
    let error = table.claim(0, order(1), Duration::from_secs(3)).await.unwrap_err();
    assert!(error.fault.code.starts_with("POSTGRES."), "{error:?}");
    server.kill().await.unwrap();
    assert!(matches!(commit(&table, &open, &RowFate::Published).await, Ended::Lost(_)));
    server.restart().await.unwrap();
    assert_eq!(ids(&claim_when_it_is_back(&table).await), ["1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_that_are_ended_cost_no_row() {
    let (server, mut client) = with_table(BY_STATUS).await;
    insert(&mut client, &[(1, "a")]).await;
    let table = table(&server, json!({})).await;
    let open = claim(&table, order(1)).await;
    let mut superuser = server.superuser().await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'waybill shop'";
    superuser.query(end).await.unwrap();
    let Ended::Lost(fault) = commit(&table, &open, &RowFate::Published).await else { panic!("marked") };
    // Marks and COMMIT go out together: what ended with the session is known by the next claim only.
    assert!(["POSTGRES.LOST", "POSTGRES.SHUTDOWN"].contains(&fault.code.as_str()), "{fault:?}");
    let again = claim_when_it_is_back(&table).await;
    assert_eq!(commit(&table, &again, &RowFate::Published).await, Ended::Committed);
}
