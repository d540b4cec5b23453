//! The `Idempotency-Key` header.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::Request;
use serde_json::json;
use tokio::sync::Notify;
use waybill_core::idempotency::{EntryState, Keep, Settings};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_server::limits::Limits;

use crate::support::{Answer, Api, post, with};

const MESSAGE: &str = r#"{"topic":"bus:a","payload":{"n":1}}"#;

fn keyed(path: &str, key: &str, body: impl Into<Body>) -> Request<Body> {
    with(post(path, body), "idempotency-key", key)
}

async fn send(api: &Api, key: &str, body: &str) -> Answer {
    api.send(keyed("/v1/messages", key, body.to_owned())).await
}

#[tokio::test]
async fn a_repeat_gets_the_first_answer_and_nothing_is_done_again() {
    let api = Api::open();
    let first = send(&api, "\"key-1\"", MESSAGE).await;
    assert_eq!((first.status.as_u16(), first.header("idempotency-replayed")), (201, ""));
    assert_eq!(api.fake.calls().len(), 1);
    // Quoted or bare, it is the same key.
    for key in ["\"key-1\"", "key-1"] {
        let again = send(&api, key, MESSAGE).await;
        assert_eq!((again.status.as_u16(), &again.text), (201, &first.text));
        assert_eq!((again.header("idempotency-replayed"), again.header("content-type")), ("true", "application/json"));
    }
    assert!(api.fake.calls().is_empty());
    // Another key is another operation, and its messages have other ids.
    let other = send(&api, "key-2", MESSAGE).await;
    assert_ne!(other.json()["ids"], first.json()["ids"]);
}

#[tokio::test]
async fn another_request_under_the_same_key_is_refused() {
    let api = Api::open();
    send(&api, "k", MESSAGE).await;
    api.fake.calls();
    for other in [
        keyed("/v1/messages", "k", r#"{"topic":"bus:a","payload":{"n":2}}"#),
        keyed("/v1/transactions", "k", r#"{"messages":[{"topic":"bus:a","payload":1}]}"#),
        with(keyed("/v1/messages", "k", MESSAGE), "content-type", "application/x-ndjson"),
    ] {
        let answer = api.send(other).await;
        assert_eq!(answer.problem(), (422, "TX.IDEMPOTENT_MISMATCH".into()));
    }
    assert!(api.fake.calls().is_empty());
    // Another tenant has keys of its own.
    let acme = send(&api, "k", r#"{"topic":"bus:a","payload":{"n":2},"tenant":"acme"}"#).await;
    assert_eq!(acme.status, 201);
}

#[tokio::test]
async fn a_repeat_while_the_first_is_at_work_is_told_to_come_back() {
    let api = Arc::new(Api::open());
    let gate = Arc::new(Notify::new());
    *api.fake.gate.lock().unwrap() = Some(gate.clone());
    let first = tokio::spawn({
        let api = api.clone();
        async move { send(&api, "k", MESSAGE).await }
    });
    while api.fake.calls.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let busy = send(&api, "k", MESSAGE).await;
    assert_eq!(busy.problem(), (409, "TX.IDEMPOTENT_BUSY".into()));
    assert_eq!(busy.header("retry-after"), "1");
    gate.notify_one();
    let first = first.await.unwrap();
    assert_eq!(send(&api, "k", MESSAGE).await.text, first.text);
}

#[tokio::test]
async fn a_caller_who_goes_away_finds_the_answer_later() {
    let api = Arc::new(Api::open());
    let gate = Arc::new(Notify::new());
    *api.fake.gate.lock().unwrap() = Some(gate.clone());
    let asking = tokio::spawn({
        let api = api.clone();
        async move { send(&api, "k", MESSAGE).await }
    });
    while api.fake.calls.lock().unwrap().is_empty() {
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
    assert_eq!(api.fake.calls().len(), 1);
}

#[tokio::test]
async fn refusals_that_would_be_the_same_again_are_kept_with_what_they_say() {
    let api = Api::open();
    let error = ServiceError::IdTaken { tenant: "default".into(), id: "a".into() };
    *api.fake.fails.lock().unwrap() = Some(error);
    let first = send(&api, "k", MESSAGE).await;
    *api.fake.fails.lock().unwrap() = None;
    let again = send(&api, "k", MESSAGE).await;
    assert_eq!(again.problem(), (409, "STORAGE.CONFLICT".into()));
    assert_eq!((&again.json()["detail"], again.header("idempotency-replayed")), (&first.json()["detail"], "true"));
    // The request that asked is named, not the first one.
    assert_ne!(again.json()["request_id"], first.json()["request_id"]);
    assert_eq!(api.fake.calls().len(), 1);
}

#[tokio::test]
async fn what_may_work_another_time_is_done_again_with_the_same_ids_if_it_may_have_been_done() {
    let api = Api::open();
    for (error, status, same_ids) in [
        (ServiceError::Busy { what: "queue", count: 1, count_max: 1 }, 429, false),
        (ServiceError::OutcomeUnknown(StoreError::Unavailable("x".into())), 504, true),
        (ServiceError::Unavailable("drains".into()), 503, true),
        (ServiceError::Store(StoreError::DiskFull("x".into())), 507, true),
        (ServiceError::Store(StoreError::Conflict("x".into())), 409, false),
    ] {
        let key = format!("k-{status}");
        *api.fake.fails.lock().unwrap() = Some(error);
        assert_eq!(send(&api, &key, MESSAGE).await.problem().0, status);
        let entries = api.fake.keys.entries.lock().unwrap().clone();
        let left = entries.iter().find(|(of, _)| of.key.as_str() == key).map(|(_, entry)| entry.clone());
        assert_eq!(left.is_some(), same_ids, "{status}");
        *api.fake.fails.lock().unwrap() = None;
        let again = send(&api, &key, MESSAGE).await;
        assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (201, ""), "{status}");
    }
}

#[tokio::test]
async fn an_execution_after_a_crash_makes_the_same_ids_and_answers_like_the_first() {
    let api = Api::open();
    let body = r#"{"messages":[{"topic":"bus:a","payload":1},{"topic":"bus:a","payload":2,"id":"mine"},{"topic":"bus:a","payload":3}]}"#;
    let first = send(&api, "k", body).await;
    let ids = first.json()["ids"].clone();
    assert_eq!(ids[1], "mine");
    // The host died after it had enqueued the messages and before it wrote that down.
    {
        let mut entries = api.fake.keys.entries.lock().unwrap();
        for entry in entries.values_mut() {
            entry.state = EntryState::InFlight { lease_until: crate::support::NOW };
        }
    }
    api.fake.keys.pass(Duration::from_secs(1));
    *api.fake.duplicates.lock().unwrap() = true;
    let again = send(&api, "k", body).await;
    assert_eq!((again.status.as_u16(), again.json()), (201, json!({"ids": ids, "duplicates": ["mine"]})));
    assert_eq!(api.fake.keys.only().begun, 2);
}

#[tokio::test]
async fn an_answer_that_isnt_kept_is_replayed_as_status_and_digest() {
    let api = Api::open();
    api.fake.keys.set(Settings { keep: Keep::Digest, ..Settings::default() });
    let first = send(&api, "k", MESSAGE).await;
    let again = send(&api, "k", MESSAGE).await;
    assert_eq!((again.status, again.text.as_str(), again.header("idempotency-replayed")), (first.status, "", "true"));
    assert!(again.header("repr-digest").starts_with("sha-256=:"), "{:?}", again.headers);
    *api.fake.fails.lock().unwrap() = Some(ServiceError::IdTaken { tenant: "default".into(), id: "a".into() });
    send(&api, "refused", MESSAGE).await;
    let again = send(&api, "refused", MESSAGE).await;
    assert_eq!(again.problem(), (409, "STORAGE.CONFLICT".into()));
}

#[tokio::test]
async fn a_transaction_finishes_its_key_with_its_own_commit() {
    let api = Api::open();
    let body = r#"{"statements":[{"query":"CREATE a","bindings":{"n":1}}],"messages":[{"topic":"bus:a","payload":1}]}"#;
    let first = api.send(keyed("/v1/transactions", "k", body)).await;
    let again = api.send(keyed("/v1/transactions", "k", body)).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16(), &again.text), (201, 201, &first.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(api.fake.calls(), ["transact 1 1"]);
    // Without messages, and one whose statement fails.
    let bare = r#"{"statements":[{"query":"CREATE a"}]}"#;
    assert_eq!(api.send(keyed("/v1/transactions", "bare", bare)).await.status, 200);
    *api.fake.fails.lock().unwrap() = Some(ServiceError::Store(StoreError::Statement("statement 1: no".into())));
    // Other rows may let it through the next time, so it isn't kept.
    for _ in 0..2 {
        let failed = api.send(keyed("/v1/transactions", "failing", bare)).await;
        assert_eq!(failed.problem(), (400, "STORAGE.STATEMENT".into()));
        assert_eq!(failed.header("idempotency-replayed"), "");
    }
    // The key was taken over meanwhile: nothing was committed, and nothing is said of the key. When that lease ends the next one
    // begins it.
    *api.fake.fails.lock().unwrap() = Some(ServiceError::LeaseLost { what: "idempotency key", id: "lost".into() });
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.problem(), (409, "TX.LEASE_LOST".into()));
    *api.fake.fails.lock().unwrap() = None;
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.problem(), (409, "TX.IDEMPOTENT_BUSY".into()));
    api.fake.keys.pass(Settings::default().lease);
    assert_eq!(api.send(keyed("/v1/transactions", "lost", bare)).await.status, 200);
}

#[tokio::test]
async fn a_saga_started_under_a_key_has_an_id_of_the_key_and_its_address_is_replayed() {
    let api = Api::open();
    let body = r#"{"definition":"order","input":{"n":1}}"#;
    let first = api.send(keyed("/v1/sagas", "k", body)).await;
    assert_eq!(first.status, 202, "{}", first.text);
    let id = first.json()["id"].as_str().unwrap().to_owned();
    assert_eq!((id.len(), first.header("location").contains(&id)), (32, true), "{:?}", first.headers);
    let again = api.send(keyed("/v1/sagas", "k", body)).await;
    assert_eq!((again.status.as_u16(), &again.text), (202, &first.text));
    assert_eq!((again.header("location"), again.header("idempotency-replayed")), (first.header("location"), "true"));
    assert_eq!(api.fake.calls().len(), 1);
    // An id of the caller's own is kept.
    let named = api.send(keyed("/v1/sagas", "named", r#"{"definition":"order","input":{},"id":"mine"}"#)).await;
    assert_eq!(named.json()["id"], "mine");
}

#[tokio::test]
async fn a_key_that_isnt_one_is_refused_before_anything_is_done() {
    let api = Api::open();
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
    assert!(api.fake.calls().is_empty());
    assert!(api.fake.keys.entries.lock().unwrap().is_empty());
    assert_eq!(send(&api, "k", MESSAGE).await.status, 201);
}

#[tokio::test]
async fn where_a_key_is_required_a_request_without_one_is_refused() {
    let api = Api::open();
    api.fake.keys.set(Settings { require: true, ..Settings::default() });
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
    let api = Api::open();
    send(&api, "k", MESSAGE).await;
    for entry in api.fake.keys.entries.lock().unwrap().values_mut() {
        entry.state = EntryState::Failed("no stock".into());
    }
    let answer = send(&api, "k", MESSAGE).await;
    assert_eq!(answer.problem(), (409, "TX.IDEMPOTENT_LAST_FAILED".into()));
    assert!(answer.text.contains("no stock"));
}

#[tokio::test]
async fn without_the_store_of_keys_nothing_is_executed() {
    let api = Api::with(None, Limits::default());
    *api.fake.keys.fails.lock().unwrap() = Some(ServiceError::Unsure(StoreError::Unavailable("x".into())));
    assert_eq!(send(&api, "k", MESSAGE).await.problem(), (504, "TX.TIMEOUT".into()));
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn a_repeated_start_waits_again_and_says_how_the_saga_is_now() {
    let api = Api::open();
    let start = |id: &str| format!("{{\"definition\":\"order\",\"id\":\"{id}\"}}");
    let ask = |path: &str, id: &str| with(post(path, start(id)), "idempotency-key", "s");
    let first = api.send(ask("/v1/sagas", "order-17")).await;
    assert_eq!((first.status.as_u16(), first.json().get("state")), (202, None));
    let again = api.send(ask("/v1/sagas?wait_ms=1000", "order-17")).await;
    assert_eq!((again.status.as_u16(), again.header("idempotency-replayed")), (200, "true"));
    assert_eq!(again.json()["state"], "completed");
    let starts = api.fake.calls().into_iter().filter(|call| call.starts_with("saga start")).count();
    assert_eq!(starts, 1);
}

#[tokio::test]
async fn a_signal_with_a_key_is_sent_once() {
    let api = Api::open();
    let ask = |body: &'static str| with(post("/v1/sagas/order-17/signals/paid", body), "idempotency-key", "g");
    let first = api.send(ask("{\"payment\":1}")).await;
    let again = api.send(ask("{\"payment\":1}")).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16(), &first.text), (200, 200, &again.text));
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(api.send(ask("{\"payment\":2}")).await.problem(), (422, "TX.IDEMPOTENT_MISMATCH".into()));
    let signals = api.fake.calls().into_iter().filter(|call| call.starts_with("signal")).count();
    assert_eq!(signals, 1);
}
