//! `/v1/subscribe` and its tickets.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::ServiceExt;
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{StreamError, SubscriptionEnd};
use waybill_core::streams::access::StreamRole;
use waybill_server::auth::{Role, TokenRecord};
use waybill_server::limits::{Limits, SSE_HEARTBEAT, TICKET_TIME};
use waybill_testkit::fake_streams::piece;

use crate::live::Live;
use crate::support::{Api, get, post, token, with};

/// The blocks of an answer.
fn blocks(text: &str) -> Vec<&str> {
    text.split_terminator("\n\n").collect()
}

/// The envelope in a block, and its `id:`.
fn event(block: &str) -> (String, Value) {
    let (id, data) = block.split_once('\n').unwrap();
    let data = data.strip_prefix("data: ").unwrap();
    assert!(!data.contains('\n'), "one line: {block}");
    (id.strip_prefix("id: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
}

/// Code and detail of an `error` block.
fn error(block: &str) -> (String, String) {
    let data = block.strip_prefix("event: error\ndata: ").unwrap_or_else(|| panic!("{block}"));
    let data: Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["type"], format!("/errors/{}", data["code"].as_str().unwrap()));
    (data["code"].as_str().unwrap().to_owned(), data["detail"].as_str().unwrap().to_owned())
}

#[tokio::test]
async fn events_come_with_their_cursor_and_the_end_is_told() {
    let api = Api::open().await;
    let answer = api.get("/v1/subscribe?selector=stream:task,hidden").await;
    assert_eq!((answer.status, answer.header("content-type")), (StatusCode::OK, "text/event-stream"));
    let blocks = blocks(&answer.text);
    let (id, envelope) = event(blocks[0]);
    assert_eq!((id.as_str(), &envelope["seq"], &envelope["stream"]), ("4", &json!("4"), &json!("task")));
    assert_eq!((&envelope["tenant"], &envelope["payload_bytes"]), (&json!("default"), &json!("ewp9")));
    assert_eq!(event(blocks[1]).0, "5");
    assert_eq!(error(blocks[2]), ("EVENT.LAGGED".into(), "watch lagged; resync required".into()));
    assert_eq!(blocks.len(), 3);
}

#[tokio::test]
async fn selectors_and_cursors_are_passed_on() {
    let api = Api::open().await;
    for query in ["stream:task", "prefix:t&cursor=latest", "node:7f&cursor=abc", "type:TASK/t-&tenant=acme"] {
        assert_eq!(api.get(&format!("/v1/subscribe?selector={query}")).await.status, 200, "{query}");
    }
    let calls = api.streams().calls();
    assert!(calls[0].starts_with("subscribe default Streams([") && calls[0].ends_with("Earliest"), "{calls:?}");
    assert_eq!(calls[1], r#"subscribe default Many(Prefix("t")) Latest"#);
    assert_eq!(calls[2], r#"subscribe default Many(Node("7f")) Cursor("abc")"#);
    assert!(calls[3].starts_with("subscribe acme") && calls[3].contains(r#"id_prefix: "t-""#), "{calls:?}");
    let resumed = with(get("/v1/subscribe?selector=prefix:t&cursor=latest"), "last-event-id", "xyz");
    api.send(resumed).await;
    assert_eq!(api.streams().calls(), [r#"subscribe default Many(Prefix("t")) Cursor("xyz")"#]);
}

#[tokio::test]
async fn unusable_subscriptions_are_refused_before_they_begin() {
    let api = Api::open().await;
    for query in ["", "?selector=task", "?selector=stream:a%20b", "?selector=prefix:a&since=1"] {
        assert_eq!(api.get(&format!("/v1/subscribe{query}")).await.problem().0, 400, "{query}");
    }
    let long = "x".repeat(5_000);
    assert_eq!(api.get(&format!("/v1/subscribe?selector=prefix:a&cursor={long}")).await.problem().0, 400);
    assert!(api.streams().calls().is_empty());
    let foreign = api.get("/v1/subscribe?selector=prefix:a&cursor=elsewhere").await;
    assert_eq!(foreign.problem(), (400, "EVENT.CURSOR".into()));
}

#[tokio::test]
async fn every_end_is_an_event() {
    let expired = SubscriptionEnd::Failed(StreamError::Expired.into());
    let stalled = SubscriptionEnd::Stalled(Duration::from_secs(30));
    let gone = SubscriptionEnd::Failed(ServiceError::Unavailable("it drains".into()));
    for (end, code) in [(expired, "EVENT.CURSOR_EXPIRED"), (stalled, "EVENT.STALLED"), (gone, "PROVIDER.UNAVAILABLE")] {
        let api = Api::open().await;
        api.streams().plays([Err(end)]);
        let answer = api.get("/v1/subscribe?selector=prefix:").await;
        assert_eq!(error(blocks(&answer.text)[0]).0, code);
    }
}

#[tokio::test]
async fn an_event_that_cannot_be_read_ends_it_and_says_which() {
    let api = Api::open().await;
    let broken =
        waybill_core::port::service::streams::EventPiece { packed: "\u{7f}".into(), ..piece("default", "task", 9) };
    api.streams().plays([Ok(vec![broken])]);
    let answer = api.get("/v1/subscribe?selector=stream:task").await;
    let (code, detail) = error(blocks(&answer.text)[0]);
    assert!(code == "STORAGE.CORRUPT" && detail.contains("event 9 of default/task"), "{code} {detail}");
}

/// A subscription that waits at its end.
async fn open(api: &Api, request: Request<Body>) -> Body {
    *api.streams().waits.lock() = true;
    let response = api.router.clone().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    response.into_body()
}

async fn next(body: &mut Body) -> String {
    let frame = body.frame().await.unwrap().unwrap();
    String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
}

/// A credential that may read the stream `task`.
fn reader() -> TokenRecord {
    TokenRecord { streams: vec![StreamRole::parse("read:task").unwrap().unwrap()], ..token("reader", &["acme"], &[]) }
}

fn as_reader(request: Request<Body>) -> Request<Body> {
    with(request, "authorization", "Bearer reader")
}

#[tokio::test(start_paused = true)]
async fn comments_come_while_nothing_else_does() {
    let api = Api::open().await;
    let mut body = open(&api, get("/v1/subscribe?selector=prefix:")).await;
    assert_eq!(blocks(&next(&mut body).await).len(), 2);
    let began = tokio::time::Instant::now();
    for beat in 1..=3 {
        assert_eq!(next(&mut body).await, ":\n\n");
        assert_eq!(began.elapsed().as_secs(), SSE_HEARTBEAT.as_secs() * beat);
    }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_read_is_left_out_and_moves_the_cursor() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    let named = as_reader(get("/v1/subscribe?selector=stream:task,hidden"));
    assert_eq!(api.send(named).await.problem(), (403, "AUTH.STREAM".into()));
    let mut body = open(&api, as_reader(get("/v1/subscribe?selector=prefix:"))).await;
    let text = next(&mut body).await;
    let blocks = blocks(&text);
    assert_eq!((blocks.len(), &event(blocks[0]).1["stream"]), (1, &json!("task")));
    assert_eq!(next(&mut body).await, ":\nid: 5\n\n");
    assert_eq!(next(&mut body).await, ":\n\n");
}

#[tokio::test]
async fn subscriptions_take_no_place_of_requests_and_have_a_bound_of_their_own() {
    let limits = Limits { requests_max: 1, connections_max: 8, ..Limits::default() };
    let api = Api::with(Some(vec![token("a", &["acme"], &[Role::Viewer])]), limits).await;
    let subscribe = || with(get("/v1/subscribe?selector=prefix:"), "authorization", "Bearer a");
    let mut held = Vec::new();
    // Six for all, of which a tenant has half.
    for _ in 0..3 {
        held.push(open(&api, subscribe()).await);
    }
    assert_eq!(api.send(subscribe()).await.problem(), (429, "HTTP.SHARE".into()));
    assert_eq!(api.send(with(get("/v1/messages"), "authorization", "Bearer a")).await.status, 200);
    held.pop();
    held.push(open(&api, subscribe()).await);
}

async fn ticket(api: &Api, selector: &str) -> String {
    let request = post("/v1/subscribe/tickets", json!({ "selector": selector }).to_string());
    let answer = api.send(as_reader(request)).await;
    assert_eq!(answer.status, StatusCode::CREATED, "{}", answer.text);
    assert_eq!((&answer.json()["selector"], &answer.json()["tenant"]), (&json!(selector), &json!("acme")));
    answer.json()["ticket"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_ticket_opens_one_subscription_to_who_has_no_token() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    let address = |ticket: &str, more: &str| get(&format!("/v1/subscribe?selector=prefix:&ticket={ticket}{more}"));
    let first = ticket(&api, "prefix:").await;
    let answer = api.send(address(&first, "")).await;
    assert_eq!((answer.status, blocks(&answer.text).len()), (StatusCode::OK, 2), "with the rights of the token");
    assert_eq!(api.streams().calls(), [r#"subscribe acme Many(Prefix("")) Earliest"#]);
    let refused = (401, "AUTH.REQUIRED".to_owned());
    assert_eq!(api.send(address(&first, "")).await.problem(), refused, "it was used");
    let other = ticket(&api, "stream:task").await;
    assert_eq!(api.send(address(&other, "")).await.problem(), refused, "it is for another selector");
    let elsewhere = ticket(&api, "prefix:").await;
    let answer = api.send(address(&elsewhere, "&tenant=b")).await;
    assert_eq!(answer.problem(), (403, "AUTH.TENANT".into()));
    let late = ticket(&api, "prefix:").await;
    tokio::time::advance(TICKET_TIME + Duration::from_millis(1)).await;
    assert_eq!(api.send(address(&late, "")).await.problem(), refused, "its time is over");
    let next = ticket(&api, "prefix:").await;
    assert_eq!(api.send(get(&format!("/v1/streams?ticket={next}"))).await.problem(), refused, "for subscriptions only");
    assert!(api.streams().calls().is_empty());
}

#[tokio::test]
async fn a_ticket_gives_no_right_that_its_owner_has_not() {
    let api = Api::with(Some(vec![reader()]), Limits::default()).await;
    let ask = |body: &str| as_reader(post("/v1/subscribe/tickets", body.to_owned()));
    assert_eq!(api.send(ask(r#"{"selector":"stream:hidden"}"#)).await.problem(), (403, "AUTH.STREAM".into()));
    assert_eq!(api.send(ask(r#"{"selector":"prefix:","tenant":"b"}"#)).await.problem(), (403, "AUTH.TENANT".into()));
    assert_eq!(api.send(ask(r#"{"selector":"task"}"#)).await.problem().0, 400);
}

#[tokio::test]
async fn a_page_of_a_named_origin_may_subscribe_and_do_nothing_else() {
    let from = |request, origin| with(with(request, "origin", origin), "sec-fetch-site", "cross-site");
    for tokens in [None, Some(vec![reader()])] {
        let is_open = tokens.is_none();
        let api = Api::with(tokens, Limits::default()).await;
        let address = match is_open {
            true => "/v1/subscribe?selector=prefix:".to_owned(),
            false => format!("/v1/subscribe?selector=prefix:&ticket={}", ticket(&api, "prefix:").await),
        };
        let answer = api.send(from(get(&address), "https://shop.example")).await;
        assert_eq!(
            (answer.status, answer.header("access-control-allow-origin")),
            (StatusCode::OK, "https://shop.example")
        );
        assert_eq!(answer.header("vary"), "origin");
        let other = api.send(from(get(&address), "https://other.example")).await;
        assert!(other.status.is_client_error() && other.header("access-control-allow-origin").is_empty(), "{other:?}");
        let list = api.send(from(get("/v1/streams"), "https://shop.example")).await;
        assert!(list.status.is_client_error(), "{list:?}");
    }
}

/// Reads from a connection until this text has come.
async fn until(stream: &mut TcpStream, text: &str) -> String {
    let mut read = Vec::new();
    let mut buffer = [0; 4_096];
    let reading = async {
        while !String::from_utf8_lossy(&read).contains(text) {
            let bytes = stream.read(&mut buffer).await.unwrap();
            assert!(bytes > 0, "it closed before {text:?}: {}", String::from_utf8_lossy(&read));
            read.extend_from_slice(&buffer[..bytes]);
        }
    };
    tokio::time::timeout(Duration::from_secs(60), reading).await.unwrap();
    String::from_utf8(read).unwrap()
}

#[tokio::test]
async fn a_host_that_goes_away_ends_its_subscriptions_with_a_word() {
    let mut live = Live::start(Limits::default(), Duration::from_secs(600)).await;
    let streams = Arc::clone(&live.hindrance.streams);
    *streams.waits.lock() = true;
    let mut stream = TcpStream::connect(live.address).await.unwrap();
    let head =
        format!("GET /v1/subscribe?selector=prefix: HTTP/1.1\r\nhost: localhost:{}\r\n\r\n", live.address.port());
    stream.write_all(head.as_bytes()).await.unwrap();
    until(&mut stream, "\"seq\":\"5\"").await;
    live.stop();
    until(&mut stream, "PROVIDER.UNAVAILABLE").await;
    // The time to drain is long, so this ends only if nothing goes on.
    tokio::time::timeout(Duration::from_secs(60), live.ended()).await.unwrap();
}
