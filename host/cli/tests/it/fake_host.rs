//! A host with the real HTTP API over an outbox of a few fixed messages.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use waybill_api::dead_letters::*;
use waybill_api::headers::HeadersJson;
use waybill_api::idempotency::FinishWith;
use waybill_api::messages::*;
use waybill_api::operations::OperationService;
use waybill_api::status::*;
use waybill_api::transports::*;
use waybill_api::workers::*;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::outbox::records::AttemptOutcome;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::missing::Missing;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange, ProvisionError};
use waybill_core::port::query::{Counted, Page};
use waybill_core::port::service::{MessageState, OperationRequest, ServiceError};
use waybill_core::port::transact::{Operation, OperationState, Statement};
use waybill_core::port::transport::{Health, PluginIdentity};
use waybill_core::saga::state::SagaState;
use waybill_core::time::UnixMillis;
use waybill_server::approval::ApprovalLinks;
use waybill_server::auth::{Role, StaticTokens, Tenants, TokenRecord};
use waybill_server::limits::Limits;
use waybill_server::server::{Parts, Server, bind};
use waybill_server::tls::Encryption;

/// 2026-11-21T09:00:00Z.
pub const NOW: UnixMillis = UnixMillis(1_795_251_600_000);

/// What the host was asked to do.
#[derive(Default)]
pub struct Recorded {
    pub enqueued: Vec<NewMessage>,
    pub acts: Vec<String>,
    /// The latest bulk act on sagas, as it ends.
    pub on_sagas: Option<Operation>,
}

pub struct FakeHost {
    pub url: String,
    pub seen: Arc<Mutex<Recorded>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

/// Behaviour of the host's outbox.
#[derive(Clone, Copy, Default)]
pub struct Mood {
    pub unready: bool,
    /// Tokens are asked for; `sesame-sesame-sesame` is a viewer, `acme-acme-acme-acme` one of tenant acme.
    pub auth: bool,
    /// Some acts of an operation fail.
    pub half: bool,
    /// Every enqueue takes this long.
    pub slow: Duration,
}

impl FakeHost {
    pub fn start(mood: Mood) -> Self {
        let seen = Arc::new(Mutex::new(Recorded::default()));
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let (tell, told) = std::sync::mpsc::channel();
        let service = Arc::new(Outbox { mood, seen: Arc::clone(&seen) });
        let inbound = service.clone();
        let sagas = Arc::new(crate::fake_sagas::Sagas(Arc::clone(&seen)));
        let thread = std::thread::spawn(move || {
            tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async move {
                let auth = mood.auth.then(tokens);
                let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0)), false, &Encryption::None).await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let server = Server::new(Parts {
                    configuration: None,
                    idempotency: Arc::new(crate::fake_keys::Keys { seen: Arc::clone(&service.seen) }),
                    service,
                    sagas: Some(sagas),
                    approvals: ApprovalLinks::new(&[7; 32], "https://waybill.example").ok(),
                    inbound: Some(inbound),
                    plugins: None,
                    auth,
                    encryption: Encryption::None,
                    limits: Limits::default(),
                    metrics: None,
                    version: "0.0.0".into(),
                });
                let shutdown = async {
                    let _ = stopped.await;
                };
                server.run(vec![listener], shutdown, Duration::ZERO).await.unwrap();
            });
        });
        let url = format!("http://{}", told.recv().unwrap());
        Self { url, seen, stop: Some(stop), thread: Some(thread) }
    }

    pub fn acts(&self) -> Vec<String> {
        self.seen.lock().unwrap().acts.clone()
    }
}

impl Drop for FakeHost {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

fn tokens() -> StaticTokens {
    use sha2::{Digest, Sha256};
    let record = |name: &str, token: &str, tenants| TokenRecord {
        name: name.into(),
        // printf %s TOKEN | sha256sum
        sha256: Sha256::digest(token).iter().map(|byte| format!("{byte:02x}")).collect(),
        tenants,
        roles: vec![Role::Viewer],
    };
    let acme = Tenants::Only(vec![Tenant::new("acme").unwrap()]);
    StaticTokens::new(vec![
        record("looker", "sesame-sesame-sesame", Tenants::All),
        record("acme", "acme-acme-acme-acme", acme),
    ])
    .unwrap()
}

pub struct Outbox {
    mood: Mood,
    seen: Arc<Mutex<Recorded>>,
}

pub fn identity() -> PluginIdentity {
    PluginIdentity {
        plugin: "http".into(),
        version: "0.1.0".into(),
        digest: format!("sha256:{}", "ab".repeat(32)),
        generation: 1,
    }
}

fn view(id: &str, tenant: &str, state: MessageState) -> MessageView {
    MessageView {
        id: id.into(),
        tenant: tenant.into(),
        state,
        topic: "http:http://shop.example/hook".into(),
        transport: Some("http".into()),
        key: Some("order-17".into()),
        seq: Some(1_882_148_556_800_001),
        shard: 0,
        attempts: 2,
        suspect: 0,
        created_at: NOW.into(),
        occurred_at: NOW.into(),
        not_before: None,
        expires_at: None,
        ended_at: None,
        last_error: None,
        receipt: None,
        waiting: None,
        lease: None,
        history: Vec::new(),
        event_type: "order.created".into(),
        event_version: 1,
        aggregate_type: None,
        aggregate_id: None,
        envelope_id: None,
        correlation_id: Some("c-1".into()),
        causation_id: None,
        reply_to: None,
        traceparent: None,
        headers: HeadersJson(vec![("source".into(), "shop".into())]),
        content_type: Some("application/json".into()),
        payload_bytes: 27,
        payload_sha256: None,
        payload: None,
        payload_base64: None,
        bytes: None,
        note: None,
    }
}

fn pending(id: &str) -> MessageView {
    MessageView {
        waiting: Some(Waiting {
            on: WaitKind::Retry,
            reason: "HTTP.503 from shop.example".into(),
            since: Some(NOW.into()),
            until: Some(UnixMillis(NOW.0 + 60_000).into()),
        }),
        ..view(id, "default", MessageState::Pending)
    }
}

/// Dead letters: two of `default`, one of `acme`.
fn dead() -> Vec<MessageView> {
    let attempt = |outcome, code: &str, at: u64| Attempt {
        at: UnixMillis(NOW.0 + at).into(),
        took_ms: 42,
        outcome,
        worker: "host-1".into(),
        transport: "http".into(),
        plugin: Some(identity()),
        code: Some(code.into()),
        reason: Some("the receiver said no".into()),
        maybe_delivered: code == "HTTP.TIMEOUT",
    };
    let letter = |id: &str, tenant: &str| MessageView {
        ended_at: Some(UnixMillis(NOW.0 + 5_000).into()),
        last_error: Some("HTTP.400: the receiver said no".into()),
        history: vec![
            attempt(AttemptOutcome::Retry, "HTTP.TIMEOUT", 1_000),
            attempt(AttemptOutcome::Dead, "HTTP.400", 5_000),
        ],
        ..view(id, tenant, MessageState::Dead)
    };
    vec![letter("d-1", "default"), letter("d-2", "default"), letter("d-3", "acme")]
}

/// Which dead letters a filter is about, as far as the tests need it.
fn selected(filter: &str) -> Result<Vec<DeadLetterView>, ServiceError> {
    let parsed = Filter::parse(filter, NOW)?;
    if filter.contains("code=NONE") {
        return Ok(Vec::new());
    }
    let mut items = Vec::new();
    if parsed.may_take(DeadKind::Message) {
        items.extend(dead().into_iter().map(DeadLetterView::from));
    }
    // Only where it is asked for: most tests are about messages.
    if parsed.kind.is_some() && parsed.may_take(DeadKind::Saga) {
        items.push(DeadLetterView::from(&*crate::fake_sagas::dead()));
    }
    if parsed.kind.is_some() && parsed.may_take(DeadKind::Inbox) {
        items.push(crate::fake_inbound::dead().into());
    }
    Ok(items)
}

impl Outbox {
    pub fn act(&self, act: String) {
        self.seen.lock().unwrap().acts.push(act);
    }
    fn find(&self, dead_id: &DeadId) -> Result<DeadLetterView, ServiceError> {
        let DeadId { tenant, id, .. } = dead_id;
        if id == "order-17" && tenant.as_str() == "default" && dead_id.takes(DeadKind::Saga) {
            return Ok(DeadLetterView::from(&*crate::fake_sagas::dead()));
        }
        if id == "inbox-3-18" && dead_id.takes(DeadKind::Inbox) {
            return Ok(crate::fake_inbound::dead().into());
        }
        if id == "both" && dead_id.kind.is_none() {
            let fix = "there is a message and a saga with this id: say kind=message or kind=saga";
            return Err(ServiceError::DeadKind { id: id.clone(), fix });
        }
        let letter = dead().into_iter().find(|letter| letter.id == *id && letter.tenant == tenant.as_str());
        let missing = || ServiceError::NotFound { what: Missing::DeadLetter, id: id.clone() };
        letter.map(DeadLetterView::from).ok_or_else(missing)
    }
    fn operation_of(&self, done: u64, state: OperationState) -> Operation {
        let failed = if self.mood.half { 1 } else { 0 };
        Operation {
            id: "01JD0000000000000000000001".into(),
            kind: "replay".into(),
            filter: "code=HTTP.* state=dead".into(),
            step: None,
            mode: None,
            tenant: None,
            rate: 100,
            reason: String::new(),
            actor: "ann".into(),
            state,
            matched: 3,
            counted_since: None,
            done: done - failed.min(done),
            unchanged: 0,
            failed: failed.min(done),
            refusals: Vec::new(),
            cursor: None,
            error: None,
            created_at: NOW,
            updated_at: NOW,
        }
    }
}

/// There are more of these than are counted.
fn early(filter: &str) -> Option<UnixMillis> {
    filter.contains("topic=*").then_some(NOW)
}

fn whole<T>(items: Vec<T>) -> Page<T> {
    Page { items, next_cursor: None }
}

#[async_trait]
impl EnqueueService for Outbox {
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Result<Enqueued, ServiceError> {
        tokio::time::sleep(self.mood.slow).await;
        if let Some(index) = messages.iter().position(|message| message.topic == "bus:nowhere") {
            let error = waybill_core::error::InputError::NoRoute { topic: "bus:nowhere".into() };
            return Err(ServiceError::Message { index, error });
        }
        let mut seen = self.seen.lock().unwrap();
        let first = seen.enqueued.len();
        let ids: Vec<String> = messages
            .iter()
            .enumerate()
            .map(|(n, message)| message.id.clone().unwrap_or_else(|| format!("id-{}", first + n)))
            .collect();
        let duplicates = ids.iter().filter(|id| *id == "again").cloned().collect();
        seen.enqueued.extend(messages);
        Ok(Enqueued { ids, duplicates })
    }
    async fn transact(
        &self,
        _: Vec<Statement>,
        _: Vec<NewMessage>,
        _: Option<FinishWith>,
    ) -> Result<TransactionDone, ServiceError> {
        Err(ServiceError::Unavailable("this host runs no statements".into()))
    }
}

#[async_trait]
impl MessageService for Outbox {
    async fn message(&self, _: &Tenant, id: &str) -> Result<MessageView, ServiceError> {
        if id != "m-1" {
            return Err(ServiceError::NotFound { what: Missing::Message, id: id.into() });
        }
        let payload = "{\"z\": 1.10, \"a\": [1, 2]}";
        let view = MessageView { payload_sha256: Some("cd".repeat(32)), ..pending("m-1") };
        Ok(view.with_payload(payload.into()))
    }
    async fn messages(
        &self,
        _: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        Filter::parse(filter, NOW)?;
        // Pages of at most two, so that following them is seen.
        let from: usize = cursor.map_or(0, |cursor| cursor.parse().unwrap());
        if filter == "id=rare" {
            // A long list of which nothing matches, a bounded read a page.
            return Ok(Page { items: Vec::new(), next_cursor: Some((from + 1).to_string()) });
        }
        let until = (from + limit.min(2)).min(5);
        let items = (from..until).map(|n| pending(&format!("m-{n}"))).collect();
        Ok(Page { items, next_cursor: (until < 5).then(|| until.to_string()) })
    }
    async fn cancel(&self, _: &Tenant, id: &str, _: &str) -> Result<MessageView, ServiceError> {
        if id == "m-leased" {
            return Err(ServiceError::State {
                what: "message",
                id: id.into(),
                state: "leased".into(),
                fix: "it is being sent: try again after a moment",
            });
        }
        self.act(format!("cancel {id}"));
        Ok(view(id, "default", MessageState::Cancelled))
    }
    async fn reschedule(&self, _: &Tenant, id: &str, at: UnixMillis, _: &str) -> Result<MessageView, ServiceError> {
        self.act(format!("reschedule {id} {at}"));
        Ok(pending(id))
    }
}

#[async_trait]
impl DeadLetterService for Outbox {
    async fn dead_letters(
        &self,
        _: Option<&Tenant>,
        filter: &str,
        _: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadLetterView>, ServiceError> {
        let mut items = selected(filter)?;
        items.truncate(limit);
        for item in &mut items {
            if let DeadLetterView::Message(message) = item {
                message.history.clear();
            }
        }
        Ok(whole(items))
    }
    async fn count_dead(&self, _: Option<&Tenant>, filter: &str) -> Result<Counted<u64>, ServiceError> {
        Ok(Counted { value: selected(filter)?.len() as u64, since: early(filter) })
    }
    async fn dead_groups(&self, _: Option<&Tenant>, filter: &str) -> Result<Counted<Vec<DeadGroupView>>, ServiceError> {
        let group = DeadGroupView {
            kind: DeadKind::Message,
            tenant: "default".into(),
            code: "HTTP.400".into(),
            signature: "the receiver said \"…\" # times".into(),
            topic: "http:http://shop.example/hook".into(),
            count: 2,
            first_at: NOW.into(),
            latest_at: UnixMillis(NOW.0 + 5_000).into(),
            example: "d-1".into(),
        };
        Ok(Counted { value: vec![group], since: early(filter) })
    }
    async fn dead_letter(&self, dead: &DeadId) -> Result<DeadLetterView, ServiceError> {
        Ok(match self.find(dead)? {
            DeadLetterView::Message(message) => message.with_payload("{\"order\":17}".into()).into(),
            other => other,
        })
    }
    async fn replay(&self, dead: &DeadId, how: Replay, _: &str) -> Result<Replayed, ServiceError> {
        let found = self.find(dead)?;
        let mode = how.mode.map_or(String::new(), |mode| format!(" {mode:?}"));
        self.act(format!("replay {}/{}{mode} {}", dead.tenant, dead.id, how.reason).trim_end().to_owned());
        Ok(match found {
            DeadLetterView::Message(_) => {
                Replayed::Message(Box::new(view(&dead.id, dead.tenant.as_str(), MessageState::Pending)))
            }
            DeadLetterView::Inbox(_) => Replayed::Inbox(Box::new(crate::fake_inbound::stored(18))),
            DeadLetterView::Saga(saga) => {
                let (id, tenant, links) = (dead.id.clone(), saga.tenant, saga.links);
                Replayed::Saga(ReplayedSaga { id, tenant, state: SagaState::Compensating, unchanged: false, links })
            }
        })
    }
    async fn quarantine(&self, dead: &DeadId, note: &str, _: &str) -> Result<DeadLetterView, ServiceError> {
        self.act(format!("quarantine {} {note}", dead.id));
        Ok(match self.find(dead)? {
            DeadLetterView::Message(message) => {
                let (note, state) = (Some(note.into()), MessageState::Quarantined);
                MessageView { note, state, ..*message }.into()
            }
            other => other,
        })
    }
    async fn edit(&self, dead: &DeadId, edited: NewMessage, _: &str) -> Result<Enqueued, ServiceError> {
        self.act(format!("edit {} {} {}", dead.id, edited.topic, String::from_utf8_lossy(&edited.payload)));
        Ok(Enqueued { ids: vec!["d-1-edited".into()], duplicates: Vec::new() })
    }
}

#[async_trait]
impl OperationService for Outbox {
    async fn start_operation(&self, request: OperationRequest) -> Result<Operation, ServiceError> {
        self.act(format!("operation {} {} {:?} {}", request.kind, request.filter, request.rate, request.reason));
        let started = self.operation_of(0, OperationState::Running);
        let over = Operation { kind: request.kind.clone(), ..self.operation_of(0, OperationState::Done) };
        let done = crate::fake_sagas::Sagas(Arc::clone(&self.seen)).operate(request, over).await;
        self.seen.lock().unwrap().on_sagas = done;
        Ok(started)
    }
    async fn operation(&self, id: &str) -> Result<Operation, ServiceError> {
        self.act(format!("look at {id}"));
        let looks = self.acts_named("look at");
        let on_sagas = self.seen.lock().unwrap().on_sagas.clone();
        if let Some(over) = on_sagas {
            let state = if looks < 2 { OperationState::Running } else { OperationState::Done };
            return Ok(Operation { state, ..over });
        }
        Ok(if looks < 2 {
            self.operation_of(1, OperationState::Running)
        } else {
            self.operation_of(3, OperationState::Done)
        })
    }
    async fn operations(&self, _: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, ServiceError> {
        let of_sagas = Operation {
            id: "01JD0000000000000000000002".into(),
            kind: "cancel".into(),
            filter: "definition=order".into(),
            tenant: Some("acme".into()),
            ..self.operation_of(3, OperationState::Done)
        };
        Ok([of_sagas, self.operation_of(1, OperationState::Running)].into_iter().take(limit).collect())
    }
    async fn cancel_operation(&self, id: &str, _: &str) -> Result<Operation, ServiceError> {
        if id == "gone" {
            return Err(ServiceError::NotFound { what: Missing::Operation, id: id.into() });
        }
        self.act(format!("cancel operation {id}"));
        Ok(self.operation_of(2, OperationState::Cancelled))
    }
}

#[async_trait]
impl TransportService for Outbox {
    async fn transports(&self) -> Vec<TransportView> {
        vec![transport(false)]
    }
    async fn pause(&self, name: &str, _: &str) -> Result<TransportView, ServiceError> {
        if name != "http" {
            return Err(ServiceError::NotFound { what: Missing::Transport, id: name.into() });
        }
        self.act(format!("pause {name}"));
        Ok(transport(true))
    }
    async fn resume(&self, name: &str, _: &str) -> Result<TransportView, ServiceError> {
        self.act(format!("resume {name}"));
        Ok(transport(false))
    }
    async fn probe(&self, name: &str, _: &str) -> Result<TransportView, ServiceError> {
        self.act(format!("probe {name}"));
        Ok(transport(false))
    }
    async fn provision(&self, name: &str, apply: bool, _: &str) -> Result<Vec<ProvisionChange>, ServiceError> {
        let change = |target: &str, action, detail: &str| ProvisionChange {
            target: target.into(),
            action,
            detail: detail.into(),
        };
        let keep = change("stream EVENTS", ProvisionAction::Keep, "");
        let create = change("stream ORDERS", ProvisionAction::Create, "subjects orders.>, 3 replicas");
        let conflict =
            change("queue mail", ProvisionAction::Conflict, "it is classic, wanted is quorum: move it by hand");
        self.act(format!("provision {name} {apply}"));
        match name {
            "nats" => Ok(vec![keep, create]),
            "ready" => Ok(vec![keep]),
            "mixed" => Ok(vec![keep, create, conflict]),
            _ => Err(ServiceError::NoProvisioning {
                transport: name.into(),
                error: ProvisionError::NotOffered { plugin: "http".into() },
            }),
        }
    }
}

#[async_trait]
impl WorkerService for Outbox {
    async fn claim(&self, _request: ClaimRequest) -> Result<Vec<ClaimedMessage>, ServiceError> {
        Ok(Vec::new())
    }
    async fn settle(&self, _request: SettleRequest) -> Result<Vec<SettleAnswer>, ServiceError> {
        Ok(Vec::new())
    }
    async fn check_dedup(
        &self,
        _tenant: &Tenant,
        _target: &str,
        _sha256: &str,
    ) -> Result<Option<FirstDeliveryView>, ServiceError> {
        Ok(None)
    }
}

#[async_trait]
impl StatusService for Outbox {
    async fn stats(&self, _: Option<&Tenant>) -> Result<Vec<OutboxStats>, ServiceError> {
        Ok(vec![
            OutboxStats {
                tenant: "acme".into(),
                transport: "http".into(),
                ready: 12_345,
                leased: 50,
                parked: 3,
                scheduled: 1,
                scheduled_until: None,
                dead: 1,
                counted_since: None,
                oldest_ready_ms: Some(61_500),
            },
            OutboxStats { tenant: "default".into(), transport: "http".into(), dead: 2, ..OutboxStats::default() },
        ])
    }
    async fn blocked(&self, _: Option<&Tenant>) -> Result<Vec<BlockedView>, ServiceError> {
        Ok(vec![BlockedView {
            kind: WaitKind::Destination,
            tenant: Some("acme".into()),
            transport: Some("http".into()),
            subject: "https://shop.example".into(),
            reason: "401 from the receiver: check the credentials".into(),
            code: Some("HTTP.401".into()),
            since: NOW.into(),
            until: Some(UnixMillis(NOW.0 + 30_000).into()),
            waiting: 3,
        }])
    }
    async fn audit(&self, _: Option<&Tenant>, _: usize) -> Result<Vec<AuditView>, ServiceError> {
        let event = |at, object: &str| AuditView {
            at: UnixMillis(at).into(),
            kind: "TxReplayRequested".into(),
            actor: "local".into(),
            tenant: Some("default".into()),
            object: object.into(),
            detail: serde_json::json!({ "reason": "shop is back" }),
        };
        Ok(vec![event(NOW.0 + 1_000, "d-2"), event(NOW.0, "d-1")])
    }
    async fn ready(&self) -> Vec<Check> {
        let check = |name: &str, status, detail: &str| Check { name: name.into(), status, detail: detail.into() };
        let mut checks = vec![check("store", CheckStatus::Ok, "surrealkv, every commit is synced")];
        if self.mood.unready {
            checks.push(check("shard 0", CheckStatus::Fail, "another host holds it"));
        }
        checks
    }
}

impl Outbox {
    fn acts_named(&self, beginning: &str) -> usize {
        self.seen.lock().unwrap().acts.iter().filter(|act| act.starts_with(beginning)).count()
    }
}

fn transport(paused: bool) -> TransportView {
    TransportView {
        name: "http".into(),
        plugin: identity(),
        paused,
        breaker: Breaker::Closed,
        lanes: 1,
        in_flight: 50,
        health: Health::Ready,
        health_detail: None,
    }
}
