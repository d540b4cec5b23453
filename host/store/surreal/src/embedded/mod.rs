//! SurrealDB inside this process.

mod log;
mod transaction;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use surrealdb_cnf::ConfigMap;
use surrealdb_core::dbs::Session;
use surrealdb_core::kvs::{Datastore, QueryRequest};
use surrealdb_datastore::catalog::providers::DatabaseProvider;
use surrealdb_datastore::catalog::{DatabaseId, NamespaceId};
use surrealdb_iam::{Level, Role};
use surrealdb_kvs::TransactionType;

use crate::{Bindings, Engine, Fault, Principal, Transaction, Value, value};
use log::Log;
use tokio::sync::{OwnedRwLockReadGuard, RwLock};
use transaction::EmbeddedTransaction;

/// How long a reopening waits for transactions to end before it lets others begin and tries again: a transaction may wait for one
/// that begins after it.
const REOPEN_WAIT: Duration = Duration::from_secs(1);

/// How to open.
#[derive(Clone, Debug)]
pub struct EmbeddedOptions {
    /// `mem://`, or `surrealkv://DIR?sync=...`.
    pub url: String,
    /// Namespace; made when it isn't there.
    pub namespace: String,
    /// Database; made when it isn't there.
    pub database: String,
    /// Size of the write buffer, in bytes. One transaction may not be larger.
    pub memtable_bytes: u64,
    /// Size of the read cache, in bytes.
    pub block_cache_bytes: u64,
    /// Longest run of one statement.
    pub query_timeout: Duration,
    /// Further settings of the engine, by its own names.
    pub settings: Vec<(String, String)>,
}

/// An embedded database.
pub struct Embedded {
    core: Arc<Core>,
}

/// What its transactions share.
pub(crate) struct Core {
    options: EmbeddedOptions,
    /// The log of a database on disk.
    log: Option<Log>,
    /// Every transaction holds it for reading from its beginning to its end; none = it could not be opened again.
    open: Arc<RwLock<Option<Opened>>>,
}

/// The database as opened last.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) datastore: Arc<Datastore>,
    pub(crate) home: Home,
}

/// Keeps the database open while a transaction lasts.
pub(crate) type Held = OwnedRwLockReadGuard<Option<Opened>, Opened>;

/// What a transaction needs to know of the database it works in.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) namespace: NamespaceId,
    pub(crate) database: DatabaseId,
    pub(crate) host: Arc<Session>,
    pub(crate) caller: Arc<Session>,
}

impl Home {
    pub(crate) fn session(&self, principal: Principal) -> &Session {
        match principal {
            Principal::Host => &self.host,
            Principal::Caller => &self.caller,
        }
    }
}

impl Embedded {
    /// Opens the database, and makes namespace and database when they aren't there.
    ///
    /// A boxed future: whoever awaits it doesn't compile SurrealDB into itself.
    pub fn open(options: EmbeddedOptions) -> Pin<Box<dyn Future<Output = Result<Self, Fault>> + Send>> {
        Box::pin(Self::open_now(options))
    }

    async fn open_now(options: EmbeddedOptions) -> Result<Self, Fault> {
        let log = Log::of_url(&options.url);
        let backlog = log.as_ref().map_or(0, Log::bytes);
        if backlog > options.memtable_bytes / 2 {
            // SurrealKV (0.21.4) counts a log segment as done when the first of the buffers that it fills at a start is in a
            // table, and loses the rest with the next crash. So what a crash left is read into one buffer that holds all of
            // it, and is in tables before work begins.
            let room = backlog.saturating_mul(2).saturating_add(options.memtable_bytes).min(u64::from(u32::MAX));
            let recovering = EmbeddedOptions { memtable_bytes: room, ..options.clone() };
            let recovered = open_datastore(&recovering).await?;
            recovered.datastore.shutdown().await.map_err(|error| Fault::of_storage(&error))?;
        }
        let opened = open_datastore(&options).await?;
        Ok(Self { core: Arc::new(Core { options, log, open: Arc::new(RwLock::new(Some(opened))) }) })
    }
}

impl Core {
    async fn hold(&self) -> Result<Held, Fault> {
        let guard = Arc::clone(&self.open).read_owned().await;
        OwnedRwLockReadGuard::try_map(guard, Option::as_ref).map_err(|_| {
            Fault::Unavailable(
                "the embedded database could not be opened again after its log was rotated: restart the host".into(),
            )
        })
    }

    /// Newest segment of the log; compare it before and after a commit.
    pub(crate) fn newest_segment(&self) -> Option<u64> {
        self.log.as_ref().and_then(Log::newest)
    }

    /// Makes commits durable that may lie between two segments of the log.
    ///
    /// SurrealKV (0.21.4) appends a commit to the log and then puts it into the write buffer. When the buffer is full, log and
    /// buffer are rotated between the two: the commit lies in the new buffer and in the old segment, which is deleted with the
    /// old buffer. Killed before the new buffer is in a table, an acknowledged commit would be gone; the kill -9 harness found
    /// it. So whoever commits while a segment begins closes the database, which writes all buffers into tables, and opens it
    /// again, before the commit is acknowledged. That is once for every full buffer, and takes some tens of milliseconds.
    pub(crate) async fn make_safe(&self, seen: Option<u64>) -> Result<(), Fault> {
        loop {
            let Ok(mut open) = tokio::time::timeout(REOPEN_WAIT, self.open.write()).await else { continue };
            // Another commit of the same rotation was here first.
            if self.log.as_ref().is_some_and(|log| log.is_safe_past(seen)) {
                return Ok(());
            }
            let Some(old) = open.take() else {
                return Err(Fault::Unavailable("the embedded database is closed".into()));
            };
            old.datastore.shutdown().await.map_err(|error| Fault::of_storage(&error))?;
            drop(old);
            *open = Some(open_datastore(&self.options).await?);
            if let Some(log) = &self.log {
                log.made_safe(seen);
            }
            return Ok(());
        }
    }
}

async fn open_datastore(options: &EmbeddedOptions) -> Result<Opened, Fault> {
    let mut config = ConfigMap::empty()
        .with_key_value("surrealkv_max_memtable_size", options.memtable_bytes.to_string())
        .with_key_value("surrealkv_block_cache_capacity", options.block_cache_bytes.to_string());
    for (name, value) in &options.settings {
        config = config.with_key_value(name.clone(), value.clone());
    }
    // Maintenance starts by hand, as SurrealDB's own client does it: its writes may not come before the version key.
    let built = Datastore::builder()
        .with_config(config)
        .with_query_timeout(Some(options.query_timeout))
        .with_auth(true)
        .without_maintenance_tasks()
        .build_with_path(&options.url);
    let datastore = built.await.map_err(|error| Fault::of_storage(&error))?;
    datastore.check_version().await.map_err(|error| Fault::of_storage(&error))?;
    datastore.bootstrap().await.map_err(|error| Fault::of_storage(&error))?;
    datastore.start_maintenance_tasks();

    let root = Session::owner();
    let (namespace, database) = (quoted(&options.namespace), quoted(&options.database));
    let text = format!(
        "DEFINE NAMESPACE IF NOT EXISTS {namespace}; USE NS {namespace}; DEFINE DATABASE IF NOT EXISTS {database}"
    );
    for answer in
        datastore.run(QueryRequest::new(text.as_str(), &root)).await.map_err(|error| Fault::of_query(&error))?
    {
        answer.result.map_err(|error| Fault::of_query(&error))?;
    }
    let reader = datastore.transaction(TransactionType::Read).await.map_err(|error| Fault::of_storage(&error))?;
    let found = reader.expect_db_by_name(&options.namespace, &options.database).await;
    reader.cancel().await.map_err(|error| Fault::of_storage(&error))?;
    let found = found.map_err(|error| Fault::of_storage(&error))?;
    let home = Home {
        namespace: found.namespace_id,
        database: found.database_id,
        host: Arc::new(Session::owner().with_ns(&options.namespace).with_db(&options.database)),
        caller: Arc::new(Session::for_level(
            Level::Database(options.namespace.clone(), options.database.clone()),
            Role::Editor,
        )),
    };
    Ok(Opened { datastore, home })
}

/// A name between backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}

#[async_trait]
impl Engine for Embedded {
    async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, Fault> {
        let kind = if write { TransactionType::Write } else { TransactionType::Read };
        let held = self.core.hold().await?;
        let inner = held.datastore.transaction(kind).await.map_err(|error| Fault::of_storage(&error))?;
        Ok(Box::new(EmbeddedTransaction::new(Arc::clone(&self.core), held, inner)))
    }

    async fn run(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
        let before = self.core.newest_segment();
        let held = self.core.hold().await?;
        let request = QueryRequest::new(text, &held.home.host).with_variables(Some(value::variables(bindings)?));
        let answers = held.datastore.run(request).await.map_err(|error| Fault::of_query(&error))?;
        // In a BEGIN ... COMMIT text the first error may only say that its statement didn't run: the telling one comes later.
        let mut values = Vec::with_capacity(answers.len());
        let mut fault: Option<Fault> = None;
        for answer in answers {
            match answer.result {
                Ok(value) => values.push(Value::from(value)),
                Err(error) => {
                    let dull = matches!(error.query_details(), Some(surrealdb::types::QueryError::NotExecuted));
                    if fault.is_none() || !dull {
                        fault = Some(Fault::of_query(&error));
                    }
                }
            }
        }
        drop(held);
        if self.core.newest_segment() != before {
            self.core.make_safe(before).await?;
        }
        fault.map_or(Ok(values), Err)
    }

    async fn close(&self) -> Result<(), Fault> {
        match self.core.open.write().await.take() {
            Some(opened) => opened.datastore.shutdown().await.map_err(|error| Fault::of_storage(&error)),
            None => Ok(()),
        }
    }
}
