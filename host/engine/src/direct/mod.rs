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

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use waybill_core::port::direct_store::DirectStore;

use crate::shard::Context;

use table::PublishedTable;

pub use config::{DirectConfig, TableConfig};

/// The tables that this host publishes.
pub(crate) struct PublishedTables {
    context: Arc<Context>,
    /// None: it publishes none.
    store: Option<Arc<dyn DirectStore>>,
    tables: ArcSwap<Vec<Arc<PublishedTable>>>,
    /// Transactions end, and no others begin.
    ending: CancellationToken,
    /// Published no more, and not ended yet: whoever publishes such a table again waits for it.
    leaving: Mutex<Vec<Arc<PublishedTable>>>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl PublishedTables {
    /// Starts a task for each table.
    pub fn start(context: &Arc<Context>) -> Arc<Self> {
        let tables = Arc::new(Self {
            context: Arc::clone(context),
            store: context.config.direct.store.clone(),
            tables: ArcSwap::default(),
            ending: CancellationToken::new(),
            leaving: Mutex::default(),
            tasks: Mutex::default(),
        });
        tables.publish(&context.config.direct.tables);
        tables
    }

    /// Publishes these tables from now on. One whose configuration is the same goes on; another one begins when the one before it has
    /// ended, also when that was taken out a while ago: what it sent is marked, and what it noted of itself is whole.
    pub fn publish(&self, next: &[Arc<TableConfig>]) {
        let Some(store) = &self.store else { return };
        let before = self.tables.load_full();
        let mut leaving = self.leaving.lock();
        leaving.retain(|table| !table.has_ended());
        for table in before.iter().filter(|table| !next.iter().any(|config| Arc::ptr_eq(&table.config, config))) {
            tracing::info!(source = %table.config.source, "a table isn't published any more as it was");
            table.end();
            leaving.push(Arc::clone(table));
        }
        let goes_on = |config: &Arc<TableConfig>| before.iter().find(|table| Arc::ptr_eq(&table.config, config));
        let start = |config: &Arc<TableConfig>| {
            let table = PublishedTable::new(&self.context, config, store, self.ending.child_token());
            // The last one: it has waited for those before it.
            let earlier = leaving.iter().rfind(|earlier| earlier.config.source == config.source).cloned();
            let task = {
                let table = Arc::clone(&table);
                let run = move || table::run_after(earlier.clone(), Arc::clone(&table));
                self.context.supervisor.run("tables", self.context.stop.clone(), run)
            };
            self.tasks.lock().push(task);
            table
        };
        let tables = next.iter().map(|config| goes_on(config).cloned().unwrap_or_else(|| start(config))).collect();
        self.tables.store(Arc::new(tables));
        self.tasks.lock().retain(|task| !task.is_finished());
    }

    /// Those of the configuration in force.
    pub fn iter(&self) -> impl Iterator<Item = Arc<PublishedTable>> + use<> {
        self.tables.load().as_ref().clone().into_iter()
    }

    pub fn find(&self, source: &str) -> Option<Arc<PublishedTable>> {
        self.tables.load().iter().find(|table| table.is_of(source)).cloned()
    }

    /// Whether rows of this source are sent from its table, or still may be although it was taken out.
    pub fn publishes(&self, source: &str) -> bool {
        self.find(source).is_some() || self.leaving.lock().iter().any(|table| table.is_of(source) && !table.has_ended())
    }

    /// Begins no transaction, has those under way marked and committed within `timeout`, and closes the tables. True when all of it
    /// ended in good order.
    pub async fn drain(&self, timeout: Duration) -> bool {
        self.ending.cancel();
        let tasks: Vec<JoinHandle<()>> = self.tasks.lock().drain(..).collect();
        let ended = tokio::time::timeout(timeout, futures::future::join_all(tasks)).await;
        let leaving = std::mem::take(&mut *self.leaving.lock());
        ended.is_ok() && self.iter().chain(leaving).all(|table| table.is_closed())
    }
}
