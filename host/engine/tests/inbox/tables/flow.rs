//! Order within an aggregate, what becomes of a row, what is paused.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use waybill_api::sources::{Publish, ReplayRows};
use waybill_core::port::transport::{Fault, Health};
use waybill_testkit::fake_table::{FakeTable, Status};
use waybill_testkit::fake_transport::{ack, blocked, permanent, retryable};

use super::Tables;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn rows_are_sent_in_order_of_their_aggregates_and_marked() {
    let tables = Tables::new();
    let rows: Vec<u64> = (0..6).map(|n| tables.database.insert(["a", "b"][n % 2], &n.to_string())).collect();
    let host = tables.start_with(|table| table.lanes = 4);
    tables.until_published(&rows).await;
    let log = tables.world.bus.log();
    assert_eq!((log.of_key("a"), log.of_key("b")), (vec!["0", "2", "4"], vec!["1", "3", "5"]));
    assert_eq!(log.sent.len(), 6);
    let first = &log.of("0")[0];
    assert_eq!((first.id.as_str(), first.destination.as_str(), first.attempt), ("outbox-1", "orders.created", 1));
    assert_eq!((tables.database.open(), tables.world.rows().len()), (0, 0), "nothing of it is stored here");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_fails_holds_its_aggregate_and_no_other() {
    let tables = Tables::new();
    let failures = AtomicUsize::new(0);
    tables.world.bus.tell(move |delivery| match delivery.payload.as_ref() {
        b"bad" if failures.fetch_add(1, Ordering::Relaxed) < 2 => retryable("TEST.BUSY"),
        _ => ack(),
    });
    let (bad, behind) = (tables.database.insert("a", "bad"), tables.database.insert("a", "behind"));
    let other = tables.database.insert("b", "other");
    let _host = tables.start();
    tables.until_published(&[other]).await;
    assert_eq!((tables.sent(behind), tables.database.row(bad).attempts), (0, 1));
    tables.until_published(&[bad, behind]).await;
    assert_eq!((tables.database.published(), tables.database.row(bad).attempts), (vec![other, bad, behind], 2));
    let tries: Vec<u32> = tables.world.bus.log().of("bad").iter().map(|sent| sent.attempt).collect();
    assert_eq!(tries, [1, 2, 3]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_can_not_be_delivered_stands_failed_and_is_put_back_by_a_person() {
    let tables = Tables::new();
    tables.world.bus.tell(|delivery| match delivery.payload.as_ref() {
        b"never" => permanent("TEST.NEVER"),
        b"often" => retryable("TEST.BUSY"),
        _ => ack(),
    });
    let (never, often) = (tables.database.insert("a", "never"), tables.database.insert("b", "often"));
    let behind = [tables.database.insert("a", "x"), tables.database.insert("b", "y")];
    let host = tables.start();
    tables.until_published(&behind).await;
    let failed = |row: u64| (tables.database.row(row).status, tables.database.row(row).attempts);
    assert_eq!((failed(never), failed(often)), ((Status::Failed, 1), (Status::Failed, 3)));
    let listed = host.inbound.failed_rows("orders", None, 10).await.unwrap();
    let listed: Vec<(String, String)> = listed.items.into_iter().map(|row| (row.id, row.last_error)).collect();
    assert_eq!(listed, [(never.to_string(), "TEST.NEVER".into()), (often.to_string(), "TEST.BUSY".into())]);
    tables.world.bus.tell(|_| ack());
    let ask = ReplayRows { ids: vec![never.to_string(), behind[0].to_string()], reason: "mended".into() };
    let replayed = host.inbound.replay_rows("orders", ask, "ann").await.unwrap();
    assert_eq!((replayed.replayed.len(), replayed.unchanged.len()), (1, 1));
    tables.until_published(&[never]).await;
}

#[tokio::test(start_paused = true)]
async fn a_blocked_destination_costs_no_attempt() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| blocked("orders", "TEST.DOWN"));
    let row = tables.database.insert("a", "x");
    let _host = tables.start();
    pass(seconds(600)).await;
    let found = tables.database.row(row);
    assert_eq!((found.status, found.attempts, found.error.unwrap().code.as_str()), (Status::Waits, 0, "TEST.DOWN"));
    assert!((5..40).contains(&tables.sent(row)), "its pause doubles: {}", tables.sent(row));
    tables.world.bus.tell(|_| ack());
    tables.until_published(&[row]).await;
}

#[tokio::test(start_paused = true)]
async fn what_no_transport_takes_waits_for_a_route() {
    let tables = Tables::new();
    let row = tables.database.insert_with("x", |row| row.topic = "custom:nowhere".into());
    let host = tables.start();
    pass(seconds(60)).await;
    assert_eq!((tables.database.row(row).status, tables.database.row(row).attempts), (Status::Waits, 0));
    assert_eq!(tables.database.row(row).error.unwrap().code, "OUTBOX.NO_ROUTE");
    host.drain().await;
}

#[tokio::test(start_paused = true)]
async fn a_blocked_row_pays_only_for_what_goes_through_at_its_own_destination() {
    let tables = Tables::new();
    tables.world.bus.tell(|delivery| match delivery.payload.as_ref() {
        b"down" => blocked("", "TEST.DOWN"),
        _ => ack(),
    });
    let to_stock = |text: &str| tables.database.insert_with(text, |row| row.topic = "bus:stock.moved".into());
    let down = to_stock("down");
    let nowhere = tables.database.insert_with("x", |row| row.topic = "custom:nowhere".into());
    let _host = tables.start();
    for _ in 0..20 {
        let other = tables.database.insert("a", "other");
        tables.until_published(&[other]).await;
        pass(seconds(30)).await;
    }
    for row in [down, nowhere] {
        let found = tables.database.row(row);
        assert_eq!((found.status, found.attempts), (Status::Waits, 0), "{found:?}");
    }
    for _ in 0..20 {
        let other = to_stock("other");
        tables.until_published(&[other]).await;
        pass(seconds(70)).await;
    }
    assert_eq!((tables.database.row(down).status, tables.database.row(down).attempts), (Status::Failed, 3));
    assert_eq!(tables.database.row(nowhere).attempts, 0);
}

#[tokio::test(start_paused = true)]
async fn rows_that_are_no_messages_fail_and_those_of_the_future_wait() {
    let tables = Tables::new();
    let broken = |row: &mut waybill_testkit::fake_table::Row, code: &str, after: Option<Duration>| {
        row.broken = Some(Fault { after, ..Fault::new(code, "as the database says") });
    };
    let invalid = tables.database.insert_with("x", |row| broken(row, "INVALID_OUTBOX", None));
    let future = tables.database.insert_with("y", |row| broken(row, "FUTURE_EVENT", Some(seconds(120))));
    let foreign = tables.database.insert_with("z", |row| row.tenant = Some("acme".into()));
    let good = tables.database.insert("a", "good");
    let _host = tables.start();
    tables.until_published(&[good]).await;
    let code = |row: u64| tables.database.row(row).error.map(|error| error.code);
    assert_eq!(code(invalid).as_deref(), Some("INVALID_OUTBOX"));
    assert_eq!(code(foreign).as_deref(), Some("INBOX.TENANT"));
    let waits = tables.database.row(future);
    assert_eq!((waits.status, waits.attempts, waits.error), (Status::Waits, 0, None));
}

#[tokio::test(start_paused = true)]
async fn a_paused_table_sends_nothing_and_a_paused_transport_costs_no_attempt() {
    let tables = Tables::new();
    let host = tables.start();
    assert!(host.inbound.pause_source("orders", "", "ann").await.unwrap().paused);
    let row = tables.database.insert("a", "x");
    pass(seconds(60)).await;
    assert_eq!(tables.sent(row), 0);
    host.outbox.pause("bus", "", "ann").await.unwrap();
    host.inbound.resume_source("orders", "", "ann").await.unwrap();
    pass(seconds(600)).await;
    assert_eq!((tables.sent(row), tables.database.row(row).attempts, tables.database.row(row).error), (0, 0, None));
    host.outbox.resume("bus", "", "ann").await.unwrap();
    tables.until_published(&[row]).await;
}

#[tokio::test(start_paused = true)]
async fn a_table_that_was_paused_sends_nothing_after_a_restart_either() {
    let tables = Tables::new();
    let host = tables.start();
    host.inbound.pause_source("orders", "", "ann").await.unwrap();
    host.drain().await;
    drop(host);
    let row = tables.database.insert("a", "x");
    let host = tables.start();
    pass(seconds(60)).await;
    assert_eq!(tables.sent(row), 0, "not even before the store has said that it is paused");
    host.inbound.resume_source("orders", "", "ann").await.unwrap();
    tables.until_published(&[row]).await;
}

#[tokio::test(start_paused = true)]
async fn a_notice_wakes_lanes_that_have_nothing_to_do() {
    let tables = Tables::new();
    let table = FakeTable::new("orders", &tables.database);
    let _host = tables.launch("host-a", &table, |table| table.idle_pause = seconds(3_600));
    pass(seconds(5)).await;
    let row = tables.database.insert("a", "x");
    pass(seconds(5)).await;
    assert_eq!(tables.sent(row), 0, "nobody looks by himself for an hour");
    table.notify();
    pass(seconds(1)).await;
    assert_eq!(tables.sent(row), 1);
}

#[tokio::test(start_paused = true)]
async fn a_table_is_shown_with_what_waits_in_it() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| permanent("TEST.NEVER"));
    let row = tables.database.insert("a", "x");
    let host = tables.start();
    tables.until_failed(row).await;
    tables.world.bus.tell(|_| blocked("orders", "TEST.DOWN"));
    tables.database.insert("a", "y");
    pass(seconds(30)).await;
    let view = host.inbound.sources().await.into_iter().find(|source| source.name == "orders").unwrap();
    assert_eq!((view.publish, view.here, view.consumers), (Publish::Direct, true, vec!["publish".to_owned()]));
    assert_eq!((view.lag, view.failed, view.caught_up, view.health), (Some(1), Some(1), Some(false), Health::Ready));
    let stats = host.inbound.inbox_stats(None).await.unwrap();
    let orders = stats.contexts.iter().find(|context| context.context == "orders").unwrap();
    assert_eq!((orders.unpublished.count, orders.failed), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_table_without_a_time_for_the_next_try_is_held_in_memory() {
    let tables = Tables::new();
    tables.database.forget_due();
    let table = FakeTable::new("orders", &tables.database);
    table.set_facts(|facts| (facts.keeps_due, facts.keeps_attempts) = (false, false));
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    tables
        .world
        .bus
        .tell(move |_| if counted.fetch_add(1, Ordering::Relaxed) < 2 { retryable("TEST.BUSY") } else { ack() });
    let row = tables.database.insert("a", "x");
    let _host = tables.launch("host-a", &table, |_| {});
    pass(millis(900)).await;
    assert_eq!(failures.load(Ordering::Relaxed), 1, "its backoff isn't over");
    tables.until_published(&[row]).await;
}
