//! Tables that are published directly: claims, marks, and what a lost instance means for what it had claimed.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use waybill_core::endpoint::EndpointSettings;
use waybill_core::port::table::{Claimed, Ended, Found, Mark, RowFate, Table, TableClaim};
use waybill_core::port::transport::{ErrorKind, Fault, Health};
use waybill_sandbox::{EndpointSpec, WasmTable, World};
use waybill_tests::guests;

use super::support::*;

async fn start(path: &str, amount: usize) -> Arc<WasmTable> {
    let plugin = load(path, World::Table).await.expect("loads");
    let settings = EndpointSettings { config: json!({ "amount": amount }), ..EndpointSettings::new("shop") };
    let (table, opened) = WasmTable::start_supervised(plugin, EndpointSpec::new(settings), 2).await.expect("can serve");
    opened.expect("opens");
    table
}

fn order(batch: u32, held: &[&str]) -> TableClaim {
    TableClaim {
        lane: 0,
        lanes: 1,
        batch,
        batch_bytes: 1 << 20,
        window: 100,
        held: held.iter().map(|aggregate| (*aggregate).to_owned()).collect(),
        without_lock: false,
        idle: Duration::from_secs(40),
    }
}

async fn claim(table: &WasmTable, batch: u32, held: &[&str]) -> Claimed {
    table.claim(0, order(batch, held), AMPLE).await.expect("claims")
}

/// Marks every row that the claim has locked.
fn marks(claimed: &Claimed, fate: &RowFate) -> Vec<Mark> {
    let token = |found: &Found| match found {
        Found::Locked(row) => Some(row.token.clone()),
        _ => None,
    };
    let tokens = claimed.rows.iter().filter_map(|row| token(&row.found));
    tokens.map(|token| Mark { token, fate: fate.clone() }).collect()
}

async fn commit(table: &WasmTable, claimed: &Claimed, fate: &RowFate) -> Ended {
    let id = claimed.claim.expect("an open claim");
    table.commit(0, id, marks(claimed, fate), AMPLE).await.expect("ends")
}

/// What a claim of this many rows has, as (aggregate, id).
fn names(claimed: &Claimed) -> Vec<(String, String)> {
    let id = |found: &Found| match found {
        Found::Locked(row) => row.id.clone(),
        other => format!("{other:?}"),
    };
    claimed.rows.iter().map(|row| (row.aggregate.clone(), id(&row.found))).collect()
}

fn named(rows: &[(&str, &str)]) -> Vec<(String, String)> {
    rows.iter().map(|(aggregate, id)| ((*aggregate).to_owned(), (*id).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread")]
pub async fn publishes_numbers() {
    let table = start(guests::PUBLISHES_NUMBERS, 6).await;
    let facts = table.facts();
    assert_eq!((facts.instances, facts.claims_per_instance), (1, 2));
    assert!(facts.keeps_due && !facts.keeps_attempts);
    assert_eq!(table.health().await.health, Health::Ready);
    assert!(tokio::time::timeout(AMPLE, table.next_notices()).await.expect("a tick").notices.waiting);

    // Two of one aggregate; published, they are gone.
    let claimed = claim(&table, 2, &[]).await;
    assert_eq!(names(&claimed), named(&[("1-2", "1"), ("1-2", "2")]));
    assert_eq!((claimed.seen, claimed.refused), (6, false));
    let Found::Locked(row) = &claimed.rows[0].found else { panic!("{claimed:?}") };
    let message = row.message.as_ref().expect("readable");
    assert_eq!(
        (message.id.as_str(), message.topic.as_str(), &*message.payload),
        ("outbox-1", "bus:numbers", &b"1"[..])
    );
    assert_eq!(commit(&table, &claimed, &RowFate::Published).await, Ended::Committed);

    // A row that can't be a message says why, and stands failed.
    let claimed = claim(&table, 1, &["1-2"]).await;
    let Found::Locked(row) = &claimed.rows[0].found else { panic!("{claimed:?}") };
    let fault = row.message.clone().expect_err("unreadable");
    assert_eq!(fault.code, "INVALID_OUTBOX");
    assert_eq!(commit(&table, &claimed, &RowFate::Failed { attempts: 1, cause: fault }).await, Ended::Committed);
    let stats = table.stats(AMPLE).await.expect("stats");
    assert_eq!((stats[0].context.as_str(), stats[0].waiting, stats[0].dead), ("numbers", 3, 1));
    let page = table.dead(None, 10, AMPLE).await.expect("a page");
    assert_eq!((page.rows[0].id.as_str(), page.rows[0].error.as_str(), page.next), ("3", "INVALID_OUTBOX", None));
    assert_eq!(table.replay(vec!["3".to_owned(), "1".to_owned()], AMPLE).await, Ok(vec![true, false]));
    assert_eq!(table.replay(Vec::new(), AMPLE).await, Ok(Vec::new()));

    // A refused mark and a lost transaction are told apart.
    let later =
        RowFate::Again { after: Duration::from_secs(1), attempts: 1, cause: Some(Fault::new("NATS.TIMEOUT", "late")) };
    let claimed = claim(&table, 1, &["3", "5", "6"]).await;
    assert!(matches!(commit(&table, &claimed, &later).await, Ended::Refused(fault) if fault.code == "FIXTURE.REFUSED"));
    let claimed = claim(&table, 1, &["3", "4", "6"]).await;
    assert!(matches!(commit(&table, &claimed, &later).await, Ended::Lost(fault) if fault.maybe_delivered));

    // A claim too many is refused; without marks one is given back.
    let (first, second) = (claim(&table, 1, &["3"]).await, claim(&table, 1, &["3"]).await);
    assert!(claim(&table, 1, &["3"]).await.refused);
    for claimed in [&first, &second] {
        let given_back = table.commit(0, claimed.claim.expect("open"), Vec::new(), AMPLE).await;
        assert_eq!(given_back, Ok(Ended::Committed));
    }

    // The instance is lost: its claims are lost with it.
    let (trap, other) = (claim(&table, 1, &["3", "4", "5"]).await, claim(&table, 1, &[]).await);
    let error = table.commit(0, trap.claim.expect("open"), marks(&trap, &later), AMPLE).await.expect_err("traps");
    assert_eq!(error.kind, ErrorKind::Trapped);
    let after = tokio::time::timeout(AMPLE, async {
        loop {
            match table.claim(0, order(1, &[]), AMPLE).await {
                Ok(claimed) => return claimed,
                Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
            }
        }
    });
    let after = after.await.expect("a fresh instance");
    assert_ne!(after.claim.map(|claim| claim.session), other.claim.map(|claim| claim.session));
    assert!(matches!(commit(&table, &other, &RowFate::Published).await, Ended::Lost(_)));
    table.close(AMPLE).await;
}

#[tokio::test(flavor = "multi_thread")]
pub async fn claims_too_many() {
    let table = start(guests::CLAIMS_TOO_MANY, 1).await;
    let error = table.claim(0, order(2, &[]), AMPLE).await.expect_err("broke the contract");
    assert_eq!((error.kind, error.fault.code.as_str()), (ErrorKind::Contract, "PLUGIN.CONTRACT"));
    assert!(error.fault.reason.contains("3 rows for 2"), "{}", error.fault.reason);

    let table = start(guests::CLAIMS_TOO_MANY, 0).await;
    assert_eq!(claim(&table, 2, &[]).await.rows.len(), 2);
    let error = table.replay(vec!["1".to_owned(), "2".to_owned()], AMPLE).await.expect_err("broke the contract");
    assert!(error.fault.reason.contains("1 answers for 2"), "{}", error.fault.reason);
    the_host_still_serves().await;
}
