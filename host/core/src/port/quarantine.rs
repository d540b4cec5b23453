//! Rows that could not be read: set aside with their keys and bytes, so that they hold up nobody, and kept until an operator
//! puts them back or drops them.

use async_trait::async_trait;

use crate::port::query::Page;
use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// A row in quarantine, without its content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedRow {
    /// Names it in quarantine.
    pub id: String,
    /// The table it was in.
    pub table: String,
    /// Its key there, as JSON.
    pub key: serde_json::Value,
    /// Whose it is, as far as it says so.
    pub tenant: Option<String>,
    /// Why it could not be read.
    pub reason: String,
    /// Since when it lies here; none = since an earlier version, which didn't note it.
    pub at: Option<UnixMillis>,
}

/// A row in quarantine with all that is left of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QuarantinedContent {
    pub row: QuarantinedRow,
    /// Its columns; bytes are texts in base64.
    pub columns: serde_json::Value,
    /// Why it still can't be read; none = it could be put back.
    pub unreadable: Option<String>,
}

/// How many rows lie in quarantine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuarantinedCounts {
    /// Of each table, by table.
    pub tables: Vec<(String, u64)>,
    /// There may be more, of these tables and of others: not all of them were read.
    pub at_least: bool,
}

/// Where a row went that was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restored {
    /// To its place, where it is read from now on.
    InPlace,
    /// To its place, or to the sagas that it holds events of; the host takes it in when it takes its shard over, at the next start
    /// at the latest.
    AtTakeover,
    /// Its messages entered the order anew, behind what is there.
    Queued { messages: usize },
}

/// Quarantine in the store.
#[async_trait]
pub trait QuarantineStore: Send + Sync + 'static {
    /// Rows in quarantine, of one table or of all, oldest first, at most `limit`. Reads a bounded number of rows and bytes, and then
    /// answers a cursor even when the page isn't full.
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, StoreError>;
    /// How many there are. Reads a bounded number of rows and bytes, and says so if there may be more.
    async fn quarantined_counts(&self) -> Result<QuarantinedCounts, StoreError>;
    /// One with its content.
    async fn quarantined_row(&self, id: &str) -> Result<Option<QuarantinedContent>, StoreError>;
    /// Puts one back if it can be read by now. `Err(Corrupt)` says why it still can't be, `Err(Exists)` what is in its place.
    async fn restore_row(&self, id: &str) -> Result<Option<(QuarantinedRow, Restored)>, StoreError>;
    /// Removes one for good.
    async fn drop_row(&self, id: &str) -> Result<Option<QuarantinedRow>, StoreError>;
}
