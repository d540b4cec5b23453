//! Approval by links: `/v1/sagas/{id}/links` and `/v1/approvals/{token}`.

use http::Request;
use serde_json::{Value, json};
use waybill_core::saga::id::SagaId;
use waybill_core::saga::state::SagaState;
use waybill_core::time::UnixMillis;
use waybill_server::approval::ApprovalLinks;
use waybill_server::approval::token::{Claims, Decision};
use waybill_server::auth::Role;
use waybill_server::limits::Limits;

use crate::examples::approval_token;
use crate::support::{Answer, Api, NOW, claims, get, host, link, links, post, send, token, with};

const BROWSER: &str = "text/html,application/xhtml+xml,*/*;q=0.8";

/// A step that waits for a person, and shows them something with a tag in it.
const ASKING: &str = r#"name = "asking"
version = 1
[[steps]]
name = "reserve"
action = "fn:orders/reserve"
compensation = "fn:orders/reserve"
[[steps]]
name = "release"
action = "wait:approval"
input = { for = "<b>Ann</b>" }
"#;

fn address(token: &str) -> String {
    format!("/v1/approvals/{token}")
}

/// A link with something else in it, rightly signed.
fn signed(change: impl FnOnce(&mut Claims)) -> String {
    let mut claims = claims();
    change(&mut claims);
    links(&[7; 32]).token(&claims).unwrap()
}

async fn make(api: &Api, body: &'static str) -> Answer {
    api.post("/v1/sagas/order-18/links?tenant=acme", body).await
}

/// A server over a host whose saga `order-18` of acme waits for a person. What it was started with is no HTML.
async fn waiting() -> Api {
    let api = Api::open().await;
    api.host.define(ASKING).await;
    api.host.begin("asking", "acme", "order-18").await;
    api.host.until_waiting("acme", "order-18", "approval").await;
    api
}

/// The path of a whole address that was answered.
fn path(url: &Value) -> String {
    url.as_str().unwrap().strip_prefix("https://waybill.example").unwrap().to_owned()
}

#[tokio::test]
async fn links_decide_for_whom_they_were_made() {
    let api = Api::with(Some(vec![token("op", &["*"], &[Role::Operator])]), Limits::default()).await;
    api.host.define(ASKING).await;
    for (id, body, (act, kind), ends) in [
        ("order-17", "", ("approve", "approved"), SagaState::Completed),
        ("order-18", r#"{"reason":"over the limit"}"#, ("reject", "rejected"), SagaState::Cancelled),
    ] {
        api.host.begin("asking", "acme", id).await;
        api.host.until_waiting("acme", id, "approval").await;
        let ask = post(&format!("/v1/sagas/{id}/links?tenant=acme"), r#"{"by":"ann","expires_ms":60000}"#);
        let made = api.send(with(ask, "authorization", "Bearer op")).await.json();
        assert_eq!((&made["saga"], &made["step"], &made["by"]), (&json!(id), &json!("release"), &json!("ann")));
        let url = &made[act];
        let shown = api.get(&path(url)).await.json();
        assert_eq!((&shown["decision"], &shown["by"]), (&json!(act), &json!("ann")));
        assert_eq!((&shown["saga"], &shown["input"]["for"]), (&json!(id), &json!("<b>Ann</b>")));
        assert_eq!(shown["expires_at"], made["expires_at"]);
        let saga = api.host.saga("acme", id).await;
        assert_eq!(saga.waiting_for.as_deref(), Some("approval"), "looking decides nothing");
        let done = api.post(&path(url), body).await.json();
        assert_eq!((&done["id"], &done["unchanged"]), (&json!(id), &json!(false)), "{done}");
        let over = api.host.until_saga("acme", id, ends).await;
        let history = over.history.unwrap();
        let decided = history.iter().find(|line| line.kind == kind).unwrap();
        assert_eq!(decided.actor.as_deref(), Some("link:ann"));
        assert_eq!(decided.text.contains("over the limit"), act == "reject", "{}", decided.text);
    }
}

#[tokio::test]
async fn links_end_with_the_wait_at_the_latest() {
    let api = waiting().await;
    let until = api.host.step("acme", "order-18", "release").await.until.unwrap().0.to_string();
    assert_eq!(make(&api, r#"{"by":"ann"}"#).await.json()["expires_at"], until);
    let longer = make(&api, r#"{"by":"ann","step":"release","expires_ms":31622400000000}"#).await;
    assert_eq!(longer.json()["path"], "expires_ms", "longer than any step may wait");
    let shorter = make(&api, r#"{"by":"ann","expires_ms":1000}"#).await.json();
    assert!(shorter["expires_at"].as_str().unwrap() < until.as_str(), "{shorter}");
}

#[tokio::test]
async fn links_are_made_for_a_step_that_waits_for_a_person_only() {
    let api = waiting().await;
    for (body, code) in [
        (r#"{"by":"ann","step":"reserve"}"#, "SAGA.NOT_WAITING"),
        (r#"{"by":"ann","step":"nope"}"#, "SAGA.NO_STEP"),
        (r#"{"by":" "}"#, "SCHEMA.VALIDATION_FAILED"),
        (r#"{"by":"a\nb"}"#, "SCHEMA.VALIDATION_FAILED"),
        (r#"{"by":"ann","expires_ms":999}"#, "SCHEMA.VALIDATION_FAILED"),
        (r#"{"step":"release"}"#, "SCHEMA.VALIDATION_FAILED"),
    ] {
        assert_eq!(make(&api, body).await.problem().1, code, "{body}");
    }
    assert_eq!(api.post("/v1/sagas/gone/links", r#"{"by":"ann"}"#).await.problem().1, "SAGA.NOT_FOUND");
}

#[tokio::test]
async fn what_is_altered_expired_or_of_another_key_decides_nothing() {
    let api = waiting().await;
    let (good, other) = (link(), signed(|claims| claims.decision = Decision::Reject));
    let (head, tail) = (good.split_once('.').unwrap().0, other.split_once('.').unwrap().1);
    let spliced = format!("{head}.{tail}");
    let foreign = links(&[8; 32]).token(&claims()).unwrap();
    let expired = signed(|claims| claims.expires_at = UnixMillis(1));
    for (token, refused) in [
        (spliced.as_str(), (403, "SAGA.LINK_INVALID")),
        (&foreign, (403, "SAGA.LINK_INVALID")),
        (head, (403, "SAGA.LINK_INVALID")),
        ("x", (403, "SAGA.LINK_INVALID")),
        (&expired, (410, "SAGA.LINK_EXPIRED")),
    ] {
        let refused = (refused.0, refused.1.to_owned());
        assert_eq!(api.get(&address(token)).await.problem(), refused);
        assert_eq!(api.post(&address(token), "{}").await.problem(), refused);
    }
    assert_eq!(api.host.saga("acme", "order-18").await.waiting_for.as_deref(), Some("approval"), "nothing is decided");
}

#[tokio::test]
async fn a_link_is_about_one_wait() {
    let api = waiting().await;
    let earlier = signed(|claims| claims.since = UnixMillis(NOW.0 - 1));
    let answer = api.get(&address(&earlier)).await;
    assert_eq!(answer.problem(), (409, "SAGA.NOT_WAITING".into()));
    assert!(answer.json()["detail"].as_str().unwrap().contains("another wait by now"));
    // Deciding leaves that to the saga: it compares in the same commit.
    assert_eq!(api.post(&address(&earlier), "").await.problem(), (409, "SAGA.NOT_WAITING".into()));
    assert_eq!(api.host.saga("acme", "order-18").await.waiting_for.as_deref(), Some("approval"));
    let other = signed(|claims| claims.step = "reserve".into());
    assert_eq!(api.get(&address(&other)).await.problem(), (409, "SAGA.NOT_WAITING".into()));
    let gone = signed(|claims| claims.saga = SagaId::new("gone").unwrap());
    assert_eq!(api.post(&address(&gone), "").await.problem(), (404, "SAGA.NOT_FOUND".into()));
}

#[tokio::test]
async fn deciding_twice_is_refused_with_who_decided() {
    let api = waiting().await;
    assert_eq!(api.post(&address(&link()), "").await.status, 200);
    let answer = api.post(&address(&link()), "").await;
    assert_eq!(answer.problem(), (409, "SAGA.NOT_WAITING".into()));
    assert!(answer.json()["detail"].as_str().unwrap().contains("approved already, by link:ann"), "{}", answer.text);
    let seen = api.get(&address(&link())).await;
    assert!(seen.json()["detail"].as_str().unwrap().contains("by link:ann"), "{}", seen.text);
    let page = api.send(with(post(&address(&link()), ""), "accept", BROWSER)).await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (409, "text/html; charset=utf-8"));
    assert!(page.text.contains("approved already, by link:ann"), "{}", page.text);
}

fn form(token: &str, body: &'static str) -> Request<axum::body::Body> {
    let mut request = with(post(&address(token), body), "accept", BROWSER);
    request.headers_mut().insert("content-type", "application/x-www-form-urlencoded".parse().unwrap());
    with(request, "origin", "http://localhost:7070")
}

#[tokio::test]
async fn a_browser_gets_a_page_with_two_buttons() {
    let api = waiting().await;
    let page = api.send(with(get(&address(&link())), "accept", BROWSER)).await;
    assert_eq!((page.status.as_u16(), page.header("content-type")), (200, "text/html; charset=utf-8"));
    assert!(page.header("content-security-policy").starts_with("default-src 'none'"));
    assert_eq!(page.header("referrer-policy"), "same-origin");
    assert!(page.header("content-security-policy").contains("style-src 'sha256-"), "no other address is needed");
    assert_eq!(page.text.matches("<form method=\"post\"").count(), 1);
    assert!(page.text.contains("<button disabled hidden>"), "Enter decides nothing");
    assert!(page.text.contains("&lt;b&gt;Ann") && !page.text.contains("<b>"), "{}", page.text);
    let saga = api.host.saga("acme", "order-18").await;
    assert_eq!(saga.waiting_for.as_deref(), Some("approval"), "looking decides nothing");
    let other = |decision| approval_token(&api.host, "acme", "order-19", move |claims| claims.decision = decision);
    for (token, id, kind) in [(link(), "order-18", "approved"), (other(Decision::Reject).await, "order-19", "rejected")]
    {
        if id == "order-18" {
            assert!(page.text.contains(&format!("action=\"{token}\"")), "{kind}");
        }
        let done = api.send(form(&token, "reason=checked+with+%C3%84nn")).await;
        assert_eq!((done.status.as_u16(), done.header("content-type")), (200, "text/html; charset=utf-8"));
        let history = api.host.saga("acme", id).await.history.unwrap();
        let decided = history.iter().find(|line| line.kind == kind).unwrap();
        assert_eq!(decided.actor.as_deref(), Some("link:ann"));
        assert!(decided.text.contains("checked with Änn"), "{}", decided.text);
    }
    let reject = signed(|claims| claims.decision = Decision::Reject);
    assert!(page.text.contains(&format!("formaction=\"{reject}\"")), "the other button");
}

#[tokio::test]
async fn forms_and_bodies_that_say_too_much_are_refused() {
    let api = waiting().await;
    let long = format!("{{\"reason\":\"{}\"}}", "x".repeat(2000));
    assert_eq!(api.post(&address(&link()), long).await.problem().0, 400);
    assert_eq!(api.post(&address(&link()), r#"{"step":"charge"}"#).await.problem().0, 400);
    for (body, status) in [("reason=a&reason=b", 400), ("step=charge", 400)] {
        assert_eq!(api.send(form(&link(), body)).await.status.as_u16(), status, "{body}");
    }
    let large = form(&link(), "").map(|_| "x".repeat(20_000).into());
    assert_eq!(api.send(large).await.status.as_u16(), 413);
    assert_eq!(api.host.saga("acme", "order-18").await.waiting_for.as_deref(), Some("approval"), "nothing is decided");
}

#[tokio::test]
async fn without_a_key_it_is_told_what_to_set() {
    let host = host().await;
    let router = crate::sagas::bare(&host);
    let key = |answer: Answer| {
        assert_eq!(answer.problem(), (409, "SAGA.NO_APPROVAL_KEY".into()));
        assert!(answer.json()["detail"].as_str().unwrap().contains("approval_key"));
    };
    key(send(&router, post("/v1/sagas/x/links", r#"{"by":"ann"}"#)).await);
    key(send(&router, get(&address(&link()))).await);
    key(send(&router, post(&address(&link()), "")).await);
}

#[test]
fn short_keys_are_refused() {
    let error = ApprovalLinks::new(&[7; 31], "http://localhost").err().unwrap();
    assert!(error.to_string().contains("saga.approval_key has 31 bytes, at least 32"), "{error}");
    assert_eq!(error.code().as_str(), "CONFIG.SECRET");
}

#[tokio::test]
async fn links_count_among_the_requests_at_work() {
    let api = Api::with(None, Limits { requests_max: 0, ..Limits::default() }).await;
    assert_eq!(api.get(&address(&link())).await.problem(), (503, "HTTP.OVERLOADED".into()));
    assert_eq!(api.get(&address("x")).await.problem(), (403, "SAGA.LINK_INVALID".into()));
}
