//! Rows that could not be read, for operators.

use async_trait::async_trait;
use serde_json::json;
use waybill_core::port::quarantine::{QuarantineService, QuarantinedContent, QuarantinedRow, Restored};
use waybill_core::port::query::Page;
use waybill_core::port::service::{Check, ServiceError};
use waybill_core::port::store::StoreError;

use super::{Outbox, audit};

/// What such a row is called in errors.
const WHAT: &str = "row in quarantine";
/// Most of a row's columns that the audit trail keeps when the row is dropped, in bytes of JSON.
const AUDITED_BYTES_MAX: usize = 16 * 1024;

fn missing(id: &str) -> ServiceError {
    ServiceError::NotFound { what: WHAT, id: id.to_owned() }
}

/// A row that can't be put back as things are.
fn refused(id: &str, error: StoreError) -> ServiceError {
    let (state, fix) = match error {
        StoreError::Corrupt(reason) => (
            format!("still unreadable: {reason}"),
            "it stays where it is; put it back with a version that can read it, or drop it",
        ),
        StoreError::Exists(reason) => {
            (format!("not to be put back: {reason}"), "compare the two, and drop this one if it isn't needed")
        }
        error => return error.into(),
    };
    ServiceError::State { what: WHAT, id: id.to_owned(), state, fix }
}

impl Outbox {
    /// Warns when something lies in quarantine, and says in which tables.
    pub(super) async fn quarantine_check(&self) -> Option<Check> {
        let (status, detail) = match self.context.stores.query.quarantined_counts().await {
            Ok(counts) if counts.is_empty() => return None,
            Ok(counts) => {
                let all: u64 = counts.iter().map(|(_, count)| count).sum();
                let tables: Vec<String> = counts.iter().map(|(table, count)| format!("{count} of {table}")).collect();
                let rows = if all == 1 { "row" } else { "rows" };
                ("warn", format!("{all} unreadable {rows}: {} (`waybill quarantine list`)", tables.join(", ")))
            }
            Err(error) => ("warn", format!("it can't be looked at: {}: {error}", error.code())),
        };
        Some(Check { name: "quarantine".to_owned(), status: status.to_owned(), detail })
    }
}

#[async_trait]
impl QuarantineService for Outbox {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedRow>, ServiceError> {
        Ok(self.context.stores.query.quarantined(table, cursor, limit).await?)
    }

    async fn quarantined_row(&self, id: &str) -> Result<QuarantinedContent, ServiceError> {
        self.context.stores.query.quarantined_row(id).await?.ok_or_else(|| missing(id))
    }

    async fn restore_row(
        &self,
        id: &str,
        reason: &str,
        actor: &str,
    ) -> Result<(QuarantinedRow, Restored), ServiceError> {
        let event = |row: &QuarantinedRow, restored: Restored| {
            let detail = json!({ "table": row.table, "key": row.key, "went": restored.word(), "reason": reason });
            self.event("QuarantineRestored", actor, row.tenant.as_deref(), id, detail)
        };
        let restored = self.context.stores.query.restore_row(id).await.map_err(|error| refused(id, error))?;
        let (row, restored) = restored.ok_or_else(|| missing(id))?;
        self.audit_event(event(&row, restored)).await;
        self.knock();
        Ok((row, restored))
    }

    async fn drop_row(&self, id: &str, reason: &str, actor: &str) -> Result<QuarantinedContent, ServiceError> {
        let content = QuarantineService::quarantined_row(self, id).await?;
        let row = &content.row;
        let columns = Some(&content.columns).filter(|columns| columns.to_string().len() <= AUDITED_BYTES_MAX);
        let detail =
            json!({ "table": row.table, "key": row.key, "why": row.reason, "columns": columns, "reason": reason });
        let event = self.event("QuarantineDropped", actor, row.tenant.as_deref(), id, detail);
        // In a task of its own: an act whose caller went away is audited all the same.
        let (context, name) = (std::sync::Arc::clone(&self.context), id.to_owned());
        let work = tokio::spawn(async move {
            let dropped = context.stores.query.drop_row(&name).await?;
            if dropped.is_some() {
                audit(&context, &event).await;
            }
            Ok::<_, ServiceError>(dropped)
        });
        let dropped = work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))?;
        dropped.map(|_| content).ok_or_else(|| missing(id))
    }
}
