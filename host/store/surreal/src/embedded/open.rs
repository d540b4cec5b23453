//! Opening a database, and what has to be true of its log before.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use surrealdb_cnf::ConfigMap;
use surrealdb_core::CommunityComposer;
use surrealdb_core::dbs::Session;
use surrealdb_core::kvs::{Datastore, QueryRequest};
use surrealdb_datastore::catalog::providers::DatabaseProvider;
use surrealdb_iam::{Level, Role};
use surrealdb_kvs::TransactionType;
use surrealdb_kvs::key::RawRange;
use surrealdb_rpc::capabilities::{Capabilities, FuncTarget, Targets};
use tokio::time::timeout;

use super::backend::Gated;
use super::gate::Bounds;
use super::log::Log;
use super::wall::{Map, Walled};
use super::{EmbeddedOptions, Home, Opened};
use crate::Fault;

/// Reading and writing what little there is to write at a start takes milliseconds.
const START_TIME_MAX: Duration = Duration::from_secs(30);

/// Opens it, after a log that a crash left long is in tables.
///
/// SurrealKV (0.21.4) counts a log segment as done when the first of the buffers that it fills at a start is in a table, and
/// loses the rest with the next crash. So what a crash left is read into one buffer that holds all of it, and is in tables
/// before work begins. `long` is how many bytes may be left in the log; of one in which a commit failed, none: a sync that failed
/// may have left pages of it that no later one writes, and what is appended behind them would be lost with the power.
pub(super) async fn open_recovered(options: &EmbeddedOptions, log: Option<&Log>, long: u64) -> Result<Opened, Fault> {
    let Some(log) = log else { return open(options, None).await };
    let long = if log.trusted()? { long } else { 0 };
    let backlog = || log.bytes().map_err(|error| log.refuse(&error));
    let bytes = backlog()?;
    if bytes > long {
        let room = bytes.saturating_mul(2).saturating_add(options.memtable_bytes).min(u64::from(u32::MAX));
        let recovering = EmbeddedOptions { memtable_bytes: room, ..options.clone() };
        close(open(&recovering, Some(log)).await?, Some(log)).await?;
        let left = backlog()?;
        if left > long {
            return Err(Fault::DiskFull(format!(
                "{left} bytes of log could not be written into tables; is there room for twice as much?"
            )));
        }
    }
    log.trust()?;
    open(options, Some(log)).await
}

/// Closes it: all buffers are written into tables, if they can be. Returns when its directory is free again.
///
/// SurrealDB (3.3.5) reports no error of it, but a close that wrote everything leaves nothing in the log. Whatever is left is
/// read again when the database is opened, because no acknowledged commit lies anywhere but in the segment that its buffer
/// goes with ([`super::gate`]); so it is told, and nothing depends on it.
pub(super) async fn close(opened: Opened, log: Option<&Log>) -> Result<(), Fault> {
    let closed = opened.datastore.shutdown().await;
    drop(opened);
    if let Err(error) = closed {
        tracing::warn!(error = format!("{error:#}"), "the embedded database could not be closed in good order");
    }
    let Some(log) = log else { return Ok(()) };
    log.released().await?;
    match log.bytes() {
        Ok(0) => {}
        Ok(left) => tracing::error!(
            bytes = left,
            "the embedded database was closed without writing its buffers into tables: is the disk well, and is there room? The \
             log still has all of it and is read when the database is opened again"
        ),
        Err(error) => tracing::error!(%error, "what the embedded database left in its log can't be seen"),
    }
    Ok(())
}

/// Values lie in tables, not in a log of their own: SurrealKV (0.21.4) removes such a log's file only when nothing in it is
/// alive, and the schema's definitions in the first live for ever, so none would ever be removed. A directory that has
/// one from an earlier build keeps it, because its values can't be read without.
fn has_value_log(options: &EmbeddedOptions) -> bool {
    let folder = options.log.as_ref().map(|log| log.directory().join("vlog"));
    folder.and_then(|folder| std::fs::read_dir(folder).ok()).is_some_and(|mut files| files.next().is_some())
}

/// The same URL for SurrealDB, and whether every commit is to be synced: that is done here (`GroupSync`).
fn unsynced(url: &str) -> (String, bool) {
    let Some((place, query)) = url.split_once('?') else { return (format!("{url}?sync=never"), true) };
    let mut syncs = false;
    let pairs = query.split('&').map(|pair| {
        let every = pair.eq_ignore_ascii_case("sync=every");
        syncs |= every;
        if every { "sync=never" } else { pair }
    });
    let pairs = pairs.collect::<Vec<_>>().join("&");
    (format!("{place}?{pairs}"), syncs)
}

async fn open(options: &EmbeddedOptions, log: Option<&Log>) -> Result<Opened, Fault> {
    let config = ConfigMap::empty()
        .with_key_value("surrealkv_enable_vlog", has_value_log(options).to_string())
        .with_key_value("surrealkv_max_memtable_size", Bounds::of(options.memtable_bytes).buffer.to_string())
        // A row from the cache of a transaction would pass the wall uncounted, and be copied for everyone that reads it.
        .with_key_value("transaction_cache_size", "0")
        // Rows are evaluated one by one, and operators hand over a batch only when it is asked for: what a statement makes of several
        // rows would be in memory at once otherwise, and the guard counts it once.
        .with_key_value("fan_out_row_threshold", usize::MAX.to_string())
        .with_key_value("operator_buffer_size", "0")
        .with_key_value("surrealkv_block_cache_capacity", options.block_cache_bytes.to_string());
    // Maintenance starts by hand, as SurrealDB's own client does it: its writes may not come before the version key.
    let built = Datastore::builder()
        .with_config(config)
        .with_query_timeout(Some(options.query_timeout))
        .with_auth(true)
        .with_capabilities(capabilities())
        .without_maintenance_tasks();
    let gate = Arc::new(OnceLock::new());
    let datastore = match log {
        None => built.build_with_factory_path(&options.url, Walled(CommunityComposer())).await,
        Some(log) => {
            let (url, syncs) = unsynced(&options.url);
            let (log, gate) = (log.clone(), Arc::clone(&gate));
            let gated = Gated { log, memtable_bytes: options.memtable_bytes, syncs, gate };
            built.build_with_factory_path(&url, Walled(gated)).await
        }
    };
    let datastore = datastore.map_err(|error| Fault::of_storage(&error))?;
    let started = timeout(START_TIME_MAX, start(&datastore, options)).await.unwrap_or_else(|_| {
        let within = START_TIME_MAX.as_secs();
        Err(Fault::Unavailable(format!("the database was opened and then didn't answer within {within} s")))
    });
    let home = match started {
        Ok(home) => home,
        Err(fault) => {
            // Dropped without, it would keep its directory locked.
            match timeout(START_TIME_MAX, datastore.shutdown()).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::warn!(error = format!("{error:#}"), "it couldn't be closed in good order"),
                Err(_) => tracing::warn!("it is still being closed"),
            }
            return Err(fault);
        }
    };
    let map = Arc::new(Map::new(home.namespace, home.database, &options.closed)?);
    close_to_others(options);
    Ok(Opened { home, datastore, map, commits: gate.get().cloned() })
}

/// SurrealKV makes the folder of its log readable by its user's group, whatever the umask, and at every opening.
fn close_to_others(options: &EmbeddedOptions) {
    #[cfg(unix)]
    if let Some(log) = &options.log {
        use std::os::unix::fs::PermissionsExt;
        let folder = log.directory().join("wal");
        if let Err(error) = std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o700)) {
            tracing::warn!(folder = %folder.display(), %error, "the log's folder can't be closed to others");
        }
    }
    #[cfg(not(unix))]
    let _ = options;
}

/// Families of functions that reach outside the database or hold it up.
const OUTSIDE: [&str; 9] = ["http", "sleep", "file", "api", "eval", "ml", "mod", "silo", "schema"];

/// What nobody does in this database, the host included: a net under the list of functions that callers may use.
fn capabilities() -> Capabilities {
    let outside: HashSet<_> = OUTSIDE.iter().map(|family| FuncTarget((*family).to_owned(), None)).collect();
    Capabilities::default()
        .with_scripting(false)
        .with_guest_access(false)
        .without_functions(Targets::Some(outside))
        .with_network_targets(Targets::None)
        .without_network_targets(Targets::All)
        .without_experimental(Targets::All)
        .without_eval_query(Targets::All)
        .without_rpc_methods(Targets::All)
        .without_http_routes(Targets::All)
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
