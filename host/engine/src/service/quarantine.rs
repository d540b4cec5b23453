//! Rows that could not be read, for operators.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use waybill_api::quarantine::{QuarantineService, QuarantinedContentView, QuarantinedView, RestoredRow};
use waybill_api::status::{Check, CheckStatus};
use waybill_core::port::missing::Missing;
use waybill_core::port::quarantine::QuarantinedCounts;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::AuditEvent;

use super::{Outbox, audit, wake_door};
use crate::shard::Context;

/// Most of a row's columns that the audit trail keeps when the row is dropped, in bytes of JSON.
const AUDITED_BYTES_MAX: usize = 16 * 1024;
/// What was counted is good for so long: the store reads what it counts.
const COUNTS_FOR: Duration = Duration::from_secs(5);

/// What lies in quarantine, as counted last. An empty quarantine costs nothing to look at, and isn't kept.
#[derive(Default)]
pub(crate) struct Counts(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    /// Acts of this host so far: what was counted during one of them isn't kept.
    acts: u64,
    kept: Option<(Instant, QuarantinedCounts)>,
}

impl Counts {
    async fn read(&self, context: &Context) -> Result<QuarantinedCounts, StoreError> {
        let acts = {
            let counted = self.0.lock();
            if let Some((at, counts)) = &counted.kept
                && at.elapsed() < COUNTS_FOR
            {
                return Ok(counts.clone());
            }
            counted.acts
        };
        let counts = context.stores.query.quarantined_counts().await?;
        let mut counted = self.0.lock();
        if counted.acts == acts {
            counted.kept = Some((Instant::now(), counts.clone())).filter(|(_, counts)| !counts.tables.is_empty());
        }
        Ok(counts)
    }

    /// Something was put back or dropped, or may have been.
    fn forget(&self) {
        let mut counted = self.0.lock();
        counted.acts += 1;
        counted.kept = None;
    }
}

/// Audits an act whose outcome nobody knows: the store may have done it, or may do it yet. Nobody waits for that, since the store is
/// in trouble.
fn audit_unknown(context: &Arc<Context>, mut event: AuditEvent, error: &StoreError) {
    if !matches!(error, StoreError::Unavailable(_) | StoreError::DiskFull(_) | StoreError::Other(_)) {
        return;
    }
    if let Some(detail) = event.detail.as_object_mut() {
        detail.insert("outcome".to_owned(), json!("unknown"));
        detail.insert("error".to_owned(), json!(error.to_string()));
    }
    let context = Arc::clone(context);
    tokio::spawn(async move { audit(&context, &event).await });
}

fn missing(id: &str) -> ServiceError {
    ServiceError::NotFound { what: Missing::QuarantinedRow, id: id.to_owned() }
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
    ServiceError::State { what: "row in quarantine", id: id.to_owned(), state, fix }
}

/// The counts as a sentence for people.
fn describe(counts: &QuarantinedCounts) -> String {
    let all: u64 = counts.tables.iter().map(|(_, count)| count).sum();
    let tables: Vec<String> = counts.tables.iter().map(|(table, count)| format!("{count} of {table}")).collect();
    let (most, more) = if counts.at_least { ("at least ", ", and what wasn't counted") } else { ("", "") };
    let rows = if all == 1 { "row" } else { "rows" };
    format!("{most}{all} unreadable {rows}: {}{more} (`waybill quarantine list`)", tables.join(", "))
}

impl Outbox {
    /// Warns when something lies in quarantine, and says in which tables.
    pub(super) async fn quarantine_check(&self) -> Option<Check> {
        let (status, detail) = match self.quarantine.read(&self.context).await {
            Ok(counts) if counts.tables.is_empty() => return None,
            Ok(counts) => (CheckStatus::Warn, describe(&counts)),
            Err(error) => (CheckStatus::Warn, format!("it can't be looked at: {}: {error}", error.code())),
        };
        Some(Check { name: "quarantine".to_owned(), status, detail })
    }
}

#[async_trait]
impl QuarantineService for Outbox {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedView>, ServiceError> {
        let page = self.context.stores.query.quarantined(table, cursor, limit).await?;
        let items = page.items.into_iter().map(QuarantinedView::from).collect();
        Ok(Page { items, next_cursor: page.next_cursor })
    }

    async fn quarantined_row(&self, id: &str) -> Result<QuarantinedContentView, ServiceError> {
        let found = self.context.stores.query.quarantined_row(id).await?;
        found.map(QuarantinedContentView::from).ok_or_else(|| missing(id))
    }

    async fn restore_row(&self, id: &str, reason: &str, actor: &str) -> Result<RestoredRow, ServiceError> {
        let (name, reason) = (id.to_owned(), reason.to_owned());
        let mut event = self.event("QuarantineRestored", actor, None, id, json!({ "reason": reason }));
        let (context, counts, shards) = (Arc::clone(&self.context), Arc::clone(&self.quarantine), self.shards.clone());
        // In a task of its own: an act whose caller went away is audited all the same, and its messages are taken in.
        let work = tokio::spawn(async move {
            let restored = context.stores.query.restore_row(&name).await;
            counts.forget();
            match restored {
                Ok(Some((row, restored))) => {
                    wake_door(&context, &shards);
                    let done = RestoredRow::new(row, restored);
                    event.tenant = done.row.tenant.clone();
                    event.detail = json!({
                        "table": done.row.table, "key": done.row.key, "went": done.went, "reason": reason,
                    });
                    audit(&context, &event).await;
                    Ok(done)
                }
                Ok(None) => Err(missing(&name)),
                Err(error) => {
                    audit_unknown(&context, event, &error);
                    Err(refused(&name, error))
                }
            }
        });
        work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))
    }

    async fn drop_row(&self, id: &str, reason: &str, actor: &str) -> Result<QuarantinedContentView, ServiceError> {
        let content = QuarantineService::quarantined_row(self, id).await?;
        let row = &content.row;
        let columns = Some(&content.columns).filter(|columns| columns.to_string().len() <= AUDITED_BYTES_MAX);
        let detail =
            json!({ "table": row.table, "key": row.key, "why": row.reason, "columns": columns, "reason": reason });
        let event = self.event("QuarantineDropped", actor, row.tenant.as_deref(), id, detail);
        // In a task of its own: an act whose caller went away is audited all the same.
        let (context, counts, name) = (Arc::clone(&self.context), Arc::clone(&self.quarantine), id.to_owned());
        let work = tokio::spawn(async move {
            let dropped = context.stores.query.drop_row(&name).await;
            counts.forget();
            match &dropped {
                Ok(Some(_)) => audit(&context, &event).await,
                Ok(None) => {}
                Err(error) => audit_unknown(&context, event, error),
            }
            Ok::<_, ServiceError>(dropped?)
        });
        let dropped = work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))?;
        dropped.map(|_| content).ok_or_else(|| missing(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_that_stopped_says_so() {
        let tables = vec![("outbox".to_owned(), 24), ("saga".to_owned(), 1)];
        for (at_least, begin, end) in
            [(true, "at least 25 ", "1 of saga, and what wasn't"), (false, "25 ", "1 of saga (")]
        {
            let text = describe(&QuarantinedCounts { tables: tables.clone(), at_least });
            assert!(text.starts_with(begin) && text.contains(end), "{text}");
        }
    }
}
