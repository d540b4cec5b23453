//! The storage port of tables that are published directly: what a host has to know of its own last end, and nothing else.

use async_trait::async_trait;

use crate::ids::SourceName;
use crate::inbox::direct::DirectRecord;
use crate::port::store::StoreError;

/// Records of the tables that a host publishes directly, each written by that host alone.
#[async_trait]
pub trait DirectStore: Send + Sync + 'static {
    /// The record of a host and a source; the default record when there is none yet.
    async fn direct_record(&self, host: &str, source: &SourceName) -> Result<DirectRecord, StoreError>;
    /// Writes it, durably when the answer comes. After an error the outcome is unknown, and nothing that it names may be sent.
    async fn put_direct_record(&self, host: &str, source: &SourceName, record: &DirectRecord)
    -> Result<(), StoreError>;
}
