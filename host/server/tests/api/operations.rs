//! `/v1/operations` and `/v1/transports`.

use async_trait::async_trait;
use serde_json::json;
use waybill_api::operations::OperationService;
use waybill_core::ids::Tenant;
use waybill_core::port::missing::Missing;
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::transact::{Operation, OperationState};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, Fake, NOW, Served, get, name, post, token, with};

fn operation(id: &str, tenant: Option<String>) -> Operation {
    Operation {
        id: id.to_owned(),
        kind: "replay".into(),
        filter: "code=HTTP.* state=dead".into(),
        step: None,
        mode: None,
        tenant,
        rate: 100,
        reason: String::new(),
        actor: "ann".into(),
        state: OperationState::Running,
        matched: 5,
        counted_since: None,
        done: 1,
        unchanged: 0,
        failed: 0,
        refusals: Vec::new(),
        cursor: None,
        error: None,
        created_at: NOW,
        updated_at: NOW,
    }
}

#[async_trait]
impl OperationService for Fake {
    async fn start_operation(&self, request: OperationRequest) -> Served<Operation> {
        let OperationRequest { kind, filter, step, mode, tenant, rate, reason, actor } = request;
        let how = step.map(|step| format!(" from {step}")).unwrap_or_default()
            + &mode.map(|mode| format!(" {mode:?}")).unwrap_or_default();
        self.record(format!("start {kind}{how} [{filter}] {} {rate:?} [{reason}] {actor}", name(tenant.as_ref())))?;
        Ok(Operation { kind, ..operation("op-1", tenant.map(String::from)) })
    }
    async fn operation(&self, id: &str) -> Served<Operation> {
        self.record(format!("operation {id}"))?;
        match id {
            "gone" => Err(ServiceError::NotFound { what: Missing::Operation, id: id.to_owned() }),
            "of-all" => Ok(operation(id, None)),
            id => Ok(operation(id, Some("acme".into()))),
        }
    }
    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Served<Vec<Operation>> {
        self.record(format!("operations {} {limit}", name(tenant)))?;
        Ok(vec![operation("op-1", tenant.map(ToString::to_string))])
    }
    async fn cancel_operation(&self, id: &str, actor: &str) -> Served<Operation> {
        self.record(format!("cancel_operation {id} {actor}"))?;
        Ok(Operation { state: OperationState::Cancelled, ..operation(id, Some("acme".into())) })
    }
}

#[tokio::test]
async fn a_dry_run_counts_shows_and_changes_nothing() {
    let api = Api::open();
    let body = r#"{"kind":"replay","filter":"code=HTTP.*","dry_run":true}"#;
    let answer = api.post("/v1/operations", body).await;
    let shown = answer.json();
    assert_eq!((answer.status.as_u16(), &shown["dry_run"], &shown["matched"]), (200, &json!(true), &json!(42)));
    assert_eq!(shown["sample"][0]["id"], "d-1");
    assert_eq!(
        api.fake.calls(),
        ["count_dead * [code=HTTP.* state=dead]", "dead_letters * [code=HTTP.* state=dead] None 10"]
    );
}

#[tokio::test]
async fn an_operation_starts_shows_and_stops() {
    let api = Api::open();
    let body = r#"{"kind":"purge","filter":"id=*","rate":5,"reason":"old","tenant":"acme"}"#;
    let answer = api.post("/v1/operations", body).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (202, "/v1/operations/op-1"));
    assert_eq!(api.get("/v1/operations/op-1").await.json()["matched"], 5);
    assert_eq!(api.post("/v1/operations/op-1/cancel", "").await.json()["state"], "cancelled");
    assert_eq!(
        api.fake.calls(),
        [
            "start purge [id=* kind=message] acme Some(5) [old] local",
            "operation op-1",
            "operation op-1",
            "cancel_operation op-1 local"
        ]
    );
    assert_eq!(api.get("/v1/operations/gone").await.problem().0, 404);
}

#[tokio::test]
async fn acts_on_sagas_are_operations_too() {
    let api = Api::open();
    let dry =
        api.post("/v1/operations", r#"{"kind":"cancel","filter":"definition=order","dry_run":true}"#).await.json();
    assert_eq!((&dry["dry_run"], &dry["matched"]), (&json!(true), &json!(2)));
    assert_eq!(dry["sample"][0]["id"], "order-17");
    assert_eq!(
        api.fake.calls(),
        [
            "sagas * Some(\"order\") None 1000",
            "sagas * Some(\"order\") Some(\"0:9\") 1000",
            "sagas * Some(\"order\") None 10"
        ]
    );
    let body = r#"{"kind":"retry","mode":"retry","step":"charge","filter":"definition=order","tenant":"acme","reason":"back"}"#;
    let answer = api.post("/v1/operations", body).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (202, "/v1/operations/op-1"));
    assert_eq!(answer.json()["kind"], "retry");
    let last = api.fake.calls().pop();
    assert_eq!(last.as_deref(), Some("start retry from charge Retry [definition=order] acme None [back] local"));
}

#[tokio::test]
async fn what_an_act_on_sagas_does_not_take_is_refused_with_its_field() {
    let api = Api::open();
    let long = format!(r#"{{"kind":"pause","filter":"id=*","reason":"{}"}}"#, "x".repeat(1_025));
    for (body, path) in [
        (r#"{"kind":"pause","filter":""}"#, "filter"),
        (r#"{"kind":"accept","filter":"id=*"}"#, "reason"),
        (r#"{"kind":"pause","filter":"id=*","mode":"retry"}"#, "mode"),
        (r#"{"kind":"replay","filter":"id=*","step":"a"}"#, "step"),
        (r#"{"kind":"retry","filter":"id=*","step":""}"#, "step"),
        (r#"{"kind":"pause","filter":"id=*","rate":0}"#, "rate"),
        (long.as_str(), "reason"),
    ] {
        let refused = api.post("/v1/operations", body.to_owned()).await;
        assert_eq!(refused.problem(), (400, "SCHEMA.VALIDATION_FAILED".to_owned()), "{body}");
        assert_eq!(refused.json()["path"], path, "{body}");
    }
    let unknown = api.post("/v1/operations", r#"{"kind":"pause","filter":"colour=red"}"#).await;
    assert_eq!(unknown.problem().0, 400);
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn stuck_sagas_are_not_purged() {
    let api = Api::open();
    for more in ["", r#","dry_run":true"#] {
        let body = format!(r#"{{"kind":"purge","filter":"kind=saga"{more}}}"#);
        let refused = api.post("/v1/operations", body).await;
        assert_eq!(refused.problem(), (409, "DEAD.KIND".to_owned()));
        assert!(refused.json()["detail"].as_str().unwrap().contains("waybill saga accept"), "{}", refused.text);
    }
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn operations_of_other_tenants_do_not_exist() {
    let tokens = vec![token("acme-op", &["acme"], &[Role::Operator]), token("other-op", &["other"], &[Role::Operator])];
    let api = Api::with(Some(tokens), Limits::default());
    let ask =
        |who: &str, id: &str| with(get(&format!("/v1/operations/{id}")), "authorization", &format!("Bearer {who}"));
    assert_eq!(api.send(ask("acme-op", "op-1")).await.status, 200);
    for (who, id) in [("other-op", "op-1"), ("acme-op", "of-all"), ("acme-op", "gone")] {
        assert_eq!(api.send(ask(who, id)).await.problem(), (404, "OPERATION.NOT_FOUND".into()), "{who} {id}");
    }
    let stop = with(post("/v1/operations/op-1/cancel", ""), "authorization", "Bearer other-op");
    assert_eq!(api.send(stop).await.problem().0, 404);
    assert!(!api.fake.calls().iter().any(|call| call.starts_with("cancel_operation")));
}

#[tokio::test]
async fn operations_are_listed_for_their_tenant() {
    let api = Api::open();
    let listed = api.get("/v1/operations?limit=5").await.json();
    assert_eq!((&listed["items"][0]["id"], &listed["items"][0]["actor"]), (&json!("op-1"), &json!("ann")));
    assert_eq!(api.fake.calls(), ["operations * 5"]);
    let api = Api::with(Some(vec![token("acme-op", &["acme"], &[Role::Operator])]), Limits::default());
    let ask = |query: &str| with(get(&format!("/v1/operations{query}")), "authorization", "Bearer acme-op");
    assert_eq!(api.send(ask("")).await.json()["items"][0]["tenant"], "acme");
    assert_eq!(api.send(ask("?tenant=other")).await.problem().0, 403);
    assert_eq!(api.fake.calls(), ["operations acme 100"]);
}

#[tokio::test]
async fn transports_are_listed_paused_resumed_and_probed() {
    let api = Api::open();
    assert_eq!(api.get("/v1/transports").await.json()["items"][0]["health"], "ready");
    assert_eq!(api.post("/v1/transports/web/pause", "").await.json()["paused"], true);
    assert_eq!(api.post("/v1/transports/web/resume", "").await.json()["paused"], false);
    assert_eq!(api.post("/v1/transports/web/probe", "").await.status, 200);
    assert_eq!(api.post("/v1/transports/gone/probe", "").await.problem().0, 404);
    assert_eq!(api.fake.calls(), ["pause web local", "resume web local", "probe web local", "probe gone local"]);
}

#[tokio::test]
async fn provisioning_is_planned_and_applied() {
    let api = Api::open();
    let plan = api.post("/v1/transports/web/provision", r#"{"apply":false}"#).await.json();
    assert_eq!((&plan["applied"], &plan["changes"][0]["action"]), (&json!(false), &json!("create")));
    let done = api.post("/v1/transports/web/provision", r#"{"apply":true}"#).await.json();
    assert_eq!((&done["applied"], &done["changes"][0]["target"]), (&json!(true), &json!("stream ORDERS")));
    for (name, body, problem) in [
        ("gone", r#"{"apply":true}"#, (404, "TRANSPORT.NOT_FOUND")),
        ("bare", r#"{"apply":true}"#, (400, "PLUGIN.NO_PROVISIONING")),
        ("down", r#"{"apply":false}"#, (502, "PLUGIN.PROVISION_FAILED")),
        // Whether to change something is never guessed.
        ("web", "{}", (400, "SCHEMA.VALIDATION_FAILED")),
        ("web", r#"{"apply":true,"force":true}"#, (400, "SCHEMA.VALIDATION_FAILED")),
    ] {
        let answer = api.post(&format!("/v1/transports/{name}/provision"), body).await;
        assert_eq!(answer.problem(), (problem.0, problem.1.to_owned()), "{name} {body}");
    }
    assert_eq!(api.fake.calls()[..2], ["provision web false local", "provision web true local"]);
}
