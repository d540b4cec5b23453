//! `/v1/dead-letters`.

use serde_json::json;
use waybill_core::port::service::ServiceError;
use waybill_core::saga::error::SagaError;
use waybill_core::time::UnixMillis;

use crate::support::{Api, NOW, PLAIN, post};

#[tokio::test]
async fn dead_letters_are_listed_counted_grouped_and_shown() {
    let api = Api::open();
    let list = api.get("/v1/dead-letters?filter=code%3DHTTP.*&count=true").await.json();
    assert_eq!((list["count"].as_u64(), list["items"][0]["state"].as_str()), (Some(42), Some("dead")));
    assert!(api.get("/v1/dead-letters").await.json().get("count").is_none());
    let groups = api.get("/v1/dead-letters/groups").await.json();
    assert_eq!(groups["items"][0]["latest_at"], "2026-09-21T14:13:20.123Z");
    let shown = api.get("/v1/dead-letters/d-1").await.json();
    assert_eq!(
        (&shown["kind"], &shown["attempts"], &shown["payload"]["z"]),
        (&json!("message"), &json!(3), &json!(1.1))
    );
    assert_eq!(api.get("/v1/dead-letters/gone").await.problem().0, 404);
    assert_eq!(
        api.fake.calls()[..2],
        ["dead_letters * [code=HTTP.*] None 100".to_owned(), "count_dead * [code=HTTP.*]".to_owned()]
    );
}

#[tokio::test]
async fn a_count_that_ended_early_says_how_far_it_got() {
    let api = Api::open();
    let since = json!("2026-09-21T14:13:20.123Z");
    for path in ["/v1/dead-letters?filter=topic%3Dmany&count=true", "/v1/dead-letters/groups?filter=topic%3Dmany"] {
        assert_eq!(api.get(path).await.json()["counted_since"], since, "{path}");
    }
    let dry = api.post("/v1/operations", r#"{"kind":"replay","filter":"topic=many","dry_run":true}"#).await.json();
    assert_eq!((&dry["matched"], &dry["counted_since"]), (&json!(42), &since));
    for path in ["/v1/dead-letters?count=true", "/v1/dead-letters/groups", "/v1/outbox/stats"] {
        assert!(!api.get(path).await.text.contains("counted_since"), "{path}: all was counted");
    }
}

#[tokio::test]
async fn replay_takes_a_reason_or_nothing() {
    let api = Api::open();
    let bare = http::Request::post("/v1/dead-letters/d-1/replay")
        .header("host", "localhost")
        .body(axum::body::Body::empty())
        .unwrap();
    assert_eq!(api.send(bare).await.status, 200);
    assert_eq!(api.post("/v1/dead-letters/d-1/replay?tenant=acme", r#"{"reason":"fixed"}"#).await.status, 200);
    assert_eq!(api.post("/v1/dead-letters/d-1/quarantine", r#"{"note":"look at it"}"#).await.status, 200);
    assert_eq!(
        api.fake.calls(),
        ["replay default d-1 [] local", "replay acme d-1 [fixed] local", "quarantine default d-1 [look at it] local"]
    );
}

#[tokio::test]
async fn stuck_sagas_are_listed_and_shown_beside_messages() {
    let api = Api::open();
    let list = api.get("/v1/dead-letters").await.json();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, ["message", "saga"]);
    let shown = api.get("/v1/dead-letters/stuck-1?tenant=acme&kind=saga").await.json();
    assert_eq!(
        shown,
        json!({
            "kind": "saga", "id": "stuck-1", "tenant": "acme", "state": "dead", "saga": "stuck-1~pay", "definition": "payment",
            "version": 2, "step": "charge", "direction": "compensate", "attempts": 6, "code": "HTTP.500", "reason": "no",
            "last_error": "HTTP.500: no", "ended_at": "2026-09-21T14:13:20.123Z",
            "links": {"saga": "/v1/sagas/stuck-1?tenant=acme"},
        })
    );
    assert_eq!(api.get("/v1/dead-letters/stuck-1?kind=letter").await.problem().0, 400);
    assert_eq!(api.fake.calls()[1], "dead_letter acme saga stuck-1");
}

#[tokio::test]
async fn a_stuck_saga_is_replayed_one_way_or_the_other_quarantined_and_not_edited() {
    let api = Api::open();
    let path = "/v1/dead-letters/stuck-1/replay";
    let done = api.post(path, r#"{"reason":"the bank is back"}"#).await.json();
    assert_eq!(
        (&done["kind"], &done["state"], &done["id"]),
        (&json!("saga"), &json!("compensating"), &json!("stuck-1"))
    );
    assert_eq!(done["links"]["saga"], "/v1/sagas/stuck-1?tenant=default");
    assert_eq!(api.post(path, r#"{"mode":"retry"}"#).await.status, 200);
    assert_eq!(api.post(path, r#"{"mode":"compensate"}"#).await.status, 200);
    assert_eq!(api.post(path, r#"{"mode":"forward"}"#).await.problem().0, 400);
    let fenced = api.post("/v1/dead-letters/stuck-1/quarantine", r#"{"note":"ask the bank"}"#).await.json();
    assert_eq!((&fenced["state"], &fenced["note"]), (&json!("quarantined"), &json!("ask the bank")));
    let edited = api.post("/v1/dead-letters/stuck-1/edit", "{}").await;
    assert_eq!(edited.problem(), (409, "DEAD.KIND".to_owned()));
    assert!(edited.json()["detail"].as_str().unwrap().contains("accept"), "{}", edited.text);
    assert_eq!(
        api.fake.calls(),
        [
            "replay default stuck-1 [the bank is back] local",
            "replay default stuck-1 [] Retry local",
            "replay default stuck-1 [] Compensate local",
            "quarantine default stuck-1 [ask the bank] local",
            "dead_letter default stuck-1",
        ]
    );
}

#[tokio::test]
async fn a_saga_that_cannot_be_replayed_is_refused_as_the_saga_would_be() {
    let api = Api::open();
    let state =
        SagaError::State { id: "stuck-1".into(), state: "failed".into(), fix: "something was compensated".into() };
    *api.fake.fails.lock().unwrap() = Some(ServiceError::Saga(state));
    let refused = api.post("/v1/dead-letters/stuck-1/replay", r#"{"mode":"retry"}"#).await;
    assert_eq!(refused.problem(), (409, "SAGA.STATE".to_owned()));
}

#[tokio::test]
async fn an_edit_changes_what_it_names_and_links_to_the_original() {
    let api = Api::open();
    let body = r#"{"topic":"bus:repaired","payload":{"n": 2.50},"key":null,"not_before":1790000000999}"#;
    let answer = api.send(post("/v1/dead-letters/d-1/edit", body)).await;
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
    let edited = api.fake.taken().remove(0);
    assert_eq!(edited.topic, "bus:repaired");
    assert_eq!(edited.payload, r#"{"n": 2.50}"#);
    assert_eq!((edited.key, edited.id), (None, None));
    assert_eq!(edited.causation_id.as_deref(), Some("d-1"));
    assert_eq!(edited.content_type.as_deref(), Some("application/json"));
    assert_eq!((edited.not_before, edited.expires_at), (Some(UnixMillis(1_790_000_000_999)), None));
    assert_eq!(
        (edited.event_type.as_deref(), edited.event_version, edited.occurred_at),
        (Some("order_placed"), Some(2), Some(NOW))
    );
    assert_eq!(edited.headers, [("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())]);
    assert_eq!((edited.correlation_id.as_deref(), edited.tenant.as_deref()), (Some("c"), Some("default")));
}

#[tokio::test]
async fn an_edit_of_nothing_is_the_same_message_again() {
    let api = Api::open();
    assert_eq!(api.post("/v1/dead-letters/d-1/edit", "{}").await.json(), json!({"ids": ["made-0"], "duplicates": []}));
    let edited = api.fake.taken().remove(0);
    assert_eq!(edited.payload, "{\"z\":1.10,\"a\":12345678901234567890}");
    assert_eq!(edited.topic, "http:https://shop.example/hook");
}

#[tokio::test]
async fn an_event_type_made_from_the_topic_follows_an_edited_topic_and_a_chosen_one_stays() {
    for (id, wanted) in [(PLAIN, None), ("d-1", Some("order_placed"))] {
        let api = Api::open();
        let answer = api.post(&format!("/v1/dead-letters/{id}/edit"), r#"{"topic":"bus:other"}"#).await;
        assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
        assert_eq!(api.fake.taken().remove(0).event_type.as_deref(), wanted);
    }
}
