//! What is stored of a table: names of what is sent after an unclean end, and who is suspected. Nothing else of it is written here.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::timeout;
use waybill_core::ids::SourceName;
use waybill_core::inbox::direct::DirectRecord;
use waybill_core::port::direct_store::DirectStore;
use waybill_core::port::store::StoreError;

/// The record of one table of this host.
pub(super) struct Record {
    store: Arc<dyn DirectStore>,
    host: String,
    source: SourceName,
    /// How long the store may take.
    limit: Duration,
    /// As it is known to be stored; none = nobody knows.
    stored: Mutex<Option<DirectRecord>>,
}

impl Record {
    pub fn new(store: &Arc<dyn DirectStore>, host: &str, source: &SourceName, limit: Duration) -> Self {
        let (store, host, source) = (Arc::clone(store), host.to_owned(), source.clone());
        Self { store, host, source, limit, stored: Mutex::default() }
    }

    pub async fn read(&self) -> Result<DirectRecord, StoreError> {
        self.within(self.store.direct_record(&self.host, &self.source)).await
    }

    /// Stores what `now` answers, unless that is what is stored. One at a time, each with what is true when its turn comes: so none is
    /// written over by an older one.
    pub async fn store(&self, now: impl Fn() -> Option<DirectRecord> + Send) -> Result<(), StoreError> {
        let mut stored = self.stored.lock().await;
        let Some(record) = now() else { return Ok(()) };
        if stored.as_ref() == Some(&record) {
            return Ok(());
        }
        *stored = None;
        self.within(self.store.put_direct_record(&self.host, &self.source, &record)).await?;
        *stored = Some(record);
        Ok(())
    }

    async fn within<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let late = || StoreError::Unavailable("it didn't answer for a table's record in time".to_owned());
        timeout(self.limit, call).await.unwrap_or_else(|_| Err(late()))
    }
}
