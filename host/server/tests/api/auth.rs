//! Who may do what: every route of the OpenAPI document with every role, and tenants apart.

use axum::body::Body;
use http::Request;
use waybill_server::auth::{Permission, Role};
use waybill_server::limits::Limits;
use waybill_server::openapi::document;
use waybill_server::server::permissions;
use waybill_testkit::memory_host::message;

use crate::examples::example;
use crate::support::{Api, get, of, post, token, with};

fn as_caller(request: Request<Body>, token: &str) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {token}"))
}

/// The table: which roles a permission is open to.
fn expected(permission: Permission, role: Role) -> bool {
    use Role::{Admin, Operator, Sender, Transactor, Viewer, Worker};
    match permission {
        Permission::Public | Permission::Any | Permission::Read | Permission::Events => true,
        Permission::Metrics => matches!(role, Viewer | Operator | Admin),
        Permission::Send | Permission::Append => matches!(role, Sender | Transactor | Admin),
        Permission::Transact => matches!(role, Transactor | Admin),
        Permission::Work => matches!(role, Worker | Admin),
        Permission::Operate => matches!(role, Operator | Admin),
        Permission::Backup => matches!(role, Role::Backup | Admin),
        Permission::Manage => role == Admin,
    }
}

/// The same address without anything behind it.
fn bare(method: &str, template: &str) -> Request<Body> {
    let path = template.replace("{id}", "x").replace("{name}", "http").replace("{code}", "OUTBOX.BUSY");
    let mut request = post(&path.replace("{token}", "x").replace("{consumer}", "ship"), "{}");
    *request.method_mut() = method.to_uppercase().parse().unwrap();
    request
}

#[tokio::test(start_paused = true)]
async fn every_route_is_closed_without_a_token_and_open_to_its_roles() {
    let tokens = Role::ALL.map(|role| token(role.as_str(), &["*"], &[role])).to_vec();
    let api = Api::with(Some(tokens), Limits::default()).await;
    let routes = permissions();
    assert!(routes.len() >= 31, "{}", routes.len());
    for (method, path, permission) in routes {
        let permission = permission.unwrap_or_else(|| panic!("{method} {path} says nothing about its permission"));
        for bad in [None, Some("wrong"), Some("viewer2")] {
            let bearer = |request| match bad {
                Some(bad) => as_caller(request, bad),
                None => request,
            };
            if permission == Permission::Public {
                let answer = api.send(bearer(example(&api.host, &method, &path, "default").await)).await;
                assert_eq!(answer.status, 200, "{method} {path}: {}", answer.text);
                continue;
            }
            let answer = api.send(bearer(bare(&method, &path))).await;
            assert_eq!(answer.problem(), (401, "AUTH.REQUIRED".into()), "{method} {path} with {bad:?}");
            assert_eq!(answer.header("www-authenticate"), "Bearer realm=\"waybill\"");
        }
        for role in Role::ALL {
            if expected(permission, role) {
                let request = example(&api.host, &method, &path, "default").await;
                let answer = api.send(as_caller(request, role.as_str())).await;
                assert!(answer.status.is_success(), "{method} {path} as {role:?}: {}", answer.text);
            } else {
                let answer = api.send(as_caller(bare(&method, &path), role.as_str())).await;
                assert_eq!(answer.problem(), (403, "AUTH.ROLE".into()), "{method} {path} as {role:?}");
            }
        }
    }
}

/// Whether a route has a parameter that names a tenant.
fn names_a_tenant(document: &serde_json::Value, method: &str, path: &str) -> bool {
    let parameters = document["paths"][path][method.to_lowercase()]["parameters"].clone();
    parameters.as_array().into_iter().flatten().any(|parameter| parameter["name"] == "tenant")
}

#[tokio::test(start_paused = true)]
async fn a_credential_of_one_tenant_reaches_no_other() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default()).await;
    let document = serde_json::to_value(document()).unwrap();
    for (method, path, permission) in permissions() {
        if matches!(permission, Some(Permission::Metrics | Permission::Backup | Permission::Manage)) {
            let refused = api.send(as_caller(bare(&method, &path), "acme")).await;
            assert_eq!(refused.problem(), (403, "AUTH.ROLE".into()), "{method} {path}");
            assert!(refused.json()["detail"].as_str().unwrap().contains("all tenants"));
            continue;
        }
        let plain = api.send(as_caller(example(&api.host, &method, &path, "acme").await, "acme")).await;
        assert!(plain.status.is_success(), "{method} {path}: {}", plain.text);
        let names_a_tenant = names_a_tenant(&document, &method, &path);
        if !path.contains("{id}") && !names_a_tenant {
            continue;
        }
        // What is there belongs to somebody else: it is reached neither by its name alone nor with its tenant's.
        let theirs = example(&api.host, &method, &path, "other").await;
        let (head, body) = theirs.into_parts();
        let body = http_body_util::BodyExt::collect(body).await.unwrap().to_bytes();
        let named = if names_a_tenant { "?tenant=other" } else { "" };
        api.reached();
        for query in ["", named] {
            let mut foreign = Request::from_parts(head.clone(), Body::from(body.clone()));
            *foreign.uri_mut() = format!("{}{query}", foreign.uri().path()).parse().unwrap();
            let answer = api.send(as_caller(foreign, "acme")).await;
            if path.contains("{id}") {
                let code = match path.split('/').nth(2) {
                    Some("sagas") => "SAGA.NOT_FOUND",
                    Some("dead-letters") => "DEAD.NOT_FOUND",
                    Some("inbox") => "INBOX.NOT_FOUND",
                    Some("operations") => "OPERATION.NOT_FOUND",
                    _ => "OUTBOX.NOT_FOUND",
                };
                assert_eq!(answer.problem(), (404, code.into()), "{method} {path}{query}");
            } else if query.is_empty() {
                assert!(!answer.text.contains("\"other\""), "{method} {path}: {}", answer.text);
            } else {
                assert!(answer.status.is_client_error(), "{method} {path}{query}: {}", answer.text);
                assert!(api.reached().is_empty(), "{method} {path}{query} reached the service");
            }
            api.reached();
        }
    }
}

#[tokio::test]
async fn messages_for_another_tenant_are_refused_as_a_whole() {
    let api = Api::with(Some(vec![token("acme", &["acme"], &[Role::Admin])]), Limits::default()).await;
    api.host.dead(of("acme", message("d"))).await;
    for (path, body) in [
        (
            "/v1/messages",
            r#"{"messages":[{"topic":"bus:a","payload":1,"tenant":"acme"},{"topic":"bus:a","payload":1,"tenant":"other"}]}"#,
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
    let acts = ["enqueue", "transact", "edit", "start_operation"];
    assert!(!api.reached().iter().any(|asked| acts.contains(asked)));
}

/// As sagas, keys and streams are.
#[tokio::test]
async fn messages_that_name_no_tenant_are_of_the_tokens_only_one() {
    let tokens = vec![token("acme", &["acme"], &[Role::Admin]), token("two", &["acme", "other"], &[Role::Admin])];
    let api = Api::with(Some(tokens), Limits::default()).await;
    let named = |id: &str| format!(r#"{{"topic":"bus:a","payload":1,"id":"{id}"}}"#);
    let other = r#"{"topic":"bus:a","payload":1,"id":"named","tenant":"acme"}"#;
    for (path, body) in [
        ("/v1/messages", named("one")),
        ("/v1/messages", format!(r#"{{"messages":[{},{other}]}}"#, named("many"))),
        ("/v1/transactions", format!(r#"{{"messages":[{}]}}"#, named("joint"))),
    ] {
        let sent = api.send(as_caller(post(path, body.clone()), "acme")).await;
        assert_eq!(sent.status, 201, "{path} {body}: {}", sent.text);
        let refused = api.send(as_caller(post(path, body), "two")).await;
        assert_eq!(refused.problem(), (403, "AUTH.TENANT".into()), "which of the two isn't said");
    }
    let lines = with(post("/v1/messages", named("line")), "content-type", "application/x-ndjson");
    assert_eq!(api.send(as_caller(lines, "acme")).await.status, 201);
    let kept = || with(as_caller(post("/v1/messages", named("kept")), "acme"), "idempotency-key", "k");
    assert_eq!(api.send(kept()).await.status, 201);
    assert_eq!(api.send(kept()).await.header("idempotency-replayed"), "true");
    for id in ["one", "many", "named", "joint", "line", "kept"] {
        assert_eq!(api.host.view("acme", id).await.tenant, "acme", "{id}");
    }
    let key = api.send(as_caller(get("/v1/idempotency?key=k&tenant=acme"), "acme")).await;
    assert_eq!(key.status, 200, "{}", key.text);
}

#[tokio::test]
async fn odd_authorization_headers_are_refused() {
    let api = Api::with(Some(vec![token("view", &["*"], &[Role::Viewer])]), Limits::default()).await;
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
    let api = Api::open().await;
    assert_eq!(api.send(with(get("/v1/whoami"), "host", "evil.example")).await.problem(), (421, "AUTH.HOST".into()));
    assert_eq!(api.send(with(get("/livez"), "host", "evil.example:7070")).await.problem().0, 421);
    let cross = with(post("/v1/transports/http/pause", ""), "origin", "https://evil.example");
    assert_eq!(api.send(cross).await.problem(), (403, "AUTH.ORIGIN".into()));
    let brought = with(post("/v1/transports/http/pause", ""), "x-forwarded-for", "203.0.113.7");
    assert_eq!(api.send(brought).await.problem(), (403, "AUTH.PROXY".into()));
    assert!(api.reached().is_empty());
    // With tokens it doesn't matter who sent it on.
    let api = Api::with(Some(vec![token("view", &["*"], &[Role::Viewer])]), Limits::default()).await;
    let brought = with(as_caller(get("/v1/whoami"), "view"), "x-forwarded-for", "203.0.113.7");
    assert_eq!(api.send(brought).await.status, 200);
}
