//! A store, a participant and hosts for one test. Every test runs on a paused clock: what waits a minute takes no time, and
//! nothing happens by chance.

#[path = "../../outbox/support/clock.rs"]
mod clock;
mod shim;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use waybill_api::OutboxService;
use waybill_api::saga_node::StepView;
use waybill_api::sagas::{SagaService, SagaView};
use waybill_api::status::CheckStatus;
use waybill_core::audit::AuditQuery;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::message::Message;
use waybill_core::port::participant::Participant;
use waybill_core::port::saga::{
    Acted, ActedBy, Define, Defined, DefinitionFormat, SagaAct, StartSaga, StartedSaga, StepReply,
};
use waybill_core::port::saga_store::SagaStore;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::SagaDead;
use waybill_core::saga::state::SagaState;
use waybill_engine::{Engine, EngineConfig, Participants, Stores};
use waybill_testkit::fake_transport::{FakeTransport, ack};
use waybill_testkit::memory_store::MemoryStore;

pub use clock::{START, SteppedClock, TokioClock};
pub use shim::{Act, Call, SagaShim};
pub use waybill_testkit::fake_participant::{Does, FakeHttp, FakeParticipant, blocked, permanent, retryable, unknown};

/// Longest (virtual) wait for a condition.
const PATIENCE: Duration = Duration::from_secs(3_600);

pub struct World {
    pub memory: Arc<MemoryStore>,
    pub shim: Arc<SagaShim>,
    pub clock: TokioClock,
    /// What the hosts go by.
    pub stepped: SteppedClock,
    pub shop: Arc<FakeParticipant>,
    pub http: Arc<FakeHttp>,
    pub bus: Arc<FakeTransport>,
    delivered: Arc<Mutex<Vec<Arc<Message>>>>,
}

pub struct Host {
    pub engine: Engine,
    pub sagas: Arc<dyn SagaService>,
    pub outbox: Arc<dyn OutboxService>,
    /// What its sagas call steps through.
    pub participants: Arc<Participants>,
}

impl World {
    pub fn new() -> Self {
        let (memory, clock) = (Arc::new(MemoryStore::new()), TokioClock::new());
        let (bus, delivered) = (FakeTransport::new("bus"), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&delivered);
        bus.tell(move |delivery| {
            log.lock().push(Arc::clone(&delivery.message));
            ack()
        });
        Self {
            delivered,
            shim: SagaShim::new(Arc::clone(&memory)),
            memory,
            clock,
            stepped: SteppedClock::new(clock),
            shop: FakeParticipant::new("shop", &["a", "b", "c", "d"]),
            http: Arc::default(),
            bus,
        }
    }

    pub fn config(&self, host: &str) -> EngineConfig {
        let mut config = EngineConfig::new(host);
        config.retire_after = Duration::ZERO;
        config.routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "bus")]);
        config.transports = vec![self.bus.clone()];
        config.sagas.store = Some(self.shim.clone());
        config.sagas.participants = Arc::new(Participants::new([self.shop.clone() as Arc<dyn Participant>]));
        config.sagas.http = Some(self.http.clone());
        config
    }

    /// Starts a host and waits until it writes its shards' sagas.
    pub async fn start(&self) -> Host {
        self.start_with(|_| {}).await
    }

    pub async fn start_with(&self, change: impl FnOnce(&mut EngineConfig)) -> Host {
        let host = self.launch("host-a", change);
        eventually("the host is ready", async || {
            let checks = host.outbox.ready().await;
            checks.iter().all(|check| check.status != CheckStatus::Fail)
                && checks.iter().any(|check| check.name == "sagas" && check.detail.starts_with("writes those of 1"))
        })
        .await;
        host
    }

    /// Starts a host by name and doesn't wait.
    pub fn launch(&self, name: &str, change: impl FnOnce(&mut EngineConfig)) -> Host {
        let mut config = self.config(name);
        change(&mut config);
        let memory = &self.memory;
        let stores = Stores {
            owner: memory.clone(),
            query: memory.clone(),
            transact: memory.clone(),
            dedup: memory.clone(),
            idempotency: memory.clone(),
        };
        let participants = Arc::clone(&config.sagas.participants);
        let engine = Engine::start(config, stores, Arc::new(self.stepped.clone()));
        Host { sagas: engine.sagas().unwrap(), outbox: engine.outbox(), participants, engine }
    }

    /// Messages that were delivered.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.delivered.lock().clone()
    }

    pub async fn dead(&self, id: &str) -> Option<Arc<SagaDead>> {
        self.memory.dead_saga(ShardId(0), &key(id)).await.unwrap()
    }
}

impl Host {
    pub async fn define(&self, text: &str) -> Defined {
        self.try_define(text, false).await.unwrap()
    }

    pub async fn try_define(&self, text: &str, dry_run: bool) -> Result<Defined, SagaError> {
        let (text, format) = (text.to_owned(), DefinitionFormat::Toml);
        self.sagas.define(Define { text, format, dry_run, given: Vec::new(), actor: "ann".to_owned() }).await
    }

    /// Defines a saga `s` of these steps, and starts one with id `one`.
    pub async fn run(&self, steps: &str) {
        self.define(&definition(steps)).await;
        self.begin("one").await;
    }

    pub async fn begin(&self, id: &str) -> StartedSaga {
        self.sagas.start(start(id)).await.unwrap()
    }

    pub async fn view(&self, id: &str) -> SagaView {
        self.sagas.saga(&tenant("default"), &SagaId::new(id).unwrap()).await.unwrap()
    }

    pub async fn state(&self, id: &str) -> SagaState {
        self.view(id).await.state
    }

    pub async fn at_rest(&self, id: &str, within: u64) -> Result<Option<SagaState>, SagaError> {
        self.sagas.at_rest(&tenant("default"), &SagaId::new(id).unwrap(), seconds(within)).await
    }

    pub async fn step(&self, id: &str, name: &str) -> StepView {
        self.view(id).await.saga.unwrap().steps.into_iter().find(|step| step.name == name).unwrap()
    }

    pub async fn until(&self, id: &str, state: SagaState) -> SagaView {
        let what = format!("saga {id} is {}", state.word());
        eventually(&what, async || self.state(id).await == state).await;
        self.view(id).await
    }

    pub async fn until_waiting(&self, id: &str, what: &str) {
        let told = format!("saga {id} waits for {what}");
        eventually(&told, async || self.view(id).await.waiting_for.as_deref() == Some(what)).await;
    }

    pub async fn act(&self, id: &str, act: SagaAct) -> Result<Acted, SagaError> {
        self.sagas.act(&tenant("default"), &SagaId::new(id).unwrap(), act, by("ann")).await
    }

    pub async fn signal(&self, id: &str, name: &str, data: Value) -> Result<Acted, SagaError> {
        let id = SagaId::new(id).unwrap();
        self.sagas.signal(&tenant("default"), &id, name, Json::of(&data), by("ann")).await
    }

    pub async fn reply(&self, reply: StepReply) -> Result<Acted, SagaError> {
        self.sagas.reply(&tenant("default"), reply).await
    }

    /// Ids of the sagas that match, page by page.
    pub async fn list(&self, filter: &str, limit: usize) -> Vec<String> {
        let filter = SagaFilter::parse(filter, START).unwrap();
        let (mut ids, mut cursor) = (Vec::new(), None::<String>);
        loop {
            let page = self.sagas.sagas(&filter, cursor.as_deref(), limit).await.unwrap();
            assert!(page.items.len() <= limit);
            ids.extend(page.items.iter().map(|saga| saga.key.id.to_string()));
            cursor = page.next_cursor;
            if cursor.is_none() {
                return ids;
            }
        }
    }

    /// Ends it as a crash would.
    pub async fn crash(self) {
        drop(self);
        pass(millis(1)).await;
    }

    pub async fn audit_kinds(&self) -> Vec<String> {
        let mut events = self.outbox.audit(&AuditQuery::default(), None, 1_000).await.unwrap().items;
        events.reverse();
        events.into_iter().map(|event| event.kind).filter(|kind| kind.starts_with("Saga")).collect()
    }
}

/// A definition named `s` of these steps.
pub fn definition(steps: &str) -> String {
    format!("name = \"s\"\nversion = 1\n{steps}")
}

/// A step `fn:shop/<name>` with its compensation and retries every 100 ms, and more settings.
pub fn step(name: &str, more: &str) -> String {
    format!(
        "[[steps]]\nname = \"{name}\"\naction = \"fn:shop/{name}\"\ncompensation = \"fn:shop/{name}\"\n\
         retry = {{ max_attempts = 3, base_ms = 100, jitter = 0.0 }}\n{more}\n"
    )
}

/// Steps `a`, `b`, ...
pub fn steps(names: &[&str]) -> String {
    names.iter().map(|name| step(name, "")).collect()
}

pub fn start(id: &str) -> StartSaga {
    StartSaga {
        tenant: tenant("default"),
        definition: "s".to_owned(),
        version: None,
        id: Some(id.to_owned()),
        input: Json::parse("{\"n\":7}").unwrap(),
        deadline: None,
        headers: Vec::new(),
        envelope_id: None,
        correlation_id: None,
        traceparent: None,
        actor: "ann".to_owned(),
    }
}

pub fn by(actor: &str) -> ActedBy {
    ActedBy { actor: actor.to_owned(), note: Some("because".to_owned()) }
}

pub fn key(id: &str) -> SagaKey {
    SagaKey { tenant: tenant("default"), id: SagaId::new(id).unwrap() }
}

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// Waits for a condition, looking every ten (virtual) milliseconds.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "it never came true that {what}");
}

/// Lets everything happen that is going to happen within this (virtual) time.
pub async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
}

pub fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
