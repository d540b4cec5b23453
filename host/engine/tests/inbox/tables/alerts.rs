//! What readiness says of tables: marks that are refused, rows that stand failed.

use std::sync::Arc;

use waybill_api::status::{Check, CheckStatus};
use waybill_core::port::table::Table as _;
use waybill_engine::DirectConfig;
use waybill_testkit::fake_handler::Reply;
use waybill_testkit::fake_table::FakeTable;
use waybill_testkit::fake_transport::{ack, permanent};

use super::Tables;
use crate::support::*;

impl Tables {
    fn start_with_alert(&self, alert_at: u64) -> (Host, Arc<FakeTable>) {
        let table = FakeTable::new("orders", &self.database);
        let direct = DirectConfig {
            store: Some(self.world.memory.clone()),
            host: "host-a".to_owned(),
            tables: vec![Arc::new(self.config(&table))],
        };
        let inbound = self.world.inbound(Vec::new(), Vec::new());
        let host =
            self.world.launch("host-a", inbound, |config| (config.direct, config.dead_alert_at) = (direct, alert_at));
        (host, table)
    }
}

async fn check(host: &Host, name: &str) -> Option<Check> {
    host.outbox.ready().await.into_iter().find(|check| check.name == name)
}

#[tokio::test(start_paused = true)]
async fn rows_that_stand_failed_count_for_the_alert_of_dead_letters() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| permanent("TEST.NEVER"));
    let (host, _table) = tables.start_with_alert(2);
    let first = tables.database.insert("a", "x");
    tables.until_failed(first).await;
    // Rows are counted every ten seconds.
    pass(seconds(11)).await;
    let told = check(&host, "dead letters").await.unwrap();
    assert_eq!(told.status, CheckStatus::Ok, "{}", told.detail);
    let second = tables.database.insert("b", "y");
    tables.until_failed(second).await;
    pass(seconds(11)).await;
    let told = check(&host, "dead letters").await.unwrap();
    assert_eq!(told.status, CheckStatus::Warn);
    assert!(told.detail.contains("2 failed rows of tables"), "{}", told.detail);
}

#[tokio::test(start_paused = true)]
async fn an_alert_stands_while_the_next_count_is_under_way() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| permanent("TEST.NEVER"));
    let (host, table) = tables.start_with_alert(1);
    let row = tables.database.insert("a", "x");
    tables.until_failed(row).await;
    pass(seconds(11)).await;
    assert_eq!(check(&host, "dead letters").await.unwrap().status, CheckStatus::Warn);
    // Longer than readiness waits for it: it is asked once while the count is begun, and once more while it is under way.
    table.set_count_time(seconds(15));
    pass(seconds(11)).await;
    for _ in 0..2 {
        let told = check(&host, "dead letters").await.unwrap();
        assert_eq!(told.status, CheckStatus::Warn, "{}", told.detail);
    }
    assert_eq!(table.replay(vec![row.to_string()], seconds(1)).await.unwrap(), [true]);
    tables.world.bus.tell(|_| ack());
    tables.until_published(&[row]).await;
    pass(seconds(30)).await;
    // This one begins another count, and the next one finds what it counted.
    let _old = check(&host, "dead letters").await;
    pass(seconds(16)).await;
    let told = check(&host, "dead letters").await.unwrap();
    assert_eq!(told.status, CheckStatus::Ok, "{}", told.detail);
}

#[tokio::test(start_paused = true)]
async fn an_alert_on_rows_that_nobody_can_count_any_more_ends() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| permanent("TEST.NEVER"));
    let (host, table) = tables.start_with_alert(1);
    let row = tables.database.insert("a", "x");
    tables.until_failed(row).await;
    pass(seconds(11)).await;
    assert_eq!(check(&host, "dead letters").await.unwrap().status, CheckStatus::Warn);
    table.set_count_time(seconds(3_600));
    pass(seconds(40)).await;
    assert_eq!(check(&host, "dead letters").await.unwrap().status, CheckStatus::Warn, "for a while it stands");
    pass(seconds(30)).await;
    assert_eq!(check(&host, "dead letters").await.unwrap().status, CheckStatus::Ok);
}

#[tokio::test(start_paused = true)]
async fn dead_letters_of_received_messages_count_for_it_too() {
    let world = World::new();
    let inbound = world.inbound(vec![world.source()], vec![world.consumer()]);
    let host = world.launch("host-a", inbound, |config| config.dead_alert_at = 1);
    host.until_written().await;
    assert_eq!(check(&host, "dead letters").await.unwrap().status, CheckStatus::Ok);
    world.http.answer(|_| Reply::status(422));
    world.shop.send("m-1", "orders.paid", "1");
    world.until_dead(1).await;
    pass(seconds(30)).await;
    let told = check(&host, "dead letters").await.unwrap();
    assert_eq!(told.status, CheckStatus::Warn);
    assert!(told.detail.contains("1 received messages"), "{}", told.detail);
}

#[tokio::test(start_paused = true)]
async fn a_table_that_refuses_marks_is_named_until_it_takes_them() {
    let tables = Tables::new();
    tables.world.bus.tell(|_| ack());
    let refused = tables.database.insert("a", "refused");
    tables.database.refuse_marks(refused, true);
    let host = tables.start();
    eventually("readiness names the table", async || check(&host, "source orders").await.is_some()).await;
    let told = check(&host, "source orders").await.unwrap();
    assert_eq!(told.status, CheckStatus::Warn);
    assert!(told.detail.contains("refuses the marks"), "{}", told.detail);
    tables.database.refuse_marks(refused, false);
    tables.until_published(&[refused]).await;
    eventually("nothing is wrong with it", async || check(&host, "source orders").await.is_none()).await;
}
