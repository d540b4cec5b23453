//! Rows that could not be read, as operators see them.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::quarantine::{QuarantinedContent, QuarantinedRow, Restored};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;

use crate::instant::Instant;

/// A row in quarantine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Quarantined)]
pub struct QuarantinedView {
    /// Names it in quarantine.
    pub id: String,
    /// The table it was in.
    pub table: String,
    /// Its key in that table, as JSON.
    pub key: serde_json::Value,
    /// Whose it is, as far as it says so.
    pub tenant: Option<String>,
    /// Why it could not be read.
    pub reason: String,
    /// Since when it lies here; null = since an earlier version, which didn't note it.
    pub since: Option<Instant>,
}

impl From<QuarantinedRow> for QuarantinedView {
    fn from(row: QuarantinedRow) -> Self {
        let QuarantinedRow { id, table, key, tenant, reason, at } = row;
        Self { id, table, key, tenant, reason, since: at.map(Instant) }
    }
}

/// A row in quarantine with all that is left of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = QuarantinedRow)]
pub struct QuarantinedContentView {
    #[serde(flatten)]
    pub row: QuarantinedView,
    /// Its columns; bytes are texts in base64.
    pub columns: serde_json::Value,
    /// Why it still can't be read; null = it could be put back.
    pub unreadable: Option<String>,
}

impl From<QuarantinedContent> for QuarantinedContentView {
    fn from(content: QuarantinedContent) -> Self {
        Self { row: content.row.into(), columns: content.columns, unreadable: content.unreadable }
    }
}

/// A row that was put back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RestoredRow {
    #[serde(flatten)]
    pub row: QuarantinedView,
    /// `in_place`: it is read from now on. `queued`: its messages entered the order anew. `at_takeover`: the host takes it in when
    /// it takes its shard over, at the next start at the latest.
    #[schema(value_type = String)]
    pub went: Went,
    /// How many messages entered the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
}

/// Where a row went that was put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Went {
    InPlace,
    /// Behind the messages that are there.
    Queued,
    /// To its place, from where the host takes it in later.
    AtTakeover,
}

impl RestoredRow {
    /// Of a row, with where it went.
    pub fn new(row: QuarantinedRow, restored: Restored) -> Self {
        let (went, messages) = match restored {
            Restored::InPlace => (Went::InPlace, None),
            Restored::AtTakeover => (Went::AtTakeover, None),
            Restored::Queued { messages } => (Went::Queued, Some(messages)),
        };
        Self { row: row.into(), went, messages }
    }
}

/// Quarantine as operators see it. Its rows may be of any tenant.
#[async_trait]
pub trait QuarantineService: Send + Sync + 'static {
    /// Rows in quarantine, of one table or of all, oldest first, at most `limit`.
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedView>, ServiceError>;
    /// One with its content.
    async fn quarantined_row(&self, id: &str) -> Result<QuarantinedContentView, ServiceError>;
    /// Puts one back if it can be read by now. Audited.
    async fn restore_row(&self, id: &str, reason: &str, actor: &str) -> Result<RestoredRow, ServiceError>;
    /// Removes one for good; answers what it was. Audited.
    async fn drop_row(&self, id: &str, reason: &str, actor: &str) -> Result<QuarantinedContentView, ServiceError>;
}
