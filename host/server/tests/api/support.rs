//! A host in memory behind the whole router.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;
use waybill_api::messages::MessageView;
use waybill_core::annotation::Annotation;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::store::StoreError;
use waybill_core::saga::id::SagaId;
use waybill_core::time::UnixMillis;
use waybill_server::approval::ApprovalLinks;
use waybill_server::approval::token::{Claims, Decision};
use waybill_server::auth::{Role, Tenants, TokenRecord, Tokens};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_server::tls::Encryption;
use waybill_server::tokens::StoredTokens;
use waybill_server::ui::{Colour, Environment};
use waybill_testkit::conformance::samples::all_annotations;
use waybill_testkit::fake_streams::FakeStreams;
use waybill_testkit::memory_host::{EngineConfig, InMemoryHost, message};

use crate::backup::FixedBackup;
use crate::configuration::FixedConfiguration;
use crate::fake_inbound::FakeInbound;
use crate::hindrance::{Hindered, Hindrance};

/// What the host's clock says. No test runs that late: what the host says to last, lasts by the machine's clock too.
pub const NOW: UnixMillis = UnixMillis(4_000_000_000_123);
/// The same as text.
pub const NOW_TEXT: &str = "2096-10-02T07:06:40.123Z";

/// A statement that fails; every other one answers its bindings.
pub const FAILING: &str = "THROW";

/// A host whose statements answer their bindings.
pub async fn host() -> InMemoryHost {
    host_with(|_| {}).await
}

pub async fn host_with(change: impl FnOnce(&mut EngineConfig)) -> InMemoryHost {
    let host = InMemoryHost::start_with(NOW, change).await;
    host.store.answer_statements(|statement| match statement.query.as_str() {
        FAILING => Err(StoreError::Statement("statement 1: no".into())),
        _ => Ok(Value::Object(statement.bindings.clone())),
    });
    host
}

/// A message with everything that one can have, but for times.
pub fn full_message(id: &str) -> NewMessage {
    let text = |text: &str| Some(text.to_owned());
    let header = |value: &str| ("x-a".to_owned(), value.to_owned());
    NewMessage {
        payload: r#"{"z":1.10,"a":12345678901234567890}"#.into(),
        key: text("order-1"),
        headers: vec![header("1"), header("2")],
        event_type: text("order_placed"),
        event_version: Some(2),
        annotations: all_annotations().with(Annotation::ContentType, "application/json"),
        ..message(id)
    }
}

/// The same of another tenant.
pub fn of(tenant: &str, message: NewMessage) -> NewMessage {
    NewMessage { tenant: Some(tenant.to_owned()), ..message }
}

/// Its payload as text.
pub fn payload(view: &MessageView) -> &str {
    view.payload.as_ref().map_or("", |payload| payload.get())
}

/// Tokens are their own names; the hash is made here.
pub fn token(name: &str, tenants: &[&str], roles: &[Role]) -> TokenRecord {
    use sha2::Digest as _;
    let hash = sha2::Sha256::digest(name.as_bytes());
    let tenants = match tenants {
        ["*"] => Tenants::All,
        list => Tenants::Only(list.iter().map(|tenant| Tenant::new(tenant).unwrap()).collect()),
    };
    TokenRecord {
        name: name.to_owned(),
        sha256: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants,
        roles: roles.to_vec(),
        streams: Vec::new(),
    }
}

/// A server over a host in memory, with what a test puts in between.
pub struct Api {
    pub host: InMemoryHost,
    pub hindrance: Arc<Hindrance>,
    pub router: Router,
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {:?}", self.text))
    }
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
    /// Status and code of a problem; checks what every problem has.
    #[track_caller]
    pub fn problem(&self) -> (u16, String) {
        assert_eq!(self.header("content-type"), "application/problem+json", "{self:?}");
        let body = self.json();
        assert_eq!(body["status"], self.status.as_u16(), "{body}");
        assert_eq!(body["type"], format!("/errors/{}", body["code"].as_str().unwrap()), "{body}");
        assert_eq!(body["request_id"], self.header("x-request-id"), "{body}");
        for member in ["title", "detail", "instance"] {
            assert!(!body[member].as_str().unwrap().is_empty(), "{member}: {body}");
        }
        (self.status.as_u16(), body["code"].as_str().unwrap().to_owned())
    }
}

/// Links as [`Api`] makes them, or as one with another key does.
pub fn links(key: &[u8]) -> ApprovalLinks {
    ApprovalLinks::new(key, "https://waybill.example/").unwrap()
}

/// What a good link says of the step `release` of saga `order-18` of tenant acme, which has waited since the host began.
pub fn claims() -> Claims {
    Claims {
        tenant: Tenant::new("acme").unwrap(),
        saga: SagaId::new("order-18").unwrap(),
        step: "release".into(),
        since: NOW,
        decision: Decision::Approve,
        by: "ann".into(),
        expires_at: UnixMillis(NOW.0 + 1),
    }
}

/// A good link's token.
pub fn link() -> String {
    links(&[7; 32]).token(&claims()).unwrap()
}

pub fn parts(
    host: &InMemoryHost,
    hindrance: &Arc<Hindrance>,
    tokens: Option<Vec<TokenRecord>>,
    limits: Limits,
) -> Parts {
    let hindered = Arc::new(Hindered::new(host, hindrance));
    let auth = tokens.map(|tokens| Tokens::new(tokens).unwrap());
    let known = auth.clone().unwrap_or_else(Tokens::none);
    Parts {
        service: hindered.clone(),
        idempotency: hindered,
        sagas: Some(host.sagas.clone()),
        inbound: Some(hindrance.inbound.clone()),
        streams: Some(hindrance.streams.clone()),
        approvals: Some(links(&[7; 32])),
        plugins: Some(host.plugins.clone()),
        backup: Some(Arc::new(FixedBackup)),
        configuration: Some(Arc::new(FixedConfiguration)),
        cors_origins: vec!["https://shop.example".to_owned()],
        auth,
        tokens: Some(StoredTokens::new(known, host.store.clone(), host.store.clone())),
        encryption: Encryption::None,
        ui: Some(Environment { name: "test".into(), colour: Colour::Amber, ..Environment::default() }),
        oidc: None,
        limits,
        metrics: None,
        tracer: None,
        version: "9.9.9".into(),
    }
}

impl Api {
    /// On loopback, nobody asked for a token.
    pub async fn open() -> Self {
        Self::with(None, Limits::default()).await
    }
    pub async fn with(tokens: Option<Vec<TokenRecord>>, limits: Limits) -> Self {
        Self::over(host().await, tokens, limits)
    }
    pub fn over(host: InMemoryHost, tokens: Option<Vec<TokenRecord>>, limits: Limits) -> Self {
        let hindrance = Arc::default();
        let router = Server::new(parts(&host, &hindrance, tokens, limits)).router();
        Self { host, hindrance, router }
    }
    /// The same for everybody after a crash of the host.
    #[must_use]
    pub async fn restarted(self) -> Self {
        Self::over(self.host.restarted().await, None, Limits::default())
    }
    /// What was asked of the host since the last time, by the names of the services' functions.
    pub fn reached(&self) -> Vec<&'static str> {
        self.hindrance.reached()
    }
    /// The inbox beside the host.
    pub fn inbound(&self) -> &FakeInbound {
        &self.hindrance.inbound
    }
    /// The event streams beside the host.
    pub fn streams(&self) -> &FakeStreams {
        &self.hindrance.streams
    }
    pub async fn send(&self, request: Request<Body>) -> Answer {
        send(&self.router, request).await
    }
    pub async fn get(&self, path: &str) -> Answer {
        self.send(get(path)).await
    }
    pub async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(post(path, body)).await
    }
}

pub async fn send(router: &Router, request: Request<Body>) -> Answer {
    let is_shared = request.uri().path() == "/v1/subscribe";
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let answer =
        Answer { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() };
    assert!(!answer.header("x-request-id").is_empty(), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(is_shared || !answer.headers.contains_key("access-control-allow-origin"));
    answer
}

pub fn get(path: &str) -> Request<Body> {
    Request::get(path).header("host", "localhost:7070").body(Body::empty()).unwrap()
}

pub fn post(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::post(path)
        .header("host", "localhost:7070")
        .header("content-type", "application/json")
        .body(body.into())
        .unwrap()
}

/// A component in its place.
pub fn put(path: &str, body: impl Into<Body>) -> Request<Body> {
    Request::put(path)
        .header("host", "localhost:7070")
        .header("content-type", "application/wasm")
        .body(body.into())
        .unwrap()
}

/// A request that takes something away.
pub fn delete(path: &str) -> Request<Body> {
    Request::delete(path).header("host", "localhost:7070").body(Body::empty()).unwrap()
}

/// The request with one more header.
pub fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}
