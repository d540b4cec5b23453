//! A store, transports and hosts for one test. Every test runs on a paused clock: what waits a minute takes no time,
//! and nothing happens by chance.

mod clock;
mod shim;
mod shim_query;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use waybill_api::OutboxService;
use waybill_api::messages::{Enqueued, MessageView};
use waybill_api::status::{AuditView, CheckStatus};
use waybill_core::audit::AuditQuery;
use waybill_core::backoff::RetryPolicy;
use waybill_core::glob::Glob;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::UnixMillis;
use waybill_engine::{Engine, EngineConfig, Stores};
use waybill_testkit::fake_transport::FakeTransport;
use waybill_testkit::memory_store::MemoryStore;

pub use clock::{START, SteppedClock, TokioClock};
pub use shim::{Act, Call, Shim};

/// Longest (virtual) wait for a condition.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// What outlives hosts: the store, the receivers, the time.
pub struct World {
    pub memory: Arc<MemoryStore>,
    pub shim: Arc<Shim>,
    pub clock: TokioClock,
    /// What the hosts go by.
    pub stepped: SteppedClock,
    pub main: Arc<FakeTransport>,
    pub other: Arc<FakeTransport>,
}

pub struct Host {
    pub engine: Engine,
    pub outbox: Arc<dyn OutboxService>,
}

impl World {
    pub fn new() -> Self {
        let memory = Arc::new(MemoryStore::new());
        let clock = TokioClock::new();
        Self {
            shim: Shim::new(Arc::clone(&memory)),
            memory,
            clock,
            stepped: SteppedClock::new(clock),
            main: FakeTransport::new("main"),
            other: FakeTransport::new("other"),
        }
    }

    /// The settings of a host: no jitter, so that retries are due when the formula says.
    pub fn config(&self, host: &str) -> EngineConfig {
        let mut config = EngineConfig::new(host);
        config.retries.policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        config.retire_after = Duration::ZERO;
        let route = |pattern: &str, transport: &str| Route::new(Pattern::parse(pattern).unwrap(), transport);
        config.routes = Routes(vec![route("bus:**", "main"), route("custom:**", "other"), route("http:**", "main")]);
        config.transports = vec![self.main.clone(), self.other.clone()];
        config
    }

    pub fn stores(&self) -> Stores {
        Stores {
            owner: self.shim.clone(),
            query: self.shim.clone(),
            transact: self.shim.clone(),
            dedup: self.shim.clone(),
            idempotency: self.shim.clone(),
        }
    }

    /// Starts a host and waits until it owns its shards.
    pub async fn start(&self) -> Host {
        self.start_with(|_| {}).await
    }

    pub async fn start_with(&self, change: impl FnOnce(&mut EngineConfig)) -> Host {
        let host = self.launch("host-a", change);
        host.until_ready().await;
        host
    }

    /// Starts a host by name and doesn't wait.
    pub fn launch(&self, name: &str, change: impl FnOnce(&mut EngineConfig)) -> Host {
        let mut config = self.config(name);
        change(&mut config);
        let engine = Engine::start(config, self.stores(), Arc::new(self.stepped.clone()));
        let outbox = engine.outbox();
        Host { engine, outbox }
    }
}

impl Host {
    pub async fn until_ready(&self) {
        eventually("the host is ready", async || {
            self.outbox.ready().await.iter().all(|check| check.status != CheckStatus::Fail)
        })
        .await;
    }

    /// Enqueues messages; their ids.
    pub async fn send(&self, messages: impl IntoIterator<Item = NewMessage>) -> Vec<String> {
        self.try_send(messages).await.unwrap().ids
    }

    pub async fn try_send(&self, messages: impl IntoIterator<Item = NewMessage>) -> Result<Enqueued, ServiceError> {
        self.outbox.enqueue(messages.into_iter().collect()).await
    }

    /// Enqueues one message; its id.
    pub async fn send_one(&self, message: NewMessage) -> String {
        self.send([message]).await.remove(0)
    }

    pub async fn view(&self, id: &str) -> MessageView {
        self.outbox.message(&tenant("default"), id).await.unwrap()
    }

    /// Waits for a message of tenant `default` to reach a state.
    pub async fn until_state(&self, id: &str, state: MessageState) -> MessageView {
        let what = format!("message {id} is {state:?}");
        eventually(&what, async || self.view(id).await.state == state).await;
        self.view(id).await
    }

    pub async fn until_done(&self, ids: &[String]) {
        for id in ids {
            self.until_state(id, MessageState::Done).await;
        }
    }

    /// Audit events of one kind, oldest first.
    pub async fn audit_of(&self, kind: &str) -> Vec<AuditView> {
        let query = AuditQuery { kind: Some(Glob::literal(kind)), ..AuditQuery::default() };
        let mut events = self.outbox.audit(&query, None, 10_000).await.unwrap().items;
        events.reverse();
        events
    }

    /// Ends it in good order.
    pub async fn drain(&self) {
        assert!(self.engine.drain(Duration::from_secs(30)).await, "the drain wasn't orderly");
    }
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

pub fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// A message of tenant `default` without a key, for the transport `main`.
pub fn message(text: &str) -> NewMessage {
    NewMessage {
        topic: "bus:orders.created".to_owned(),
        payload: Bytes::from(text.to_owned()),
        ..NewMessage::default()
    }
}

/// The same with a key.
pub fn keyed(text: &str, key: &str) -> NewMessage {
    NewMessage { key: Some(key.to_owned()), ..message(text) }
}

/// The same with the caller's id.
pub fn named(text: &str, id: &str) -> NewMessage {
    NewMessage { id: Some(id.to_owned()), ..message(text) }
}

/// The same of another tenant.
pub fn of_tenant(text: &str, tenant: &str) -> NewMessage {
    NewMessage { tenant: Some(tenant.to_owned()), ..message(text) }
}

/// An instant after the start of the test.
pub fn at(after: Duration) -> UnixMillis {
    START.plus(after)
}
