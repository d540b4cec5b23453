//! The store of a directory without a host: its records as any client of the database would change them.

use std::path::Path;

use waybill_store::{StoreConfig, SurrealStore};
use waybill_surreal::{ClosedTables, Embedded, EmbeddedOptions, Engine, Value, to_json};

/// Write buffer, as in the configuration.
const MEMTABLE_BYTES: u64 = 8 * 1024 * 1024;

/// The store as the host opens it.
pub async fn open_store(data: &Path) -> SurrealStore {
    let config =
        StoreConfig { memtable_bytes: MEMTABLE_BYTES, ..StoreConfig::new(format!("surrealkv://{}", data.display())) };
    SurrealStore::open(config).await.unwrap()
}

/// The database below the store.
pub struct Raw(Embedded);

impl Raw {
    /// Opens it. Nobody else may have it open.
    pub async fn open(data: &Path) -> Self {
        let config = StoreConfig::new("");
        let options = EmbeddedOptions {
            url: format!("surrealkv://{}?sync=every", data.display()),
            log: None,
            namespace: config.namespace,
            database: config.database,
            memtable_bytes: MEMTABLE_BYTES,
            block_cache_bytes: config.block_cache_bytes,
            query_timeout: config.query_timeout,
            closed: ClosedTables { tables: &[], doorsteps: &[], settings: "" },
        };
        Self(Embedded::open(options).await.unwrap())
    }

    /// Runs a text; answers what its last statement did, as JSON.
    pub async fn run(&self, text: &str) -> serde_json::Value {
        let answers = self.0.run(text, Vec::new()).await.unwrap_or_else(|fault| panic!("{text}: {fault}"));
        to_json(answers.into_iter().next_back().unwrap_or(Value::None)).unwrap()
    }

    pub async fn close(self) {
        self.0.close().await.unwrap();
    }
}
