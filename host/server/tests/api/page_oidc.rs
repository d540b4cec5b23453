//! Sign-in at a provider that does as it is told: what goes there, which answers are taken, and what an answer opens. A real provider is asked
//! in the workspace's `tests/`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::StatusCode;
use jsonwebtoken::jwk::Jwk;
use jsonwebtoken::{Algorithm, EncodingKey, Header, encode, get_current_timestamp};
use parking_lot::Mutex;
use rcgen::KeyPair;
use reqwest::Url;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::net::TcpListener;
use waybill_server::auth::Role;
use waybill_server::limits::Limits;
use waybill_server::oidc::{Mapping, Oidc, OidcConfig, RolesOf};
use waybill_server::server::{Parts, Server};
use waybill_server::ui::{BasePath, Environment};
use waybill_testkit::memory_host::InMemoryHost;

use crate::page::{form, form_token, is_clean};
use crate::support::{Answer, host, parts, send, with};

const PUBLIC_URL: &str = "http://localhost:7070";

/// A provider as it is at the time.
struct Provider {
    issuer: String,
    key: Mutex<EncodingKey>,
    /// Claims of the next ID token, beside those that make it good.
    claims: Mutex<Value>,
    /// What the token endpoint was sent last.
    sent: Mutex<Vec<(String, String)>>,
    keys_asked: AtomicUsize,
    documents_asked: AtomicUsize,
    /// It answers its document wrongly.
    is_ill: Mutex<bool>,
}

type Shared = State<Arc<Provider>>;

fn key() -> EncodingKey {
    EncodingKey::from_ec_der(&KeyPair::generate().unwrap().serialize_der())
}

impl Provider {
    async fn start() -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let provider = Arc::new(Self {
            issuer: format!("http://{}", listener.local_addr().unwrap()),
            key: Mutex::new(key()),
            claims: Mutex::default(),
            sent: Mutex::default(),
            keys_asked: AtomicUsize::default(),
            documents_asked: AtomicUsize::default(),
            is_ill: Mutex::default(),
        });
        let routes = Router::new()
            .route("/.well-known/openid-configuration", get(document))
            .route("/keys", get(keys))
            .route("/token", post(token))
            .with_state(Arc::clone(&provider));
        tokio::spawn(async move { axum::serve(listener, routes).await });
        provider
    }

    fn sent(&self, name: &str) -> String {
        let sent = self.sent.lock();
        sent.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

async fn document(State(provider): Shared) -> Json<Value> {
    provider.documents_asked.fetch_add(1, Ordering::Relaxed);
    let issuer = &provider.issuer;
    let named = if *provider.is_ill.lock() { "http://localhost" } else { issuer.as_str() };
    Json(json!({
        "issuer": named, "authorization_endpoint": format!("{issuer}/authorize?realm=shop"),
        "token_endpoint": format!("{issuer}/token"), "jwks_uri": format!("{issuer}/keys"),
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }))
}

async fn keys(State(provider): Shared) -> Json<Value> {
    provider.keys_asked.fetch_add(1, Ordering::Relaxed);
    let mut key =
        serde_json::to_value(Jwk::from_encoding_key(&provider.key.lock(), Algorithm::ES256).unwrap()).unwrap();
    key["kid"] = json!("k");
    Json(json!({ "keys": [key] }))
}

async fn token(State(provider): Shared, sent: String) -> (StatusCode, Json<Value>) {
    *provider.sent.lock() = form_urlencoded::parse(sent.as_bytes()).into_owned().collect();
    if provider.sent("code") != "good" {
        return (StatusCode::BAD_REQUEST, Json(json!({ "error": "invalid_grant", "error_description": "<b>old</b>" })));
    }
    let now = get_current_timestamp();
    let mut claims = json!({ "iss": provider.issuer, "aud": "waybill", "sub": "7", "iat": now, "exp": now + 60 });
    for (name, value) in provider.claims.lock().as_object().unwrap() {
        claims[name] = value.clone();
    }
    let kid = claims["kid"].as_str().unwrap_or("k").to_owned();
    let header = Header { kid: Some(kid), ..Header::new(Algorithm::ES256) };
    let signed = encode(&header, &claims, &provider.key.lock()).unwrap();
    (StatusCode::OK, Json(json!({ "id_token": signed, "access_token": "unused", "token_type": "Bearer" })))
}

/// A host whose people sign in there.
struct Scene {
    provider: Arc<Provider>,
    _host: InMemoryHost,
    router: Router,
}

/// A sign-in under way: what went to the provider, and the cookie of the browser.
struct Begun {
    to: Url,
    cookie: String,
}

impl Begun {
    fn query(&self, name: &str) -> String {
        self.to.query_pairs().find(|(of, _)| of == name).map(|(_, value)| value.into_owned()).unwrap_or_default()
    }
}

impl Scene {
    async fn open(base_path: &str) -> Self {
        let provider = Provider::start().await;
        let oidc = Oidc::new(OidcConfig {
            issuer: provider.issuer.clone(),
            client_id: "waybill".into(),
            secret: "s 1".into(),
            name: "Shop & ID".into(),
            scopes: vec!["openid".into(), "email".into()],
            mapping: Mapping {
                roles_claim: "groups".into(),
                roles: vec![RolesOf { value: "ops".into(), roles: vec![Role::Operator], streams: Vec::new() }],
                tenants_claim: None,
            },
            public_url: PUBLIC_URL.into(),
            ca: None,
        });
        let environment = Environment { base_path: BasePath::new(base_path).unwrap(), ..Environment::default() };
        let host = host().await;
        let parts = parts(&host, &Arc::default(), Some(Vec::new()), Limits::default());
        let parts = Parts { ui: Some(environment), oidc: oidc.ok(), ..parts };
        Self { provider, _host: host, router: Server::new(parts).router() }
    }

    async fn get(&self, path: &str, cookie: &str) -> Answer {
        send(&self.router, with(crate::support::get(path), "cookie", cookie)).await
    }

    async fn begin(&self, to: &str) -> Begun {
        let answer = self.get(&format!("/ui/sign-in/oidc?to={to}"), "").await;
        assert_eq!(answer.status, 303, "{}", answer.text);
        let cookie = answer.header("set-cookie");
        assert!(cookie.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=600"), "{cookie}");
        Begun { to: answer.header("location").parse().unwrap(), cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    /// The provider's answer to a sign-in, with claims that are good but for others in the place of some.
    async fn come_back(&self, way: &Begun, code: &str, more: &Value) -> Answer {
        let mut claims = json!({ "nonce": way.query("nonce"), "groups": ["ops"] });
        for (name, value) in more.as_object().unwrap() {
            claims[name] = value.clone();
        }
        *self.provider.claims.lock() = claims;
        let state = way.query("state");
        self.get(&format!("/ui/sign-in/oidc/callback?code={code}&state={state}&session_state=x"), &way.cookie).await
    }
}

/// It was refused, says why, and nobody is signed in.
fn is_refused(answer: &Answer, code: &str, why: &str) {
    is_clean(answer, why);
    assert!(answer.text.contains(code) && answer.text.contains(why), "{why}: {}", answer.text);
    let set = answer.headers.get_all("set-cookie").iter().map(|value| value.to_str().unwrap());
    assert_eq!(set.filter(|cookie| !cookie.starts_with("waybill-sign-in=;")).count(), 0);
}

#[tokio::test]
async fn a_person_goes_to_the_provider_and_comes_back_signed_in() {
    let scene = Scene::open("").await;
    let door = scene.get("/ui/sign-in?to=%2Fui%2Faudit", "").await;
    is_clean(&door, "the door");
    assert!(
        door.text.contains("Sign in with Shop &amp; ID") && !door.text.contains("type=\"password\""),
        "{}",
        door.text
    );
    assert!(door.text.contains("href=\"/ui/sign-in/oidc?to=%2Fui%2Faudit\""), "{}", door.text);

    let way = scene.begin("%2Fui%2Faudit").await;
    assert!(way.to.as_str().starts_with(&format!("{}/authorize?realm=shop&", scene.provider.issuer)), "{}", way.to);
    let redirect = format!("{PUBLIC_URL}/ui/sign-in/oidc/callback");
    for (name, expected) in [
        ("response_type", "code"),
        ("client_id", "waybill"),
        ("redirect_uri", redirect.as_str()),
        ("scope", "openid email"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(way.query(name), expected);
    }
    let arrived = scene.come_back(&way, "good", &json!({ "email": "ada@shop.example", "email_verified": true })).await;
    assert_eq!((arrived.status.as_u16(), arrived.header("location")), (303, "/ui/audit"), "{}", arrived.text);
    let sent = |name: &str| scene.provider.sent(name);
    assert_eq!(URL_SAFE_NO_PAD.encode(Sha256::digest(sent("code_verifier"))), way.query("code_challenge"));
    assert_eq!([sent("grant_type"), sent("redirect_uri")], ["authorization_code", redirect.as_str()]);
    assert_eq!([sent("client_id"), sent("client_secret")], ["waybill", "s 1"]);

    let session = arrived.header("set-cookie").split(';').next().unwrap().to_owned();
    assert!(session.starts_with("waybill="), "{session}");
    let page = scene.get("/ui/audit", &session).await;
    assert!(page.status == 200 && page.text.contains("ada@shop.example (oidc:7)"), "{}", page.text);
    assert!(page.text.contains("operator"), "{}", page.text);
    // The API knows tokens alone.
    assert_eq!(scene.get("/v1/messages", &session).await.status, 401);
    let out = form("/ui/sign-out", &[("form", &*form_token(&page.text))], &session);
    assert_eq!(send(&scene.router, out).await.status, 303);
    assert_eq!(scene.get("/ui/audit", &session).await.status, 303);
}

#[tokio::test]
async fn an_answer_is_taken_once_and_from_the_browser_that_began() {
    let scene = Scene::open("").await;
    let way = scene.begin("").await;
    let none = "no such sign-in is under way";
    let (one, other) = (scene.begin("").await, scene.begin("").await);
    let mixed = Begun { to: one.to, cookie: other.cookie.clone() };
    let refused = scene.come_back(&mixed, "good", &json!({})).await;
    is_refused(&refused, "AUTH.SIGN_IN", none);
    // The later one, in another tab, may still end well.
    assert_eq!(scene.come_back(&other, "good", &json!({})).await.header("location"), "/ui");
    let arrived = scene.come_back(&way, "good", &json!({})).await;
    assert_eq!(arrived.header("location"), "/ui");
    let cookies: Vec<_> = arrived.headers.get_all("set-cookie").iter().map(|set| set.to_str().unwrap()).collect();
    let name = way.cookie.split('=').next().unwrap();
    assert!(cookies.iter().any(|set| set.starts_with(name) && set.contains("Max-Age=0")), "{cookies:?}");
    let without = Begun { cookie: String::new(), ..scene.begin("").await };
    is_refused(&scene.come_back(&without, "good", &json!({})).await, "AUTH.SIGN_IN", none);
    is_refused(&scene.get("/ui/sign-in/oidc/callback?code=good", "").await, "AUTH.SIGN_IN", none);
}

#[tokio::test]
async fn another_site_begins_no_sign_in() {
    let scene = Scene::open("").await;
    let foreign = with(crate::support::get("/ui/sign-in/oidc?to=%2Fui%2Faudit"), "sec-fetch-site", "cross-site");
    let answer = send(&scene.router, foreign).await;
    assert_eq!((answer.status.as_u16(), answer.header("location")), (303, "/ui/sign-in?to=%2Fui%2Faudit"));
    assert!(answer.headers.get("set-cookie").is_none(), "{:?}", answer.headers);
    let own = with(crate::support::get("/ui/sign-in/oidc"), "sec-fetch-site", "same-origin");
    assert!(send(&scene.router, own).await.header("location").starts_with(&scene.provider.issuer));
}

#[tokio::test]
async fn what_the_provider_refuses_or_says_wrongly_opens_nothing() {
    let scene = Scene::open("").await;
    for (code, claims, why) in [
        ("old", json!({}), "invalid_grant: &lt;b&gt;old&lt;/b&gt;"),
        ("good", json!({ "nonce": "other" }), "for another sign-in"),
        ("good", json!({ "aud": "other" }), "for another client"),
        ("good", json!({ "exp": 1 }), "past its time"),
        ("good", json!({ "groups": ["admin"] }), "oidc:7 is signed in at the provider"),
        ("good", json!({ "kid": "newer" }), "a key that isn't among the provider's"),
    ] {
        let answer = scene.come_back(&scene.begin("").await, code, &claims).await;
        assert_eq!(answer.status, 403, "{why}");
        is_refused(&answer, "AUTH.SIGN_IN", why);
    }
    // Signed with another key under the same name.
    *scene.provider.key.lock() = key();
    let answer = scene.come_back(&scene.begin("").await, "good", &json!({})).await;
    is_refused(&answer, "AUTH.SIGN_IN", "signature");
    assert_eq!(scene.provider.keys_asked.load(Ordering::Relaxed), 1, "a minute isn't over");
    assert_eq!(scene.provider.documents_asked.load(Ordering::Relaxed), 1);

    let way = scene.begin("").await;
    let said = "error=access_denied&error_description=%3Cscript%3E&iss=";
    let path = format!("/ui/sign-in/oidc/callback?{said}&state={}", way.query("state"));
    is_refused(&scene.get(&path, &way.cookie).await, "AUTH.SIGN_IN", "access_denied: &lt;script&gt;");
    let way = scene.begin("").await;
    let path = format!("/ui/sign-in/oidc/callback?code=good&iss=https://evil.example&state={}", way.query("state"));
    is_refused(&scene.get(&path, &way.cookie).await, "AUTH.SIGN_IN", "of another provider");
}

#[tokio::test]
async fn a_provider_that_is_ill_is_left_alone_for_a_moment() {
    let scene = Scene::open("").await;
    *scene.provider.is_ill.lock() = true;
    for _ in 0..3 {
        let answer = scene.get("/ui/sign-in/oidc", "").await;
        assert_eq!(answer.status, 502);
        is_refused(&answer, "AUTH.PROVIDER", "write it exactly so");
    }
    assert_eq!(scene.provider.documents_asked.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn nobody_is_led_out_of_the_page_and_its_path_goes_along() {
    let scene = Scene::open("/ops").await;
    let door = scene.get("/ui/sign-in", "").await;
    assert!(door.text.contains("href=\"/ops/ui/sign-in/oidc?to=%2Fui\""), "{}", door.text);
    for to in ["https://evil.example", "%2F%2Fevil.example", "%2Fui%2F..%5Cevil", "%2Fv1%2Fmessages"] {
        let way = scene.begin(to).await;
        assert_eq!(way.query("redirect_uri"), format!("{PUBLIC_URL}/ops/ui/sign-in/oidc/callback"));
        assert_eq!(scene.come_back(&way, "good", &json!({})).await.header("location"), "/ops/ui", "{to}");
    }
    // Where others could read it, nobody is sent away.
    let elsewhere = with(crate::support::get("/ui/sign-in/oidc"), "host", "waybill.example");
    let answer = send(&scene.router, elsewhere).await;
    assert!(answer.status == 403 && answer.text.contains("TLS is needed"), "{}", answer.text);
}
