//! Tables that are replaced, come and go while a host runs.

use std::sync::Arc;

use waybill_core::code::Code;
use waybill_core::ids::SourceName;
use waybill_engine::{DirectConfig, EngineConfig, InboundHomes, TableConfig};
use waybill_testkit::fake_source::FakeSource;
use waybill_testkit::fake_table::FakeTable;
use waybill_testkit::fake_transport::{Answer, Gate, ack};

use super::Tables;
use crate::support::*;

impl Tables {
    /// The settings of a host that publishes these tables.
    fn publishing(&self, tables: &[&Arc<TableConfig>]) -> EngineConfig {
        let inbound = self.world.inbound(Vec::new(), Vec::new());
        let direct =
            DirectConfig { tables: tables.iter().map(|table| Arc::clone(table)).collect(), ..DirectConfig::default() };
        EngineConfig { direct, ..self.world.config("host-a", inbound) }
    }
}

#[tokio::test(start_paused = true)]
async fn a_table_that_is_replaced_under_load_sends_each_row_once_and_in_order() {
    let tables = Tables::new();
    let first = FakeTable::new("orders", &tables.database);
    let host = tables.launch("host-a", &first, |table| table.lanes = 2);
    let mut rows = Vec::new();
    let mut way = first;
    for round in 0..4 {
        rows.extend((0..40).map(|n| tables.database.insert(["a", "b", "c"][n % 3], &(round * 40 + n).to_string())));
        pass(millis(3)).await;
        let next = FakeTable::new("orders", &tables.database);
        let config = Arc::new(TableConfig { lanes: 2, batch: 7 + round, ..tables.config(&next) });
        host.engine.reconfigure(tables.publishing(&[&config])).await;
        eventually("the one before is closed", async || way.is_closed()).await;
        way = next;
    }
    tables.until_published(&rows).await;
    let log = tables.world.bus.log();
    assert_eq!(log.sent.len(), rows.len(), "none was sent twice");
    for key in ["a", "b", "c"] {
        let sent: Vec<u64> = log.of_key(key).iter().map(|text| text.parse().unwrap()).collect();
        assert!(sent.is_sorted(), "{key}: {sent:?}");
    }
    host.drain().await;
    assert_eq!((tables.record("host-a").unclean, tables.database.open()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_table_that_stays_as_it_is_goes_on_while_others_come_and_go() {
    let tables = Tables::new();
    let way = FakeTable::new("orders", &tables.database);
    let host = tables.launch("host-a", &way, |_| {});
    let first = tables.database.insert("a", "1");
    tables.until_published(&[first]).await;

    host.engine.reconfigure(tables.publishing(&[])).await;
    eventually("it is closed", async || way.is_closed()).await;
    let waits = tables.database.insert("a", "2");
    pass(seconds(60)).await;
    assert_eq!((tables.sent(waits), host.inbound.sources().await.len()), (0, 0));

    let again = FakeTable::new("orders", &tables.database);
    let config = Arc::new(tables.config(&again));
    host.engine.reconfigure(tables.publishing(&[&config])).await;
    tables.until_published(&[first, waits]).await;

    let other = FakeTable::new("stock", &waybill_testkit::fake_table::Database::new());
    let beside = Arc::new(TableConfig { source: SourceName::new("stock").unwrap(), ..tables.config(&other) });
    host.engine.reconfigure(tables.publishing(&[&config, &beside])).await;
    let last = tables.database.insert("a", "3");
    tables.until_published(&[last]).await;
    assert!(!again.is_closed());
    host.drain().await;
    assert!(again.is_closed() && other.is_closed());
}

#[tokio::test(start_paused = true)]
async fn a_table_that_comes_back_waits_for_what_it_was_before() {
    let tables = Tables::new();
    let gate = Gate::default();
    let shut = gate.clone();
    tables.world.bus.answer(move |batch| Answer::each(batch, |_| ack()).behind(&shut));
    let row = tables.database.insert("a", "1");
    let host = tables.start();
    eventually("the row is out", async || tables.sent(row) == 1).await;
    host.engine.reconfigure(tables.publishing(&[])).await;
    let config = || Arc::new(tables.config(&FakeTable::new("orders", &tables.database)));
    host.engine.reconfigure(tables.publishing(&[&config()])).await;
    pass(millis(500)).await;
    assert_eq!(tables.record("host-a").unclean, 0, "it isn't taken for one that died");
    let pulled = tables.world.source_on("orders", &FakeSource::new("orders"));
    let pulled = tables.world.inbound(vec![pulled], Vec::new());
    host.engine.reconfigure(tables.publishing(&[])).await;
    let pulled = InboundHomes::of(&pulled, &DirectConfig::default());
    let refused = host.engine.refusal(&pulled).unwrap();
    assert!(refused.passes, "its row isn't marked yet");
    host.engine.reconfigure(tables.publishing(&[&config()])).await;
    gate.open();
    tables.until_published(&[row]).await;
    assert_eq!(tables.sent(row), 1);
    host.drain().await;
    assert_eq!((tables.record("host-a").unclean, tables.record("host-a").open), (0, false));
}

#[tokio::test(start_paused = true)]
async fn a_table_that_operators_paused_stays_paused_under_other_settings() {
    let tables = Tables::new();
    let host = tables.start();
    host.inbound.pause_source("orders", "", "ann").await.unwrap();
    let next = FakeTable::new("orders", &tables.database);
    let config = Arc::new(TableConfig { batch: 3, ..tables.config(&next) });
    host.engine.reconfigure(tables.publishing(&[&config])).await;
    let row = tables.database.insert("a", "1");
    pass(seconds(60)).await;
    assert_eq!(tables.sent(row), 0);
    host.inbound.resume_source("orders", "", "ann").await.unwrap();
    tables.until_published(&[row]).await;
}

#[tokio::test(start_paused = true)]
async fn a_source_is_not_published_another_way_while_a_host_runs() {
    let tables = Tables::new();
    let host = tables.start();
    let direct = |tables: Vec<Arc<TableConfig>>| DirectConfig { tables, ..DirectConfig::default() };
    let source = tables.world.source_on("orders", &FakeSource::new("orders"));
    let stored = tables.world.inbound(vec![source], Vec::new());
    let refused = host.engine.refusal(&InboundHomes::of(&stored, &direct(Vec::new()))).unwrap();
    assert_eq!((refused.fault.code.as_str(), refused.passes), (Code::CONFIG_RELOAD_REFUSED.as_str(), false));

    host.engine.reconfigure(tables.publishing(&[])).await;
    eventually("nothing of it is published any more", async || {
        host.engine.refusal(&InboundHomes::of(&stored, &direct(Vec::new()))).is_none()
    })
    .await;
    let config = EngineConfig { direct: direct(Vec::new()), ..tables.world.config("host-a", stored.clone()) };
    host.engine.reconfigure(config).await;
    let table = Arc::new(tables.config(&FakeTable::new("orders", &tables.database)));
    assert!(
        host.engine.refusal(&InboundHomes::of(&stored, &direct(vec![table]))).is_some_and(|refused| !refused.passes)
    );
}

#[tokio::test(start_paused = true)]
async fn a_pulled_source_that_was_taken_out_is_no_table_before_it_has_closed() {
    let tables = Tables::new();
    let broker = FakeSource::new("orders");
    let pulled = tables.world.inbound(vec![tables.world.source_on("orders", &broker)], Vec::new());
    let host = tables.world.start_with(pulled).await;
    eventually("it is open", async || broker.opened().len() == 1).await;
    broker.set_close_time(seconds(3));
    host.engine.reconfigure(tables.publishing(&[])).await;
    let table = Arc::new(tables.config(&FakeTable::new("orders", &tables.database)));
    let direct = DirectConfig { tables: vec![table], ..DirectConfig::default() };
    let as_table = InboundHomes::of(&tables.world.inbound(Vec::new(), Vec::new()), &direct);
    for _ in 0..2 {
        let refused = host.engine.refusal(&as_table).unwrap();
        assert_eq!((refused.fault.code.as_str(), refused.passes), (Code::CONFIG_RELOAD_REFUSED.as_str(), true));
        assert_eq!(broker.closed(), 0);
        pass(seconds(1)).await;
    }
    eventually("it may be a table", async || host.engine.refusal(&as_table).is_none()).await;
    assert_eq!(broker.closed(), 1);
}
