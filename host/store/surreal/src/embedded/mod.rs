//! SurrealDB inside this process.

mod backend;
mod gate;
mod log;
mod open;
mod shared;
mod sync;
mod tasks;
mod transaction;
mod wall;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use surrealdb_core::dbs::Session;
use surrealdb_core::kvs::{Datastore, QueryRequest};
use surrealdb_datastore::catalog::{DatabaseId, NamespaceId};
use surrealdb_kvs::TransactionType;

use crate::{Bindings, Engine, Fault, Transaction, Value, WhileClosed, value};
use gate::CommitGate;
use shared::Core;
use transaction::EmbeddedTransaction;
use wall::{Gate, Map, behind};

#[derive(Clone)]
pub struct EmbeddedOptions {
    pub url: String,
    /// Of a database on disk: its log, and who looks after it.
    pub log: Option<Arc<dyn LogKeeper>>,
    /// Namespace; made when it isn't there.
    pub namespace: String,
    /// Database; made when it isn't there.
    pub database: String,
    /// Size of the write buffer, in bytes. One transaction may not be larger. While the database can't be opened again because
    /// transactions are open, it may grow to twice as much.
    pub memtable_bytes: u64,
    /// Size of the read cache, in bytes.
    pub block_cache_bytes: u64,
    /// Longest run of one statement.
    pub query_timeout: Duration,
    /// What callers' statements may not touch.
    pub closed: ClosedTables,
}

/// Tables that callers' statements may not touch in any way.
#[derive(Clone, Copy)]
pub struct ClosedTables {
    pub tables: &'static [&'static str],
    /// Those of them that functions and events of the operator may append to.
    pub doorsteps: &'static [&'static str],
    /// The one of them that they may read.
    pub settings: &'static str,
}

/// Looks after the log of a database on disk.
pub trait LogKeeper: Send + Sync {
    /// The database's directory; its log is in `wal` there.
    fn directory(&self) -> &Path;
    /// A commit failed in the middle: what is in the log behind those that succeeded before it was acknowledged to nobody.
    fn distrust(&self);
    /// Makes the log whole before the database is opened. Nothing has it open.
    fn repair(&self) -> Result<(), Fault>;
    /// Whether no commit has failed in the middle since [`trust`](Self::trust).
    fn trusted(&self) -> Result<bool, Fault>;
    /// Nothing is left of a log in which a commit failed: from here on it is trusted again.
    fn trust(&self) -> Result<(), Fault>;
}

pub struct Embedded {
    core: Arc<Core>,
}

/// The database as opened last.
#[derive(Clone)]
pub(crate) struct Opened {
    pub(crate) datastore: Arc<Datastore>,
    pub(crate) home: Home,
    pub(crate) map: Arc<Map>,
    /// Of a database on disk.
    commits: Option<Arc<CommitGate>>,
}

/// What a transaction needs to know of the database it works in.
#[derive(Clone)]
pub(crate) struct Home {
    pub(crate) namespace: NamespaceId,
    pub(crate) database: DatabaseId,
    pub(crate) host: Arc<Session>,
    pub(crate) caller: Arc<Session>,
}

impl Embedded {
    /// Opens the database, and makes namespace and database when they aren't there.
    ///
    /// A boxed future: whoever awaits it doesn't compile SurrealDB into itself.
    pub fn open(options: EmbeddedOptions) -> Pin<Box<dyn Future<Output = Result<Self, Fault>> + Send>> {
        Box::pin(Self::open_now(options))
    }

    /// A transaction that can't even begin: the database is told, as of a failed commit.
    fn failed(&self, error: &anyhow::Error) -> Fault {
        let fault = Fault::of_storage(error);
        self.core.note(&fault);
        fault
    }

    async fn open_now(options: EmbeddedOptions) -> Result<Self, Fault> {
        Ok(Self { core: Arc::new(Core::open(options).await?) })
    }
}

#[async_trait]
impl Engine for Embedded {
    async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, Fault> {
        let kind = if write { TransactionType::Write } else { TransactionType::Read };
        let held = self.core.hold().await?;
        let begin = held.datastore.transaction(kind);
        // Callers' statements run on transactions that write; the others aren't slowed down by a gate.
        let (inner, gate) = if write {
            let gate = Gate::new(Arc::clone(&held.map));
            let begun = behind(&gate, begin).await.map_err(|error| self.failed(&error))?;
            (begun.ok_or_else(|| Fault::Other("a transaction began without its wall".to_owned()))?, Some(gate))
        } else {
            (begin.await.map_err(|error| self.failed(&error))?, None)
        };
        Ok(Box::new(EmbeddedTransaction::new(Arc::clone(&self.core), held, inner, gate)))
    }

    async fn run(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
        let (core, text) = (Arc::clone(&self.core), text.to_owned());
        to_its_end(async move { run(&core, &text, bindings).await }).await
    }

    async fn while_closed(&self, work: WhileClosed) -> Result<(), Fault> {
        let core = Arc::clone(&self.core);
        to_its_end(async move { core.while_closed(work).await }).await
    }

    async fn close(&self) -> Result<(), Fault> {
        self.core.end().await
    }
}

/// In a task of its own: whoever waits for it may go away, and what has to follow a commit follows it all the same.
async fn to_its_end<T: Send + 'static>(
    work: impl Future<Output = Result<T, Fault>> + Send + 'static,
) -> Result<T, Fault> {
    match tokio::spawn(work).await {
        Ok(result) => result,
        Err(ended) => Err(Fault::Unknown(format!("the process is ending: {ended}"))),
    }
}

async fn run(core: &Arc<Core>, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
    let held = core.hold().await?;
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
    if let Some(fault) = &fault {
        core.note(fault);
    }
    core.after_commit(&held);
    drop(held);
    fault.map_or(Ok(values), Err)
}
