//! Lost transactions, refused marks, locks of others, other hosts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use waybill_core::port::transport::Health;
use waybill_testkit::fake_table::{FakeTable, Status, TableFault};
use waybill_testkit::fake_transport::{Answer, Gate, ack};

use super::Tables;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn a_lost_transaction_is_sent_again_with_the_same_ids() {
    let tables = Tables::new();
    tables.database.plan([TableFault::Lost]);
    let rows = [tables.database.insert("a", "x"), tables.database.insert("b", "y")];
    let _host = tables.start();
    tables.until_published(&rows).await;
    assert_eq!(rows.map(|row| tables.sent(row)), [2, 2]);
    assert_eq!(rows.map(|row| tables.database.row(row).attempts), [0, 0]);
    let batches: Vec<usize> = tables.world.bus.log().sent.iter().map(|sent| sent.batch).collect();
    assert_eq!(batches, [2, 2, 1, 1], "the lane goes on with one row");
}

#[tokio::test(start_paused = true)]
async fn a_commit_without_an_answer_is_found_by_the_next_claim() {
    let tables = Tables::new();
    tables.database.plan([TableFault::Unheard]);
    let first = tables.database.insert("a", "x");
    let host = tables.start();
    tables.until_published(&[first]).await;
    let second = tables.database.insert("a", "y");
    tables.until_published(&[second]).await;
    assert_eq!((tables.sent(first), tables.sent(second)), (1, 1));
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_database_that_is_away_costs_nothing() {
    let tables = Tables::new();
    tables.database.plan([TableFault::Claim; 5]);
    let rows: Vec<u64> = (0..20).map(|n| tables.database.insert(&format!("a{n}"), "x")).collect();
    let _host = tables.start();
    tables.until_published(&rows).await;
    assert_eq!(tables.world.bus.calls(), 1, "the lane keeps its size");
}

#[tokio::test(start_paused = true)]
async fn a_trap_costs_an_attempt_only_where_the_row_was_alone() {
    let tables = Tables::new();
    let well = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&well);
    tables.world.bus.answer(move |batch| {
        let traps = batch.has_payload("bad") && !seen.load(Ordering::Relaxed);
        if traps { Answer::trap() } else { Answer::each(batch, |_| ack()) }
    });
    let (good, bad) = (tables.database.insert("a", "good"), tables.database.insert("b", "bad"));
    let more = tables.database.insert("c", "more");
    let _host = tables.start();
    tables.until_published(&[good, more]).await;
    well.store(true, Ordering::Relaxed);
    tables.until_published(&[bad]).await;
    let attempts = |row: u64| tables.database.row(row).attempts;
    assert_eq!((attempts(good), attempts(more)), (0, 0));
    assert!(attempts(bad) >= 1);
    let log = tables.world.bus.log();
    assert!(log.of("bad").iter().skip(2).all(|sent| sent.batch == 1), "it goes alone: {log:?}");
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_mark_is_refused_is_set_apart_and_holds_its_aggregate() {
    let tables = Tables::new();
    let (refused, behind) = (tables.database.insert("a", "refused"), tables.database.insert("a", "behind"));
    let others = [tables.database.insert("b", "x"), tables.database.insert("c", "y")];
    tables.database.refuse_marks(refused, true);
    let host = tables.start();
    tables.until_published(&others).await;
    pass(seconds(3)).await;
    let waits = |row: u64| tables.database.row(row).status == Status::Waits;
    assert!(waits(refused) && waits(behind));
    assert_eq!(tables.sent(behind), 1, "only with the transaction that was undone");
    let view = host.inbound.sources().await.remove(0);
    assert_eq!(view.health, Health::Degraded);
    assert!(view.health_detail.unwrap().contains(&format!("({refused}, ...)")));
    tables.database.refuse_marks(refused, false);
    tables.until_published(&[refused, behind]).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_behind_a_row_that_another_session_has() {
    let tables = Tables::new();
    let (first, second) = (tables.database.insert("a", "first"), tables.database.insert("a", "second"));
    let other = tables.database.insert("b", "other");
    tables.database.lock(first, true);
    let _host = tables.start();
    tables.until_published(&[other]).await;
    pass(seconds(30)).await;
    assert_eq!((tables.sent(first), tables.sent(second)), (0, 0));
    tables.database.lock(first, false);
    tables.until_published(&[first, second]).await;
}

#[tokio::test(start_paused = true)]
async fn a_lane_whose_lock_somebody_has_goes_on_without_it_after_a_minute() {
    let tables = Tables::new();
    tables.database.lock_lane(1, 0);
    let row = tables.database.insert("a", "x");
    let _host = tables.start();
    pass(seconds(55)).await;
    assert_eq!(tables.sent(row), 0);
    tables.until_published(&[row]).await;
    assert!(tables.database.claims().iter().any(|claim| claim.without_lock));
    assert!(tables.database.claims().iter().all(|claim| claim.idle == seconds(40)), "both times and five seconds");
}

#[tokio::test(start_paused = true)]
async fn two_hosts_drain_one_table_each_row_once() {
    let tables = Tables::new();
    let rows: Vec<u64> = (0..400).map(|n| tables.database.insert(&format!("a{}", n % 7), &n.to_string())).collect();
    let (one, two) = (FakeTable::new("orders", &tables.database), FakeTable::new("orders", &tables.database));
    let few = |table: &mut waybill_engine::TableConfig| (table.batch, table.lanes) = (10, 2);
    let hosts = [
        tables.launch("host-a", &one, few),
        tables.launch("host-b", &two, |table| (table.batch, table.lanes) = (10, 3)),
    ];
    tables.until_published(&rows).await;
    let log = tables.world.bus.log();
    assert_eq!(log.sent.len(), 400);
    for aggregate in 0..7 {
        let key = format!("a{aggregate}");
        let sent: Vec<u32> = log.of_key(&key).iter().map(|text| text.parse().unwrap()).collect();
        assert!(sent.is_sorted(), "{key}: {sent:?}");
    }
    assert!(one.claims() > 0 && two.claims() > 0);
    drop(hosts);
}

#[tokio::test(start_paused = true)]
async fn a_slow_broker_gets_no_row_twice() {
    let tables = Tables::new();
    tables.world.bus.answer(|batch| Answer::each(batch, |_| ack()).after(seconds(4)));
    let rows: Vec<u64> = (0..5).map(|n| tables.database.insert("a", &n.to_string())).collect();
    let _host = tables.start();
    tables.until_published(&rows).await;
    assert_eq!(rows.iter().map(|row| tables.sent(*row)).collect::<Vec<_>>(), [1; 5]);
    assert_eq!(tables.database.published(), rows);
}

#[tokio::test(start_paused = true)]
async fn a_drain_marks_what_is_acknowledged_and_closes_the_table() {
    let tables = Tables::new();
    let gate = Gate::default();
    let shut = gate.clone();
    tables.world.bus.answer(move |batch| Answer::each(batch, |_| ack()).behind(&shut));
    let (first, second) = (tables.database.insert("a", "first"), tables.database.insert("a", "second"));
    let table = FakeTable::new("orders", &tables.database);
    let host = tables.launch("host-a", &table, |_| {});
    eventually("the first row is out", async || tables.sent(first) == 1).await;
    assert!(tables.record("host-a").open);
    let opens = async {
        pass(seconds(2)).await;
        gate.open();
    };
    tokio::join!(host.drain(), opens);
    assert_eq!((tables.database.published(), tables.sent(second)), (vec![first], 0));
    assert!(table.is_closed() && !tables.record("host-a").open && tables.database.open() == 0);
}
