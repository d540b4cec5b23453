//! `/v1/sources`.

use async_trait::async_trait;
use serde_json::json;
use waybill_api::sources::*;
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transport::{Health, PluginIdentity};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::fake_inbound::{FakeInbound, Served};
use crate::support::{Api, NOW, get, token, with};

fn source(name: &str, tenants: &[&str]) -> SourceView {
    SourceView {
        name: name.to_owned(),
        plugin: Some(PluginIdentity {
            plugin: "nats-source".into(),
            version: "1.0.0".into(),
            digest: "sha256:ab".into(),
            generation: 1,
        }),
        publish: Publish::Stored,
        home: "shop".into(),
        owner: Some("host-1".into()),
        here: true,
        context: Some("sales".into()),
        tenants: tenants.iter().map(|tenant| (*tenant).to_owned()).collect(),
        consumers: vec!["ship".into()],
        paused: false,
        instances: 1,
        unsettled: 2,
        window: 50,
        caught_up: Some(true),
        lag: Some(7),
        overtaken: 0,
        made_anew: 0,
        failed: None,
        health: Health::Ready,
        health_detail: Some("10.0.0.7 answers".into()),
    }
}

fn known(name: &str) -> Served<SourceView> {
    match name {
        "gone" => Err(ServiceError::NotFound { what: Missing::Source, id: name.to_owned() }),
        known => Ok(source(known, &["acme"])),
    }
}

#[async_trait]
impl SourceService for FakeInbound {
    async fn sources(&self) -> Vec<SourceView> {
        vec![source("shop", &["acme", "other"]), source("stock", &["other"])]
    }
    async fn pause_source(&self, source: &str, reason: &str, actor: &str) -> Served<SourceView> {
        self.record(format!("pause_source {source} [{reason}] {actor}"));
        Ok(SourceView { paused: true, ..known(source)? })
    }
    async fn resume_source(&self, source: &str, reason: &str, actor: &str) -> Served<SourceView> {
        self.record(format!("resume_source {source} [{reason}] {actor}"));
        known(source)
    }
    async fn provision_source(&self, source: &str, apply: bool, actor: &str) -> Served<Vec<ProvisionChange>> {
        self.record(format!("provision_source {source} {apply} {actor}"));
        if source == "bare" {
            let error = ProvisionError::NotOffered { plugin: "table".to_owned() };
            return Err(ServiceError::SourceProvision { name: source.to_owned(), error });
        }
        known(source)?;
        Ok(vec![ProvisionChange {
            target: "consumer ship".to_owned(),
            action: ProvisionAction::Create,
            detail: "durable, max_deliver -1".to_owned(),
        }])
    }
    async fn failed_rows(&self, source: &str, cursor: Option<&str>, limit: usize) -> Served<Page<FailedRowView>> {
        self.record(format!("failed_rows {source} {cursor:?} {limit}"));
        known(source)?;
        let row = FailedRowView {
            id: "17".into(),
            aggregate: "order/17".into(),
            context: Some("sales".into()),
            topic: Some("bus:orders.paid".into()),
            event_type: Some("order_paid".into()),
            attempts: 20,
            last_error: "NATS.MAX_PAYLOAD: too large".into(),
            occurred_at: Some(NOW.into()),
            failed_at: None,
        };
        Ok(Page { items: vec![row], next_cursor: cursor.is_none().then(|| "17".to_owned()) })
    }
    async fn replay_rows(&self, source: &str, rows: ReplayRows, actor: &str) -> Served<ReplayedRows> {
        self.record(format!("replay_rows {source} {:?} [{}] {actor}", rows.ids, rows.reason));
        known(source)?;
        let (replayed, unchanged) = rows.ids.into_iter().partition(|id| id == "17");
        Ok(ReplayedRows { source: source.to_owned(), replayed, unchanged })
    }
}

#[tokio::test]
async fn sources_are_listed_paused_and_resumed() {
    let api = Api::open().await;
    let list = api.get("/v1/sources").await.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(2));
    let first = &list["items"][0];
    assert_eq!((&first["publish"], &first["health"], &first["lag"]), (&json!("stored"), &json!("ready"), &json!(7)));
    assert_eq!(api.post("/v1/sources/shop/pause", r#"{"reason":"broker moves"}"#).await.json()["paused"], true);
    assert_eq!(api.post("/v1/sources/shop/resume", "{}").await.json()["paused"], false);
    assert_eq!(api.post("/v1/sources/gone/pause", "").await.problem(), (404, "SOURCE.NOT_FOUND".into()));
    assert_eq!(
        api.inbound().calls(),
        ["pause_source shop [broker moves] local", "resume_source shop [] local", "pause_source gone [] local"]
    );
    let scraped = api.get("/metrics").await.text;
    assert!(scraped.contains("waybill_source_lag{source=\"shop\"} 7"), "{scraped}");
}

#[tokio::test]
async fn who_sees_some_tenants_sees_their_sources_without_what_others_may_have_configured() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default()).await;
    let ask = |path: &str| with(get(path), "authorization", "Bearer acme");
    let list = api.send(ask("/v1/sources")).await.json();
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1));
    let only = &list["items"][0];
    assert_eq!((&only["tenants"], &only["health_detail"]), (&json!(["acme"]), &json!(null)));
    // Rows of a table may be of any tenant.
    assert_eq!(api.send(ask("/v1/sources/shop/failed")).await.problem(), (403, "AUTH.ROLE".into()));
}

#[tokio::test]
async fn provisioning_is_a_plan_until_it_is_applied() {
    let api = Api::open().await;
    let plan = api.post("/v1/sources/shop/provision", r#"{"apply":false}"#).await.json();
    assert_eq!(
        (&plan["source"], &plan["applied"], &plan["changes"][0]["action"]),
        (&json!("shop"), &json!(false), &json!("create"))
    );
    assert_eq!(api.post("/v1/sources/shop/provision", r#"{"apply":true}"#).await.json()["applied"], true);
    let bare = api.post("/v1/sources/bare/provision", r#"{"apply":true}"#).await;
    assert_eq!(bare.problem(), (400, "PLUGIN.NO_PROVISIONING".into()));
    assert!(bare.json()["detail"].as_str().unwrap().starts_with("source \"bare\""), "{}", bare.text);
}

#[tokio::test]
async fn failed_rows_of_a_table_are_listed_and_put_back_in_it() {
    let api = Api::open().await;
    let page = api.get("/v1/sources/shop/failed?limit=5").await.json();
    assert_eq!((&page["items"][0]["id"], &page["items"][0]["attempts"]), (&json!("17"), &json!(20)));
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(api.get(&format!("/v1/sources/shop/failed?cursor={cursor}")).await.json()["next_cursor"], json!(null));
    assert_eq!(api.get(&format!("/v1/sources/stock/failed?cursor={cursor}")).await.status, 400);
    let done = api.post("/v1/sources/shop/replay", r#"{"ids":["17","18"],"reason":"raised the limit"}"#).await.json();
    assert_eq!(done, json!({"source": "shop", "replayed": ["17"], "unchanged": ["18"]}));
    assert_eq!(api.post("/v1/sources/shop/replay", r#"{"ids":[]}"#).await.problem().0, 400);
    assert_eq!(api.get("/v1/sources/gone/failed").await.problem(), (404, "SOURCE.NOT_FOUND".into()));
    assert_eq!(
        api.inbound().calls(),
        [
            "failed_rows shop None 5",
            "failed_rows shop Some(\"17\") 100",
            "replay_rows shop [\"17\", \"18\"] [raised the limit] local",
            "failed_rows gone None 100",
        ]
    );
}
