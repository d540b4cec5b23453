//! A host with rows in quarantine.

use async_trait::async_trait;
use serde_json::json;
use waybill_api::quarantine::{QuarantineService, QuarantinedContentView, QuarantinedView, RestoredRow};
use waybill_core::port::missing::Missing;
use waybill_core::port::quarantine::{QuarantinedRow, Restored};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;

use crate::fake_host::{NOW, Outbox};

fn row(id: &str, table: &str, at: Option<UnixMillis>) -> QuarantinedRow {
    QuarantinedRow {
        id: id.to_owned(),
        table: table.to_owned(),
        key: json!([0, 1_876_543_210]),
        tenant: Some("acme".into()),
        reason: "the checksum of its data is wrong".into(),
        at,
    }
}

fn all() -> Vec<QuarantinedRow> {
    vec![row("q-1", "parked", Some(NOW)), row("q-2", "outbox", None), row("q-3", "outbox_id", Some(NOW))]
}

fn known(id: &str) -> Result<QuarantinedRow, ServiceError> {
    let missing = || ServiceError::NotFound { what: Missing::QuarantinedRow, id: id.to_owned() };
    all().into_iter().find(|row| row.id == id).ok_or_else(missing)
}

#[async_trait]
impl QuarantineService for Outbox {
    async fn quarantined(
        &self,
        table: Option<&str>,
        _: Option<&str>,
        _: usize,
    ) -> Result<Page<QuarantinedView>, ServiceError> {
        let wanted = all().into_iter().filter(|row| table.is_none_or(|table| row.table == table));
        let items = wanted.map(QuarantinedView::from).collect();
        Ok(Page { items, next_cursor: None })
    }

    async fn quarantined_row(&self, id: &str) -> Result<QuarantinedContentView, ServiceError> {
        let columns = json!({ "tenant": "acme", "status": "pending", "attempts": 3, "data": "V0JQc3BvaWx0" });
        let unreadable = (id == "q-1").then(|| "a stored record can't be read: the checksum is wrong".to_owned());
        Ok(QuarantinedContentView { row: known(id)?.into(), columns, unreadable })
    }

    async fn restore_row(&self, id: &str, reason: &str, actor: &str) -> Result<RestoredRow, ServiceError> {
        let row = known(id)?;
        if id == "q-1" {
            let state = "still unreadable: the checksum is wrong".to_owned();
            let fix = "it stays where it is; put it back with a version that can read it, or drop it";
            return Err(ServiceError::State { what: "row in quarantine", id: id.to_owned(), state, fix });
        }
        self.act(format!("restore {id} [{reason}] {actor}"));
        let restored = match id {
            "q-2" => Restored::Queued { messages: 3 },
            "q-3" => Restored::AtTakeover,
            _ => Restored::InPlace,
        };
        Ok(RestoredRow::new(row, restored))
    }

    async fn drop_row(&self, id: &str, reason: &str, actor: &str) -> Result<QuarantinedContentView, ServiceError> {
        let content = QuarantineService::quarantined_row(self, id).await?;
        self.act(format!("drop {id} [{reason}] {actor}"));
        Ok(content)
    }
}
