//! Tokens that are made and revoked while the host runs.

use axum::body::Body;
use http::Request;
use serde_json::{Value, json};
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_server::auth::Role;
use waybill_server::limits::{Limits, STORED_TOKENS_MAX};
use waybill_server::server::Server;

use crate::examples::stored_token;
use crate::page::{as_signed_in, signed_in, with_tokens};
use crate::support::{Answer, Api, delete, get, parts, post, send, token, with};

fn as_caller(request: Request<Body>, token: &str) -> Request<Body> {
    with(request, "authorization", &format!("Bearer {token}"))
}

async fn locked() -> Api {
    Api::with(Some(vec![token("admin", &["*"], &[Role::Admin])]), Limits::default()).await
}

/// Has a token made by `admin`.
async fn make(api: &Api, body: &Value) -> Answer {
    api.send(as_caller(post("/v1/tokens", body.to_string()), "admin")).await
}

/// The token of one that was made.
async fn made(api: &Api, name: &str) -> String {
    let answer = make(api, &json!({ "name": name, "roles": ["viewer"] })).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    answer.json()["token"].as_str().unwrap().to_owned()
}

async fn revoke(api: &Api, name: &str) -> Answer {
    api.send(as_caller(delete(&format!("/v1/tokens/{name}")), "admin")).await
}

#[tokio::test]
async fn a_token_is_made_used_listed_and_revoked() {
    let api = locked().await;
    let asked = json!({
        "name": "ci", "roles": ["viewer", "append:task.**"], "tenants": ["acme"], "expires_ms": 3_600_000,
    });
    let answer = make(&api, &asked).await;
    assert_eq!(answer.status, 201, "{}", answer.text);
    let body = answer.json();
    let token = body["token"].as_str().unwrap();
    assert!(token.starts_with("wb_") && token.len() == 67, "{token}");
    assert!(token.ends_with(body["stored"]["ends_with"].as_str().unwrap()));
    assert_eq!((&body["stored"]["created_by"], &body["stored"]["state"]), (&json!("admin"), &json!("in_force")));

    let whoami = api.send(as_caller(get("/v1/whoami"), token)).await.json();
    assert_eq!(
        whoami,
        json!({ "name": "ci", "tenants": ["acme"], "roles": ["viewer", "append:task.**"], "auth": "token" })
    );
    let list = api.send(as_caller(get("/v1/tokens"), "admin")).await;
    let names: Vec<Value> = list.json()["items"].as_array().unwrap().iter().map(|one| one["name"].clone()).collect();
    assert_eq!(names, ["admin", "ci"]);
    assert!(!list.text.contains(token));
    let kept = api.host.store.read(|tables| format!("{:?}", tables.tokens));
    assert!(kept.contains("ci") && !kept.contains(token) && !kept.contains(&token[..20]), "{kept}");

    let revoked = revoke(&api, "ci").await;
    assert_eq!((revoked.status.as_u16(), &revoked.json()["name"]), (200, &json!("ci")));
    let refused = api.send(as_caller(get("/v1/whoami"), token)).await;
    assert_eq!(refused.problem(), (401, "AUTH.REQUIRED".into()));
    assert_eq!(revoke(&api, "ci").await.problem(), (404, "AUTH.TOKEN_NOT_FOUND".into()));
    assert_eq!(revoke(&api, "admin").await.problem(), (409, "AUTH.TOKEN_CONFIGURED".into()));

    let acts: Vec<(String, String, String)> = api.host.store.read(|tables| {
        let those = tables.audit.values().filter(|event| event.kind.starts_with("Token"));
        those.map(|event| (event.kind.clone(), event.object.clone(), event.actor.clone())).collect()
    });
    let act = |kind: &str| (kind.to_owned(), "ci".to_owned(), "admin".to_owned());
    assert_eq!(acts, [act("TokenCreated"), act("TokenRevoked")]);
    let trail = api.host.store.read(|tables| format!("{:?}", tables.audit));
    assert!(trail.contains("append:task.**") && !trail.contains(token), "{trail}");
}

#[tokio::test]
async fn what_cannot_be_a_token_is_refused_with_what_is_wrong() {
    let api = locked().await;
    made(&api, "ci").await;
    let long = "x".repeat(65);
    for (body, status, code, path) in [
        (json!({ "name": "", "roles": ["viewer"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("name")),
        (json!({ "name": "a/b", "roles": ["viewer"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("name")),
        (json!({ "name": ".a", "roles": ["viewer"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("name")),
        (json!({ "name": long, "roles": ["viewer"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("name")),
        (json!({ "name": "a", "roles": [] }), 400, "SCHEMA.VALIDATION_FAILED", Some("roles")),
        (json!({ "name": "a", "roles": ["king"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("roles")),
        (json!({ "name": "a", "roles": ["append:a**"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("roles")),
        (json!({ "name": "a", "roles": ["viewer"], "tenants": [] }), 400, "SCHEMA.VALIDATION_FAILED", Some("tenants")),
        (
            json!({ "name": "a", "roles": ["viewer"], "expires_ms": 999 }),
            400,
            "SCHEMA.VALIDATION_FAILED",
            Some("expires_ms"),
        ),
        (json!({ "name": "ci", "roles": ["viewer"] }), 409, "AUTH.TOKEN_TAKEN", None),
        (json!({ "name": "admin", "roles": ["viewer"] }), 409, "AUTH.TOKEN_TAKEN", None),
    ] {
        let answer = make(&api, &body).await;
        assert_eq!(answer.problem(), (status, code.to_owned()), "{body}");
        assert_eq!(answer.json()["path"].as_str(), path, "{body}");
    }
    assert_eq!(api.host.store.read(|tables| tables.tokens.len()), 1);
}

#[tokio::test]
async fn a_restart_keeps_what_was_made_and_what_expired_is_refused_with_its_code() {
    let api = locked().await;
    let (good, old) = (made(&api, "good").await, made(&api, "old").await);
    api.host.store.write(|tables| {
        tables.tokens.get_mut("old").unwrap().expires_at = Some(UnixMillis(1_700_000_000_000));
    });
    let admin = vec![token("admin", &["*"], &[Role::Admin])];
    let parts = parts(&api.host, &api.hindrance, Some(admin), Limits::default());
    let stored = parts.tokens.clone().unwrap();
    let router = Server::new(parts).router();
    let ask = async |token: &str| send(&router, as_caller(get("/v1/whoami"), token)).await;
    assert_eq!(ask(&good).await.status, 401);
    stored.read().await.unwrap();
    assert_eq!(ask(&good).await.status, 200);
    let refused = ask(&old).await;
    assert_eq!(refused.problem(), (401, "AUTH.EXPIRED".into()));
    assert_eq!(refused.header("www-authenticate"), "Bearer realm=\"waybill\"");
    let list = send(&router, as_caller(get("/v1/tokens"), "admin")).await.json();
    let states: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|one| one["state"].as_str().unwrap()).collect();
    assert_eq!(states, ["in_force", "in_force", "expired"]);
}

#[tokio::test]
async fn revoking_the_last_token_opens_nothing() {
    let api = Api::with(Some(Vec::new()), Limits::default()).await;
    let none = api.get("/v1/whoami").await;
    assert_eq!(none.problem(), (401, "AUTH.NO_TOKENS".into()));
    assert!(none.json()["detail"].as_str().unwrap().contains("waybill token create"));
    let mut only = stored_token("only");
    only.roles = vec!["admin".to_owned()];
    api.host.store.write(|tables| tables.tokens.insert("only".to_owned(), only));
    let parts = parts(&api.host, &api.hindrance, Some(Vec::new()), Limits::default());
    parts.tokens.as_ref().unwrap().read().await.unwrap();
    let router = Server::new(parts).router();
    assert_eq!(send(&router, get("/v1/whoami")).await.problem(), (401, "AUTH.REQUIRED".into()));
    assert_eq!(send(&router, as_caller(delete("/v1/tokens/only"), "only")).await.status, 200);
    for request in [get("/v1/whoami"), as_caller(get("/v1/whoami"), "only")] {
        assert_eq!(send(&router, request).await.problem(), (401, "AUTH.NO_TOKENS".into()));
    }
}

#[tokio::test]
async fn a_session_of_the_page_ends_with_its_stored_token() {
    let api = with_tokens().await;
    let token = made(&api, "dev").await;
    let cookie = signed_in(&api.router, &token).await;
    assert_eq!(api.send(as_signed_in("/ui", &cookie)).await.status, 200);
    assert_eq!(revoke(&api, "dev").await.status, 200);
    assert_eq!(api.send(as_signed_in("/ui", &cookie)).await.status, 303);
}

#[tokio::test]
async fn where_nobody_is_asked_tokens_are_made_for_later() {
    let api = Api::open().await;
    let answer = api.post("/v1/tokens", r#"{"name":"ops","roles":["admin"]}"#).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["stored"]["created_by"]), (201, &json!("local")));
    assert_eq!(api.get("/v1/whoami").await.json()["auth"], "none");
}

#[tokio::test]
async fn what_the_store_did_not_say_is_in_force_nowhere_and_its_name_can_be_freed() {
    let api = locked().await;
    api.host.store.fail_all(Some(StoreError::Unavailable("gone".into())));
    let unsure = make(&api, &json!({ "name": "ci", "roles": ["viewer"] })).await;
    assert_eq!(unsure.problem(), (504, "TX.TIMEOUT".into()));
    api.host.store.fail_all(None);
    // It went in all the same.
    api.host.store.write(|tables| tables.tokens.insert("ci".to_owned(), stored_token("ci")));
    assert_eq!(api.send(as_caller(get("/v1/whoami"), "ci")).await.status, 401);
    let taken = make(&api, &json!({ "name": "ci", "roles": ["viewer"] })).await;
    assert_eq!(taken.problem(), (409, "AUTH.TOKEN_TAKEN".into()));
    assert_eq!(revoke(&api, "ci").await.status, 200);
    made(&api, "ci").await;
}

#[tokio::test]
async fn there_is_a_bound_on_stored_tokens() {
    let api = locked().await;
    api.host.store.write(|tables| {
        for number in 0..STORED_TOKENS_MAX {
            let name = format!("t-{number}");
            tables.tokens.insert(name.clone(), stored_token(&name));
        }
    });
    let admin = vec![token("admin", &["*"], &[Role::Admin])];
    let parts = parts(&api.host, &api.hindrance, Some(admin), Limits::default());
    parts.tokens.as_ref().unwrap().read().await.unwrap();
    let router = Server::new(parts).router();
    let asked = || as_caller(post("/v1/tokens", r#"{"name":"more","roles":["viewer"]}"#), "admin");
    assert_eq!(send(&router, asked()).await.problem(), (409, "AUTH.TOKEN_LIMIT".into()));
    assert_eq!(send(&router, as_caller(delete("/v1/tokens/t-0"), "admin")).await.status, 200);
    assert_eq!(send(&router, asked()).await.status, 201);
}
