//! Who may do what: every route of the OpenAPI document with every role, and tenants apart.

use axum::body::Body;
use http::Request;
use waybill_server::auth::{Permission, Role};
use waybill_server::limits::Limits;
use waybill_server::server::permissions;

use crate::support::{Api, get, link, post, put, token, with};

/// A question that is right.
const CHECK_DEDUP: &str =
    r#"{"target":"a","payload_sha":"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"}"#;

/// A request that is right but for the credential.
fn example(method: &str, path: &str) -> Request<Body> {
    let path =
        path.replace("{id}", "x").replace("{name}", "web").replace("{code}", "OUTBOX.BUSY").replace("{token}", &link());
    let path = path.replace("{consumer}", "ship");
    let body = match path.as_str() {
        "/v1/messages" => r#"{"topic":"bus:a","payload":1,"tenant":"acme"}"#,
        "/v1/transactions" => r#"{"statements":[{"query":"RETURN 1"}]}"#,
        "/v1/operations" => r#"{"kind":"purge","filter":"id=*"}"#,
        "/v1/outbox/claim" => r#"{"worker_id":"w"}"#,
        "/v1/outbox/check-dedup" => CHECK_DEDUP,
        "/v1/outbox/settle" => r#"{"items":[{"id":"x","token":"t","result":"ack"}]}"#,
        "/v1/transports/web/provision" | "/v1/sources/web/provision" => r#"{"apply":true}"#,
        "/v1/sources/web/replay" => r#"{"ids":["17"]}"#,
        "/v1/messages/x/reschedule" => r#"{"not_before":1790000000123}"#,
        "/v1/dead-letters/x/quarantine" => r#"{"note":"x"}"#,
        "/v1/idempotency/begin" => r#"{"key":"example","hash":"h"}"#,
        "/v1/idempotency/finish" => r#"{"key":"example","token":"t","result":1}"#,
        "/v1/idempotency/fail" => r#"{"key":"example","token":"t","error":"no"}"#,
        "/v1/idempotency/release" | "/v1/idempotency/renew" => r#"{"key":"example","token":"t"}"#,
        "/v1/idempotency/forget" => r#"{"key":"example"}"#,
        "/v1/sagas" => r#"{"definition":"order","tenant":"acme"}"#,
        "/v1/sagas/x/accept" => r#"{"reason":"by hand"}"#,
        "/v1/sagas/x/links" => r#"{"by":"ann"}"#,
        "/v1/sagas/x/skip" | "/v1/sagas/x/replies" => r#"{"step":"charge"}"#,
        _ => "{}",
    };
    match method {
        "GET" => get(&path),
        "POST" => post(&path, body),
        "PUT" => put(&path, body),
        other => panic!("no example for {other} {path}"),
    }
}

fn as_caller(request: Request<Body>, token: &str) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {token}"))
}

/// The table: which roles a permission is open to.
fn expected(permission: Permission, role: Role) -> bool {
    use Role::{Admin, Operator, Sender, Transactor, Viewer, Worker};
    match permission {
        Permission::Public | Permission::Any | Permission::Read => true,
        Permission::Metrics => matches!(role, Viewer | Operator | Admin),
        Permission::Send => matches!(role, Sender | Transactor | Admin),
        Permission::Transact => matches!(role, Transactor | Admin),
        Permission::Work => matches!(role, Worker | Admin),
        Permission::Operate => matches!(role, Operator | Admin),
        Permission::Manage => role == Admin,
    }
}

#[tokio::test]
async fn every_route_is_closed_without_a_token_and_open_to_its_roles() {
    let tokens = Role::ALL.map(|role| token(role.as_str(), &["*"], &[role])).to_vec();
    let api = Api::with(Some(tokens), Limits::default());
    let routes = permissions();
    assert!(routes.len() >= 31, "{}", routes.len());
    for (method, path, permission) in routes {
        let permission = permission.unwrap_or_else(|| panic!("{method} {path} says nothing about its permission"));
        for bad in [None, Some("wrong"), Some("viewer2")] {
            let request = example(&method, &path);
            let request = match bad {
                Some(bad) => as_caller(request, bad),
                None => request,
            };
            let answer = api.send(request).await;
            if permission == Permission::Public {
                assert_eq!(answer.status, 200, "{method} {path}");
            } else {
                assert_eq!(answer.problem(), (401, "AUTH.REQUIRED".into()), "{method} {path} with {bad:?}");
                assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"waybill\"");
            }
        }
        for role in Role::ALL {
            let answer = api.send(as_caller(example(&method, &path), role.as_str())).await;
            if expected(permission, role) {
                assert!(answer.status.is_success(), "{method} {path} as {role:?}: {}", answer.text);
            } else {
                assert_eq!(answer.problem(), (403, "AUTH.ROLE".into()), "{method} {path} as {role:?}");
            }
        }
    }
}

#[tokio::test]
async fn a_credential_of_one_tenant_reaches_no_other() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default());
    for (method, path, permission) in permissions() {
        let global = matches!(permission, Some(Permission::Metrics | Permission::Manage));
        let plain = api.send(as_caller(example(&method, &path), "acme")).await;
        if global {
            assert_eq!(plain.problem(), (403, "AUTH.ROLE".into()), "{method} {path}");
            assert!(plain.json()["detail"].as_str().unwrap().contains("all tenants"));
            continue;
        }
        assert!(plain.status.is_success(), "{method} {path}: {}", plain.text);
        let calls = api.fake.calls();
        for call in &calls {
            assert!(
                call.contains("acme")
                    || call.starts_with("enqueue")
                    || call.starts_with("transact")
                    || call.starts_with("operation")
                    || call.starts_with("definition"),
                "{path}: {call}"
            );
        }
        // The same for somebody else's tenant, wherever one can be named.
        let mut foreign = example(&method, &path);
        *foreign.uri_mut() = format!("{}?tenant=other", foreign.uri().path()).parse().unwrap();
        let answer = api.send(as_caller(foreign, "acme")).await;
        let served = api.fake.calls();
        assert!(!served.iter().any(|call| call.contains("other")), "{method} {path} reached {served:?}");
        if path.contains("{id}") && !path.contains("operations") {
            let code = match path.split('/').nth(2) {
                Some("sagas") => "SAGA.NOT_FOUND",
                Some("dead-letters") => "DEAD.NOT_FOUND",
                Some("inbox") => "INBOX.NOT_FOUND",
                _ => "OUTBOX.NOT_FOUND",
            };
            assert_eq!(answer.problem(), (404, code.into()), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn messages_for_another_tenant_are_refused_as_a_whole() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default());
    for (path, body) in [
        (
            "/v1/messages",
            r#"{"messages":[{"topic":"bus:a","payload":1,"tenant":"acme"},{"topic":"bus:a","payload":1,"tenant":"other"}]}"#,
        ),
        (
            "/v1/messages",
            r#"{"messages":[{"topic":"bus:a","payload":1,"tenant":"acme"},{"topic":"bus:a","payload":1}]}"#,
        ),
        (
            "/v1/transactions",
            r#"{"messages":[{"topic":"bus:a","payload":1,"tenant":"acme"},{"topic":"bus:a","payload":1,"tenant":"other"}]}"#,
        ),
    ] {
        let answer = api.send(as_caller(post(path, body), "acme")).await;
        assert_eq!(answer.problem(), (403, "AUTH.TENANT".into()), "{body}");
        assert_eq!(answer.json()["index"], 1);
    }
    let moved = api.send(as_caller(post("/v1/dead-letters/d/edit", r#"{"tenant":"other"}"#), "acme")).await;
    assert_eq!(moved.problem(), (403, "AUTH.TENANT".into()));
    let bulk = api
        .send(as_caller(post("/v1/operations", r#"{"kind":"purge","filter":"id=*","tenant":"other"}"#), "acme"))
        .await;
    assert_eq!(bulk.problem(), (403, "AUTH.TENANT".into()));
    assert!(!api.fake.calls().iter().any(|call| call.starts_with("enqueue")
        || call.starts_with("transact")
        || call.starts_with("edit")
        || call.starts_with("start")));
}

#[tokio::test]
async fn odd_authorization_headers_are_refused() {
    let api = Api::with(Some(vec![token("view", &["*"], &[Role::Viewer])]), Limits::default());
    let long = format!("Bearer {}", "x".repeat(5000));
    for header in ["view", "Basic view", "Bearer", "Bearer ", long.as_str(), "Bearer view x"] {
        let answer = api.send(with(get("/v1/whoami"), "authorization", header)).await;
        assert_eq!(answer.problem(), (401, "AUTH.REQUIRED".into()), "{header}");
    }
    let mut twice = with(get("/v1/whoami"), "authorization", "Bearer view");
    twice.headers_mut().append("authorization", "Bearer view".parse().unwrap());
    assert_eq!(api.send(twice).await.problem().0, 401);
    assert_eq!(api.send(as_caller(get("/v1/whoami"), "view")).await.status, 200);
    // The Host header matters only while nobody is asked for a token.
    let elsewhere = with(as_caller(get("/v1/whoami"), "view"), "host", "waybill.example");
    assert_eq!(api.send(elsewhere).await.status, 200);
}

#[tokio::test]
async fn without_tokens_only_this_machines_programs_are_served() {
    let api = Api::open();
    assert_eq!(api.send(with(get("/v1/whoami"), "host", "evil.example")).await.problem(), (421, "AUTH.HOST".into()));
    assert_eq!(api.send(with(get("/livez"), "host", "evil.example:7070")).await.problem().0, 421);
    let cross = with(post("/v1/transports/web/pause", ""), "origin", "https://evil.example");
    assert_eq!(api.send(cross).await.problem(), (403, "AUTH.ORIGIN".into()));
    let brought = with(post("/v1/transports/web/pause", ""), "x-forwarded-for", "203.0.113.7");
    assert_eq!(api.send(brought).await.problem(), (403, "AUTH.PROXY".into()));
    assert!(api.fake.calls().is_empty());
    // With tokens it doesn't matter who sent it on.
    let api = Api::with(Some(vec![token("view", &["*"], &[Role::Viewer])]), Limits::default());
    let brought = with(as_caller(get("/v1/whoami"), "view"), "x-forwarded-for", "203.0.113.7");
    assert_eq!(api.send(brought).await.status, 200);
}
