//! Rows in quarantine as shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::quarantine::{QuarantinedContent, QuarantinedRow, Restored};

use super::instant::Instant;

/// Why something is done with a row in quarantine.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = QuarantineAct)]
pub struct QuarantineActIn {
    /// For the audit.
    #[serde(default)]
    pub reason: String,
}

/// A row in quarantine.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Quarantined)]
pub struct QuarantinedOut {
    /// Names it in quarantine.
    pub id: String,
    /// The table it was in.
    pub table: String,
    /// Its key there.
    pub key: serde_json::Value,
    /// Whose it is, as far as it says so.
    pub tenant: Option<String>,
    /// Why it could not be read.
    pub reason: String,
    /// Since when it lies here; null = since an earlier version, which didn't note it.
    pub since: Option<Instant>,
}

impl From<QuarantinedRow> for QuarantinedOut {
    fn from(row: QuarantinedRow) -> Self {
        let QuarantinedRow { id, table, key, tenant, reason, at } = row;
        Self { id, table, key, tenant, reason, since: at.map(Instant) }
    }
}

/// A row in quarantine with all that is left of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = QuarantinedRow)]
pub struct QuarantinedContentOut {
    /// Which.
    #[serde(flatten)]
    pub row: QuarantinedOut,
    /// Its columns; bytes are texts in base64.
    pub columns: serde_json::Value,
    /// Why it still can't be read; null = it could be put back.
    pub unreadable: Option<String>,
}

impl From<QuarantinedContent> for QuarantinedContentOut {
    fn from(content: QuarantinedContent) -> Self {
        Self { row: content.row.into(), columns: content.columns, unreadable: content.unreadable }
    }
}

/// A row that was put back.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = RestoredRow)]
pub struct RestoredOut {
    /// What it was.
    #[serde(flatten)]
    pub row: QuarantinedOut,
    /// `in_place`: it is read from now on. `queued`: its messages entered the order anew. `at_takeover`: the host takes it in when
    /// it takes its shard over, at the next start at the latest.
    pub went: &'static str,
    /// How many messages entered the order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub messages: Option<usize>,
}

impl RestoredOut {
    /// Of a row, with where it went.
    pub fn new(row: QuarantinedRow, restored: Restored) -> Self {
        let messages = match restored {
            Restored::Queued { messages } => Some(messages),
            Restored::InPlace | Restored::AtTakeover => None,
        };
        Self { row: row.into(), went: restored.word(), messages }
    }
}
