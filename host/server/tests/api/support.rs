//! A service made of recordings, and calls through the whole router.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use serde_json::Value;
use tokio::sync::Notify;
use tower::ServiceExt;
use waybill_api::dead_letters::*;
use waybill_api::headers::HeadersJson;
use waybill_api::idempotency::{FinishWith, IdempotencyService};
use waybill_api::messages::*;
use waybill_api::status::*;
use waybill_api::transports::*;
use waybill_api::workers::*;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::{AttemptOutcome, DeadState};
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::service::*;
use waybill_core::port::transact::Statement;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, PluginIdentity, Receipt};
use waybill_core::port::workers::FlushResult;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::id::{DefinitionHash, DefinitionRef, SagaId, SagaKey};
use waybill_core::saga::records::SagaDead;
use waybill_core::saga::state::SagaState;
use waybill_core::time::UnixMillis;
use waybill_server::approval::ApprovalLinks;
use waybill_server::approval::token::{Claims, Decision};
use waybill_server::auth::{Role, StaticTokens, Tenants, TokenRecord};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server};
use waybill_server::tls::Encryption;

use crate::keys::Keys;

pub const NOW: UnixMillis = UnixMillis(1_790_000_000_123);

/// No test runs that late.
pub const LATER: UnixMillis = UnixMillis(4_000_000_000_123);

/// Records what it is asked and answers with examples, or fails as told.
#[derive(Default)]
pub struct Fake {
    pub calls: Mutex<Vec<String>>,
    pub enqueued: Mutex<Vec<NewMessage>>,
    pub fails: Mutex<Option<ServiceError>>,
    /// The same for sagas.
    pub saga_fails: Mutex<Option<SagaError>>,
    pub panics: Mutex<bool>,
    /// Every message counts as a duplicate.
    pub duplicates: Mutex<bool>,
    /// Enqueues and transactions wait here when set.
    pub gate: Mutex<Option<Arc<Notify>>>,
    pub checks: Mutex<Vec<Check>>,
    pub stuck: Mutex<bool>,
    /// How often readiness was asked for.
    pub asked_ready: AtomicUsize,
    pub keys: Arc<Keys>,
}

impl Fake {
    /// Notes a call; fails or panics when a test asked for that.
    pub fn record(&self, call: String) -> Result<(), ServiceError> {
        self.calls.lock().unwrap().push(call);
        assert!(!*self.panics.lock().unwrap(), "told to panic with a secret");
        self.fails.lock().unwrap().clone().map_or(Ok(()), Err)
    }
    pub fn calls(&self) -> Vec<String> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
    pub fn taken(&self) -> Vec<NewMessage> {
        std::mem::take(&mut self.enqueued.lock().unwrap())
    }
    fn enqueued(&self, messages: Vec<NewMessage>) -> Enqueued {
        let ids: Vec<String> = messages
            .iter()
            .enumerate()
            .map(|(i, message)| message.id.clone().unwrap_or_else(|| format!("made-{i}")))
            .collect();
        self.enqueued.lock().unwrap().extend(messages);
        let duplicates = if *self.duplicates.lock().unwrap() { ids.clone() } else { Vec::new() };
        Enqueued { ids, duplicates }
    }
}

/// A message whose event type was made from its topic.
pub const PLAIN: &str = "plain";

pub fn view(tenant: &str, id: &str) -> MessageView {
    let topic = "http:https://shop.example/hook".to_owned();
    let is_plain = id == PLAIN;
    let text = |text: &str| Some(text.to_owned());
    let plugin = plugin();
    MessageView {
        id: id.to_owned(),
        tenant: tenant.to_owned(),
        state: MessageState::Dead,
        topic: topic.clone(),
        transport: text("web"),
        key: text("order-1"),
        seq: Some(7 << 20),
        shard: 0,
        attempts: 3,
        suspect: 0,
        created_at: NOW.into(),
        occurred_at: NOW.into(),
        not_before: Some(NOW.into()),
        expires_at: Some(NOW.into()),
        ended_at: Some(NOW.into()),
        last_error: text("HTTP.500: no"),
        receipt: Some(ReceiptView {
            broker_ref: text("200"),
            duplicate: false,
            attributes: HeadersJson(vec![("a".into(), "b".into())]),
        }),
        waiting: Some(Waiting {
            on: WaitKind::Key,
            reason: "an earlier one".into(),
            since: Some(NOW.into()),
            until: None,
        }),
        lease: None,
        history: vec![Attempt {
            at: NOW.into(),
            took_ms: 12,
            outcome: AttemptOutcome::Retry,
            worker: "host-1".into(),
            transport: "web".into(),
            plugin: Some(plugin),
            code: text("HTTP.500"),
            reason: text("no"),
            maybe_delivered: true,
        }],
        event_type: if is_plain { topic } else { "order_placed".into() },
        event_version: if is_plain { 1 } else { 2 },
        aggregate_type: text("order"),
        aggregate_id: text("1"),
        envelope_id: text("e"),
        correlation_id: text("c"),
        causation_id: text("s"),
        reply_to: text("bus:replies"),
        traceparent: text("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        headers: HeadersJson(vec![("x-a".into(), "1".into()), ("x-a".into(), "2".into())]),
        content_type: text("application/json"),
        payload_bytes: 17,
        payload_sha256: text("ab"),
        payload: None,
        payload_base64: None,
        bytes: None,
        note: None,
    }
    .with_payload(Bytes::from_static(b"{\"z\":1.10,\"a\":12345678901234567890}"))
}

pub fn plugin() -> PluginIdentity {
    PluginIdentity { plugin: "http".into(), version: "1.0.0".into(), digest: "sha256:ab".into(), generation: 1 }
}

fn transport(name: &str) -> TransportView {
    TransportView {
        name: name.to_owned(),
        plugin: plugin(),
        paused: false,
        breaker: Breaker::Closed,
        lanes: 1,
        in_flight: 2,
        health: Health::Ready,
        health_detail: Some("fine".into()),
    }
}

pub type Served<T> = Result<T, ServiceError>;

pub fn name(tenant: Option<&Tenant>) -> String {
    tenant.map_or("*".to_owned(), |tenant| tenant.to_string())
}

/// A message whose answer is a large one.
pub const LARGE: &str = "large";

fn found(id: &str, what: Missing, tenant: &Tenant) -> Served<MessageView> {
    let found = view(tenant.as_str(), id);
    match id {
        "gone" => Err(ServiceError::NotFound { what, id: id.to_owned() }),
        LARGE => Ok(found.with_payload(format!("\"{}\"", "x".repeat(100 * 1024)).into())),
        _ => Ok(found),
    }
}

/// A stuck saga: its ids begin with `stuck`.
pub fn stuck(tenant: &str, id: &str) -> SagaDead {
    SagaDead {
        key: SagaKey { tenant: Tenant::new(tenant).unwrap(), id: SagaId::root(id).unwrap() },
        saga: SagaId::new(&format!("{id}~pay")).unwrap(),
        definition: DefinitionRef { name: "payment".into(), version: 2, hash: DefinitionHash("ab".repeat(32).into()) },
        step: "charge".into(),
        code: "HTTP.500".into(),
        reason: "no".into(),
        attempts: 6,
        died_at: NOW,
        state: DeadState::Dead,
    }
}

fn found_dead(dead: &DeadId) -> Served<DeadLetterView> {
    if dead.id.starts_with("stuck") {
        return Ok(DeadLetterView::from(&stuck(dead.tenant.as_str(), &dead.id)));
    }
    if dead.id.starts_with("inbox-") {
        return Ok(crate::inbox::dead(dead.tenant.as_str()).into());
    }
    found(&dead.id, Missing::DeadLetter, &dead.tenant).map(DeadLetterView::from)
}

/// The id, with the kind if one was asked for.
fn of_kind(dead: &DeadId) -> String {
    dead.kind.map_or(dead.id.clone(), |kind| format!("{} {}", kind.word(), dead.id))
}

#[async_trait]
impl EnqueueService for Fake {
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Served<Enqueued> {
        let gate = self.gate.lock().unwrap().clone();
        self.record(format!("enqueue {}", messages.len()))?;
        if let Some(gate) = gate {
            gate.notified().await;
        }
        Ok(self.enqueued(messages))
    }
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<NewMessage>,
        finish: Option<FinishWith>,
    ) -> Served<TransactionDone> {
        let gate = self.gate.lock().unwrap().clone();
        self.record(format!("transact {} {}", statements.len(), messages.len()))?;
        if let Some(gate) = gate {
            gate.notified().await;
        }
        let results = statements.into_iter().map(|statement| Value::Object(statement.bindings)).collect();
        let done = self.enqueued(messages);
        let done = TransactionDone { ids: done.ids, duplicates: done.duplicates, results };
        if let Some(FinishWith { hold, answer }) = finish {
            self.keys.finish(hold, answer(&done)).await?;
        }
        Ok(done)
    }
}

#[async_trait]
impl MessageService for Fake {
    async fn message(&self, tenant: &Tenant, id: &str) -> Served<MessageView> {
        self.record(format!("message {tenant} {id}"))?;
        found(id, Missing::Message, tenant)
    }
    async fn messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<MessageView>> {
        self.record(format!("messages {} [{filter}] {cursor:?} {limit}", name(tenant)))?;
        let bare = MessageView {
            payload: None,
            payload_sha256: None,
            receipt: None,
            waiting: None,
            key: None,
            ..view("default", "m-1")
        };
        Ok(Page { items: vec![bare], next_cursor: cursor.is_none().then(|| "0:17/ä".to_owned()) })
    }
    async fn cancel(&self, tenant: &Tenant, id: &str, actor: &str) -> Served<MessageView> {
        self.record(format!("cancel {tenant} {id} {actor}"))?;
        found(id, Missing::Message, tenant)
    }
    async fn reschedule(&self, tenant: &Tenant, id: &str, not_before: UnixMillis, actor: &str) -> Served<MessageView> {
        self.record(format!("reschedule {tenant} {id} {} {actor}", not_before.0))?;
        found(id, Missing::Message, tenant)
    }
}

#[async_trait]
impl DeadLetterService for Fake {
    async fn dead_letters(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Served<Page<DeadLetterView>> {
        self.record(format!("dead_letters {} [{filter}] {cursor:?} {limit}", name(tenant)))?;
        let items = vec![view("default", "d-1").into(), (&stuck("default", "stuck-1")).into()];
        Ok(Page { items, next_cursor: None })
    }
    async fn count_dead(&self, tenant: Option<&Tenant>, filter: &str) -> Served<Counted<u64>> {
        self.record(format!("count_dead {} [{filter}]", name(tenant)))?;
        // An old one that matches, and more than are counted.
        let since = filter.contains("many").then_some(NOW);
        Ok(Counted { value: 42, since })
    }
    async fn dead_groups(&self, tenant: Option<&Tenant>, filter: &str) -> Served<Counted<Vec<DeadGroupView>>> {
        self.record(format!("dead_groups {} [{filter}]", name(tenant)))?;
        let group = DeadGroupView {
            kind: DeadKind::Message,
            tenant: "acme".into(),
            code: "HTTP.500".into(),
            signature: "HTTP #".into(),
            topic: "bus:a".into(),
            count: 2,
            first_at: NOW.into(),
            latest_at: NOW.into(),
            example: "d-1".into(),
        };
        Ok(Counted { value: vec![group], since: filter.contains("many").then_some(NOW) })
    }
    async fn dead_letter(&self, dead: &DeadId) -> Served<DeadLetterView> {
        self.record(format!("dead_letter {} {}", dead.tenant, of_kind(dead)))?;
        found_dead(dead)
    }
    async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Served<Replayed> {
        let mode = how.mode.map_or(String::new(), |mode| format!(" {mode:?}"));
        self.record(format!("replay {} {} [{}]{mode} {actor}", dead.tenant, of_kind(dead), how.reason))?;
        match found_dead(dead)? {
            DeadLetterView::Message(message) => Ok(Replayed::Message(message)),
            DeadLetterView::Saga(saga) => {
                let (id, tenant, links) = (saga.id, saga.tenant, saga.links);
                Ok(Replayed::Saga(ReplayedSaga { id, tenant, state: SagaState::Compensating, unchanged: false, links }))
            }
            DeadLetterView::Inbox(_) => Ok(Replayed::Inbox(Box::new(crate::inbox::stored(dead.tenant.as_str())))),
        }
    }
    async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Served<DeadLetterView> {
        self.record(format!("quarantine {} {} [{note}] {actor}", dead.tenant, of_kind(dead)))?;
        let mut found = found_dead(dead)?;
        if let DeadLetterView::Saga(saga) = &mut found {
            (saga.state, saga.note) = (MessageState::Quarantined, Some(note.to_owned()));
        }
        Ok(found)
    }
    async fn edit(&self, dead: &DeadId, edited: NewMessage, actor: &str) -> Served<Enqueued> {
        self.record(format!("edit {} {} {actor}", dead.tenant, dead.id))?;
        Ok(self.enqueued(vec![edited]))
    }
}

#[async_trait]
impl TransportService for Fake {
    async fn transports(&self) -> Vec<TransportView> {
        vec![transport("web")]
    }
    async fn pause(&self, transport_name: &str, actor: &str) -> Served<TransportView> {
        self.record(format!("pause {transport_name} {actor}"))?;
        Ok(TransportView { paused: true, ..transport(transport_name) })
    }
    async fn resume(&self, transport_name: &str, actor: &str) -> Served<TransportView> {
        self.record(format!("resume {transport_name} {actor}"))?;
        Ok(transport(transport_name))
    }
    async fn probe(&self, transport_name: &str, actor: &str) -> Served<TransportView> {
        self.record(format!("probe {transport_name} {actor}"))?;
        match transport_name {
            "gone" => Err(ServiceError::NotFound { what: Missing::Transport, id: transport_name.to_owned() }),
            known => Ok(transport(known)),
        }
    }
    async fn provision(&self, transport_name: &str, apply: bool, actor: &str) -> Served<Vec<ProvisionChange>> {
        self.record(format!("provision {transport_name} {apply} {actor}"))?;
        let transport = transport_name.to_owned();
        match transport_name {
            "gone" => Err(ServiceError::NotFound { what: Missing::Transport, id: transport }),
            "bare" => {
                let error = ProvisionError::NotOffered { plugin: "http".to_owned() };
                Err(ServiceError::NoProvisioning { transport, error })
            }
            "down" => {
                let fault = Fault::new("NATS.CONNECT", "nobody listens");
                let error = ProvisionError::Failed(CallError { kind: ErrorKind::Unavailable, fault });
                Err(ServiceError::ProvisionFailed { transport, error })
            }
            _ => Ok(vec![ProvisionChange {
                target: "stream ORDERS".to_owned(),
                action: ProvisionAction::Create,
                detail: "subjects orders.>".to_owned(),
            }]),
        }
    }
}

#[async_trait]
impl WorkerService for Fake {
    async fn claim(&self, request: ClaimRequest) -> Served<Vec<ClaimedMessage>> {
        let ClaimRequest { worker, limit, lease, topic, tenants, wait } = request;
        let topic = topic.map(|topic| topic.as_str().to_owned());
        let gate = self.gate.lock().unwrap().clone();
        self.record(format!("claim {worker} {limit} {lease:?} {topic:?} {tenants:?} {wait:?}"))?;
        // There is nothing for this worker.
        if worker == "idle" {
            return Ok(Vec::new());
        }
        if let Some(gate) = gate.filter(|_| !wait.is_zero()) {
            gate.notified().await;
        }
        let lease = Some(LeaseView { worker, until: NOW.into() });
        let message = MessageView { state: MessageState::Leased, lease, ..view("acme", "m-1") };
        Ok(vec![ClaimedMessage {
            message,
            token: "t-1".into(),
            lease_until: NOW.into(),
            attempt: 4,
            retry_count: 3,
            claims: 2,
            target: "out.memory".into(),
        }])
    }
    async fn settle(&self, request: SettleRequest) -> Served<Vec<SettleAnswer>> {
        let SettleRequest { worker, actor, tenants, items } = request;
        self.record(format!("settle {worker:?} {actor} {tenants:?} {items:?}"))?;
        let answer = |item: SettleItem| {
            let lost = item.token == "old";
            SettleAnswer {
                id: item.id,
                applied: !lost,
                result: if lost { FlushResult::Conflict } else { FlushResult::Retry },
                code: lost.then(|| "TX.LEASE_LOST".to_owned()),
                reason: lost.then(|| "somebody else has it".to_owned()),
                state: lost.then_some(MessageState::Leased),
                next_attempt_at: (!lost).then_some(NOW.into()),
                lease_until: None,
            }
        };
        Ok(items.into_iter().map(answer).collect())
    }
    async fn check_dedup(&self, tenant: &Tenant, target: &str, sha256: &str) -> Served<Option<FirstDeliveryView>> {
        self.record(format!("check_dedup {tenant} {target} {sha256}"))?;
        let receipt = Receipt { broker_ref: Some("memory-1".into()), ..Receipt::default() }.into();
        Ok((target == "out.memory").then(|| FirstDeliveryView { id: "m-0".into(), receipt, delivered_at: NOW.into() }))
    }
}

#[async_trait]
impl StatusService for Fake {
    async fn stats(&self, tenant: Option<&Tenant>) -> Served<Vec<OutboxStats>> {
        self.record(format!("stats {}", name(tenant)))?;
        let row = OutboxStats {
            tenant: "acme".into(),
            transport: "web".into(),
            ready: 3,
            oldest_ready_ms: Some(1500),
            ..Default::default()
        };
        Ok(vec![row])
    }
    async fn blocked(&self, tenant: Option<&Tenant>) -> Served<Vec<BlockedView>> {
        self.record(format!("blocked {}", name(tenant)))?;
        Ok(vec![BlockedView {
            kind: WaitKind::Destination,
            tenant: Some("acme".into()),
            transport: Some("web".into()),
            subject: "https://shop.example".into(),
            reason: "401".into(),
            code: Some("HTTP.401".into()),
            since: NOW.into(),
            until: None,
            waiting: 4,
        }])
    }
    async fn audit(&self, tenant: Option<&Tenant>, limit: usize) -> Served<Vec<AuditView>> {
        self.record(format!("audit {} {limit}", name(tenant)))?;
        Ok(vec![AuditView {
            at: NOW.into(),
            kind: "TxReplayRequested".into(),
            actor: "local".into(),
            tenant: Some("acme".into()),
            object: "d-1".into(),
            detail: serde_json::json!({"reason": "x"}),
        }])
    }
    async fn ready(&self) -> Vec<Check> {
        self.asked_ready.fetch_add(1, Ordering::Relaxed);
        tokio::task::yield_now().await;
        if *self.stuck.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        self.checks.lock().unwrap().clone()
    }
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
    }
}

/// A server over a fake.
pub struct Api {
    pub fake: Arc<Fake>,
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

/// Links as [`server`] makes them, or as one with another key does.
pub fn links(key: &[u8]) -> ApprovalLinks {
    ApprovalLinks::new(key, "https://waybill.example/").unwrap()
}

/// What a good link to the fake's waiting step says.
pub fn claims() -> Claims {
    Claims {
        tenant: Tenant::new("acme").unwrap(),
        saga: SagaId::new("x").unwrap(),
        step: "release".into(),
        since: NOW,
        decision: Decision::Approve,
        by: "ann".into(),
        expires_at: UnixMillis(LATER.0 - 1),
    }
}

/// A good link's token.
pub fn link() -> String {
    links(&[7; 32]).token(&claims()).unwrap()
}

pub fn server(fake: Arc<Fake>, tokens: Option<Vec<TokenRecord>>, limits: Limits) -> Server {
    Server::new(parts(fake, tokens, limits))
}

pub fn parts(fake: Arc<Fake>, tokens: Option<Vec<TokenRecord>>, limits: Limits) -> Parts {
    let auth = tokens.map(|tokens| StaticTokens::new(tokens).unwrap());
    let plugins = Some(fake.clone() as Arc<_>);
    let configuration = Some(fake.clone() as Arc<_>);
    let sagas = Some(fake.clone() as Arc<_>);
    let idempotency = fake.keys.clone() as Arc<_>;
    let inbound = Some(fake.clone() as Arc<_>);
    Parts {
        service: fake,
        idempotency,
        inbound,
        sagas,
        approvals: Some(links(&[7; 32])),
        plugins,
        configuration,
        auth,
        encryption: Encryption::None,
        limits,
        metrics: None,
        version: "9.9.9".into(),
    }
}

impl Api {
    /// On loopback, nobody asked for a token.
    pub fn open() -> Self {
        Self::with(None, Limits::default())
    }
    pub fn with(tokens: Option<Vec<TokenRecord>>, limits: Limits) -> Self {
        let fake = Arc::new(Fake::default());
        let router = server(fake.clone(), tokens, limits).router();
        Self { fake, router }
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
    let response = router.clone().oneshot(request).await.unwrap();
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let answer =
        Answer { status: head.status, headers: head.headers, text: String::from_utf8(bytes.to_vec()).unwrap() };
    assert!(!answer.header("x-request-id").is_empty(), "{answer:?}");
    assert_eq!(answer.header("x-content-type-options"), "nosniff");
    assert_eq!(answer.header("cache-control"), "no-store");
    assert!(!answer.headers.contains_key("access-control-allow-origin"));
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

/// The request with one more header.
pub fn with(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}
