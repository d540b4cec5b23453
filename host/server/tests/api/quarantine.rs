//! `/v1/quarantine`.

use async_trait::async_trait;
use serde_json::json;
use waybill_api::quarantine::{QuarantineService, QuarantinedContentView, QuarantinedView, RestoredRow};
use waybill_core::port::missing::Missing;
use waybill_core::port::quarantine::{QuarantinedRow, Restored};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, Fake, NOW, get, token, with};

fn row(id: &str) -> QuarantinedRow {
    QuarantinedRow {
        id: id.to_owned(),
        table: "parked".into(),
        key: json!([0, 17]),
        tenant: Some("acme".into()),
        reason: "parked:[0, 17]: the checksum is wrong".into(),
        at: Some(NOW),
    }
}

fn known(id: &str) -> Result<QuarantinedRow, ServiceError> {
    match id {
        "gone" => Err(ServiceError::NotFound { what: Missing::QuarantinedRow, id: id.to_owned() }),
        id => Ok(row(id)),
    }
}

#[async_trait]
impl QuarantineService for Fake {
    async fn quarantined(
        &self,
        table: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<QuarantinedView>, ServiceError> {
        self.record(format!("quarantined {table:?} {cursor:?} {limit}"))?;
        Ok(Page { items: vec![row("q-1").into()], next_cursor: cursor.is_none().then(|| "q-1".to_owned()) })
    }
    async fn quarantined_row(&self, id: &str) -> Result<QuarantinedContentView, ServiceError> {
        self.record(format!("quarantined_row {id}"))?;
        let columns = json!({ "tenant": "acme", "data": "V0JQ" });
        let row = known(id)?.into();
        Ok(QuarantinedContentView { row, columns, unreadable: Some("the checksum is wrong".into()) })
    }
    async fn restore_row(&self, id: &str, reason: &str, actor: &str) -> Result<RestoredRow, ServiceError> {
        self.record(format!("restore_row {id} [{reason}] {actor}"))?;
        if id == "bad" {
            let state = "still unreadable: the checksum is wrong".to_owned();
            return Err(ServiceError::State { what: "row in quarantine", id: id.to_owned(), state, fix: "drop it" });
        }
        Ok(RestoredRow::new(known(id)?, Restored::Queued { messages: 2 }))
    }
    async fn drop_row(&self, id: &str, reason: &str, actor: &str) -> Result<QuarantinedContentView, ServiceError> {
        self.record(format!("drop_row {id} [{reason}] {actor}"))?;
        Ok(QuarantinedContentView { row: known(id)?.into(), columns: json!({}), unreadable: None })
    }
}

#[tokio::test]
async fn rows_in_quarantine_are_listed_in_pages_and_by_table() {
    let api = Api::open();
    let page = api.get("/v1/quarantine?table=parked&limit=5").await;
    assert_eq!(page.status, 200, "{}", page.text);
    assert_eq!(api.fake.calls(), ["quarantined Some(\"parked\") None 5"]);
    assert_eq!(
        page.json()["items"],
        json!([{
            "id": "q-1", "table": "parked", "key": [0, 17], "tenant": "acme",
            "reason": "parked:[0, 17]: the checksum is wrong", "since": "2026-09-21T14:13:20.123Z",
        }])
    );
    let cursor = page.json()["next_cursor"].as_str().unwrap().to_owned();
    let next = api.get(&format!("/v1/quarantine?table=parked&cursor={cursor}")).await;
    assert_eq!((next.status.as_u16(), &next.json()["next_cursor"]), (200, &json!(null)));
    // A cursor of another table's list.
    assert_eq!(api.get(&format!("/v1/quarantine?table=outbox&cursor={cursor}")).await.status, 400);
    assert_eq!(api.get("/v1/quarantine?limit=0").await.status, 400);
}

#[tokio::test]
async fn one_is_shown_put_back_and_dropped() {
    let api = Api::open();
    let shown = api.get("/v1/quarantine/q-1").await;
    assert_eq!(shown.json()["columns"], json!({ "tenant": "acme", "data": "V0JQ" }));
    assert_eq!(shown.json()["unreadable"], "the checksum is wrong");
    let restored = api.post("/v1/quarantine/q-1/restore", r#"{"reason":"a new version"}"#).await;
    assert_eq!(restored.status, 200, "{}", restored.text);
    assert_eq!((&restored.json()["went"], &restored.json()["messages"]), (&json!("queued"), &json!(2)));
    let dropped = api.post("/v1/quarantine/q-1/drop", "").await;
    assert_eq!(dropped.status, 200, "{}", dropped.text);
    assert_eq!(
        api.fake.calls(),
        ["quarantined_row q-1", "restore_row q-1 [a new version] local", "drop_row q-1 [] local"]
    );
    let refused = api.post("/v1/quarantine/bad/restore", "{}").await;
    assert_eq!(refused.problem(), (409, "OUTBOX.STATE".into()));
    assert!(refused.json()["detail"].as_str().unwrap().contains("still unreadable"));
    assert_eq!(api.get("/v1/quarantine/gone").await.problem(), (404, "QUARANTINE.NOT_FOUND".into()));
}

#[tokio::test]
async fn rows_may_be_of_any_tenant_so_only_who_manages_all_of_them_sees_one() {
    let tokens = vec![
        token("acme", &["acme"], &[Role::Admin]),
        token("operator", &["*"], &[Role::Operator]),
        token("admin", &["*"], &[Role::Admin]),
    ];
    let api = Api::with(Some(tokens), Limits::default());
    for (name, status) in [("acme", 403), ("operator", 403), ("admin", 200)] {
        let answer = api.send(with(get("/v1/quarantine/q-1"), "authorization", &format!("Bearer {name}"))).await;
        assert_eq!(answer.status, status, "{name}: {}", answer.text);
    }
}
