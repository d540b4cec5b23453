//! Tokens that are made and revoked while the host runs.

use axum::Router;
use axum::body::Body;
use futures::stream;
use http::Request;
use serde_json::{Value, json};
use tokio::sync::oneshot;
use waybill_api::tokens::NewToken;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;
use waybill_server::auth::{Role, Tokens};
use waybill_server::limits::{Limits, STORED_TOKENS_MAX};
use waybill_server::server::Server;
use waybill_server::tokens::StoredTokens;

use crate::examples::stored_token;
use crate::page::{as_signed_in, signed_in, with_tokens};
use crate::support::{Answer, Api, delete, get, host, parts, post, send, token, with};

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

/// The same with `token`; the body comes when the request was let in and `meanwhile` has happened.
async fn make_late(router: &Router, token: &str, body: &Value, meanwhile: impl AsyncFnOnce()) -> Answer {
    let (asked, was_asked) = oneshot::channel::<()>();
    let (more, rest) = oneshot::channel::<String>();
    let late = stream::once(async move {
        asked.send(()).unwrap();
        rest.await
    });
    let request = as_caller(post("/v1/tokens", Body::from_stream(late)), token);
    let then = async {
        was_asked.await.unwrap();
        meanwhile().await;
        more.send(body.to_string()).unwrap();
    };
    tokio::join!(send(router, request), then).0
}

/// The token of one that was made.
async fn made(api: &Api, name: &str) -> String {
    made_of(api, &json!({ "name": name, "roles": ["viewer"] })).await
}

async fn made_of(api: &Api, body: &Value) -> String {
    let answer = make(api, body).await;
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
        (json!({ "name": "offline", "roles": ["viewer"] }), 400, "SCHEMA.VALIDATION_FAILED", Some("name")),
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
async fn a_token_that_is_revoked_before_the_body_comes_makes_none() {
    let api = locked().await;
    let second = made_of(&api, &json!({ "name": "second", "roles": ["admin"] })).await;
    let heir = json!({ "name": "heir", "roles": ["admin"] });
    let revoked = async || assert_eq!(revoke(&api, "second").await.status, 200);
    let refused = make_late(&api.router, &second, &heir, revoked).await;
    assert_eq!(refused.problem(), (401, "AUTH.REQUIRED".into()));
    assert!(api.host.store.read(|tables| tables.tokens.is_empty()));
}

#[tokio::test]
async fn a_token_that_a_reload_reduces_before_the_body_comes_makes_none() {
    let api = locked().await;
    let parts = parts(&api.host, &api.hindrance, Some(vec![token("admin", &["*"], &[Role::Admin])]), Limits::default());
    let known = parts.auth.clone().unwrap();
    let router = Server::new(parts).router();
    let heir = json!({ "name": "heir", "roles": ["viewer"] });
    let reduced = async || known.put_in_force(&Tokens::new(vec![token("admin", &["*"], &[Role::Viewer])]).unwrap());
    let refused = make_late(&router, "admin", &heir, reduced).await;
    assert_eq!(refused.problem(), (403, "AUTH.ROLE".into()));
    assert!(api.host.store.read(|tables| tables.tokens.is_empty()));
}

/// As one does that waited for another change of tokens.
#[tokio::test]
async fn who_was_let_in_with_a_token_that_went_changes_none() {
    let host = host().await;
    let of = |role| Tokens::new(vec![token("admin", &["*"], &[role])]).unwrap();
    let known = of(Role::Admin);
    let stored = StoredTokens::new(known.clone(), host.store.clone(), host.store.clone());
    let admin = known.authenticate("admin").unwrap();
    let new = |name: &str| NewToken {
        name: name.to_owned(),
        roles: vec!["viewer".to_owned()],
        tenants: None,
        expires_ms: None,
    };
    assert!(stored.create(new("ci"), &admin).await.is_ok());
    for (now, code) in [(of(Role::Operator), "AUTH.ROLE"), (Tokens::none(), "AUTH.REQUIRED")] {
        known.put_in_force(&now);
        assert_eq!(stored.create(new("heir"), &admin).await.err().unwrap().code().as_str(), code);
        assert_eq!(stored.revoke("ci", &admin).await.err().unwrap().code().as_str(), code);
    }
    assert_eq!(stored.list().iter().map(|token| token.name.as_str()).collect::<Vec<_>>(), ["ci"]);
}

#[tokio::test]
async fn no_token_outlives_the_one_that_made_it() {
    let api = locked().await;
    let short = made_of(&api, &json!({ "name": "short", "roles": ["admin"], "expires_ms": 3_600_000 })).await;
    let ask = async |body: Value| api.send(as_caller(post("/v1/tokens", body.to_string()), &short)).await;
    for body in [
        json!({ "name": "heir", "roles": ["admin"] }),
        json!({ "name": "heir", "roles": ["viewer"], "expires_ms": 7_200_000 }),
    ] {
        let refused = ask(body).await;
        assert_eq!(refused.problem(), (403, "AUTH.GRANT".into()));
        assert_eq!(refused.json()["path"], "expires_ms");
    }
    assert_eq!(ask(json!({ "name": "heir", "roles": ["admin"], "expires_ms": 1_800_000 })).await.status, 201);
}

#[tokio::test]
async fn a_token_that_the_store_did_not_take_out_lets_nobody_in_and_is_revoked_again() {
    let api = locked().await;
    let (ci, old) = (made(&api, "ci").await, made(&api, "old").await);
    let is_refused = async |token: &str| {
        let answer = api.send(as_caller(get("/v1/whoami"), token)).await;
        assert_eq!(answer.problem(), (401, "AUTH.REQUIRED".into()));
    };
    for (error, status) in [(StoreError::Unavailable("gone".into()), 504), (StoreError::DiskFull("full".into()), 507)] {
        api.host.store.fail_all(Some(error));
        for (name, token) in [("ci", &ci), ("old", &old)] {
            let kept = revoke(&api, name).await;
            assert_eq!(kept.problem().0, status, "{}", kept.text);
            assert!(kept.json()["detail"].as_str().unwrap().contains("revoke it again"), "{}", kept.text);
            is_refused(token).await;
        }
    }
    api.host.store.fail_all(None);
    // That its name is taken is read of the store, and it isn't put back with what else is there.
    let taken = make(&api, &json!({ "name": "ci", "roles": ["viewer"] })).await;
    assert_eq!(taken.problem(), (409, "AUTH.TOKEN_TAKEN".into()));
    is_refused(&ci).await;
    assert_eq!(revoke(&api, "ci").await.status, 200);
    // Of this one the store had done it, and didn't say so.
    api.host.store.write(|tables| tables.tokens.remove("old"));
    assert_eq!(revoke(&api, "old").await.status, 200);
    assert!(api.host.store.read(|tables| tables.tokens.is_empty()));
    assert_eq!(revoke(&api, "ci").await.problem(), (404, "AUTH.TOKEN_NOT_FOUND".into()));
    // Under their names others are made, which a read leaves in force.
    let next = made(&api, "ci").await;
    assert_eq!(make(&api, &json!({ "name": "ci", "roles": ["viewer"] })).await.status, 409);
    assert_eq!(api.send(as_caller(get("/v1/whoami"), &next)).await.status, 200);
    is_refused(&ci).await;
}

#[tokio::test]
async fn a_name_that_is_configured_too_is_not_revoked() {
    let api = locked().await;
    api.host.store.write(|tables| tables.tokens.insert("admin".to_owned(), stored_token("admin")));
    let refused = revoke(&api, "admin").await;
    assert_eq!(refused.problem(), (409, "AUTH.TOKEN_CONFIGURED".into()));
    assert_eq!(api.host.store.read(|tables| tables.tokens.len()), 1);
}

#[tokio::test]
async fn a_ticket_is_good_as_long_as_the_token_that_it_was_given_for() {
    let api = locked().await;
    let dev = made(&api, "dev").await;
    let asked = json!({ "selector": "prefix:", "tenant": "acme" }).to_string();
    let given = api.send(as_caller(post("/v1/subscribe/tickets", asked), &dev)).await;
    assert_eq!(given.status, 201, "{}", given.text);
    assert_eq!(revoke(&api, "dev").await.status, 200);
    let address = format!("/v1/subscribe?selector=prefix:&ticket={}", given.json()["ticket"].as_str().unwrap());
    assert_eq!(api.get(&address).await.problem(), (401, "AUTH.REQUIRED".into()));
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
