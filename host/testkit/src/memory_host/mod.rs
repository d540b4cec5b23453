//! A host without a process: the real engine on the reference store, with a transport for `http:` and one for `bus:` topics,
//! external workers for `bus:out.**`, the participant `orders`, and plugins of its own. What a test asks of its services is
//! decided by the product's code; only the outside world is played.
//!
//! | file | holds |
//! |---|---|
//! | `clock` | time that stands still until a test lets it pass |
//! | `messages` | messages brought into every state |
//! | `sagas` | sagas brought into every state |
//! | `keys` | idempotency keys in every state |
//! | `quarantine` | rows that can't be read, and such that can by now |
//! | `plugins` | generations of plugins, without a sandbox |
//!
//! Nothing depends on how fast the machine is: times are those that the test lets pass. What it doesn't do: SurrealQL
//! ([`MemoryStore::answer_statements`] says what statements answer), sandboxes, several hosts on one store.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a state that a test can't be brought to fails it by panicking")]

mod clock;
mod keys;
mod messages;
mod plugins;
mod quarantine;
mod sagas;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_api::OutboxService;
use waybill_api::idempotency::IdempotencyService;
use waybill_api::sagas::SagaService;
use waybill_api::status::CheckStatus;
use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::Tenant;
use waybill_core::port::participant::{Direction, Participant};
use waybill_core::port::provision::ProvisionError;
use waybill_core::port::transport::Outcome;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::time::UnixMillis;
use waybill_engine::{Engine, Participants, Stores};

use crate::fake_participant::{FakeHttp, FakeParticipant, permanent};
use crate::fake_transport::{Answer, FakeTransport, ack};
use crate::memory_store::MemoryStore;

pub use clock::StandingClock;
pub use messages::message;
pub use plugins::MemoryPlugins;
pub use sagas::ORDER;
/// For tests of crates that don't know the engine.
pub use waybill_engine::EngineConfig;

/// How the host is called in attempts and in the audit trail.
pub const HOST: &str = "host-1";
/// Longest wait for a condition: a state that never comes fails the test.
const PATIENCE: Duration = Duration::from_secs(60);
/// Turns that others get before a wait takes time.
const TURNS: u32 = 500;

/// Deliveries that don't just succeed, by message id, in order.
type Script = Arc<Mutex<HashMap<String, VecDeque<Outcome>>>>;
/// Steps that fail for good, by saga, name and direction.
type FailingSteps = Arc<Mutex<BTreeSet<(String, String, bool)>>>;

pub struct InMemoryHost {
    pub outbox: Arc<dyn OutboxService>,
    pub sagas: Arc<dyn SagaService>,
    pub keys: Arc<dyn IdempotencyService>,
    pub plugins: Arc<MemoryPlugins>,
    pub engine: Engine,
    pub store: Arc<MemoryStore>,
    /// Takes `http:` and `https:` topics. Everything is acknowledged that a test says nothing else of.
    pub http: Arc<FakeTransport>,
    /// Takes `bus:` topics, but for `bus:out.**`, which are for external workers.
    pub bus: Arc<FakeTransport>,
    /// Serves the `fn:` steps.
    pub orders: Arc<FakeParticipant>,
    /// Answers the `http:` steps.
    pub posts: Arc<FakeHttp>,
    clock: StandingClock,
    config: EngineConfig,
    script: Script,
    failing: FailingSteps,
}

impl InMemoryHost {
    /// Starts one at this instant, and returns when it owns its shard.
    pub async fn start(now: UnixMillis) -> Self {
        Self::start_with(now, |_| {}).await
    }

    /// The same with other settings.
    pub async fn start_with(now: UnixMillis, change: impl FnOnce(&mut EngineConfig)) -> Self {
        let (http, bus) = (transport("http"), transport("bus"));
        let orders = FakeParticipant::new("orders", &["reserve", "charge", "label", "book", "notify"]);
        let (script, failing) = (Script::default(), FailingSteps::default());
        for transport in [&http, &bus] {
            follow(transport, &script);
        }
        fail(&orders, &failing);
        let posts = Arc::new(FakeHttp::default());
        let store = Arc::new(MemoryStore::new());
        let mut config = EngineConfig::new(HOST);
        config.durability = "in memory only".to_owned();
        config.retries.policy = RetryPolicy { jitter: 0.0, ..RetryPolicy::default() };
        let route = |pattern: &str, transport: &str| Route::new(Pattern::parse(pattern).unwrap(), transport);
        config.routes = Routes(vec![route("bus:out.**", "external"), route("bus:**", "bus"), route("http:**", "http")]);
        config.transports = vec![http.clone(), bus.clone()];
        config.sagas.store = Some(store.clone());
        config.sagas.participants = Arc::new(Participants::new([orders.clone() as Arc<dyn Participant>]));
        config.sagas.http = Some(posts.clone());
        change(&mut config);
        let clock = StandingClock::new(now);
        let plugins = Arc::new(MemoryPlugins::new(clock.clone(), [http.clone(), bus.clone()]));
        store.set_clock(nanos(now));
        let engine = launch(&config, &store, &clock);
        let host = Self {
            outbox: engine.outbox(),
            sagas: engine.sagas().unwrap(),
            keys: engine.idempotency(),
            plugins,
            engine,
            store,
            http,
            bus,
            orders,
            posts,
            clock,
            config,
            script,
            failing,
        };
        host.until_ready().await;
        host
    }

    /// Ends it as a crash would, and starts another one on what it left.
    #[must_use]
    pub async fn restarted(self) -> Self {
        drop(self.engine);
        tokio::task::yield_now().await;
        let engine = launch(&self.config, &self.store, &self.clock);
        let host = Self {
            outbox: engine.outbox(),
            sagas: engine.sagas().unwrap(),
            keys: engine.idempotency(),
            engine,
            ..self
        };
        host.until_ready().await;
        host
    }

    pub fn now(&self) -> UnixMillis {
        self.clock.wall()
    }

    /// Lets time pass, in whole milliseconds. What is due then is begun within a second.
    pub fn pass(&self, time: Duration) {
        self.clock.pass(time);
        self.store.set_clock(nanos(self.now()));
        self.engine.wake_door();
    }

    async fn until_ready(&self) {
        eventually("the host is ready", async || {
            let checks = self.outbox.ready().await;
            checks.iter().all(|check| check.status != CheckStatus::Fail)
                && checks.iter().any(|check| check.name == "sagas" && check.detail.starts_with("writes those of 1"))
        })
        .await;
    }
}

fn transport(name: &str) -> Arc<FakeTransport> {
    let transport = FakeTransport::new(name);
    transport.set_identity(|identity| {
        identity.plugin = name.to_owned();
        identity.version = "0.1.0".to_owned();
    });
    transport.set_provisioned(Err(ProvisionError::NotOffered { plugin: name.to_owned() }));
    transport
}

fn launch(config: &EngineConfig, store: &Arc<MemoryStore>, clock: &StandingClock) -> Engine {
    let stores = Stores {
        owner: store.clone(),
        query: store.clone(),
        transact: store.clone(),
        dedup: store.clone(),
        idempotency: store.clone(),
    };
    Engine::start(config.clone(), stores, Arc::new(clock.clone()))
}

/// Has a transport do what the script says, message by message.
fn follow(transport: &FakeTransport, script: &Script) {
    let script = Arc::clone(script);
    transport.answer(move |batch| {
        Answer::each(batch, |delivery| {
            let mut script = script.lock();
            script.get_mut(delivery.message.id.as_str()).and_then(VecDeque::pop_front).unwrap_or_else(ack)
        })
    });
}

fn fail(participant: &FakeParticipant, failing: &FailingSteps) {
    let failing = Arc::clone(failing);
    participant.on(move |call| {
        let of = (call.saga.clone(), call.step.clone(), call.direction == Direction::Compensate);
        failing.lock().contains(&of).then(|| permanent("ORDERS.REFUSED"))
    });
}

fn nanos(at: UnixMillis) -> u64 {
    at.0.saturating_mul(1_000_000)
}

fn tenant(name: &str) -> Tenant {
    Tenant::new(name).unwrap()
}

/// Waits for a condition. Others get their turns first, so that what needs no time takes none.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..TURNS {
        if condition().await {
            return;
        }
        tokio::task::yield_now().await;
    }
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, waiting).await.is_ok(), "it never came true that {what}");
}
