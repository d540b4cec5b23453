//! `/v1/messages` and `/v1/transactions`.

use serde_json::json;
use waybill_core::annotation::Annotation;
use waybill_core::error::InputError;
use waybill_core::port::service::ServiceError;

use crate::support::{Api, get, post, with};

const ONE: &str = r#"{"topic":"bus:orders","payload":{"n":1.0},"id":"a"}"#;
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[tokio::test]
async fn one_many_and_lines_are_enqueued_in_order() {
    let api = Api::open();
    let answer = api.post("/v1/messages", ONE).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (201, json!({"ids": ["a"], "duplicates": []})));
    assert_eq!(api.fake.taken()[0].payload, r#"{"n":1.0}"#);
    let many = format!("{{\"messages\":[{ONE},{}]}}", ONE.replace("\"a\"", "\"b\""));
    assert_eq!(api.post("/v1/messages", many).await.json()["ids"], json!(["a", "b"]));
    for media in ["application/x-ndjson", "application/jsonl; charset=utf-8"] {
        let lines = format!("{ONE}\n{}\n", ONE.replace("\"a\"", "\"b\""));
        let answer = api.send(with(post("/v1/messages", lines), "content-type", media)).await;
        assert_eq!((answer.status.as_u16(), answer.json()["ids"].clone()), (201, json!(["a", "b"])));
    }
    assert_eq!(api.fake.calls(), ["enqueue 1", "enqueue 2", "enqueue 2", "enqueue 2"]);
}

#[tokio::test]
async fn duplicates_alone_answer_200() {
    let api = Api::open();
    *api.fake.duplicates.lock().unwrap() = true;
    let answer = api.post("/v1/messages", ONE).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"ids": ["a"], "duplicates": ["a"]})));
}

#[tokio::test]
async fn the_requests_trace_context_is_used_where_a_message_has_none() {
    let api = Api::open();
    let own = TRACE.replace("-01", "-00");
    let body = format!("{{\"messages\":[{ONE},{{\"topic\":\"bus:b\",\"payload\":1,\"traceparent\":\"{own}\"}}]}}");
    api.send(with(post("/v1/messages", body), "traceparent", TRACE)).await;
    let taken = api.fake.taken();
    let traces: Vec<_> = taken.iter().map(|message| message.annotations.get(Annotation::Traceparent)).collect();
    assert_eq!(traces, [Some(TRACE), Some(own.as_str())]);
    // One that isn't one is ignored, as the W3C says.
    api.send(with(post("/v1/messages", ONE), "traceparent", "garbage")).await;
    assert_eq!(api.fake.taken()[0].annotations.get(Annotation::Traceparent), None);
}

#[tokio::test]
async fn a_fault_of_one_message_names_it() {
    let api = Api::open();
    *api.fake.fails.lock().unwrap() =
        Some(ServiceError::Message { index: 3, error: InputError::NoRoute { topic: "bus:x".into() } });
    let answer = api.post("/v1/messages", ONE).await;
    assert_eq!(answer.problem(), (400, "OUTBOX.NO_ROUTE".into()));
    assert_eq!(answer.json()["index"], 3);
}

#[tokio::test]
async fn a_list_is_paged_by_a_cursor_that_only_fits_itself() {
    let api = Api::open();
    let first = api.get("/v1/messages?filter=topic%3Dbus%3A*&limit=2").await.json();
    assert_eq!(first["items"][0]["id"], "m-1");
    assert!(first["items"][0].get("payload").is_none());
    let cursor = first["next_cursor"].as_str().unwrap();
    assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{cursor}");
    let second = api.get(&format!("/v1/messages?filter=topic%3Dbus%3A*&limit=2&cursor={cursor}")).await.json();
    assert_eq!(second["next_cursor"], json!(null));
    assert_eq!(api.fake.calls(), ["messages * [topic=bus:*] None 2", "messages * [topic=bus:*] Some(\"0:17/ä\") 2"]);
    for other in [
        "/v1/messages?",
        "/v1/dead-letters?filter=topic%3Dbus%3A*&",
        "/v1/messages?filter=topic%3Dbus%3A*&tenant=acme&",
    ] {
        let answer = api.get(&format!("{other}cursor={cursor}")).await;
        assert_eq!(answer.problem().0, 400, "{other}");
        assert_eq!(answer.json()["path"], "cursor");
    }
}

#[tokio::test]
async fn a_message_is_shown_with_its_bytes() {
    let api = Api::open();
    let answer = api.get("/v1/messages/order%2F1?tenant=acme").await;
    assert_eq!(api.fake.calls(), ["message acme order/1"]);
    assert!(answer.text.contains(r#""payload":{"z":1.10,"a":12345678901234567890}"#), "{}", answer.text);
    let body = answer.json();
    assert_eq!(body["created_at"], "2026-09-21T14:13:20.123Z");
    assert_eq!(body["headers"], json!({"x-a": ["1", "2"]}));
    let missed = api.get("/v1/messages/gone").await;
    assert_eq!(missed.problem(), (404, "OUTBOX.NOT_FOUND".into()));
    assert_eq!(
        missed.json()["detail"],
        "there is no message \"gone\" in tenant \"default\": name another with ?tenant="
    );
    assert_eq!(api.get("/v1/messages/gone?tenant=acme").await.json()["detail"], "there is no message \"gone\"");
}

#[tokio::test]
async fn cancel_and_reschedule_name_the_actor() {
    let api = Api::open();
    assert_eq!(api.send(with(post("/v1/messages/a/cancel", ""), "content-type", "application/json")).await.status, 200);
    assert_eq!(api.post("/v1/messages/a/reschedule", r#"{"not_before":"2026-09-21T14:13:20.123Z"}"#).await.status, 200);
    assert_eq!(api.post("/v1/messages/a/reschedule", r#"{"available_at":1790000000123}"#).await.status, 200);
    assert_eq!(
        api.fake.calls(),
        [
            "cancel default a local",
            "reschedule default a 1790000000123 local",
            "reschedule default a 1790000000123 local"
        ]
    );
    *api.fake.fails.lock().unwrap() = Some(ServiceError::State {
        what: "message",
        id: "a".into(),
        state: "leased".into(),
        fix: "wait for its outcome",
    });
    let answer = api.post("/v1/messages/a/cancel", "").await;
    assert_eq!(answer.problem(), (409, "OUTBOX.STATE".into()));
}

#[tokio::test]
async fn a_transaction_carries_statements_and_messages() {
    let api = Api::open();
    let body =
        format!(r#"{{"statements":[{{"query":"CREATE order SET n = $n","bindings":{{"n":7}}}}],"messages":[{ONE}]}}"#);
    let answer = api.post("/v1/transactions", body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (201, json!({"ids": ["a"], "duplicates": [], "results": [{"n": 7}]}))
    );
    let answer = api.post("/v1/transactions", r#"{"statements":[{"query":"RETURN 1"}],"events":[]}"#).await;
    assert_eq!((answer.status.as_u16(), answer.json()["ids"].clone()), (200, json!([])));
    assert_eq!(api.fake.calls(), ["transact 1 1", "transact 1 0"]);
    let answer = api.post("/v1/transactions", r#"{"messages":[],"events":[{"stream":"x"}]}"#).await;
    assert_eq!(answer.problem(), (400, "SCHEMA.UNSUPPORTED".into()));
    assert_eq!(answer.json()["path"], "events");
    assert!(api.fake.calls().is_empty());
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let api = Api::open();
    let mut request = get("/v1/messages");
    *request.method_mut() = http::Method::HEAD;
    let answer = api.send(request).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
}
