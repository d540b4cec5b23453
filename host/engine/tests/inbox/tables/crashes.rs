//! Hosts that die while they send.

use waybill_testkit::fake_table::{FakeTable, Status};
use waybill_testkit::fake_transport::{Answer, ack};

use super::Tables;
use crate::support::*;

#[tokio::test(start_paused = true)]
async fn the_locks_of_a_host_that_vanished_end_and_another_sends_its_rows() {
    let tables = Tables::new();
    tables.world.bus.answer(|_| Answer::never());
    let row = tables.database.insert("a", "x");
    let host = tables.launch("host-a", &FakeTable::new("orders", &tables.database), |_| {});
    eventually("the row is out", async || tables.sent(row) == 1).await;
    host.crash().await;
    tables.world.bus.tell(|_| ack());
    let _other = tables.launch("host-b", &FakeTable::new("orders", &tables.database), |_| {});
    pass(seconds(20)).await;
    assert_eq!((tables.sent(row), tables.database.open()), (1, 1), "the first host's transaction still has it");
    tables.until_published(&[row]).await;
    assert_eq!(tables.sent(row), 2);
}

#[tokio::test(start_paused = true)]
async fn after_a_clean_end_nothing_is_named_and_after_a_crash_a_batch_is() {
    let tables = Tables::new();
    let host = tables.start();
    let first = tables.database.insert("a", "first");
    tables.until_published(&[first]).await;
    host.drain().await;
    assert_eq!((tables.record("host-a").unclean, tables.record("host-a").open), (0, false));
    let host = tables.start();
    let second = tables.database.insert("a", "second");
    tables.until_published(&[second]).await;
    assert!(tables.record("host-a").calling.is_empty(), "nobody is suspected");
    host.crash().await;
    tables.world.bus.answer(|_| Answer::never());
    let row = tables.database.insert("a", "third");
    let _host = tables.start();
    eventually("the row is out", async || tables.sent(row) == 1).await;
    let record = tables.record("host-a");
    assert_eq!((record.unclean, record.calling.len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_out_alone_at_three_crashes_stands_failed() {
    let tables = Tables::new();
    let poison = tables.database.insert("a", "poison");
    let others: Vec<u64> = (0..3).map(|n| tables.database.insert(&format!("b{n}"), "x")).collect();
    tables.world.bus.answer(
        |batch| {
            if batch.has_payload("poison") { Answer::never() } else { Answer::each(batch, |_| ack()) }
        },
    );
    for times in 1.. {
        let host = tables.start();
        let before = tables.sent(poison);
        let what = format!("the poison is out or given up, time {times}");
        eventually(&what, async || {
            tables.sent(poison) > before || tables.database.row(poison).status == Status::Failed
        })
        .await;
        if tables.database.row(poison).status == Status::Failed {
            break;
        }
        assert!(times < 8, "it kills the host for ever: {:?}", tables.record("host-a"));
        host.crash().await;
        // Until the database has ended the transaction.
        pass(seconds(60)).await;
    }
    assert_eq!(tables.database.row(poison).error.unwrap().code, "SUSPECTED_POISON");
    let _host = tables.start();
    tables.until_published(&others).await;
}

#[tokio::test(start_paused = true)]
async fn suspects_that_another_host_has_published_are_forgotten() {
    let tables = Tables::new();
    let host = tables.start();
    pass(seconds(1)).await;
    host.crash().await;
    tables.world.bus.answer(|_| Answer::never());
    let row = tables.database.insert("a", "x");
    let host = tables.start();
    eventually("the row is out", async || tables.sent(row) == 1).await;
    host.crash().await;
    tables.world.bus.tell(|_| ack());
    pass(seconds(60)).await;
    let other = tables.launch("host-b", &FakeTable::new("orders", &tables.database), |_| {});
    tables.until_published(&[row]).await;
    other.drain().await;
    let _host = tables.start();
    eventually("nobody is suspected", async || {
        let record = tables.record("host-a");
        record.unclean > 0 && record.suspects.is_empty()
    })
    .await;
}
