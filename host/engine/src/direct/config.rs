//! Tables as configured.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::{ConsumerName, SourceName, Tenant};
use waybill_core::inbox::direct as lane;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::table::Table;

/// The tables that a host publishes directly. Whoever puts others in force gives the same `Arc` for each that stays as it is; store and
/// host are as at the start.
#[derive(Clone, Default)]
pub struct DirectConfig {
    /// Where the host notes what it knows of its own last end; none = it publishes no table.
    pub store: Option<Arc<dyn DirectStore>>,
    /// Name of this host there: the same after a restart, and of no other host.
    pub host: String,
    pub tables: Vec<Arc<TableConfig>>,
}

/// A table that is published directly, with what its lanes run on.
#[derive(Clone)]
pub struct TableConfig {
    /// Source that it is in the configuration.
    pub source: SourceName,
    /// Its only consumer.
    pub consumer: ConsumerName,
    pub table: Arc<dyn Table>,
    /// Tenants of its rows; with several each row names one.
    pub tenants: Vec<Tenant>,
    /// Context of its rows; none = as the plugin tells.
    pub context: Option<String>,
    /// Transactions side by side, as far as the plugin has room for them.
    pub lanes: u16,
    /// Most rows of one transaction.
    pub batch: usize,
    /// After this time in a transaction no send begins.
    pub direct_timeout: Duration,
    /// Backoff between failures, with the number of attempts in all.
    pub retry: RetryPolicy,
    /// A lane that found nothing looks again after this time.
    pub idle_pause: Duration,
}

impl TableConfig {
    /// A table of tenant `default` with every bound at its default.
    pub fn new(source: SourceName, consumer: ConsumerName, table: Arc<dyn Table>) -> Self {
        let normal = lane::DirectConfig::default();
        Self {
            source,
            consumer,
            table,
            tenants: vec![Tenant::unnamed()],
            context: None,
            lanes: normal.lanes,
            batch: normal.batch,
            direct_timeout: normal.direct_timeout,
            retry: normal.retry,
            idle_pause: normal.idle_pause,
        }
    }
}
