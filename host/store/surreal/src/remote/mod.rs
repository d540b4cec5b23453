//! A SurrealDB server, through its client library. A preview: no test talks to a server yet.

mod transaction;

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use surrealdb::Surreal;
use surrealdb::engine::any::{Any, connect};
use surrealdb::opt::Config;
use surrealdb::opt::auth::{Database, Root};
use surrealdb::types::QueryError;

use crate::{Bindings, Engine, Fault, Transaction, Value, WhileClosed, value};
use transaction::RemoteTransaction;

#[derive(Clone)]
pub struct RemoteOptions {
    pub url: String,
    /// Namespace; made when it isn't there and the user may.
    pub namespace: String,
    /// Database; made when it isn't there and the user may.
    pub database: String,
    /// User name and password; none where the server asks for none.
    pub user: Option<(String, String)>,
    /// The user is one of the database, not of the whole server.
    pub database_user: bool,
    /// Longest run of one statement.
    pub query_timeout: Duration,
}

pub struct Remote {
    client: Surreal<Any>,
}

fn fault(error: surrealdb::Error) -> Fault {
    Fault::of_query(&error)
}

impl Remote {
    /// Connects, signs in, and makes namespace and database when they aren't there.
    ///
    /// A boxed future: whoever awaits it doesn't compile SurrealDB into itself.
    pub fn open(options: RemoteOptions) -> Pin<Box<dyn Future<Output = Result<Self, Fault>> + Send>> {
        Box::pin(Self::open_now(options))
    }

    async fn open_now(options: RemoteOptions) -> Result<Self, Fault> {
        let config = Config::new().query_timeout(options.query_timeout);
        let client = connect((options.url.as_str(), config)).await.map_err(fault)?;
        let (namespace, database) = (options.namespace.clone(), options.database.clone());
        if let Some((username, password)) = options.user {
            if options.database_user {
                client.signin(Database { namespace, database, username, password }).await.map_err(fault)?;
            } else {
                client.signin(Root { username, password }).await.map_err(fault)?;
            }
        }
        if !options.database_user {
            let quoted = |name: &str| format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`"));
            let (namespace, database) = (quoted(&options.namespace), quoted(&options.database));
            let text = format!(
                "DEFINE NAMESPACE IF NOT EXISTS {namespace}; USE NS {namespace}; DEFINE DATABASE IF NOT EXISTS {database}"
            );
            client.query(text).await.map_err(fault)?.check().map_err(fault)?;
        }
        client.use_ns(&options.namespace).use_db(&options.database).await.map_err(fault)?;
        Ok(Self { client })
    }
}

/// All values of an answer, or the error that tells most: in a `BEGIN ... COMMIT` text the first may only say that its
/// statement didn't run.
fn answers(mut response: surrealdb::IndexedResults) -> Result<Vec<Value>, Fault> {
    let mut errors: Vec<_> = response.take_errors().into_iter().collect();
    errors.sort_by_key(|(index, error)| (matches!(error.query_details(), Some(QueryError::NotExecuted)), *index));
    if let Some((_, error)) = errors.into_iter().next() {
        return Err(Fault::of_query(&error));
    }
    (0..response.num_statements())
        .map(|index| response.take::<surrealdb::types::Value>(index).map(Value::from).map_err(fault))
        .collect()
}

#[async_trait]
impl Engine for Remote {
    async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, Fault> {
        Ok(Box::new(RemoteTransaction::begin(&self.client, write).await?))
    }

    async fn run(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
        let response = self.client.query(text).bind(value::variables(bindings)?).await.map_err(fault)?;
        answers(response)
    }

    async fn while_closed(&self, _: WhileClosed) -> Result<(), Fault> {
        Err(Fault::Other("a client doesn't close the database of a server".to_owned()))
    }

    async fn close(&self) -> Result<(), Fault> {
        Ok(())
    }
}
