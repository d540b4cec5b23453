//! SurrealKV as SurrealDB's storage, with a [`CommitGate`] before its commits.

use std::any::{Any, TypeId};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use surrealdb_cnf::ConfigMap;
use surrealdb_core::CommunityComposer;
use surrealdb_core::kvs::{TransactionBuilderFactory, TransactionBuilderParts};
use surrealdb_kvs::api::{
    BoxFut, GetMultiResult, KeysResult, ScanCursorKeys, ScanCursorVals, ScanResult, Transactable,
};
use surrealdb_kvs::timestamp::{BoxTimeStamp, BoxTimeStampImpl};
use surrealdb_kvs::{Direction, Error, Key, KeyRange, Metrics, Result, TransactionBuilder, TransactionType, Val};
use tokio_util::sync::CancellationToken;

use super::gate::{CommitGate, Size};
use super::log::Log;
use super::tasks::Tasks;

/// Opens SurrealKV, and then its gate.
pub(super) struct Gated {
    pub(super) log: Log,
    pub(super) memtable_bytes: u64,
    pub(super) syncs: bool,
    /// Where whoever opens finds the gate.
    pub(super) gate: Arc<OnceLock<Arc<CommitGate>>>,
}

impl TransactionBuilderFactory for Gated {
    type RouterState = ();

    async fn new_transaction_builder(
        &self,
        path: &str,
        canceller: CancellationToken,
        config: ConfigMap,
    ) -> anyhow::Result<TransactionBuilderParts<()>> {
        let log_bytes = self.log.bytes()?;
        let tasks = Tasks::start()?;
        let path = path.to_owned();
        let opening = async move { CommunityComposer().new_transaction_builder(&path, canceller, config).await };
        let inner = tasks.run(opening).await?.builder;
        let opened = self.log.gate(self.memtable_bytes, log_bytes, self.syncs);
        let gate = match opened {
            Ok(gate) => Arc::new(gate),
            Err(error) => {
                inner.shutdown().await?;
                return Err(error.into());
            }
        };
        let gate = Arc::clone(self.gate.get_or_init(|| gate));
        Ok(TransactionBuilderParts::without_router_state(Box::new(GatedBuilder { inner, gate, _tasks: tasks })))
    }

    fn path_valid(&self, path: &str) -> anyhow::Result<String> {
        CommunityComposer().path_valid(path)
    }
}

struct GatedBuilder {
    inner: Box<dyn TransactionBuilder>,
    gate: Arc<CommitGate>,
    /// Dropped last: `inner` ends its tasks in good order.
    _tasks: Tasks,
}

impl TransactionBuilder for GatedBuilder {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn new_transaction(&self, write: TransactionType) -> BoxFut<'_, Result<(Box<dyn Transactable>, bool)>> {
        Box::pin(async move {
            let (inner, local) = self.inner.new_transaction(write).await?;
            let gated = GatedTransaction {
                inner,
                gate: Arc::clone(&self.gate),
                entries: AtomicU64::new(0),
                bytes: AtomicU64::new(0),
            };
            Ok((Box::new(gated) as Box<dyn Transactable>, local))
        })
    }

    fn shutdown(&self) -> BoxFut<'_, Result<()>> {
        Box::pin(async move {
            self.gate.close().await;
            self.inner.shutdown().await
        })
    }

    fn register_metrics(&self) -> Option<Metrics> {
        self.inner.register_metrics()
    }

    fn collect_u64_metric(&self, metric: &str) -> Option<u64> {
        self.inner.collect_u64_metric(metric)
    }

    fn wait_until_serve_ready(&self) -> BoxFut<'_, Result<()>> {
        self.inner.wait_until_serve_ready()
    }

    fn extension(&self, id: TypeId) -> Option<Arc<dyn Any + Send + Sync>> {
        self.inner.extension(id)
    }
}

/// Counts what it writes.
struct GatedTransaction {
    inner: Box<dyn Transactable>,
    gate: Arc<CommitGate>,
    entries: AtomicU64,
    bytes: AtomicU64,
}

impl GatedTransaction {
    fn size(&self) -> Size {
        Size { entries: self.entries.load(Ordering::Relaxed), bytes: self.bytes.load(Ordering::Relaxed) }
    }

    /// Counts an entry; refuses it when the transaction has become too large, so that it doesn't grow in memory either.
    fn meter(&self, key: &Key<'_>, value: usize) -> Result<()> {
        let bytes = key.as_slice().len().saturating_add(value);
        self.entries.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(u64::try_from(bytes).unwrap_or(u64::MAX), Ordering::Relaxed);
        if self.gate.bounds().exceeded_by(self.size()) { Err(Error::TransactionTooLarge) } else { Ok(()) }
    }
}

/// Counts, then does it.
macro_rules! counted {
    ($self:ident, $key:ident, $value:expr, $write:expr) => {
        match $self.meter(&$key, $value) {
            Ok(()) => $write,
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    };
}

impl Transactable for GatedTransaction {
    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn closed(&self) -> bool {
        self.inner.closed()
    }

    fn writeable(&self) -> bool {
        self.inner.writeable()
    }

    fn cancel(&self) -> BoxFut<'_, Result<()>> {
        self.inner.cancel()
    }

    fn commit(&self) -> BoxFut<'_, Result<()>> {
        Box::pin(self.gate.pass(self.size(), self.inner.commit()))
    }

    fn exists<'a>(&'a self, key: Key<'a>, version: Option<u64>) -> BoxFut<'a, Result<bool>> {
        self.inner.exists(key, version)
    }

    fn get<'a>(&'a self, key: Key<'a>, version: Option<u64>) -> BoxFut<'a, Result<Option<Val>>> {
        self.inner.get(key, version)
    }

    fn getu<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<Option<Val>>> {
        self.inner.getu(key)
    }

    fn getm<'a>(&'a self, keys: &'a [Key<'a>], version: Option<u64>) -> BoxFut<'a, Result<GetMultiResult>> {
        self.inner.getm(keys, version)
    }

    fn shared_locked_reads(&self) -> bool {
        self.inner.shared_locked_reads()
    }

    fn set<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        counted!(self, key, val.len(), self.inner.set(key, val))
    }

    fn replace<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        counted!(self, key, val.len(), self.inner.replace(key, val))
    }

    fn put<'a>(&'a self, key: Key<'a>, val: Val) -> BoxFut<'a, Result<()>> {
        counted!(self, key, val.len(), self.inner.put(key, val))
    }

    fn putc<'a>(&'a self, key: Key<'a>, val: Val, chk: Option<Val>) -> BoxFut<'a, Result<()>> {
        counted!(self, key, val.len(), self.inner.putc(key, val, chk))
    }

    fn del<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<()>> {
        counted!(self, key, 0, self.inner.del(key))
    }

    fn delc<'a>(&'a self, key: Key<'a>, chk: Option<&'a [u8]>) -> BoxFut<'a, Result<()>> {
        counted!(self, key, 0, self.inner.delc(key, chk))
    }

    fn clr<'a>(&'a self, key: Key<'a>) -> BoxFut<'a, Result<()>> {
        counted!(self, key, 0, self.inner.clr(key))
    }

    fn clrc<'a>(&'a self, key: Key<'a>, chk: Option<&'a [u8]>) -> BoxFut<'a, Result<()>> {
        counted!(self, key, 0, self.inner.clrc(key, chk))
    }

    fn count<'a>(&'a self, rng: KeyRange<'a>, version: Option<u64>) -> BoxFut<'a, Result<usize>> {
        self.inner.count(rng, version)
    }

    fn keys<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<KeysResult>> {
        self.inner.keys(rng, limit, skip, version)
    }

    fn keysr<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<KeysResult>> {
        self.inner.keysr(rng, limit, skip, version)
    }

    fn scan<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<ScanResult>> {
        self.inner.scan(rng, limit, skip, version)
    }

    fn scanr<'a>(
        &'a self,
        rng: KeyRange<'a>,
        limit: u32,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<ScanResult>> {
        self.inner.scanr(rng, limit, skip, version)
    }

    fn open_keys_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Box<dyn ScanCursorKeys + 'a>>> {
        self.inner.open_keys_cursor(rng, dir, skip, version)
    }

    fn open_vals_cursor<'a>(
        &'a self,
        rng: KeyRange<'a>,
        dir: Direction,
        skip: u32,
        version: Option<u64>,
    ) -> BoxFut<'a, Result<Box<dyn ScanCursorVals + 'a>>> {
        self.inner.open_vals_cursor(rng, dir, skip, version)
    }

    fn new_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.new_save_point()
    }

    fn release_last_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.release_last_save_point()
    }

    fn rollback_to_save_point(&self) -> BoxFut<'_, Result<()>> {
        self.inner.rollback_to_save_point()
    }

    fn timestamp(&self) -> BoxFut<'_, Result<BoxTimeStamp>> {
        self.inner.timestamp()
    }

    fn safe_timestamp(&self) -> BoxFut<'_, Result<BoxTimeStamp>> {
        self.inner.safe_timestamp()
    }

    fn timestamp_impl(&self) -> BoxTimeStampImpl {
        self.inner.timestamp_impl()
    }

    fn compact<'a>(&'a self, range: Option<KeyRange<'a>>) -> BoxFut<'a, Result<()>> {
        self.inner.compact(range)
    }
}
