//! `/v1/outbox/claim` and `/v1/outbox/settle`.

use serde_json::json;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Api, post, token, with};

#[tokio::test]
async fn a_claim_gives_whole_messages_with_their_tokens() {
    let api = Api::open();
    let body = r#"{"worker_id":"w-1","limit":5,"lease_ms":2000,"topic":"bus:out.**","tenant":"acme","wait_ms":100}"#;
    let answer = api.post("/v1/outbox/claim", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let claimed = answer.json()["items"][0].clone();
    assert_eq!(
        (&claimed["id"], &claimed["token"], &claimed["target"]),
        (&json!("m-1"), &json!("t-1"), &json!("out.memory"))
    );
    assert_eq!((&claimed["attempt"], &claimed["retry_count"], &claimed["claims"]), (&json!(4), &json!(3), &json!(2)));
    assert_eq!(claimed["lease"]["worker"], "w-1");
    // Byte for byte, as a message is shown.
    assert!(answer.text.contains(r#""payload":{"z":1.10,"a":12345678901234567890}"#), "{}", answer.text);
    assert_eq!(api.fake.calls(), [r#"claim w-1 5 2s Some("bus:out.**") Some([Tenant("acme")]) 100ms"#]);
    api.post("/v1/outbox/claim", r#"{"worker_id":"w"}"#).await;
    assert_eq!(api.fake.calls(), ["claim w 10 60s None None 0ns"]);
}

#[tokio::test]
async fn a_claim_out_of_bounds_is_refused_by_its_field() {
    let api = Api::open();
    for (body, field) in [
        (r#"{"worker_id":""}"#, "worker_id"),
        (r#"{"worker_id":"a\nb"}"#, "worker_id"),
        (r#"{"worker_id":"w","limit":0}"#, "limit"),
        (r#"{"worker_id":"w","limit":1001}"#, "limit"),
        (r#"{"worker_id":"w","lease_ms":1}"#, "lease_ms"),
        (r#"{"worker_id":"w","lease_ms":86400001}"#, "lease_ms"),
        (r#"{"worker_id":"w","wait_ms":20001}"#, "wait_ms"),
        (r#"{"worker_id":"w","topic":"orders"}"#, "topic"),
    ] {
        let answer = api.post("/v1/outbox/claim", body).await;
        assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{body}");
        assert_eq!(answer.json()["path"], field, "{body}");
    }
    assert_eq!(api.post("/v1/outbox/claim", r#"{"limit":1}"#).await.problem().0, 400);
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn every_item_of_a_settlement_is_answered() {
    let api = Api::open();
    let body = r#"{"worker_id":"w-1","items":[
        {"id":"a","token":"t-1","result":"nack","error":"no","next_attempt_at":1790000000123},
        {"id":"b","token":"old","result":"ack","receipt":"memory-7","tenant":"acme"}]}"#;
    let answer = api.post("/v1/outbox/settle", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(
        answer.json()["items"],
        json!([
            {"id": "a", "applied": true, "result": "outbox_flush_retry", "next_attempt_at": "2026-09-21T14:13:20.123Z"},
            {"id": "b", "applied": false, "result": "outbox_flush_conflict", "code": "TX.LEASE_LOST",
             "reason": "somebody else has it", "state": "leased"},
        ])
    );
    let call = api.fake.calls().remove(0);
    assert!(call.starts_with(r#"settle Some("w-1") local None"#), "{call}");
    for part in ["UnixMillis(1790000000123)", "memory-7", "Tenant(\"acme\")", "Tenant(\"default\")"] {
        assert!(call.contains(part), "{part} isn't in {call}");
    }
}

#[tokio::test]
async fn a_settlement_that_cant_be_read_changes_nothing() {
    let api = Api::open();
    for body in [
        r#"{"items":[]}"#,
        r#"{"items":[{"id":"a","token":"t","result":"ack"},{"id":"b","token":"t","result":"ack","error":"x"}]}"#,
        r#"{"items":[{"id":"a","token":"t","result":"done"}]}"#,
        r#"{"items":[{"id":"a","result":"ack"}]}"#,
    ] {
        let answer = api.post("/v1/outbox/settle", body).await;
        assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{body}");
    }
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn a_worker_stays_within_the_tenants_of_its_token() {
    let tokens = vec![token("both", &["acme", "shop"], &[Role::Worker]), token("all", &["*"], &[Role::Worker])];
    let api = Api::with(Some(tokens), Limits::default());
    let ask =
        |who: &str, path: &str, body: &'static str| with(post(path, body), "authorization", &format!("Bearer {who}"));
    api.send(ask("both", "/v1/outbox/claim", r#"{"worker_id":"w"}"#)).await;
    api.send(ask("all", "/v1/outbox/claim", r#"{"worker_id":"w","tenant":"acme"}"#)).await;
    let calls = api.fake.calls();
    assert!(calls[0].contains(r#"Some([Tenant("acme"), Tenant("shop")])"#), "{calls:?}");
    assert!(calls[1].contains(r#"Some([Tenant("acme")])"#), "{calls:?}");
    let foreign = api.send(ask("both", "/v1/outbox/claim", r#"{"worker_id":"w","tenant":"other"}"#)).await;
    assert_eq!(foreign.problem(), (403, "AUTH.TENANT".into()));
    let body = r#"{"items":[{"id":"a","token":"t","result":"ack","tenant":"other"}]}"#;
    assert_eq!(api.send(ask("both", "/v1/outbox/settle", body)).await.problem(), (404, "OUTBOX.NOT_FOUND".into()));
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn an_earlier_delivery_is_found_by_target_and_payload() {
    let api = Api::open();
    let sha = "0123456789ABCDEF".repeat(4);
    let found = api.post("/v1/outbox/check-dedup", format!(r#"{{"target":"out.memory","payload_sha":"{sha}"}}"#)).await;
    let first = found.json()["first"].clone();
    assert_eq!((&first["id"], &first["receipt"]["broker_ref"]), (&json!("m-0"), &json!("memory-1")));
    let none = api.post("/v1/outbox/check-dedup", format!(r#"{{"target":"x","payload_sha":"{sha}"}}"#)).await;
    assert_eq!(none.json(), json!({"first": null}));
    let sha = sha.to_lowercase();
    assert_eq!(
        api.fake.calls(),
        [format!("check_dedup default out.memory {sha}"), format!("check_dedup default x {sha}")]
    );
    let bad = api.post("/v1/outbox/check-dedup", r#"{"target":"x","payload_sha":"abc"}"#).await;
    assert_eq!((bad.problem().0, &bad.json()["path"]), (400, &json!("payload_sha")));
}
