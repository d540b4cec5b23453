//! The `Idempotency-Key` header.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;
use waybill_core::idempotency::{EntryState, Keep, Settings};
use waybill_core::port::saga::SagaAct;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_server::limits::Limits;
use waybill_testkit::memory_host::ORDER;

use crate::support::{Answer, Api, FAILING, NOW, host_with, post, with};

const MESSAGE: &str = r#"{"topic":"bus:a","payload":{"n":1}}"#;

fn keyed(path: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    with(post(path, body), "idempotency-key", key)
}

async fn send(api: &Api, key: &str, body: &str) -> Answer {
    api.send(keyed("/v1/messages", key, body.to_owned())).await
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_nothing_is_done_again() {
    let api = Api::open().await;
    let first = send(&api, "\"key-1\"", MESSAGE).await;
    assert_eq!((first.status.as_u16(), first.header("idempotency-replayed")), (201, ""));
    assert_eq!(api.reached(), ["enqueue"]);
    // Quoted or bare, it is the same key.
    for key in ["\"key-1\"", "key-1"] {
        let again = send(&api, key, MESSAGE).await;
        assert_eq!((again.status.as_u16(), &again.text), (201, &first.text));
        assert_eq!((again.header("idempotency-replayed"), again.header("content-type")), ("true", "application/json"));
    }
    assert!(api.reached().is_empty());
    // Another key is another operation, and its messages have other ids.
    let other = send(&api, "key-2", MESSAGE).await;
    assert_ne!(other.json()["ids"], first.json()["ids"]);
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused() {
    let api = Api::open().await;
    send(&api, "k", MESSAGE).await;
    api.reached();
    for other in [
        keyed("/v1/messages", "k", r#"{"topic":"bus:a","payload":{"n":2}}"#),
        keyed("/v1/transactions", "k", r#"{"messages":[{"topic":"bus:a","payload":1}]}"#),
        with(keyed("/v1/messages", "k", MESSAGE), "content-type", "application/x-ndjson"),
    ] {
        let answer = api.send(other).await;
        assert_eq!(answer.problem(), (422, "TX.IDEMPOTENT_MISMATCH".into()));
    }
    assert!(api.reached().is_empty());
    // Another tenant has keys of its own.
    let acme = send(&api, "k", r#"{"topic":"bus:a","payload":{"n":2},"tenant":"acme"}"#).await;
    assert_eq!(acme.status, 201);
}

#[tokio::test]
async fn a_repeat_while_the_first_is_at_work_is_told_to_come_back() {
    let api = Arc::new(Api::open().await);
    let gate = api.hindrance.shut();
    let first = tokio::spawn({
        let api = api.clone();
        async move { send(&api, "k", MESSAGE).await }
    });
    while api.hindrance.count() == 0 {
        tokio::task::yield_now().await;
    }
    let busy = send(&api, "k", MESSAGE).await;
    assert_eq!(busy.problem(), (409, "TX.IDEMPOTENT_BUSY".into()));
    assert_eq!(busy.header("retry-after"), "1");
    api.hindrance.open();
    gate.notify_one();
    let first = first.await.unwrap();
    assert_eq!(send(&api, "k", MESSAGE).await.text, first.text);
}

#[tokio::test]
async fn a_caller_who_goes_away_finds_the_answer_later() {
    let api = Arc::new(Api::open().await);
    let gate = api.hindrance.shut();
    let asking = tokio::spawn({
        let api = api.clone();
        async move { send(&api, "k", MESSAGE).await }
    });
    while api.hindrance.count() == 0 {
        tokio::task::yield_now().await;
    }
    asking.abort();
    assert!(asking.await.is_err_and(|error| error.is_cancelled()));
    gate.notify_one();
    let answer = loop {
        let answer = send(&api, "k", MESSAGE).await;
        if answer.status != 409 {
            break answer;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!((answer.status.as_u16(), answer.header("idempotency-replayed")), (201, "true"));
    assert_eq!(api.reached(), ["enqueue"]);
}

#[tokio::test]
async fn refusals_that_would_be_the_same_again_are_kept_with_what_they_say() {
    let api = Api::open().await;
    let taken = r#"{"topic":"bus:a","payload":{"n":2},"id":"a"}"#;
    assert_eq!(api.post("/v1/messages", r#"{"topic":"bus:a","payload":{"n":1},"id":"a"}"#).await.status, 201);
    api.reached();
    let first = send(&api, "k", taken).await;
    let again = send(&api, "k", taken).await;
    assert_eq!(again.problem(), (409, "STORAGE.CONFLICT".into()));
    assert_eq!((&again.json()["detail"], again.header("idempotency-replayed")), (&first.json()["detail"], "true"));
    // The request that asked is named, not the first one.
    assert_ne!(again.json()["request_id"], first.json()["request_id"]);
    assert_eq!(api.reached(), ["enqueue"]);
}

#[tokio::test]
async fn what_may_work_another_time_is_done_again_with_the_same_ids_if_it_may_have_been_done() {
    let api = Api::open().await;
    for (error, status, same_ids) in [
        (ServiceError::Busy { what: "queue", count: 1, count_max: 1 }, 429, false),
        (ServiceError::OutcomeUnknown(StoreError::Unavailable("x".into())), 504, true),
        (ServiceError::Unavailable("drains".into()), 503, true),
        (ServiceError::Store(StoreError::DiskFull("x".into())), 507, true),
        (ServiceError::Store(StoreError::Conflict("x".into())), 409, false),
    ] {
        let key = format!("k-{status}");
        *api.hindrance.fails.lock() = Some(error);
        assert_eq!(send(&api, &key, MESSAGE).await.problem().0, status);
        *api.hindrance.fails.lock() = None;
        let left = api.get(&format!("/v1/idempotency?key={key}")).await;
        assert_eq!(left.status == 200, same_ids, "{status}");
        let again = send(&api, &key, MESSAGE).await;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, ""), "{status}");
    }
}

/// Has every key stand so in the store, and another host start on it.
async fn found_by_the_next_host(api: Api, state: EntryState) -> Api {
    api.host.store.write(|tables| {
        for entry in tables.idempotency.values_mut() {
            entry.state = state.clone();
        }
    });
    api.restarted().await
}

#[tokio::test]
async fn an_execution_after_a_crash_makes_the_same_ids_and_answers_like_the_first() {
    let api = Api::open().await;
    let body = r#"{"messages":[{"topic":"bus:a","payload":1},{"topic":"bus:a","payload":2,"id":"mine"},{"topic":"bus:a","payload":3}]}"#;
    let first = send(&api, "k", body).await;
    let ids = first.json()["ids"].clone();
    assert_eq!(ids[1], "mine");
    // The host died after it had enqueued the messages and before it wrote that down.
    let api = found_by_the_next_host(api, EntryState::InFlight { lease_until: NOW }).await;
    api.host.pass(Duration::from_secs(1));
    let again = send(&api, "k", body).await;
    assert_eq!((again.status.as_u16(), again.json()), (201, json!({"ids": ids, "duplicates": ["mine"]})));
    assert_eq!(api.get("/v1/idempotency?key=k").await.json()["begun"], 2);
}

#[tokio::test]
async fn an_answer_that_isnt_kept_is_replayed_as_status_and_digest() {
    let settings = Settings { keep: Keep::Digest, ..Settings::default() };
    let api = Api::over(host_with(|config| config.idempotency = settings).await, None, Limits::default());
    let first = send(&api, "k", MESSAGE).await;
    let again = send(&api, "k", MESSAGE).await;
    assert_eq!((again.status, again.text.as_str(), again.header("idempotency-replayed")), (first.status, "", "true"));
    assert!(again.header("repr-digest").starts_with("sha-256=:"), "{:?}", again.headers);
    assert_eq!(api.post("/v1/messages", r#"{"topic":"bus:a","payload":{"n":1},"id":"a"}"#).await.status, 201);
    for _ in 0..2 {
        let refused = send(&api, "refused", r#"{"topic":"bus:a","payload":{"n":2},"id":"a"}"#).await;
        assert_eq!(refused.problem(), (409, "STORAGE.CONFLICT".into()));
    }
}

#[tokio::test]
async fn a_transaction_finishes_its_key_with_its_own_commit() {
    let api = Api::open().await;
    let body = r#"{"statements":[{"query":"CREATE a","bindings":{"n":1}}],"messages":[{"topic":"bus:a","payload":1}]}"#;
    let first = api.send(keyed("/v1/transactions", "k", body)).await;
    let again = api.send(keyed("/v1/transactions", "k", body)).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16(), &again.text), (201, 201, &first.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(api.reached(), ["transact"]);
    // Without messages, and one whose statement fails.
    let bare = r#"{"statements":[{"query":"CREATE a"}]}"#;
    assert_eq!(api.send(keyed("/v1/transactions", "bare", bare)).await.status, 200);
    let failing = format!(r#"{{"statements":[{{"query":"{FAILING}"}}]}}"#);
    // Other rows may let it through the next time, so it isn't kept.
    for _ in 0..2 {
        let failed = api.send(keyed("/v1/transactions", "failing", failing.clone())).await;
        assert_eq!(failed.problem(), (400, "STORAGE.STATEMENT".into()));
        assert_eq!(failed.header("idempotency-replayed"), "");
    }
    // The key was taken over meanwhile: nothing was committed, and nothing is said of the key. When that lease ends the next one
    // begins it.
    *api.hindrance.fails.lock() = Some(ServiceError::LeaseLost { what: "idempotency key", id: "lost".into() });
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.problem(), (409, "TX.LEASE_LOST".into()));
    *api.hindrance.fails.lock() = None;
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.problem(), (409, "TX.IDEMPOTENT_BUSY".into()));
    api.host.pass(Settings::default().lease);
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.status, 200);
}

#[tokio::test]
async fn a_saga_started_under_a_key_has_an_id_of_the_key_and_its_address_is_replayed() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    let body = r#"{"definition":"order","input":{"n":1}}"#;
    let first = api.send(keyed("/v1/sagas", "k", body)).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((id.len(), first.header("location").contains(&id)), (32, true), "{:?}", first.headers);
    let again = api.send(keyed("/v1/sagas", "k", body)).await;
    assert_eq!((again.status.as_u16(), &again.text), (202, &first.text));
    assert_eq!((again.header("location"), again.header("idempotency-replayed")), (first.header("location"), "true"));
    assert_eq!(api.get("/v1/sagas").await.json()["items"].as_array().unwrap().len(), 1);
    // An id of the caller's own is kept.
    let named = api.send(keyed("/v1/sagas", "named", r#"{"definition":"order","input":{},"id":"mine"}"#)).await;
    assert_eq!(named.json()["id"], "mine");
}

#[tokio::test]
async fn a_key_that_isnt_one_is_refused_before_anything_is_done() {
    let api = Api::open().await;
    let long = "x".repeat(256);
    for key in ["", "\"", "\"a", "a b", "\"\"", &long] {
        let answer = send(&api, key, MESSAGE).await;
        assert_eq!(answer.problem(), (400, "TX.IDEMPOTENCY_KEY".into()), "{key:?}");
    }
    let mut twice = keyed("/v1/messages", "a", MESSAGE);
    twice.headers_mut().append("idempotency-key", "b".parse().unwrap());
    assert_eq!(api.send(twice).await.problem(), (400, "TX.IDEMPOTENCY_KEY".into()));
    let two_tenants = r#"{"messages":[{"topic":"bus:a","payload":1},{"topic":"bus:a","payload":1,"tenant":"acme"}]}"#;
    let answer = send(&api, "k", two_tenants).await;
    assert_eq!((answer.problem().0, &answer.json()["index"]), (400, &json!(1)));
    // What can't be read isn't an operation yet: its key stays free.
    assert_eq!(send(&api, "k", "{").await.problem(), (400, "SCHEMA.JSON".into()));
    assert!(api.reached().is_empty());
    assert_eq!(api.get("/v1/idempotency").await.json()["items"], json!([]));
    assert_eq!(send(&api, "k", MESSAGE).await.status, 201);
}

#[tokio::test]
async fn where_a_key_is_required_a_request_without_one_is_refused() {
    let settings = Settings { require: true, ..Settings::default() };
    let api = Api::over(host_with(|config| config.idempotency = settings).await, None, Limits::default());
    for path in ["/v1/messages", "/v1/transactions", "/v1/sagas"] {
        let answer = api.post(path, MESSAGE).await;
        assert_eq!(answer.problem(), (400, "TX.IDEMPOTENCY_KEY".into()), "{path}");
        assert!(answer.text.contains("idempotency.require"), "{}", answer.text);
    }
    assert_eq!(send(&api, "k", MESSAGE).await.status, 201);
    assert_eq!(api.get("/v1/outbox/stats").await.status, 200);
}

#[tokio::test]
async fn a_key_that_failed_for_good_says_so() {
    let api = Api::open().await;
    send(&api, "k", MESSAGE).await;
    let api = found_by_the_next_host(api, EntryState::Failed("no stock".into())).await;
    let answer = send(&api, "k", MESSAGE).await;
    assert_eq!(answer.problem(), (409, "TX.IDEMPOTENT_LAST_FAILED".into()));
    assert!(answer.text.contains("no stock"));
}

#[tokio::test(start_paused = true)]
async fn without_the_store_of_keys_nothing_is_executed() {
    let api = Api::open().await;
    api.host.store.fail_all(Some(StoreError::Unavailable("x".into())));
    assert_eq!(send(&api, "k", MESSAGE).await.problem(), (504, "TX.TIMEOUT".into()));
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn a_repeated_start_waits_again_and_says_how_the_saga_is_now() {
    let api = Api::open().await;
    api.host.define(ORDER).await;
    let start = r#"{"definition":"order","id":"order-17"}"#;
    let ask = |path: &str| with(post(path, start), "idempotency-key", "s");
    let first = api.send(ask("/v1/sagas")).await;
    assert_eq!((first.status.as_u16(), first.json().get("state")), (202, None));
    api.host.until_waiting("default", "order-17", "approval").await;
    api.host.act("default", "order-17", SagaAct::Approve { step: None, since: None }).await;
    let again = api.send(ask("/v1/sagas?wait_ms=20000")).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"));
    assert_eq!(again.json()["state"], "completed");
    assert_eq!(api.get("/v1/sagas").await.json()["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn a_signal_with_a_key_is_sent_once() {
    let api = Api::open().await;
    api.host.waiting_saga("default", "order-17").await;
    let ask = |body: &'static str| with(post("/v1/sagas/order-17/signals/paid", body), "idempotency-key", "g");
    let first = api.send(ask("{\"payment\":1}")).await;
    let again = api.send(ask("{\"payment\":1}")).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16(), &first.text), (200, 200, &again.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(api.send(ask("{\"payment\":2}")).await.problem(), (422, "TX.IDEMPOTENT_MISMATCH".into()));
    assert_eq!(api.host.saga("default", "order-17").await.saga.unwrap().signals, ["paid"]);
}
