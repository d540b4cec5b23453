//! The store: opening, closing, and what it knows of itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use waybill_core::ids::ShardId;
use waybill_core::outbox::index::Index;
use waybill_core::port::store::StoreError;
use waybill_core::streams::settings::StreamsSettings;
use waybill_surreal::{
    ClosedTables, Embedded, EmbeddedOptions, Engine, LogKeeper, Object, Remote, RemoteOptions, Transaction, int, object,
};

use crate::backup::{clear_snapshots, is_unfinished, restored_mark};
use crate::config::{Durability, MEMTABLE_BYTES, OpenError, SHARDS_EMBEDDED, SHARDS_MAX, SHARDS_SHARED, StoreConfig};
use crate::fault::store_error;
use crate::fronts::{PurgeFronts, ShardFronts};
use crate::inbox::seen::{Filters, SeenMemory, SeenReads};
use crate::index::{self, Indexes};
use crate::lock::DirectoryLock;
use crate::owner::DueFronts;
use crate::owner::history::list_by_time;
use crate::owner::read::door_newest;
use crate::quarantine::adopt_earlier;
use crate::query::DepthCache;
use crate::rows::event_object as rows;
use crate::saga::begin_forgetting;
use crate::schema::{MIGRATIONS, bring_up};
use crate::shards;
use crate::tables::{DOORSTEPS, META, OWN};
use crate::target::{Target, target};
use crate::transact::{Repeats, Stamps};
use crate::wal::LogFolder;
use waybill_surreal::RecordIdKey;

/// Least write buffer: one commit of the outbox is cut at 4 MiB.
const MEMTABLE_BYTES_MIN: u64 = 8 * 1024 * 1024;

/// An open store. Clones share it; the directory is free again when the last one is gone or [`SurrealStore::close`] was called.
#[derive(Clone)]
pub struct SurrealStore {
    pub(crate) engine: Arc<dyn Engine>,
    inner: Arc<Inner>,
}

struct Inner {
    durability: Durability,
    shards: u16,
    embedded: bool,
    lock: std::sync::Mutex<Option<DirectoryLock>>,
    depths: DepthCache,
    due: DueFronts,
    stamps: Stamps,
    repeats: Repeats,
    purged: PurgeFronts,
    seen: SeenMemory,
    filters: Filters,
    seen_reads: SeenReads,
    done: ShardFronts,
    feed: ShardFronts,
    indexes: Indexes,
    /// Held by the backup that is under way.
    backing_up: Arc<tokio::sync::Mutex<()>>,
}

impl SurrealStore {
    /// Opens the store, brings its tables up to date, and publishes the limits that `fn::waybill::enqueue` and `fn::waybill::append` enforce.
    pub async fn open(config: StoreConfig) -> Result<Self, OpenError> {
        Self::open_closing(config, ClosedTables { tables: &OWN, doorsteps: &DOORSTEPS, settings: META }).await
    }

    /// Opens the store with these tables closed to callers' statements below the query language. Tests of the guard close none.
    pub(crate) async fn open_closing(config: StoreConfig, closed: ClosedTables) -> Result<Self, OpenError> {
        let bound = |setting, value: u64, min: u64, max: u64| {
            let ok = (min..=max).contains(&value);
            if ok { Ok(()) } else { Err(OpenError::Bound { setting, value, min, max }) }
        };
        bound("store.memtable_bytes", config.memtable_bytes, MEMTABLE_BYTES_MIN, u64::from(u32::MAX))?;
        let place = target(&config.url)?;
        let embedded = !matches!(place, Target::Server(_));
        bound("outbox.shards", u64::from(config.shards.unwrap_or(SHARDS_SHARED)), 1, u64::from(SHARDS_MAX))?;

        let mut restored = None;
        let (url, on_disk, durability) = match place {
            Target::Directory { dir, url, durability } => {
                let lock = DirectoryLock::take(&dir)?;
                restored = ready_folder(&dir)?;
                let lazy = durability != Durability::EveryCommit;
                let log = LogFolder::new(dir, lazy, config.memtable_bytes.max(MEMTABLE_BYTES));
                log.repair()?;
                (url, Some((Arc::new(log) as Arc<dyn LogKeeper>, lock)), durability)
            }
            Target::Memory => ("mem://".to_owned(), None, Durability::Memory),
            Target::Server(url) => (url, None, Durability::Server),
        };
        let (log, lock) = on_disk.unzip();
        let engine: Arc<dyn Engine> = if embedded {
            let options = EmbeddedOptions {
                url,
                log,
                namespace: config.namespace.clone(),
                database: config.database.clone(),
                memtable_bytes: config.memtable_bytes,
                block_cache_bytes: config.block_cache_bytes,
                query_timeout: config.query_timeout,
                closed,
            };
            Arc::new(Embedded::open(options).await.map_err(store_error)?)
        } else {
            Self::connect(&config, url).await?
        };
        let store = Self::prepared(Arc::clone(&engine), embedded, durability, &config, lock).await?;
        if let Some(mark) = restored
            && let Err(error) = store.begin_anew(&mark).await
        {
            close_refused(engine.as_ref()).await;
            return Err(error);
        }
        Ok(store)
    }

    /// The first start on a restored folder: readers' cursors may be of what was lost since the backup, so they are of another store.
    async fn begin_anew(&self, mark: &Path) -> Result<(), OpenError> {
        self.begin_incarnation().await?;
        tracing::info!("the data was restored from a backup: this is a new incarnation of it");
        fs::remove_file(mark).map_err(|error| OpenError::Directory { dir: mark.to_owned(), cause: error.to_string() })
    }

    async fn connect(config: &StoreConfig, url: String) -> Result<Arc<dyn Engine>, StoreError> {
        let options = RemoteOptions {
            url,
            namespace: config.namespace.clone(),
            database: config.database.clone(),
            user: config.user.clone(),
            database_user: config.database_user,
            query_timeout: config.query_timeout,
        };
        Ok(Arc::new(Remote::open(options).await.map_err(store_error)?))
    }

    /// A store whose tables are up to date, with as many shards as it was made with.
    async fn prepared(
        engine: Arc<dyn Engine>,
        embedded: bool,
        durability: Durability,
        config: &StoreConfig,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, OpenError> {
        if let Err(error) = bring_up(engine.as_ref(), MIGRATIONS, embedded).await {
            close_refused(engine.as_ref()).await;
            return Err(error);
        }
        adopt_earlier(engine.as_ref()).await?;
        let otherwise = if embedded { SHARDS_EMBEDDED } else { SHARDS_SHARED };
        let shards = match shards::keep(engine.as_ref(), config.shards, otherwise).await {
            Ok(shards) => shards,
            Err(error) => {
                close_refused(engine.as_ref()).await;
                return Err(error);
            }
        };
        let store = Self::over(engine, embedded, durability, shards, lock, config.dedup_memory);
        list_by_time(&store).await?;
        begin_forgetting(&store).await?;
        let indexed = index::fields(store.begin(false).await?.as_ref()).await?;
        store.indexes().found(indexed);
        store.set_indexes(config.indexes.clone());
        store.publish_limits(config.payload_bytes_max).await?;
        store.publish_event_limits(&config.streams).await?;
        if embedded {
            store.stamp_after_what_is_there().await?;
        }
        Ok(store)
    }

    /// A store on an engine that is open.
    pub(crate) fn over(
        engine: Arc<dyn Engine>,
        embedded: bool,
        durability: Durability,
        shards: u16,
        lock: Option<DirectoryLock>,
        dedup_memory: usize,
    ) -> Self {
        let inner = Inner {
            durability,
            shards,
            embedded,
            lock: std::sync::Mutex::new(lock),
            depths: DepthCache::default(),
            due: DueFronts::default(),
            stamps: Stamps::default(),
            repeats: Repeats::default(),
            purged: PurgeFronts::default(),
            seen: SeenMemory::default(),
            filters: Filters::new(dedup_memory),
            seen_reads: SeenReads::default(),
            done: ShardFronts::default(),
            feed: ShardFronts::default(),
            indexes: Indexes::default(),
            backing_up: Arc::default(),
        };
        Self { engine, inner: Arc::new(inner) }
    }

    /// What an earlier process left on the doorsteps goes before what this one puts there, also when the clock was set back
    /// in between.
    async fn stamp_after_what_is_there(&self) -> Result<(), StoreError> {
        for shard in 0..self.inner.shards {
            for doorstep in DOORSTEPS {
                let transaction = self.begin(false).await?;
                let newest = door_newest(transaction.as_ref(), doorstep, ShardId(shard), 0).await?;
                self.inner.stamps.begin_after(newest.unwrap_or(0));
            }
        }
        Ok(())
    }

    /// When a commit is safe.
    pub fn durability(&self) -> &Durability {
        &self.inner.durability
    }

    /// Number of shards that the outbox of this store is spread over.
    pub fn shards(&self) -> u16 {
        self.inner.shards
    }

    /// Whether this process alone has the store: then no other host can own a shard of it.
    pub fn is_embedded(&self) -> bool {
        self.inner.embedded
    }

    /// Closes the database after what is running and frees its directory.
    pub async fn close(&self) -> Result<(), StoreError> {
        let closed = self.engine.close().await.map_err(store_error);
        if let Ok(mut lock) = self.inner.lock.lock() {
            *lock = None;
        }
        closed
    }

    /// Publishes what `fn::waybill::enqueue` has to know: call it again after a change of `outbox.max_payload_bytes`.
    pub async fn publish_limits(&self, payload_bytes_max: usize) -> Result<(), StoreError> {
        let limits = object([
            ("shards", int(i64::from(self.inner.shards))),
            ("payload_bytes_max", int(i64::try_from(payload_bytes_max).unwrap_or(i64::MAX))),
        ]);
        self.publish("limits", limits).await
    }

    /// Publishes what `fn::waybill::append` has to know: call it again with what is in force after a change of `events.max_payload_bytes`.
    pub async fn publish_event_limits(&self, settings: &StreamsSettings) -> Result<(), StoreError> {
        self.publish("event_limits", rows::of_event_limits(settings)).await
    }

    /// Has messages indexed from the next commit of their shard on: call it again after a change of `[[index]]`.
    pub fn set_indexes(&self, indexes: Vec<Index>) {
        self.inner.indexes.set(indexes);
    }

    async fn publish(&self, name: &'static str, limits: Object) -> Result<(), StoreError> {
        let transaction = self.begin(true).await?;
        transaction.put(META, RecordIdKey::String(name.into()), limits).await.map_err(store_error)?;
        transaction.commit().await.map_err(store_error)
    }

    pub(crate) fn backing_up(&self) -> &Arc<tokio::sync::Mutex<()>> {
        &self.inner.backing_up
    }

    pub(crate) fn indexes(&self) -> &Indexes {
        &self.inner.indexes
    }

    pub(crate) fn depth_cache(&self) -> &DepthCache {
        &self.inner.depths
    }

    pub(crate) fn stamps(&self) -> &Stamps {
        &self.inner.stamps
    }

    pub(crate) fn repeats(&self) -> &Repeats {
        &self.inner.repeats
    }

    pub(crate) fn due_fronts(&self) -> &DueFronts {
        &self.inner.due
    }

    pub(crate) fn purge_fronts(&self) -> &PurgeFronts {
        &self.inner.purged
    }

    pub(crate) fn seen_memory(&self) -> &SeenMemory {
        &self.inner.seen
    }

    pub(crate) fn seen_filters(&self) -> &Filters {
        &self.inner.filters
    }

    pub(crate) fn seen_reads(&self) -> &SeenReads {
        &self.inner.seen_reads
    }

    pub(crate) fn inbox_fronts(&self) -> &ShardFronts {
        &self.inner.done
    }

    pub(crate) fn feed_fronts(&self) -> &ShardFronts {
        &self.inner.feed
    }

    pub(crate) async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, StoreError> {
        self.engine.begin(write).await.map_err(store_error)
    }

    /// Begins a transaction whose reads are all of one snapshot: at a server one that only reads has one for each of them.
    pub(crate) async fn begin_snapshot(&self) -> Result<Box<dyn Transaction>, StoreError> {
        self.begin(!self.is_embedded()).await
    }

    /// Ends one that was only read.
    pub(crate) async fn end_snapshot(&self, transaction: Box<dyn Transaction>) {
        if !self.is_embedded() {
            undo(transaction).await;
        }
    }
}

impl std::fmt::Debug for SurrealStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SurrealStore")
            .field("durability", &self.inner.durability)
            .field("shards", &self.inner.shards)
            .finish()
    }
}

/// Looks whether a data folder is whole, and removes what a backup left that was cut off. Answers the mark of one that was restored.
fn ready_folder(dir: &Path) -> Result<Option<PathBuf>, OpenError> {
    let refuse = |cause: String| OpenError::Directory { dir: dir.to_owned(), cause };
    if is_unfinished(dir).map_err(|error| refuse(error.to_string()))? {
        return Err(refuse("restoring a backup into it was cut off: run `waybill restore` with it again".to_owned()));
    }
    clear_snapshots(dir).and_then(|()| restored_mark(dir)).map_err(|error| refuse(error.to_string()))
}

/// Nobody else will: the directory has to be free for the next start.
async fn close_refused(engine: &dyn Engine) {
    if let Err(fault) = engine.close().await {
        tracing::debug!(%fault, "a refused store could not be closed");
    }
}

/// Ends a transaction: commits it if its work succeeded, else undoes it and says why.
pub(crate) async fn finish<T>(
    transaction: Box<dyn Transaction>,
    worked: Result<T, StoreError>,
) -> Result<T, StoreError> {
    match worked {
        Ok(value) => transaction.commit().await.map(|()| value).map_err(store_error),
        Err(error) => {
            undo(transaction).await;
            Err(error)
        }
    }
}

/// Undoes a transaction that is of no use. That it can't be is of no matter: it is undone at the latest when it is dropped.
pub(crate) async fn undo(transaction: Box<dyn Transaction>) {
    if let Err(fault) = transaction.cancel().await {
        tracing::debug!(%fault, "a transaction could not be undone by hand");
    }
}
