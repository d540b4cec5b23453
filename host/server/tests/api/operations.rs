//! `/v1/operations` and `/v1/transports`.

use serde_json::json;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, get, post, token, with};

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
        assert_eq!(api.send(ask(who, id)).await.problem(), (404, "OUTBOX.NOT_FOUND".into()), "{who} {id}");
    }
    let stop = with(post("/v1/operations/op-1/cancel", ""), "authorization", "Bearer other-op");
    assert_eq!(api.send(stop).await.problem().0, 404);
    assert!(!api.fake.calls().iter().any(|call| call.starts_with("cancel_operation")));
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
        ("gone", r#"{"apply":true}"#, (404, "OUTBOX.NOT_FOUND")),
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
