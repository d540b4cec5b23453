//! `/v1/messages` and `/v1/transactions`.

use std::time::Duration;

use serde_json::json;
use waybill_core::annotation::Annotation;
use waybill_core::port::service::MessageState;
use waybill_testkit::memory_host::message;

use crate::support::{Api, FAILING, NOW_TEXT, full_message, get, of, payload, post, with};

const ONE: &str = r#"{"topic":"bus:orders","payload":{"n":1.0},"id":"a"}"#;
const TRACE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const HOUR: Duration = Duration::from_secs(3_600);

/// The same as [`ONE`] with another id.
fn named(id: &str) -> String {
    ONE.replace("\"a\"", &format!("\"{id}\""))
}

#[tokio::test]
async fn one_many_and_lines_are_enqueued_in_order() {
    let api = Api::open().await;
    let answer = api.post("/v1/messages", ONE).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (201, json!({"ids": ["a"], "duplicates": []})));
    assert_eq!(payload(&api.host.view("default", "a").await), r#"{"n":1.0}"#);
    let many = format!("{{\"messages\":[{},{}]}}", named("b"), named("c"));
    assert_eq!(api.post("/v1/messages", many).await.json()["ids"], json!(["b", "c"]));
    for (media, ids) in [("application/x-ndjson", ["d", "e"]), ("application/jsonl; charset=utf-8", ["f", "g"])] {
        let lines = format!("{}\n{}\n", named(ids[0]), named(ids[1]));
        let answer = api.send(with(post("/v1/messages", lines), "content-type", media)).await;
        assert_eq!((answer.status.as_u16(), answer.json()["ids"].clone()), (201, json!(ids)));
    }
    assert_eq!(api.reached().iter().filter(|asked| **asked == "enqueue").count(), 4, "one commit each");
    let delivered: Vec<String> = api.host.bus.until_sent(7).await.sent.into_iter().map(|sent| sent.id).collect();
    assert_eq!(delivered, ["a", "b", "c", "d", "e", "f", "g"]);
}

#[tokio::test]
async fn an_id_that_urls_lose_is_refused() {
    let api = Api::open().await;
    for id in [".", ".."] {
        let answer = api.post("/v1/messages", named(id)).await;
        assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()));
        assert!(answer.json()["detail"].as_str().unwrap().contains("taken out of every URL"), "{}", answer.json());
    }
    assert_eq!(api.post("/v1/messages", named("...")).await.status, 201);
}

#[tokio::test]
async fn duplicates_alone_answer_200() {
    let api = Api::open().await;
    assert_eq!(api.post("/v1/messages", ONE).await.status, 201);
    let answer = api.post("/v1/messages", ONE).await;
    assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"ids": ["a"], "duplicates": ["a"]})));
}

#[tokio::test]
async fn the_requests_trace_context_is_used_where_a_message_has_none() {
    let api = Api::open().await;
    let own = TRACE.replace("-01", "-00");
    let body = format!(
        "{{\"messages\":[{ONE},{{\"topic\":\"bus:b\",\"payload\":1,\"id\":\"b\",\"traceparent\":\"{own}\"}}]}}"
    );
    api.send(with(post("/v1/messages", body), "traceparent", TRACE)).await;
    for (id, trace) in [("a", TRACE), ("b", own.as_str())] {
        assert_eq!(api.host.view("default", id).await.annotations.get(Annotation::Traceparent), Some(trace));
    }
    // One that isn't one is ignored, as the W3C says.
    api.send(with(post("/v1/messages", named("c")), "traceparent", "garbage")).await;
    assert_eq!(api.host.view("default", "c").await.annotations.get(Annotation::Traceparent), None);
}

#[tokio::test]
async fn a_fault_of_one_message_names_it() {
    let api = Api::open().await;
    let nowhere = r#"{"topic":"custom:nowhere","payload":1}"#;
    let body = format!("{{\"messages\":[{},{},{},{nowhere}]}}", named("a"), named("b"), named("c"));
    let answer = api.post("/v1/messages", body).await;
    assert_eq!(answer.problem(), (400, "OUTBOX.NO_ROUTE".into()));
    assert_eq!(answer.json()["index"], 3);
    assert_eq!(api.get("/v1/messages/a").await.status, 404, "none of them is sent");
}

#[tokio::test]
async fn a_list_is_paged_by_a_cursor_that_only_fits_itself() {
    let api = Api::open().await;
    api.post("/v1/transports/bus/pause", "").await;
    let three = format!("{{\"messages\":[{},{},{}]}}", named("a"), named("b"), named("c"));
    api.post("/v1/messages", three).await;
    let first = api.get("/v1/messages?filter=topic%3Dbus%3A*&limit=2").await.json();
    let ids = |page: &serde_json::Value| -> Vec<String> {
        page["items"].as_array().unwrap().iter().map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(ids(&first), ["a", "b"]);
    assert!(first["items"][0].get("payload").is_none());
    let cursor = first["next_cursor"].as_str().unwrap();
    assert!(cursor.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_'), "{cursor}");
    let mut next = Some(cursor.to_owned());
    let mut rest = Vec::new();
    while let Some(cursor) = next {
        let page = api.get(&format!("/v1/messages?filter=topic%3Dbus%3A*&limit=2&cursor={cursor}")).await.json();
        rest.extend(ids(&page));
        next = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(rest, ["c"]);
    for other in [
        "/v1/messages?",
        "/v1/dead-letters?filter=topic%3Dbus%3A*&",
        "/v1/messages?filter=topic%3Dbus%3A*&tenant=acme&",
        "/v1/messages?filter=topic%3Dbus%3A*&newest=true&",
    ] {
        let answer = api.get(&format!("{other}cursor={cursor}")).await;
        assert_eq!(answer.problem().0, 400, "{other}");
        assert_eq!(answer.json()["path"], "cursor");
    }
    let newest = "/v1/messages?filter=topic%3Dbus%3A*&newest=true&limit=2";
    let first = api.get(newest).await.json();
    assert_eq!(ids(&first), ["c", "b"]);
    let cursor = first["next_cursor"].as_str().unwrap();
    assert_eq!(ids(&api.get(&format!("{newest}&cursor={cursor}")).await.json()), ["a"]);
    let turned = api.get(&format!("/v1/messages?filter=topic%3Dbus%3A*&cursor={cursor}")).await;
    assert!(turned.json()["detail"].as_str().unwrap().contains("order"), "{}", turned.text);
}

#[tokio::test]
async fn a_message_is_shown_with_its_bytes() {
    let api = Api::open().await;
    api.host.delivered(of("acme", full_message("order/1"))).await;
    let answer = api.get("/v1/messages/order%2F1?tenant=acme").await;
    assert!(answer.text.contains(r#""payload":{"z":1.10,"a":12345678901234567890}"#), "{}", answer.text);
    let body = answer.json();
    assert_eq!((&body["id"], &body["tenant"]), (&json!("order/1"), &json!("acme")));
    assert_eq!(body["created_at"], NOW_TEXT);
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
async fn neighbours_of_a_key_are_told_with_what_they_wait_for() {
    let api = Api::open().await;
    api.post("/v1/transports/bus/pause", "").await;
    for id in ["a", "b", "c"] {
        api.post("/v1/messages", named(id).replace("\"id\"", "\"key\":\"k\",\"id\"")).await;
    }
    let near = api.get("/v1/messages/b/neighbours").await.json();
    assert_eq!((&near["key"], &near["known"], &near["further_behind"]), (&json!("k"), &json!(true), &json!(0)));
    assert_eq!((&near["before"][0]["id"], &near["behind"][0]["id"]), (&json!("a"), &json!("c")), "{near}");
    assert_eq!(near["behind"][0]["waiting"]["on"], "key");
    api.host.scheduled(message("later"), HOUR).await;
    let keyless = api.get("/v1/messages/later/neighbours").await.json();
    assert_eq!((&keyless["key"], &keyless["known"], &keyless["before"]), (&json!(null), &json!(false), &json!([])));
    assert_eq!(api.get("/v1/messages/gone/neighbours").await.problem(), (404, "OUTBOX.NOT_FOUND".into()));
}

#[tokio::test]
async fn a_list_can_be_narrowed_by_what_is_counted_in_it() {
    let api = Api::open().await;
    for id in ["a", "b"] {
        api.host.delivered(message(id)).await;
    }
    api.host.delivered(of("acme", full_message("c"))).await;
    api.host.scheduled(message("later"), HOUR).await;
    let all = api.get("/v1/messages/facets").await.json();
    assert_eq!((&all["counted"], &all["partial"], &all["counted_since"]), (&json!(4), &json!(false), &json!(null)));
    let values = |body: &serde_json::Value, name: &str| {
        let facets = body["facets"].as_array().unwrap();
        let values = facets.iter().find(|facet| facet["name"] == name).unwrap()["values"].as_array().unwrap();
        values.iter().map(|value| json!([value["value"], value["count"]])).collect::<Vec<_>>()
    };
    assert_eq!(values(&all, "state"), [json!(["done", 3]), json!(["pending", 1])]);
    assert_eq!(values(&all, "tenant"), [json!(["default", 3]), json!(["acme", 1])]);
    assert_eq!((values(&all, "waits"), values(&all, "code")), (vec![json!(["schedule", 1])], vec![]));
    let done = api.get("/v1/messages/facets?filter=state%3Ddone&tenant=acme").await.json();
    assert_eq!((&done["counted"], values(&done, "state")), (&json!(1), vec![json!(["done", 1])]));
    assert_eq!(api.get("/v1/messages/facets?filter=nonsense").await.problem().0, 400);
    for id in ["d", "e"] {
        api.host.dead(message(id)).await;
    }
    api.host.stuck_saga("default", "stuck").await;
    let dead = api.get("/v1/dead-letters/facets").await.json();
    assert_eq!((&dead["counted"], &dead["partial"]), (&json!(3), &json!(false)), "{dead}");
    assert_eq!(values(&dead, "kind"), [json!(["message", 2]), json!(["saga", 1])]);
    let sagas = api.get("/v1/dead-letters/facets?filter=kind%3Dsaga").await.json();
    assert_eq!((&sagas["counted"], values(&sagas, "state")), (&json!(1), vec![json!(["dead", 1])]));
}

#[tokio::test]
async fn cancel_and_reschedule_name_the_actor() {
    let api = Api::open().await;
    for id in ["a", "b"] {
        api.host.scheduled(message(id), HOUR).await;
    }
    let cancel = with(post("/v1/messages/a/cancel", ""), "content-type", "application/json");
    assert_eq!(api.send(cancel).await.json()["state"], "cancelled");
    let later = "2096-10-02T09:00:00.000Z";
    let moved = api.post("/v1/messages/b/reschedule", format!(r#"{{"not_before":"{later}"}}"#)).await;
    assert_eq!((moved.status.as_u16(), &moved.json()["waiting"]["until"]), (200, &json!(later)), "{}", moved.text);
    let moved = api.post("/v1/messages/b/reschedule", r#"{"available_at":4000010000456}"#).await;
    assert_eq!(moved.json()["waiting"]["until"], "2096-10-02T09:53:20.456Z", "{}", moved.text);
    let audit = api.get("/v1/audit").await.json();
    let acts: Vec<_> =
        audit["items"].as_array().unwrap().iter().map(|it| json!([it["kind"], it["object"], it["actor"]])).collect();
    assert_eq!(
        acts,
        [
            json!(["MessageRescheduled", "b", "local"]),
            json!(["MessageRescheduled", "b", "local"]),
            json!(["MessageCancelled", "a", "local"]),
        ]
    );
    api.host.until_state("default", "a", MessageState::Cancelled).await;
    let answer = api.post("/v1/messages/a/cancel", "").await;
    assert_eq!(answer.problem(), (409, "OUTBOX.STATE".into()));
}

#[tokio::test]
async fn a_transaction_carries_statements_and_messages() {
    let api = Api::open().await;
    let body =
        format!(r#"{{"statements":[{{"query":"CREATE order SET n = $n","bindings":{{"n":7}}}}],"messages":[{ONE}]}}"#);
    let answer = api.post("/v1/transactions", body).await;
    assert_eq!(
        (answer.status.as_u16(), answer.json()),
        (201, json!({"ids": ["a"], "duplicates": [], "results": [{"n": 7}]}))
    );
    api.host.until_state("default", "a", MessageState::Done).await;
    let answer = api.post("/v1/transactions", r#"{"statements":[{"query":"RETURN 1"}],"events":[]}"#).await;
    assert_eq!((answer.status.as_u16(), answer.json()["ids"].clone()), (200, json!([])));
    let failing = format!(r#"{{"statements":[{{"query":"{FAILING}"}}],"messages":[{}]}}"#, named("b"));
    assert_eq!(api.post("/v1/transactions", failing).await.problem(), (400, "STORAGE.STATEMENT".into()));
    assert_eq!(api.get("/v1/messages/b").await.status, 404, "all of it or nothing");
    api.reached();
    let answer = api.post("/v1/transactions", r#"{"messages":[],"events":[{"stream":"x"}]}"#).await;
    assert_eq!(answer.problem(), (400, "SCHEMA.VALIDATION_FAILED".into()));
    assert_eq!(answer.json()["path"], "events[0]");
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn a_host_without_streams_takes_no_transaction_with_events() {
    let api = Api::open().await;
    let event = r#"{"stream":"task","expected_seq":0,"resource_type":"TASK","resource_id":"t","op":"CREATE","schema_version":1}"#;
    let body = format!(r#"{{"messages":[{}],"events":[{event}]}}"#, named("c"));
    assert_eq!(api.post("/v1/transactions", body).await.problem(), (503, "PROVIDER.UNAVAILABLE".into()));
    assert_eq!(api.get("/v1/messages/c").await.status, 404, "all of it or nothing");
    let elsewhere = format!(r#"{{"events":[{event},{}]}}"#, event.replace("task", "a b"));
    let answer = api.post("/v1/transactions", elsewhere).await;
    assert_eq!((answer.problem(), &answer.json()["index"]), ((400, "SCHEMA.VALIDATION_FAILED".into()), &json!(1)));
}

#[tokio::test]
async fn head_answers_like_get_without_a_body() {
    let api = Api::open().await;
    let mut request = get("/v1/messages");
    *request.method_mut() = http::Method::HEAD;
    let answer = api.send(request).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
}
