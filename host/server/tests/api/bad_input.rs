//! Every way to ask wrongly, and what is answered.

use std::sync::atomic::Ordering;

use axum::body::Body;
use http::{Method, Request};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_testkit::memory_host::message;

use crate::support::{Api, get, parts, post, send, token, with};

/// Path, body, status, code, path of the field, words of the detail.
type Row = (&'static str, &'static str, u16, &'static str, Option<&'static str>, &'static str);

const M: &str = "/v1/messages";
const T: &str = "/v1/transactions";
const O: &str = "/v1/operations";
const INVALID: &str = "SCHEMA.VALIDATION_FAILED";

const ROWS: &[Row] = &[
    (M, "", 400, "SCHEMA.JSON", None, "empty"),
    (M, "{", 400, "SCHEMA.JSON", None, "ends in the middle of an object"),
    (M, "{\"topic\":\"bus:a\",\"payload\":1}}", 400, "SCHEMA.JSON", None, "behind its end"),
    (M, "{\"topic\":\"bus:a\",\"payload\":01}", 400, "SCHEMA.JSON", None, "number"),
    (M, "[]", 400, INVALID, None, "message object"),
    (M, "{}", 400, INVALID, None, "topic is missing"),
    (M, "{\"messages\":[]}", 400, INVALID, None, "no message"),
    (M, "{\"topic\":\"bus:a\"}", 400, INVALID, None, "payload is missing"),
    (M, "{\"topic\":\"bus:a\",\"payload\":1,\"priority\":1}", 400, INVALID, Some("priority"), "no field \"priority\""),
    (
        M,
        "{\"messages\":[{\"topic\":\"bus:a\",\"payload\":1,\"tennant\":\"x\"}]}",
        400,
        INVALID,
        Some("messages[0].tennant"),
        "did you mean \"tenant\"",
    ),
    (M, "{\"topic\":\"bus:a\",\"payload\":1,\"attempts\":0}", 400, INVALID, Some("attempts"), "kept by the host"),
    (M, "{\"topic\":\"bus:a\",\"payload\":1,\"not_before\":\"soon\"}", 400, INVALID, Some("not_before"), "RFC 3339"),
    (M, "{\"topic\":\"bus:a\",\"payload_base64\":\"*\"}", 400, INVALID, Some("payload_base64"), "base64"),
    (T, "{}", 400, INVALID, None, "empty"),
    (T, "{\"statements\":[{\"sql\":\"x\"}]}", 400, INVALID, Some("statements[0].sql"), "query"),
    (T, "{\"statements\":\"x\"}", 400, INVALID, Some("statements"), "sequence"),
    (T, "{\"messages\":[{\"topic\":1}]}", 400, INVALID, Some("messages[0].topic"), "string"),
    (T, "{\"events\":[1]}", 400, INVALID, Some("events[0]"), "an event with its stream"),
    ("/v1/messages/a/reschedule", "{}", 400, INVALID, None, "not_before"),
    ("/v1/messages/a/reschedule", "{\"not_before\":5}", 400, INVALID, Some("not_before"), "seconds"),
    ("/v1/dead-letters/a/quarantine", "{}", 400, INVALID, None, "note"),
    ("/v1/dead-letters/a/quarantine", "{\"note\":\" \"}", 400, INVALID, Some("note"), "empty"),
    ("/v1/dead-letters/a/replay", "{\"why\":\"x\"}", 400, INVALID, Some("why"), "reason"),
    ("/v1/dead-letters/a/edit", "{\"causation_id\":\"x\"}", 400, INVALID, None, "leave it out"),
    ("/v1/dead-letters/a/edit", "{\"topic\":null}", 400, INVALID, None, "taken away"),
    (O, "{\"kind\":\"replay\"}", 400, INVALID, None, "filter"),
    (O, "{\"kind\":\"replai\",\"filter\":\"id=*\"}", 400, INVALID, Some("kind"), "did you mean \"replay\""),
    (O, "{\"kind\":\"replay\",\"filter\":\" \"}", 400, INVALID, Some("filter"), "id=*"),
    (O, "{\"kind\":\"replay\",\"filter\":\"colour=red\"}", 400, INVALID, Some("filter"), "colour"),
    (O, "{\"kind\":\"replay\",\"filter\":\"state=quarantined\"}", 400, INVALID, Some("filter"), "by their id"),
    (O, "{\"kind\":\"replay\",\"filter\":\"id=*\",\"rate\":0}", 400, INVALID, Some("rate"), "10000"),
    (O, "{\"kind\":\"quarantine\",\"filter\":\"id=*\"}", 400, INVALID, Some("reason"), "note"),
];

#[tokio::test]
async fn every_bad_body_gets_its_own_answer() {
    let api = Api::open().await;
    // An edit is of a dead letter that is there.
    api.host.dead(message("a")).await;
    for (path, body, status, code, field, words) in ROWS {
        let answer = api.post(path, *body).await;
        assert_eq!(answer.problem(), (*status, (*code).to_owned()), "{path} {body}: {}", answer.text);
        let problem = answer.json();
        assert_eq!(problem["path"].as_str(), *field, "{path} {body}: {problem}");
        assert!(problem["detail"].as_str().unwrap().contains(words), "{path} {body}: {problem}");
        assert_eq!(problem["instance"], *path);
        assert_eq!(problem["retryable"], false);
    }
    let reached = api.reached();
    assert!(reached.iter().all(|asked| *asked == "dead_letter"), "a bad request reached the service: {reached:?}");
}

#[tokio::test]
async fn a_syntax_fault_has_line_and_column() {
    let answer = Api::open().await.post(M, "{\"topic\":\"bus:a\",\n \"payload\": nope}").await;
    let problem = answer.json();
    assert_eq!((problem["line"].as_u64(), problem["column"].as_u64()), (Some(2), Some(14)), "{problem}");
}

/// POL-047-001 of source document 5.
#[tokio::test]
async fn a_message_without_an_event_type_is_refused_as_invalid_outbox_and_nothing_of_its_request_is_taken() {
    let api = Api::open().await;
    let good = r#"{"topic":"bus:orders.created","payload":1}"#;
    let bad = r#"{"topic":"bus:orders.created","payload":1,"event_type":""}"#;
    for body in [bad.to_owned(), format!(r#"{{"messages":[{good},{bad}]}}"#)] {
        let answer = api.post("/v1/messages", body.clone()).await;
        assert_eq!(answer.problem(), (400, "INVALID_OUTBOX".to_owned()), "{body}: {}", answer.text);
    }
    assert_eq!(api.get("/v1/messages").await.json()["items"], serde_json::json!([]));
}

#[tokio::test]
async fn bad_query_strings_are_refused() {
    let api = Api::open().await;
    for (path, words) in [
        ("/v1/messages?limit=1001", "1000"),
        ("/v1/messages?limit=0", "1 to 1000"),
        ("/v1/messages?limit=-1", "limit"),
        ("/v1/messages?limit=x", "limit"),
        ("/v1/messages?lmit=5", "did you mean \"limit\""),
        ("/v1/messages?cursor=AAAA", "next_cursor"),
        ("/v1/messages?cursor=", "next_cursor"),
        ("/v1/messages?filter=colour%3Dred", "tenant, topic"),
        ("/v1/messages?filter=age%3E", "value"),
        ("/v1/messages?count=true", "dead letters"),
        ("/v1/messages?tenant=", "empty"),
        ("/v1/messages/a?tenant=", "empty"),
        ("/v1/messages/a?x=1", "none is taken|tenant"),
        ("/v1/dead-letters?limit=1001", "1000"),
        ("/v1/dead-letters/groups?limit=5", "limit"),
        ("/v1/audit?limit=5000", "1000"),
        ("/v1/outbox/stats?tenant=%00", "control"),
        ("/errors/UNKNOWN.INTERNAL?x=1", "x"),
    ] {
        let answer = api.get(path).await;
        assert_eq!(answer.problem(), (400, INVALID.to_owned()), "{path}: {}", answer.text);
        let detail = answer.json()["detail"].as_str().unwrap().to_owned();
        assert!(words.split('|').any(|word| detail.contains(word)), "{path}: {detail}");
    }
    assert!(api.reached().is_empty());
}

/// Who opens the bare address hears what answers there, with a token or without.
#[tokio::test]
async fn the_bare_address_says_what_answers_and_where_to_go_on() {
    for tokens in [None, Some(vec![token("a", &["acme"], &[Role::Viewer])])] {
        let api = Api::with(tokens, Limits::default()).await;
        let told = api.get("/").await;
        assert_eq!((told.status.as_u16(), told.json()["service"].as_str()), (200, Some("waybill")));
        assert_eq!(told.json()["openapi"], "/openapi.json");
        let browser = || with(get("/"), "accept", "text/html,*/*;q=0.8");
        let to_page = api.send(browser()).await;
        assert_eq!((to_page.status.as_u16(), to_page.header("location")), (303, "/ui"));
        let without = Parts { ui: None, ..parts(&api.host, &api.hindrance, None, Limits::default()) };
        let page = send(&Server::new(without).router(), browser()).await;
        assert!(page.header("content-type").starts_with("text/plain"), "{}", page.text);
        for words in ["This is a Waybill host", "/openapi.json", "/readyz", "waybill status --url"] {
            assert!(page.text.contains(words), "{}", page.text);
        }
    }
}

#[tokio::test]
async fn unknown_addresses_and_methods_are_problems_too() {
    let api = Api::open().await;
    for path in ["/v1", "/v1/message", "/v2/messages", "/v1/messages/a/b", "/errors"] {
        assert_eq!(api.get(path).await.problem(), (404, "HTTP.NOT_FOUND".into()), "{path}");
    }
    assert_eq!(api.get("/errors/NO.SUCH").await.problem(), (404, "HTTP.NOT_FOUND".into()));
    let receivers = api.get("/errors/HTTP.422").await;
    assert_eq!(receivers.json()["code"], "HTTP.422");
    assert!(receivers.json()["page"].as_str().unwrap().starts_with("# HTTP.STATUS"), "{}", receivers.text);
    for (method, path, allowed) in [
        (Method::DELETE, "/v1/messages", "GET,HEAD,POST"),
        (Method::PUT, "/v1/messages/a", "GET,HEAD"),
        (Method::GET, "/v1/transactions", "POST"),
        (Method::OPTIONS, "/v1/messages", "GET,HEAD,POST"),
        (Method::POST, "/livez", "GET,HEAD"),
    ] {
        let mut request = get(path);
        *request.method_mut() = method.clone();
        let answer = api.send(request).await;
        assert_eq!(answer.problem(), (405, "HTTP.METHOD".into()), "{method} {path}");
        assert_eq!(answer.header("allow"), allowed, "{method} {path}");
    }
    assert_eq!(api.get("/v1/messages/%ff").await.problem(), (400, INVALID.into()));
}

#[tokio::test]
async fn media_types_are_checked() {
    let api = Api::open().await;
    let body = r#"{"topic":"bus:a","payload":1}"#;
    for media in
        ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "application/json; charset=latin1"]
    {
        let answer = api.send(with(post(M, body), "content-type", media)).await;
        assert_eq!(answer.problem(), (415, "HTTP.MEDIA_TYPE".into()), "{media}");
        assert!(answer.json()["detail"].as_str().unwrap().contains("application/json"));
    }
    let bare = Request::post(M).header("host", "localhost").body(Body::from(body)).unwrap();
    assert_eq!(api.send(bare).await.problem(), (415, "HTTP.MEDIA_TYPE".into()));
    assert_eq!(api.send(with(post(M, body), "content-encoding", "gzip")).await.problem().0, 415);
    for path in [T, O, "/v1/dead-letters/a/edit", "/v1/dead-letters/a/replay"] {
        assert_eq!(
            api.send(with(post(path, "{}"), "content-type", "application/x-ndjson")).await.problem().0,
            415,
            "{path}"
        );
    }
    assert!(api.reached().is_empty());
}

#[tokio::test]
async fn bodies_past_the_bound_are_refused_announced_or_not() {
    let api = Api::open().await;
    let announced = with(post(M, "{}"), "content-length", "67108865");
    assert_eq!(api.send(announced).await.problem(), (413, "HTTP.TOO_LARGE".into()));
    let pieces =
        futures::stream::iter((0..65).map(|_| Ok::<_, std::io::Error>(bytes::Bytes::from(vec![b' '; 1024 * 1024]))));
    let unannounced = post(M, Body::from_stream(pieces));
    assert_eq!(api.send(unannounced).await.problem(), (413, "HTTP.TOO_LARGE".into()));
    let small = post("/v1/dead-letters/a/replay", vec![b' '; 1024 * 1024 + 1]);
    assert_eq!(api.send(small).await.problem(), (413, "HTTP.TOO_LARGE".into()));
    let list = vec![r#"{"topic":"bus:a","payload":1}"#; 10_001].join(",");
    assert_eq!(api.post(M, format!("{{\"messages\":[{list}]}}")).await.problem(), (413, "OUTBOX.TOO_MANY".into()));
    let long = format!("{{\"note\":\"{}\"}}", "x".repeat(2_001));
    assert_eq!(api.post("/v1/dead-letters/a/quarantine", long).await.problem(), (400, INVALID.into()));
    assert!(api.reached().is_empty());
    let tight = Api::with(None, Limits { bodies_bytes_max: 64 * 1024, ..Limits::default() }).await;
    let answer = tight.post(M, vec![b' '; 200 * 1024]).await;
    assert_eq!(answer.problem(), (429, "OUTBOX.BUSY".into()));
    assert_eq!((answer.header("retry-after"), answer.json()["retry_after_ms"].as_u64()), ("1", Some(1000)));
}

#[tokio::test]
async fn failures_of_the_service_keep_their_meaning() {
    let store = |error| ServiceError::Store(error);
    let rows = [
        (ServiceError::IdTaken { tenant: "a".into(), id: "1".into() }, 409, "STORAGE.CONFLICT", None, false),
        (ServiceError::OtherStatements { tenant: "a".into(), id: "1".into() }, 409, "TX.OTHER_STATEMENTS", None, false),
        (ServiceError::Busy { what: "the commit queue", count: 2, count_max: 2 }, 429, "OUTBOX.BUSY", Some("1"), true),
        (ServiceError::Unavailable("draining".into()), 503, "PROVIDER.UNAVAILABLE", Some("1"), true),
        (ServiceError::OutcomeUnknown(StoreError::Unavailable("x".into())), 504, "TX.TIMEOUT", Some("1"), true),
        (ServiceError::OutcomeUnknown(StoreError::DiskFull("x".into())), 507, "STORAGE.DISK_FULL", Some("10"), true),
        (store(StoreError::DiskFull("x".into())), 507, "STORAGE.DISK_FULL", Some("10"), true),
        (store(StoreError::Conflict("x".into())), 409, "STORAGE.CONFLICT", Some("1"), true),
        (store(StoreError::Unavailable("x".into())), 503, "PROVIDER.UNAVAILABLE", Some("1"), true),
        (store(StoreError::Statement("statement 1: parse error".into())), 400, "STORAGE.STATEMENT", None, false),
        (store(StoreError::OwnTable { table: "outbox".into() }), 403, "AUTH.TABLE", None, false),
        (store(StoreError::Shared), 403, "STORAGE.SHARED", None, false),
        (store(StoreError::Corrupt("secret".into())), 500, "STORAGE.CORRUPT", None, false),
        (store(StoreError::Other("secret".into())), 500, "UNKNOWN.INTERNAL", None, true),
    ];
    let api = Api::open().await;
    for (error, status, code, retry_after, retryable) in rows {
        *api.hindrance.fails.lock() = Some(error);
        let answer = api.post(T, r#"{"statements":[{"query":"RETURN 1"}]}"#).await;
        assert_eq!(answer.problem(), (status, code.to_owned()));
        assert_eq!(answer.headers.get("retry-after").map(|value| value.to_str().unwrap()), retry_after, "{code}");
        assert_eq!(answer.json()["retryable"], retryable, "{code}");
        assert!(!answer.text.contains("secret"), "{}", answer.text);
    }
}

#[tokio::test]
async fn a_panic_is_a_problem_without_details() {
    let api = Api::open().await;
    api.hindrance.panics.store(true, Ordering::Relaxed);
    let answer = api.get("/v1/outbox/stats").await;
    assert_eq!(answer.problem(), (500, "UNKNOWN.INTERNAL".into()));
    assert!(!answer.text.contains("secret") && !answer.text.contains("panic"), "{}", answer.text);
}
