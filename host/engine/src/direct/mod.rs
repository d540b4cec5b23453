//! Tables that are published directly: lanes of an application's outbox table, each with one transaction at a time in which rows are
//! locked, sent through the transports, and marked. What to claim, to send and to mark is decided by the pure
//! [`waybill_core::inbox::direct::DirectTable`]; here are its transactions, its calls and its times.
//!
//! A table belongs to no shard: each host that has it in its configuration drains it, and the rows' locks keep the order.
//!
//! | file | holds |
//! |---|---|
//! | `config` | tables as configured |
//! | `table` | one table: what its workers share, opening and closing |
//! | `worker` | one worker: claim, waves, marks |
//! | `send` | a wave through the transports |
//! | `row` | a row as a message |
//! | `record` | what is stored of a table: its names after an unclean end |
//! | `sightings` | which suspects no longer wait |
//! | `view` | counts, failed rows, and how a table does, for people |
//! | `meter` | metrics |

mod config;
mod meter;
mod record;
mod row;
mod send;
mod sightings;
mod table;
mod view;
mod worker;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::shard::Context;

use table::PublishedTable;

pub use config::{DirectConfig, TableConfig};

/// The tables that this host publishes.
pub(crate) struct PublishedTables {
    tables: Vec<Arc<PublishedTable>>,
    /// Transactions end, and no others begin.
    ending: CancellationToken,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PublishedTables {
    /// Starts a task for each table.
    pub fn start(context: &Arc<Context>) -> Arc<Self> {
        let ending = CancellationToken::new();
        let config = &context.config.direct;
        let tables: Vec<Arc<PublishedTable>> = match &config.store {
            None => Vec::new(),
            Some(store) => {
                let one = |table: &Arc<TableConfig>| PublishedTable::new(context, table, store, ending.clone());
                config.tables.iter().map(one).collect()
            }
        };
        let run = |table: &Arc<PublishedTable>| {
            let table = Arc::clone(table);
            context.supervisor.run("tables", context.stop.clone(), move || table::run(Arc::clone(&table)))
        };
        let tasks = Mutex::new(tables.iter().map(run).collect());
        Arc::new(Self { tables, ending, tasks })
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<PublishedTable>> {
        self.tables.iter()
    }

    pub fn find(&self, source: &str) -> Option<&Arc<PublishedTable>> {
        self.tables.iter().find(|table| table.config.source.as_str() == source)
    }

    /// Begins no transaction, has those under way marked and committed within `timeout`, and closes the tables. True when all of it
    /// ended in good order.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.ending.cancel();
        let tasks: Vec<JoinHandle<()>> = self.tasks.lock().drain(..).collect();
        let ended = tokio::time::timeout(timeout, futures::future::join_all(tasks)).await;
        ended.is_ok() && self.tables.iter().all(|table| table.is_closed())
    }
}
