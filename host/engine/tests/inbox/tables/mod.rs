//! Tables that are published directly (`docs/design/direct.md`).
//!
//! | file | holds |
//! |---|---|
//! | `flow` | order, fates, what is paused |
//! | `trouble` | lost transactions, refused marks, locks of others, other hosts |
//! | `crashes` | hosts that die while they send |
//! | `reload` | tables that are replaced, come and go while a host runs |
//! | `alerts` | what readiness says |
//! | `traces` | spans of rows |

mod alerts;
mod crashes;
mod flow;
mod reload;
mod traces;
mod trouble;

use std::sync::Arc;

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::SourceName;
use waybill_core::inbox::direct::DirectRecord;
use waybill_engine::{DirectConfig, EngineConfig, TableConfig};
use waybill_testkit::fake_table::{Database, FakeTable, Status};

use crate::support::*;

/// A database, and hosts that publish its table.
struct Tables {
    world: World,
    database: Arc<Database>,
}

impl Tables {
    fn new() -> Self {
        Self { world: World::new(), database: Database::new() }
    }

    /// The table as source `orders`, with one lane, and retries a second apart.
    fn config(&self, table: &Arc<FakeTable>) -> TableConfig {
        let source = SourceName::new("orders").unwrap();
        let retry = RetryPolicy { max_attempts: 3, base_ms: 1_000, factor: 1.0, jitter: 0.0, ..RetryPolicy::default() };
        TableConfig { lanes: 1, retry, ..TableConfig::new(source, consumer("publish"), table.clone()) }
    }

    fn start(&self) -> Host {
        self.start_with(|_| {})
    }

    fn start_with(&self, change: impl FnOnce(&mut TableConfig)) -> Host {
        self.launch("host-a", &FakeTable::new("orders", &self.database), change)
    }

    fn launch(&self, name: &str, table: &Arc<FakeTable>, change: impl FnOnce(&mut TableConfig)) -> Host {
        self.launch_with(name, table, change, |_| {})
    }

    fn launch_with(
        &self,
        name: &str,
        table: &Arc<FakeTable>,
        change: impl FnOnce(&mut TableConfig),
        change_engine: impl FnOnce(&mut EngineConfig),
    ) -> Host {
        let mut config = self.config(table);
        change(&mut config);
        let direct = DirectConfig {
            store: Some(self.world.memory.clone()),
            host: name.to_owned(),
            tables: vec![Arc::new(config)],
        };
        let inbound = self.world.inbound(Vec::new(), Vec::new());
        self.world.launch(name, inbound, |config| {
            config.direct = direct;
            change_engine(config);
        })
    }

    async fn until_published(&self, rows: &[u64]) {
        eventually(&format!("rows {rows:?} are published"), async || {
            let published = self.database.published();
            rows.iter().all(|row| published.contains(row))
        })
        .await;
    }

    async fn until_failed(&self, row: u64) {
        let what = format!("row {row} stands failed");
        eventually(&what, async || self.database.row(row).status == Status::Failed).await;
    }

    /// What the store has of the table of a host.
    fn record(&self, host: &str) -> DirectRecord {
        let key = (host.to_owned(), SourceName::new("orders").unwrap());
        self.world.memory.read(|tables| tables.inbox.direct.get(&key).cloned().unwrap_or_default())
    }

    /// How often a row was handed to the transport.
    fn sent(&self, row: u64) -> usize {
        self.world.bus.log().sent.iter().filter(|sent| sent.id == format!("outbox-{row}")).count()
    }
}
