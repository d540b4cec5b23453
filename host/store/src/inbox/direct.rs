//! What hosts know of tables that they publish directly: one small record a host and table, among what is known of the store as a whole.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use waybill_core::ids::SourceName;
use waybill_core::inbox::direct::{DirectRecord, RowId};
use waybill_core::outbox::suspicion::Suspect;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::store::StoreError;
use waybill_surreal::{object, text, text_of};

use crate::fault::store_error;
use crate::store::{SurrealStore, finish};
use crate::tables::{META, direct_key};

/// Tries of a transaction when another one came first.
const TRIES_MAX: u32 = 8;

/// The record as text; its fields are named for ever.
#[derive(Serialize, Deserialize)]
struct Stored {
    open: bool,
    unclean: u32,
    #[serde(default)]
    calling: Vec<String>,
    /// Crashes, and crashes alone, by row.
    #[serde(default)]
    suspects: BTreeMap<String, (u32, u32)>,
}

impl From<&DirectRecord> for Stored {
    fn from(record: &DirectRecord) -> Self {
        let suspect = |(row, of): (&RowId, &Suspect)| (row.0.to_string(), (of.crashes, of.alone));
        Self {
            open: record.open,
            unclean: record.unclean,
            calling: record.calling.iter().map(|row| row.0.to_string()).collect(),
            suspects: record.suspects.iter().map(suspect).collect(),
        }
    }
}

impl From<Stored> for DirectRecord {
    fn from(stored: Stored) -> Self {
        let row = |id: String| RowId(Arc::from(id));
        let suspect = |(id, (crashes, alone)): (String, (u32, u32))| (row(id), Suspect { crashes, alone });
        Self {
            open: stored.open,
            unclean: stored.unclean,
            calling: stored.calling.into_iter().map(row).collect(),
            suspects: stored.suspects.into_iter().map(suspect).collect(),
        }
    }
}

#[async_trait]
impl DirectStore for SurrealStore {
    async fn direct_record(&self, host: &str, source: &SourceName) -> Result<DirectRecord, StoreError> {
        let transaction = self.begin(false).await?;
        let Some(fields) = transaction.get(META, direct_key(host, source)).await.map_err(store_error)? else {
            return Ok(DirectRecord::default());
        };
        let read = text_of(fields.get("data")).and_then(|data| serde_json::from_str::<Stored>(data).ok());
        Ok(read.map_or_else(
            || {
                // It is written anew at once; all that is lost is who was suspected, so the host is cautious.
                tracing::error!(%source, host, "what was stored of a table can't be read");
                DirectRecord { open: true, ..DirectRecord::default() }
            },
            DirectRecord::from,
        ))
    }

    async fn put_direct_record(
        &self,
        host: &str,
        source: &SourceName,
        record: &DirectRecord,
    ) -> Result<(), StoreError> {
        let data =
            serde_json::to_string(&Stored::from(record)).map_err(|error| StoreError::Other(error.to_string()))?;
        let mut tries = 1;
        loop {
            let fields = object([("data", text(&data))]);
            let transaction = self.begin(true).await?;
            let worked = transaction.put(META, direct_key(host, source), fields).await.map_err(store_error);
            match finish(transaction, worked).await {
                Err(StoreError::Conflict(_)) if tries < TRIES_MAX => tries += 1,
                done => return done,
            }
        }
    }
}
