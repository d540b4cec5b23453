//! `/v1/idempotency`.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::idempotency::{Keep, Settings};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::support::{Answer, Api, get, host_with, post, token, with};

async fn ask(api: &Api, act: &str, body: Value) -> Answer {
    api.post(&format!("/v1/idempotency/{act}"), body.to_string()).await
}

async fn begin(api: &Api, key: &str, hash: &str) -> Answer {
    ask(api, "begin", json!({ "key": key, "hash": hash, "ttl_ms": 60_000, "lease_ms": 10_000 })).await
}

/// Begins a key that is free; the token.
async fn begun(api: &Api, key: &str) -> String {
    let new = begin(api, key, "h").await;
    assert_eq!(new.status, 201, "{}", new.text);
    new.json()["token"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_key_is_begun_busy_and_then_answers_its_result_as_it_was_given() {
    let api = Api::open().await;
    let new = begin(&api, "k", "h").await;
    assert_eq!(new.status, 201, "{}", new.text);
    let new = new.json();
    assert_eq!(
        new,
        json!({"state": "new", "token": new["token"], "begun": 1, "lease_until": "2096-10-02T07:06:50.123Z",
               "until": "2096-10-02T07:07:40.123Z"})
    );
    let token = new["token"].as_str().unwrap();
    let busy = begin(&api, "k", "h").await;
    assert_eq!(busy.problem(), (409, "TX.IDEMPOTENT_BUSY".into()));
    assert_eq!((busy.header("retry-after"), &busy.json()["retryable"]), ("1", &json!(true)));
    let mismatch = begin(&api, "k", "other").await;
    assert_eq!(mismatch.problem(), (422, "TX.IDEMPOTENT_MISMATCH".into()));
    assert_eq!(mismatch.json()["retryable"], false);
    let body = format!(r#"{{"key":"k","token":"{token}","result":{{"z":1.10,"a":[1]}}}}"#);
    let done = api.post("/v1/idempotency/finish", body).await;
    assert_eq!(
        (done.status.as_u16(), &done.json()["state"], &done.json()["kept"]),
        (200, &json!("succeeded"), &json!(true))
    );
    let again = begin(&api, "k", "h").await;
    assert_eq!(again.status, 200);
    // Byte for byte.
    assert!(again.text.contains(r#""state":"succeeded","result":{"z":1.10,"a":[1]}"#), "{}", again.text);
}

#[tokio::test]
async fn a_failed_key_answers_its_error_with_its_code() {
    let api = Api::open().await;
    let token = begun(&api, "k").await;
    let failed = ask(&api, "fail", json!({"key": "k", "token": token, "error": "no stock"})).await;
    assert_eq!((failed.status.as_u16(), failed.json()), (200, json!({"state": "failed"})));
    let again = begin(&api, "k", "h").await;
    assert_eq!(again.status, 200);
    assert_eq!(again.json(), json!({"state": "failed", "code": "TX.IDEMPOTENT_LAST_FAILED", "error": "no stock"}));
}

#[tokio::test]
async fn a_stale_token_is_refused_by_every_act() {
    let api = Api::open().await;
    let stale = begun(&api, "k").await;
    api.host.pass(Duration::from_secs(10));
    let second = begin(&api, "k", "h").await;
    assert_eq!((second.status.as_u16(), &second.json()["begun"]), (201, &json!(2)));
    let token = second.json()["token"].clone();
    for (act, body) in [
        ("finish", json!({"key": "k", "token": stale, "result": null})),
        ("fail", json!({"key": "k", "token": stale, "error": ""})),
        ("release", json!({"key": "k", "token": stale})),
        ("renew", json!({"key": "k", "token": stale})),
    ] {
        let answer = ask(&api, act, body).await;
        assert_eq!(answer.problem(), (409, "TX.LEASE_LOST".into()), "{act}");
    }
    let renewed = ask(&api, "renew", json!({"key": "k", "token": token, "lease_ms": 30_000})).await;
    assert_eq!(renewed.json(), json!({"state": "in_flight", "lease_until": "2096-10-02T07:07:20.123Z"}));
    assert_eq!(ask(&api, "release", json!({"key": "k", "token": token})).await.json(), json!({"state": "released"}));
    assert_eq!(begin(&api, "k", "other").await.status, 201);
}

#[tokio::test]
async fn with_digests_only_a_repeat_answers_the_digest() {
    let settings = Settings { keep: Keep::Digest, ..Settings::default() };
    let api = Api::over(host_with(|config| config.idempotency = settings).await, None, Limits::default());
    let token = begun(&api, "k").await;
    let done = ask(&api, "finish", json!({"key": "k", "token": token, "result": [1]})).await;
    assert_eq!(done.json()["kept"], false);
    let again = begin(&api, "k", "h").await.json();
    assert_eq!((again.get("result"), &again["bytes"]), (None, &json!(3)));
    assert_eq!(again["sha256"], "080a9ed428559ef602668b4c00f114f1a11c3f6b02a435f0bdc154578e4d7f22");
}

#[tokio::test]
async fn what_cant_be_is_refused_by_its_field() {
    let api = Api::open().await;
    let long = "x".repeat(256);
    for (act, body, path) in [
        ("begin", json!({"key": "", "hash": "h"}), "key"),
        ("begin", json!({"key": long, "hash": "h"}), "key"),
        ("begin", json!({"key": "a\nb", "hash": "h"}), "key"),
        ("begin", json!({"key": "k", "hash": ""}), "hash"),
        ("begin", json!({"key": "k", "hash": long}), "hash"),
        ("begin", json!({"key": "k", "hash": "h", "ttl_ms": 99}), "ttl_ms"),
        ("begin", json!({"key": "k", "hash": "h", "ttl_ms": 31_622_400_001_u64}), "ttl_ms"),
        ("begin", json!({"key": "k", "hash": "h", "lease_ms": 0}), "lease_ms"),
        ("begin", json!({"key": "k", "hash": "h", "lease_ms": 86_400_001}), "lease_ms"),
        ("begin", json!({"key": "k", "hash": "h", "tenant": ""}), "tenant"),
        ("begin", json!({"key": "k", "hash": "h", "lease": 5}), "lease"),
        ("finish", json!({"key": "k", "token": "", "result": 1}), "token"),
        ("fail", json!({"key": "k", "token": "t", "error": 7}), "error"),
        ("renew", json!({"key": "k", "token": "t", "lease_ms": 1}), "lease_ms"),
        ("forget", json!({"key": "k", "reason": "x".repeat(2_001)}), "reason"),
    ] {
        let answer = ask(&api, act, body.clone()).await;
        assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()), "{act} {body}");
        assert_eq!(answer.json()["path"], path, "{act} {body}: {}", answer.text);
    }
    for (act, body) in [
        ("begin", json!({"key": "k"})),
        ("finish", json!({"key": "k", "token": "t"})),
        ("release", json!({"key": "k"})),
    ] {
        assert_eq!(ask(&api, act, body).await.problem().0, 400);
    }
    assert_eq!(api.get("/v1/idempotency").await.json()["items"], json!([]));
}

#[tokio::test]
async fn trouble_is_told_with_what_to_do() {
    let api = Api::open().await;
    for (error, status, code) in [
        (ServiceError::Busy { what: "queue", count: 1, count_max: 1 }, 429, "OUTBOX.BUSY"),
        (ServiceError::Unsure(StoreError::Unavailable("x".into())), 504, "TX.TIMEOUT"),
        (ServiceError::Unsure(StoreError::DiskFull("x".into())), 507, "STORAGE.DISK_FULL"),
        (ServiceError::Unavailable("it is shutting down".into()), 503, "PROVIDER.UNAVAILABLE"),
        (ServiceError::Store(StoreError::Corrupt("secret".into())), 500, "STORAGE.CORRUPT"),
    ] {
        *api.hindrance.keys_fail.lock() = Some(error);
        let answer = begin(&api, "k", "h").await;
        assert_eq!(answer.problem(), (status, code.to_owned()));
        assert!(!answer.text.contains("secret"));
        assert_eq!(answer.headers.contains_key("retry-after"), status != 500, "{code}");
    }
}

#[tokio::test]
async fn keys_are_shown_and_listed() {
    let api = Api::open().await;
    let mut tokens = Vec::new();
    for n in 0..5 {
        tokens.push(begun(&api, &format!("order/{n}")).await);
    }
    ask(&api, "finish", json!({"key": "order/1", "token": tokens[1], "result": {"a": 1}})).await;
    let one = api.get("/v1/idempotency?key=order%2F1").await.json();
    assert_eq!(
        (&one["state"], &one["outcome"]["result"], &one["hash"]),
        (&json!("succeeded"), &json!({"a": 1}), &json!("h"))
    );
    let held = api.get("/v1/idempotency?key=order%2F0&tenant=default").await.json();
    assert_eq!((&held["state"], &held["lease_until"]), (&json!("in_flight"), &json!("2096-10-02T07:06:50.123Z")));
    assert!(!held.as_object().unwrap().contains_key("token"), "a token is its holder's: {held}");
    let missing = api.get("/v1/idempotency?key=none").await;
    assert_eq!(missing.problem(), (404, "TX.IDEMPOTENT_NOT_FOUND".into()));
    assert!(missing.text.contains("in tenant \\\"default\\\""), "{}", missing.text);
    let first = api.get("/v1/idempotency?limit=3&filter=key%3Dorder*").await.json();
    assert_eq!(first["items"].as_array().unwrap().len(), 3);
    assert!(first["items"][1]["outcome"]["result"].is_null(), "lists leave results out");
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = api.get(&format!("/v1/idempotency?limit=3&filter=key%3Dorder*&cursor={cursor}")).await.json();
    assert_eq!((rest["items"].as_array().unwrap().len(), &rest["next_cursor"]), (2, &Value::Null));
    let done = api.get("/v1/idempotency?filter=state%3Dsucceeded").await.json();
    assert_eq!(done["items"][0]["key"], "order/1");
    for bad in ["filter=state%3Ddead", "filter=topic%3Da", "cursor=x", "limit=0", "kye=a"] {
        assert_eq!(api.get(&format!("/v1/idempotency?{bad}")).await.problem().0, 400, "{bad}");
    }
}

#[tokio::test]
async fn an_operator_releases_a_key_and_nobody_else_does() {
    let tokens = vec![
        token("sender", &["acme"], &[Role::Sender]),
        token("ops", &["acme"], &[Role::Operator]),
        token("other", &["shop"], &[Role::Operator]),
    ];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let send = async |who: &str, act: &str, body: Value| {
        let request = post(&format!("/v1/idempotency/{act}"), body.to_string());
        api.send(with(request, "authorization", &format!("Bearer {who}"))).await
    };
    // The credential's only tenant is meant.
    assert_eq!(send("sender", "begin", json!({"key": "k", "hash": "h"})).await.status, 201);
    let foreign = json!({"key": "k", "hash": "h", "tenant": "shop"});
    assert_eq!(send("sender", "begin", foreign).await.problem(), (404, "TX.IDEMPOTENT_NOT_FOUND".into()));
    assert_eq!(send("sender", "forget", json!({"key": "k"})).await.problem(), (403, "AUTH.ROLE".into()));
    assert_eq!(send("ops", "begin", json!({"key": "k", "hash": "h"})).await.problem(), (403, "AUTH.ROLE".into()));
    assert_eq!(send("other", "forget", json!({"key": "k"})).await.problem().0, 404);
    let released = send("ops", "forget", json!({"key": "k", "reason": "gone"})).await;
    assert_eq!((released.status.as_u16(), &released.json()["state"]), (200, &json!("in_flight")));
    let again = send("sender", "begin", json!({"key": "k", "hash": "h"})).await;
    assert_eq!(again.status, 201);
    let finished = json!({"key": "k", "token": again.json()["token"], "result": 1});
    assert_eq!(send("sender", "finish", finished).await.status, 200);
    assert_eq!(send("ops", "forget", json!({"key": "k"})).await.problem(), (409, "OUTBOX.STATE".into()));
    assert_eq!(send("ops", "forget", json!({"key": "k", "finished": true})).await.status, 200);
    let list = api.send(with(get("/v1/idempotency?tenant=shop"), "authorization", "Bearer ops")).await;
    assert_eq!(list.problem(), (403, "AUTH.TENANT".into()));
}
