//! A store, a broker, a handler and hosts for one test. Every test runs on a paused clock: what waits a minute takes no time, and
//! nothing happens by chance.

#[path = "../../outbox/support/clock.rs"]
mod clock;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use waybill_api::dead_inbox::DeadInbox;
use waybill_api::dead_letters::DeadLetterView;
use waybill_api::inbox::{ConsumerStats, InboxStatusView};
use waybill_api::sources::SourceView;
use waybill_api::status::CheckStatus;
use waybill_api::{InboundService, OutboxService};
use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::{ConsumerName, InboundId, SourceName, Tenant};
use waybill_core::inbox::records::InboxRow;
use waybill_core::message::Message;
use waybill_core::new_message::NewMessage;
use waybill_core::port::http_handler::{BodyReader, LeftBehind, LeftSignal};
use waybill_core::port::saga::ReplyFailure;
use waybill_core::port::service::streams::EventInput;
use waybill_core::route::{Pattern, Route, Routes};
use waybill_core::saga::json::Json;
use waybill_core::streams::event::{Body, Op};
use waybill_core::streams::name::StreamName;
use waybill_core::streams::wire::LeftEvent;
use waybill_engine::{ConsumerConfig, ConsumerTarget, Engine, EngineConfig, InboundConfig, SourceConfig, Stores};
use waybill_testkit::fake_handler::FakeHttpHandler;
use waybill_testkit::fake_source::{FakeSource, FakeSourcePlugin};
use waybill_testkit::fake_transport::{FakeTransport, ack};
use waybill_testkit::memory_store::MemoryStore;

pub use clock::{START, SteppedClock, TokioClock};

/// Longest (virtual) wait for a condition.
const PATIENCE: Duration = Duration::from_secs(3_600);

/// What outlives hosts: the store, the broker, the handler, the time.
pub struct World {
    pub memory: Arc<MemoryStore>,
    pub stepped: SteppedClock,
    pub shop: Arc<FakeSource>,
    pub http: Arc<FakeHttpHandler>,
    pub bus: Arc<FakeTransport>,
    delivered: Arc<Mutex<Vec<Arc<Message>>>>,
}

pub struct Host {
    pub engine: Engine,
    pub outbox: Arc<dyn OutboxService>,
    pub inbound: Arc<dyn InboundService>,
}

/// Reads bodies with no more than tests need.
struct PlainBodies;

impl BodyReader for PlainBodies {
    fn left_behind(&self, body: &[u8]) -> Result<LeftBehind, String> {
        let read: serde_json::Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
        let text = |value: &serde_json::Value, name: &str| value[name].as_str().map(str::to_owned);
        let list = |name: &str| read[name].as_array().cloned().unwrap_or_default();
        let message = |value: &serde_json::Value| NewMessage {
            topic: text(value, "topic").unwrap_or_default(),
            tenant: text(value, "tenant"),
            payload: value["payload"].to_string().into(),
            ..NewMessage::default()
        };
        let signal = |value: &serde_json::Value| LeftSignal {
            saga: text(value, "saga").unwrap_or_default(),
            name: text(value, "name").unwrap_or_default(),
            data: Json::of(&value["data"]),
        };
        let event = |value: &serde_json::Value| LeftEvent {
            stream: StreamName::new(text(value, "stream").unwrap_or_default()).unwrap(),
            expected_seq: value["expected_seq"].as_u64(),
            event: EventInput {
                id: None,
                ts: None,
                resource_type: "ORDER".into(),
                resource_id: text(value, "resource_id").unwrap_or_default(),
                op: Op::UPDATE,
                schema_version: 1,
                node_uuid: None,
                correlation_id: None,
                cause: None,
                headers: Default::default(),
                content_type: None,
                body: Body::None,
            },
        };
        Ok(LeftBehind {
            messages: list("messages").iter().map(message).collect(),
            signals: list("signals").iter().map(signal).collect(),
            events: list("events").iter().map(event).collect(),
        })
    }
    fn reply(&self, body: &[u8]) -> Result<Result<Json, ReplyFailure>, String> {
        Json::parse_bytes(body).map(Ok).map_err(|error| error.to_string())
    }
}

impl World {
    pub fn new() -> Self {
        let (bus, delivered) = (FakeTransport::new("bus"), Arc::new(Mutex::new(Vec::new())));
        let log = Arc::clone(&delivered);
        bus.tell(move |delivery| {
            log.lock().push(Arc::clone(&delivery.message));
            ack()
        });
        Self {
            memory: Arc::new(MemoryStore::new()),
            stepped: SteppedClock::new(TokioClock::new()),
            shop: FakeSource::new("shop"),
            http: FakeHttpHandler::new(),
            bus,
            delivered,
        }
    }

    /// The source `shop`.
    pub fn source(&self) -> SourceConfig {
        self.source_on("shop", &self.shop)
    }

    pub fn source_on(&self, name: &str, broker: &Arc<FakeSource>) -> SourceConfig {
        let plugin = Arc::new(FakeSourcePlugin(Arc::clone(broker)));
        SourceConfig::new(SourceName::new(name).unwrap(), plugin)
    }

    /// The consumer `ship` of that source, with the HTTP handler and retries a second apart.
    pub fn consumer(&self) -> ConsumerConfig {
        self.consumer_named("ship")
    }

    pub fn consumer_named(&self, name: &str) -> ConsumerConfig {
        let target = ConsumerTarget::Http { url: Arc::from("http://127.0.0.1:9/handle"), client: self.http.clone() };
        let consumer = ConsumerConfig::new(consumer(name), SourceName::new("shop").unwrap(), target);
        let retry = RetryPolicy { max_attempts: 3, base_ms: 1_000, factor: 1.0, jitter: 0.0, ..RetryPolicy::default() };
        ConsumerConfig { retry, ..consumer }
    }

    pub fn forward(&self, topic: &str) -> ConsumerConfig {
        ConsumerConfig { target: ConsumerTarget::Topic(topic.to_owned()), ..self.consumer() }
    }

    pub fn inbound(&self, sources: Vec<SourceConfig>, consumers: Vec<ConsumerConfig>) -> InboundConfig {
        InboundConfig {
            store: Some(self.memory.clone()),
            sources: sources.into_iter().map(Arc::new).collect(),
            consumers: consumers.into_iter().map(Arc::new).collect(),
            bodies: Some(Arc::new(PlainBodies)),
            ..InboundConfig::default()
        }
    }

    pub fn config(&self, host: &str, inbound: InboundConfig) -> EngineConfig {
        let mut config = EngineConfig::new(host);
        config.retire_after = Duration::ZERO;
        config.routes = Routes(vec![Route::new(Pattern::parse("bus:**").unwrap(), "bus")]);
        config.transports = vec![self.bus.clone()];
        config.inbound = Arc::new(inbound);
        config
    }

    /// Starts a host with the source `shop` and the consumer `ship`.
    pub async fn start(&self) -> Host {
        self.start_with(self.inbound(vec![self.source()], vec![self.consumer()])).await
    }

    /// The same with another consumer.
    pub async fn start_consumer(&self, consumer: ConsumerConfig) -> Host {
        self.start_with(self.inbound(vec![self.source()], vec![consumer])).await
    }

    pub async fn start_with(&self, inbound: InboundConfig) -> Host {
        let host = self.launch("host-a", inbound, |_| {});
        host.until_written().await;
        host
    }

    /// Starts a host by name and doesn't wait.
    pub fn launch(&self, name: &str, inbound: InboundConfig, change: impl FnOnce(&mut EngineConfig)) -> Host {
        let mut config = self.config(name, inbound);
        change(&mut config);
        let memory = &self.memory;
        let stores = Stores {
            owner: memory.clone(),
            query: memory.clone(),
            transact: memory.clone(),
            dedup: memory.clone(),
            idempotency: memory.clone(),
        };
        let engine = Engine::start(config, stores, Arc::new(self.stepped.clone()));
        Host { outbox: engine.outbox(), inbound: engine.inbound().unwrap(), engine }
    }

    /// Messages that were delivered by the bus.
    pub fn messages(&self) -> Vec<Arc<Message>> {
        self.delivered.lock().clone()
    }

    pub fn rows(&self) -> Vec<Arc<InboxRow>> {
        self.memory.read(|tables| tables.inbox.rows.values().cloned().collect())
    }

    /// Messages that are marked as seen.
    pub fn seen(&self) -> usize {
        self.memory.read(|tables| tables.inbox.seen.len())
    }

    pub fn dead_count(&self) -> usize {
        self.memory.read(|tables| tables.inbox.dead.len())
    }

    /// Waits until all that was sent is acknowledged.
    pub async fn until_acknowledged(&self, count: usize) {
        let what = format!("{count} messages are acknowledged");
        eventually(&what, async || {
            use waybill_testkit::fake_source::Standing::Acknowledged;
            self.shop.standings().iter().filter(|standing| **standing == Acknowledged).count() == count
        })
        .await;
    }

    pub async fn until_rows(&self, count: usize) {
        eventually(&format!("{count} messages are stored"), async || self.rows().len() == count).await;
    }

    pub async fn until_dead(&self, count: usize) {
        eventually(&format!("there are {count} dead letters"), async || self.dead_count() == count).await;
    }

    pub async fn until_called(&self, count: usize) {
        eventually(&format!("the handler was called {count} times"), async || self.http.posted().len() >= count).await;
    }
}

impl Host {
    pub async fn until_written(&self) {
        eventually("the host writes its inbox", async || {
            let checks = self.outbox.ready().await;
            checks.iter().all(|check| check.status != CheckStatus::Fail)
                && checks.iter().any(|check| check.name == "inbox" && check.detail.starts_with("writes that of 1"))
        })
        .await;
    }

    pub async fn status(&self, id: &str) -> InboxStatusView {
        self.inbound.status_of(None, &consumer("ship"), &InboundId::new(id).unwrap()).await.unwrap()
    }

    pub async fn shop(&self) -> SourceView {
        self.inbound.sources().await.into_iter().find(|source| source.name == "shop").unwrap()
    }

    pub async fn ship(&self) -> ConsumerStats {
        let stats = self.inbound.inbox_stats(None).await.unwrap();
        stats.consumers.into_iter().find(|stats| stats.consumer == "ship").unwrap()
    }

    /// Dead letters of received messages.
    pub async fn dead(&self) -> Vec<DeadInbox> {
        let page = self.outbox.dead_letters(None, "kind=inbox", None, 100).await.unwrap();
        let inbox = page.items.into_iter().filter_map(|dead| match dead {
            DeadLetterView::Inbox(dead) => Some(*dead),
            _ => None,
        });
        inbox.collect()
    }

    /// Ends it as a crash would.
    pub async fn crash(self) {
        drop(self);
        pass(millis(1)).await;
    }

    /// Ends it in good order.
    pub async fn drain(&self) {
        assert!(self.engine.drain(Duration::from_secs(30)).await, "the drain wasn't orderly");
    }
}

pub fn consumer(name: &str) -> ConsumerName {
    ConsumerName::new(name).unwrap()
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
