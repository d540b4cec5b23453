//! `/v1/outbox/claim` and `/v1/outbox/settle`.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::port::service::MessageState;
use waybill_core::route::{Pattern, Route};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::message;

use crate::support::{Api, NOW, full_message, host_with, of, post, token, with};

/// What a claim answers.
async fn claimed(api: &Api, body: &str) -> Vec<Value> {
    let answer = api.post("/v1/outbox/claim", body.to_owned()).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["items"].as_array().unwrap().clone()
}

fn ids(claimed: &[Value]) -> Vec<&str> {
    claimed.iter().map(|message| message["id"].as_str().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn a_claim_gives_whole_messages_with_their_tokens() {
    let api = Api::open().await;
    api.host.offered(of("acme", full_message("m-1")), "out.memory").await;
    api.host.offered(of("acme", message("m-2")), "out.other").await;
    api.host.offered(message("m-3"), "out.memory").await;
    let body = r#"{"worker_id":"w-1","limit":5,"lease_ms":2000,"topic":"bus:out.mem*","tenant":"acme","wait_ms":100}"#;
    let answer = api.post("/v1/outbox/claim", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let items = answer.json()["items"].as_array().unwrap().clone();
    assert_eq!(ids(&items), ["m-1"], "of that topic and tenant only");
    let first = &items[0];
    assert_eq!((&first["target"], &first["lease_until"]), (&json!("out.memory"), &json!("2096-10-02T07:06:42.123Z")));
    assert_eq!((&first["attempt"], &first["retry_count"], &first["claims"]), (&json!(1), &json!(0), &json!(1)));
    assert_eq!(first["lease"]["worker"], "w-1");
    // Byte for byte, as a message is shown.
    assert!(answer.text.contains(r#""payload":{"z":1.10,"a":12345678901234567890}"#), "{}", answer.text);
    let mut rest = claimed(&api, r#"{"worker_id":"w"}"#).await;
    rest.sort_by_key(|item| item["id"].to_string());
    assert_eq!(ids(&rest), ["m-2", "m-3"], "of all tenants and topics");
    assert_eq!(rest[0]["lease_until"], NOW.plus(Duration::from_secs(60)).to_string());
    // What wasn't settled is claimed again, and says so.
    api.host.pass(Duration::from_secs(2));
    let again = claimed(&api, r#"{"worker_id":"w-2","wait_ms":20000}"#).await;
    assert_eq!((ids(&again), &again[0]["claims"]), (vec!["m-1"], &json!(2)));
}

#[tokio::test]
async fn a_claim_out_of_bounds_is_refused_by_its_field() {
    let api = Api::open().await;
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
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn every_item_of_a_settlement_is_answered() {
    let api = Api::open().await;
    api.host.offered(message("a"), "out.memory").await;
    api.host.offered(of("acme", message("b")), "out.memory").await;
    let items = claimed(&api, r#"{"worker_id":"w-1","wait_ms":20000}"#).await;
    let token_of = |id: &str| items.iter().find(|item| item["id"] == id).unwrap()["token"].as_str().unwrap().to_owned();
    let body = format!(
        r#"{{"worker_id":"w-1","items":[
        {{"id":"a","token":"{}","result":"nack","error":"no","next_attempt_at":4000000060123}},
        {{"id":"b","token":"old","result":"ack","receipt":"memory-7","tenant":"acme"}}]}}"#,
        token_of("a")
    );
    let answer = api.post("/v1/outbox/settle", body).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answers = answer.json()["items"].clone();
    assert_eq!(
        answers[0],
        json!({"id": "a", "applied": true, "result": "outbox_flush_retry", "next_attempt_at": "2096-10-02T07:07:40.123Z"})
    );
    let lost = &answers[1];
    assert_eq!((&lost["id"], &lost["applied"], &lost["code"]), (&json!("b"), &json!(false), &json!("TX.LEASE_LOST")));
    assert_eq!((&lost["result"], &lost["state"]), (&json!("outbox_flush_conflict"), &json!("leased")));
    assert!(lost["reason"].as_str().unwrap().contains("somebody else has it"));
    let conflict = api.get("/v1/audit").await.json()["items"][0].clone();
    assert_eq!((&conflict["kind"], &conflict["actor"]), (&json!("outbox_flush_conflict"), &json!("local")));
    assert_eq!((&conflict["detail"]["worker"], &conflict["tenant"]), (&json!("w-1"), &json!("acme")));
    let body = format!(
        r#"{{"items":[{{"id":"b","token":"{}","result":"ack","receipt":"memory-7","tenant":"acme"}}]}}"#,
        token_of("b")
    );
    assert_eq!(api.post("/v1/outbox/settle", body).await.json()["items"][0]["applied"], true);
    let done = api.host.until_state("acme", "b", MessageState::Done).await;
    assert_eq!(done.receipt.and_then(|receipt| receipt.broker_ref).as_deref(), Some("memory-7"));
    let parked = api.host.view("default", "a").await;
    assert_eq!(parked.last_error.as_deref(), Some("EXTERNAL.FAILED: no"));
}

#[tokio::test]
async fn a_settlement_that_cant_be_read_changes_nothing() {
    let api = Api::open().await;
    for body in [
        r#"{"items":[]}"#,
        r#"{"items":[{"id":"a","token":"t","result":"ack"},{"id":"b","token":"t","result":"ack","error":"x"}]}"#,
        r#"{"items":[{"id":"a","token":"t","result":"done"}]}"#,
        r#"{"items":[{"id":"a","result":"ack"}]}"#,
    ] {
        let answer = api.post("/v1/outbox/settle", body).await;
        assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{body}");
    }
    assert!(api.reached().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_worker_stays_within_the_tenants_of_its_token() {
    let tokens = vec![token("both", &["acme", "shop"], &[Role::Worker]), token("all", &["*"], &[Role::Worker])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    for tenant in ["acme", "shop", "other"] {
        api.host.offered(of(tenant, message(&format!("of-{tenant}"))), "out.memory").await;
    }
    let ask =
        |who: &str, path: &str, body: &'static str| with(post(path, body), "authorization", &format!("Bearer {who}"));
    let claim = async |who: &str, body: &'static str| {
        let answer = api.send(ask(who, "/v1/outbox/claim", body)).await.json();
        let items = answer["items"].as_array().unwrap().iter();
        items.map(|item| item["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(claim("all", r#"{"worker_id":"w","tenant":"acme","wait_ms":20000}"#).await, ["of-acme"]);
    api.host.offered(of("acme", message("second")), "out.memory").await;
    let mut mine = claim("both", r#"{"worker_id":"w","wait_ms":20000}"#).await;
    mine.sort();
    assert_eq!(mine, ["of-shop", "second"]);
    assert!(claim("both", r#"{"worker_id":"w"}"#).await.is_empty(), "the other tenant's is left alone");
    api.reached();
    let foreign = api.send(ask("both", "/v1/outbox/claim", r#"{"worker_id":"w","tenant":"other"}"#)).await;
    assert_eq!(foreign.problem(), (403, "AUTH.TENANT".into()));
    let body = r#"{"items":[{"id":"a","token":"t","result":"ack","tenant":"other"}]}"#;
    assert_eq!(api.send(ask("both", "/v1/outbox/settle", body)).await.problem(), (404, "OUTBOX.NOT_FOUND".into()));
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn an_earlier_delivery_is_found_by_target_and_payload() {
    let deduplicated = host_with(|config| {
        let route = Route::new(Pattern::parse("bus:out.**").unwrap(), "external");
        config.routes.0.insert(0, Route { dedup: Some(Duration::from_secs(3_600)), ..route });
    });
    let api = Api::over(deduplicated.await, None, Limits::default());
    api.host.offered(message("m-0"), "out.memory").await;
    let item = claimed(&api, r#"{"worker_id":"w","wait_ms":20000}"#).await.remove(0);
    let (token, sha) = (item["token"].as_str().unwrap(), api.host.view("default", "m-0").await.payload_sha256.unwrap());
    let settled = format!(r#"{{"items":[{{"id":"m-0","token":"{token}","result":"ack","receipt":"memory-1"}}]}}"#);
    assert_eq!(api.post("/v1/outbox/settle", settled).await.json()["items"][0]["applied"], true);
    // In capitals it is the same digest.
    let ask = |target: &str, sha: &str| {
        let body = format!(r#"{{"target":"{target}","payload_sha":"{sha}"}}"#);
        api.post("/v1/outbox/check-dedup", body)
    };
    let first = ask("out.memory", &sha.to_uppercase()).await.json()["first"].clone();
    assert_eq!((&first["id"], &first["receipt"]["broker_ref"]), (&json!("m-0"), &json!("memory-1")));
    assert_eq!(ask("x", &sha).await.json(), json!({"first": null}));
    assert_eq!(ask("out.memory", &"0".repeat(64)).await.json(), json!({"first": null}));
    let bad = ask("x", "abc").await;
    assert_eq!((bad.problem().0, &bad.json()["path"]), (400, &json!("payload_sha")));
}
