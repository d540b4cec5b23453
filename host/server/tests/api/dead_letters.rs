//! `/v1/dead-letters`.

use std::time::Duration;

use serde_json::{Value, json};
use waybill_core::annotation::{Annotation, Kind};
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::outbox::dead_plan::PLAN_READS_MAX;
use waybill_core::port::participant::Direction;
use waybill_core::port::service::MessageState;
use waybill_core::port::transport::{Fault, Outcome};
use waybill_core::saga::state::SagaState;
use waybill_testkit::memory_host::message;

use crate::support::{Api, NOW, NOW_TEXT, full_message, of, payload, post};

/// A dead letter of three attempts.
async fn dead(api: &Api, tenant: &str, id: &str) {
    let fault = || Fault::new("HTTP.500", "no");
    let outcomes = [Outcome::Retryable(fault()), Outcome::Retryable(fault()), Outcome::Permanent(fault())];
    api.host.sent(of(tenant, full_message(id)), outcomes).await;
}

/// The latest acts as the audit trail has them.
async fn audited(api: &Api, count: usize) -> Vec<Value> {
    let items = api.get(&format!("/v1/audit?limit={count}")).await.json()["items"].take();
    items
        .as_array()
        .unwrap()
        .iter()
        .rev()
        .map(|it| json!([it["kind"], it["tenant"], it["object"], it["actor"], it["detail"]["reason"]]))
        .collect()
}

#[tokio::test]
async fn dead_letters_are_listed_counted_grouped_and_shown() {
    let api = Api::open().await;
    dead(&api, "default", "d-1").await;
    api.host.dead(message("d-2")).await;
    let list = api.get("/v1/dead-letters?filter=code%3DHTTP.5*&count=true").await.json();
    assert_eq!((list["count"].as_u64(), list["items"][0]["state"].as_str()), (Some(1), Some("dead")));
    assert_eq!(list["items"][0]["id"], "d-1");
    assert!(api.get("/v1/dead-letters").await.json().get("count").is_none());
    let groups = api.get("/v1/dead-letters/groups?filter=code%3DHTTP.5*").await.json();
    assert_eq!(groups["items"][0]["latest_at"], NOW.plus(Duration::from_millis(1_500)).to_string());
    let shown = api.get("/v1/dead-letters/d-1").await.json();
    assert_eq!(
        (&shown["kind"], &shown["attempts"], &shown["payload"]["z"]),
        (&json!("message"), &json!(3), &json!(1.1))
    );
    assert_eq!(api.get("/v1/dead-letters/gone").await.problem().0, 404);
}

/// More than are counted: their records lie in the store already.
#[tokio::test]
async fn a_count_that_ended_early_says_how_far_it_got() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    for path in ["/v1/dead-letters?count=true", "/v1/dead-letters/groups", "/v1/outbox/stats"] {
        assert!(!api.get(path).await.text.contains("counted_since"), "{path}: all was counted");
    }
    api.host.copy_dead("default", "d-1", DEAD_READS_MAX).await;
    for path in ["/v1/dead-letters?filter=topic%3D*&count=true", "/v1/dead-letters/groups?filter=topic%3D*"] {
        assert_eq!(api.get(path).await.json()["counted_since"], NOW_TEXT, "{path}");
    }
    for (exact, reads) in [(false, PLAN_READS_MAX), (true, DEAD_READS_MAX)] {
        let body = json!({ "kind": "replay", "filter": "topic=*", "dry_run": true, "exact": exact });
        let dry = api.post("/v1/operations", body.to_string()).await.json();
        assert_eq!((&dry["matched"], &dry["counted_since"]), (&json!(reads), &json!(NOW_TEXT)));
    }
}

#[tokio::test]
async fn replay_takes_a_reason_or_nothing() {
    let api = Api::open().await;
    dead(&api, "default", "d-1").await;
    dead(&api, "acme", "d-1").await;
    let bare = http::Request::post("/v1/dead-letters/d-1/replay")
        .header("host", "localhost")
        .body(axum::body::Body::empty())
        .unwrap();
    assert_eq!(api.send(bare).await.status, 200);
    assert_eq!(api.post("/v1/dead-letters/d-1/replay?tenant=acme", r#"{"reason":"fixed"}"#).await.status, 200);
    assert_eq!(
        audited(&api, 2).await,
        [
            json!(["TxReplayRequested", "default", "d-1", "local", ""]),
            json!(["TxReplayRequested", "acme", "d-1", "local", "fixed"]),
        ]
    );
    for tenant in ["default", "acme"] {
        api.host.until_state(tenant, "d-1", MessageState::Done).await;
    }
    dead(&api, "default", "d-2").await;
    let fenced = api.post("/v1/dead-letters/d-2/quarantine", r#"{"note":"look at it"}"#).await.json();
    assert_eq!((&fenced["state"], &fenced["note"]), (&json!("quarantined"), &json!("look at it")));
    assert_eq!(audited(&api, 1).await, [json!(["DeadLetterQuarantined", "default", "d-2", "local", null])]);
}

#[tokio::test]
async fn stuck_sagas_are_listed_and_shown_beside_messages() {
    let api = Api::open().await;
    api.host.dead(message("d-1")).await;
    api.host.stuck_saga("acme", "stuck-1").await;
    let list = api.get("/v1/dead-letters").await.json();
    let kinds: Vec<_> = list["items"].as_array().unwrap().iter().map(|item| item["kind"].clone()).collect();
    assert_eq!(kinds, ["message", "saga"]);
    let shown = api.get("/v1/dead-letters/stuck-1?tenant=acme&kind=saga").await.json();
    assert_eq!(
        shown,
        json!({
            "kind": "saga", "id": "stuck-1", "tenant": "acme", "state": "dead", "saga": "stuck-1", "definition": "order",
            "version": 1, "step": "reserve", "direction": "compensate", "attempts": 1, "code": "ORDERS.REFUSED",
            "reason": "never", "last_error": "ORDERS.REFUSED: never", "ended_at": NOW_TEXT,
            "links": {"saga": "/v1/sagas/stuck-1?tenant=acme"},
        })
    );
    assert_eq!(api.get("/v1/dead-letters/stuck-1?kind=letter").await.problem().0, 400);
    assert_eq!(api.get("/v1/dead-letters/stuck-1?tenant=acme&kind=message").await.problem().0, 404);
}

#[tokio::test]
async fn a_stuck_saga_is_replayed_one_way_or_the_other_quarantined_and_not_edited() {
    let api = Api::open().await;
    for id in ["stuck-1", "stuck-2", "stuck-3", "stuck-4"] {
        api.host.stuck_saga("default", id).await;
    }
    let path = "/v1/dead-letters/stuck-1/replay";
    let done = api.post(path, r#"{"reason":"the bank is back"}"#).await.json();
    assert_eq!(
        (&done["kind"], &done["state"], &done["id"]),
        (&json!("saga"), &json!("compensating"), &json!("stuck-1"))
    );
    assert_eq!(done["links"]["saga"], "/v1/sagas/stuck-1?tenant=default");
    assert_eq!(
        audited(&api, 1).await,
        [json!(["TxReplayRequested", "default", "stuck-1", "local", "the bank is back"])]
    );
    assert_eq!(api.post("/v1/dead-letters/stuck-2/replay", r#"{"mode":"retry"}"#).await.json()["state"], "running");
    let back = api.post("/v1/dead-letters/stuck-3/replay", r#"{"mode":"compensate"}"#).await;
    assert_eq!(back.json()["state"], "compensating");
    assert_eq!(api.post("/v1/dead-letters/stuck-4/replay", r#"{"mode":"forward"}"#).await.problem().0, 400);
    let fenced = api.post("/v1/dead-letters/stuck-4/quarantine", r#"{"note":"ask the bank"}"#).await.json();
    assert_eq!((&fenced["state"], &fenced["note"]), (&json!("quarantined"), &json!("ask the bank")));
    let edited = api.post("/v1/dead-letters/stuck-4/edit", "{}").await;
    assert_eq!(edited.problem(), (409, "DEAD.KIND".to_owned()));
    assert!(edited.json()["detail"].as_str().unwrap().contains("accept"), "{}", edited.text);
    for (id, state) in
        [("stuck-1", SagaState::Cancelled), ("stuck-2", SagaState::Completed), ("stuck-3", SagaState::Cancelled)]
    {
        api.host.until_saga("default", id, state).await;
    }
}

#[tokio::test]
async fn a_saga_that_cannot_be_replayed_is_refused_as_the_saga_would_be() {
    let api = Api::open().await;
    // What was compensated by then can't be gone on from.
    let step = |name: &str| {
        format!("[[steps]]\nname = \"{name}\"\naction = \"fn:orders/{name}\"\ncompensation = \"fn:orders/{name}\"\n")
    };
    let steps = step("reserve") + &step("charge") + &step("book");
    api.host.define(&format!("name = \"trip\"\nversion = 1\n{steps}")).await;
    api.host.fail_step("stuck-1", "book", Direction::Execute);
    api.host.fail_step("stuck-1", "reserve", Direction::Compensate);
    api.host.begin("trip", "default", "stuck-1").await;
    api.host.until_saga("default", "stuck-1", SagaState::Failed).await;
    let refused = api.post("/v1/dead-letters/stuck-1/replay", r#"{"mode":"retry"}"#).await;
    assert_eq!(refused.problem(), (409, "SAGA.STATE".to_owned()));
}

#[tokio::test]
async fn an_edit_changes_what_it_names_and_links_to_the_original() {
    let api = Api::open().await;
    dead(&api, "default", "d-1").await;
    let body = r#"{"topic":"bus:repaired","payload":{"n": 2.50},"key":null,"not_before":4000010000999}"#;
    let answer = api.send(post("/v1/dead-letters/d-1/edit", body)).await;
    assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
    let id = answer.json()["ids"][0].as_str().unwrap().to_owned();
    assert_ne!(id, "d-1");
    let edited = api.host.view("default", &id).await;
    assert_eq!(edited.topic, "bus:repaired");
    assert_eq!(payload(&edited), r#"{"n": 2.50}"#);
    assert_eq!(edited.key, None);
    assert_eq!(edited.annotations.get(Annotation::CausationId), Some("d-1"));
    assert_eq!(edited.annotations.get(Annotation::ContentType), Some("application/json"));
    assert_eq!((edited.not_before.map(|at| at.0.0), edited.expires_at), (Some(4_000_010_000_999), None));
    assert_eq!((edited.event_type.as_str(), edited.event_version, edited.occurred_at.0), ("order_placed", 2, NOW));
    assert_eq!(edited.headers.0, [("x-a".to_owned(), "1".to_owned()), ("x-a".to_owned(), "2".to_owned())]);
    assert_eq!(edited.tenant, "default");
    let original = api.host.view("default", "d-1").await;
    assert_eq!(original.state, MessageState::Quarantined);
    assert!(original.note.unwrap().contains(&id));
}

#[tokio::test]
async fn an_edit_keeps_each_annotation_that_it_does_not_name_and_null_takes_one_away() {
    let api = Api::open().await;
    for named in Annotation::ALL.into_iter().filter(|annotation| *annotation != Annotation::CausationId) {
        let other = match named.kind() {
            Kind::Text | Kind::Id => "other",
            Kind::TraceContext => "00-11111111111111111111111111111111-2222222222222222-00",
        };
        for text in [Some(other), None] {
            let id = format!("{}-{}", named.dashed(), text.unwrap_or("null"));
            api.host.dead(full_message(&id)).await;
            let answer =
                api.post(&format!("/v1/dead-letters/{id}/edit"), json!({ named.name(): text }).to_string()).await;
            assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
            let mut wanted = full_message(&id).annotations.with(Annotation::CausationId, id);
            wanted.set(named, text);
            let edited = api.host.view("default", answer.json()["ids"][0].as_str().unwrap()).await;
            assert_eq!(edited.annotations.0, wanted, "{named:?} {text:?}");
        }
    }
}

#[tokio::test]
async fn an_edit_of_nothing_is_the_same_message_again() {
    let api = Api::open().await;
    dead(&api, "default", "d-1").await;
    let answer = api.post("/v1/dead-letters/d-1/edit", "{}").await.json();
    assert_eq!(answer["duplicates"], json!([]));
    let edited = api.host.view("default", answer["ids"][0].as_str().unwrap()).await;
    assert_eq!(payload(&edited), "{\"z\":1.10,\"a\":12345678901234567890}");
    assert_eq!((edited.topic.as_str(), edited.key.as_deref()), ("http:http://shop.example/hook", Some("order-1")));
}

#[tokio::test]
async fn an_event_type_made_from_the_topic_follows_an_edited_topic_and_a_chosen_one_stays() {
    let api = Api::open().await;
    api.host.dead(message("plain")).await;
    dead(&api, "default", "d-1").await;
    let other = api.post("/v1/messages", r#"{"topic":"bus:other","payload":1,"id":"other"}"#).await;
    assert_eq!(other.status, 201);
    let of_the_topic = api.host.view("default", "other").await.event_type;
    for (id, wanted) in [("plain", of_the_topic.as_str()), ("d-1", "order_placed")] {
        let answer = api.post(&format!("/v1/dead-letters/{id}/edit"), r#"{"topic":"bus:other"}"#).await;
        assert_eq!(answer.status.as_u16(), 201, "{}", answer.text);
        let edited = api.host.view("default", answer.json()["ids"][0].as_str().unwrap()).await;
        assert_eq!(edited.event_type, wanted, "{id}");
    }
}
