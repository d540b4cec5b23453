//! Opening a database, and what has to be true of its log before.

use std::sync::Arc;
use std::time::Duration;

use surrealdb_cnf::ConfigMap;
use surrealdb_core::dbs::Session;
use surrealdb_core::kvs::{Datastore, QueryRequest};
use surrealdb_datastore::catalog::providers::DatabaseProvider;
use surrealdb_iam::{Level, Role};
use surrealdb_kvs::TransactionType;
use surrealdb_kvs::key::RawRange;
use tokio::time::timeout;

use super::log::Log;
use super::{EmbeddedOptions, Home, Opened};
use crate::Fault;

/// Reading and writing what little there is to write at a start takes milliseconds.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// Opens it, after a log that a crash left long is in tables.
///
/// SurrealKV (0.21.4) counts a log segment as done when the first of the buffers that it fills at a start is in a table, and
/// loses the rest with the next crash. So what a crash left is read into one buffer that holds all of it, and is in tables
/// before work begins.
pub(super) async fn open_recovered(options: &EmbeddedOptions, log: Option<&Log>) -> Result<Opened, Fault> {
    let long = options.memtable_bytes / 2;
    let backlog = || log.map_or(0, Log::bytes);
    if backlog() > long {
        let room = backlog().saturating_mul(2).saturating_add(options.memtable_bytes).min(u64::from(u32::MAX));
        let recovering = EmbeddedOptions { memtable_bytes: room, ..options.clone() };
        close(open(&recovering).await?, log).await?;
        let left = backlog();
        if left > long {
            return Err(Fault::DiskFull(format!(
                "{left} bytes of log could not be written into tables; is there room for twice as much?"
            )));
        }
    }
    open(options).await
}

/// Closes it: all buffers are written into tables, if they can be. Returns when its directory is free again.
pub(super) async fn close(opened: Opened, log: Option<&Log>) -> Result<(), Fault> {
    let closed = opened.datastore.shutdown().await;
    drop(opened);
    // What could not be written is still in the log.
    if let Err(error) = closed {
        tracing::warn!(error = format!("{error:#}"), "the embedded database could not be closed in good order");
    }
    match log {
        Some(log) => log.released().await,
        None => Ok(()),
    }
}

/// Values lie in tables, not in a log of their own: SurrealKV (0.21.4) removes such a log's file only when nothing in it is
/// alive, and the schema's definitions in the first live for ever, so none would ever be removed. A directory that has
/// one from an earlier build keeps it, because its values can't be read without.
fn has_value_log(options: &EmbeddedOptions) -> bool {
    let folder = options.log.as_ref().map(|log| log.directory().join("vlog"));
    folder.and_then(|folder| std::fs::read_dir(folder).ok()).is_some_and(|mut files| files.next().is_some())
}

async fn open(options: &EmbeddedOptions) -> Result<Opened, Fault> {
    let config = ConfigMap::empty()
        .with_key_value("surrealkv_enable_vlog", has_value_log(options).to_string())
        .with_key_value("surrealkv_max_memtable_size", options.memtable_bytes.to_string())
        .with_key_value("surrealkv_block_cache_capacity", options.block_cache_bytes.to_string());
    // Maintenance starts by hand, as SurrealDB's own client does it: its writes may not come before the version key.
    let built = Datastore::builder()
        .with_config(config)
        .with_query_timeout(Some(options.query_timeout))
        .with_auth(true)
        .without_maintenance_tasks()
        .build_with_path(&options.url);
    let datastore = built.await.map_err(|error| Fault::of_storage(&error))?;
    let started = timeout(START_TIME_MAX, start(&datastore, options)).await.unwrap_or_else(|_| {
        let within = START_TIME_MAX.as_secs();
        Err(Fault::Unavailable(format!("the database was opened and then didn't answer within {within} s")))
    });
    Ok(Opened { home: started?, datastore })
}

/// Makes it ready for work.
async fn start(datastore: &Arc<Datastore>, options: &EmbeddedOptions) -> Result<Home, Fault> {
    // What can't be read is found here and said: SurrealDB would try for minutes to write to it.
    let reader = datastore.transaction(TransactionType::Read).await.map_err(|error| Fault::of_storage(&error))?;
    let first = reader.scan_raw(RawRange::of_bytes(&[0], &[u8::MAX]), 1, 0, None).await;
    reader.cancel().await.map_err(|error| Fault::of_storage(&error))?;
    first.map_err(|error| Fault::of_storage(&error))?;
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
    Ok(Home {
        namespace: found.namespace_id,
        database: found.database_id,
        host: Arc::new(Session::owner().with_ns(&options.namespace).with_db(&options.database)),
        caller: Arc::new(Session::for_level(
            Level::Database(options.namespace.clone(), options.database.clone()),
            Role::Editor,
        )),
    })
}

/// A name between backticks.
fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"))
}
