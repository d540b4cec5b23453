//! What the service asks of sources that publish their tables directly.

use std::time::Duration;

use async_trait::async_trait;
use waybill_api::inbox::ContextStats;
use waybill_api::sources::SourceView;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::service::ServiceError;
use waybill_core::port::table::DeadPage;

use super::Inbox;

/// Sources that publish their tables directly. A source that isn't among them answers none.
#[async_trait]
pub(crate) trait TableSources: Send + Sync + 'static {
    async fn views(&self) -> Vec<SourceView>;
    /// The same, of each table what it says of itself within this time: an answer that can't wait for a database.
    async fn views_within(&self, within: Duration) -> Vec<SourceView>;
    /// Takes over what operators paused, as it was noted or is asked for. False = it isn't one of these.
    fn set_paused(&self, source: &str, paused: bool) -> bool;
    async fn provision(&self, source: &str, apply: bool) -> Option<Result<Vec<ProvisionChange>, ProvisionError>>;
    /// Rows that stand failed.
    async fn failed(&self, source: &str, cursor: Option<String>, limit: u32) -> Option<Result<DeadPage, ServiceError>>;
    /// Puts failed rows back to waiting. One answer an id, in order: whether it waits again.
    async fn replay(&self, source: &str, ids: Vec<String>) -> Option<Result<Vec<bool>, ServiceError>>;
    /// Rows of tables by context, as counted at most 10 s ago.
    async fn contexts(&self) -> Vec<ContextStats>;
}

impl Inbox {
    /// Sources that publish their tables directly, as far as they say within this time how they do.
    pub async fn tables_within(&self, within: Duration) -> Vec<SourceView> {
        match self.tables.get() {
            Some(tables) => tables.views_within(within).await,
            None => Vec::new(),
        }
    }
}
