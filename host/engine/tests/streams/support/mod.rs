//! A store, a broker and hosts for one test. Every test runs on a paused clock: what waits a minute takes no time, and nothing happens by
//! chance.

#[path = "../../outbox/support/clock.rs"]
mod clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use waybill_api::OutboxService;
use waybill_api::status::CheckStatus;
use waybill_core::ids::{EventId, RelayName, Tenant};
use waybill_core::port::service::ServiceError;
use waybill_core::port::service::streams::{
    AppendRequest, Appended, EventInput, EventPiece, RelayView, Start, StreamService, SubscribeRequest, Subscribed,
    Subscription, SubscriptionEnd,
};
use waybill_core::streams::envelope;
use waybill_core::streams::event::{Body, Op};
use waybill_core::streams::name::{StreamKey, StreamName, StreamPattern};
use waybill_core::streams::reading::Selector;
use waybill_core::streams::settings::{RelayPlan, StreamsSettings};
use waybill_core::streams::wire::Broker;
use waybill_core::time::Now;
use waybill_engine::{Clock, Engine, EngineConfig, Stores, StreamsConfig};
use waybill_testkit::fake_transport::FakeTransport;
use waybill_testkit::memory_store::MemoryStore;

pub use clock::{SteppedClock, TokioClock};

/// Longest (virtual) wait for a condition.
const PATIENCE: Duration = Duration::from_secs(600);

/// The clocks of hosts. It counts how often they are read: a task that wakes looks at the time.
#[derive(Clone)]
struct CountedClock {
    clock: SteppedClock,
    reads: Arc<AtomicU64>,
}

impl Clock for CountedClock {
    fn now(&self) -> Now {
        self.reads.fetch_add(1, Ordering::AcqRel);
        self.clock.now()
    }
}

/// What outlives hosts: the store, the broker, the time.
pub struct World {
    pub memory: Arc<MemoryStore>,
    pub stepped: SteppedClock,
    clock_reads: Arc<AtomicU64>,
    pub bus: Arc<FakeTransport>,
    pub settings: StreamsSettings,
}

pub struct Host {
    pub engine: Engine,
    pub outbox: Arc<dyn OutboxService>,
    pub streams: Arc<dyn StreamService>,
}

impl World {
    pub fn new() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut StreamsSettings)) -> Self {
        let mut settings = StreamsSettings::default();
        change(&mut settings);
        Self {
            memory: Arc::new(MemoryStore::new()),
            stepped: SteppedClock::new(TokioClock::new()),
            clock_reads: Arc::default(),
            bus: FakeTransport::new("bus"),
            settings,
        }
    }

    pub fn config(&self, host: &str) -> EngineConfig {
        let mut config = EngineConfig::new(host);
        config.retire_after = Duration::ZERO;
        config.transports = vec![self.bus.clone()];
        config.streams = StreamsConfig {
            store: Some(self.memory.clone()),
            incarnation: 1,
            brokers: [("bus".to_owned(), Broker::Nats)].into(),
            settings: Arc::new(self.settings.clone()),
        };
        config
    }

    /// Starts a host and waits until it numbers streams.
    pub async fn start(&self) -> Host {
        let host = self.launch("host-a", |_| {});
        host.until_owned().await;
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
        let clock = CountedClock { clock: self.stepped.clone(), reads: Arc::clone(&self.clock_reads) };
        let engine = Engine::start(config, stores, Arc::new(clock));
        Host { outbox: engine.outbox(), streams: engine.streams().unwrap(), engine }
    }

    /// How often hosts look at the time within one.
    pub async fn clock_reads_in(&self, time: Duration) -> u64 {
        let before = self.clock_reads.load(Ordering::Acquire);
        pass(time).await;
        self.clock_reads.load(Ordering::Acquire) - before
    }

    /// Chunks that are stored of a stream.
    pub fn chunks(&self, name: &str) -> usize {
        self.memory.read(|tables| tables.streams.chunks_after(&key(name), 0).count())
    }
}

impl Host {
    pub async fn until_owned(&self) {
        eventually("the host numbers its streams", async || {
            let checks = self.outbox.ready().await;
            checks.iter().any(|check| {
                check.name == "streams"
                    && check.status == CheckStatus::Ok
                    && check.detail.starts_with("numbers those of 1")
            })
        })
        .await;
    }

    pub async fn append(&self, name: &str, ids: &[&str]) -> Appended {
        // A takeover may hide what became of it: with the same ids it is sent again.
        for _ in 0..100 {
            match self.try_append(name, ids, None).await {
                Err(ServiceError::OutcomeUnknown(_)) => tokio::time::sleep(Duration::from_millis(10)).await,
                done => return done.unwrap(),
            }
        }
        panic!("what became of {ids:?} is never known");
    }

    pub async fn try_append(
        &self,
        name: &str,
        ids: &[&str],
        expected_seq: Option<u64>,
    ) -> Result<Appended, ServiceError> {
        let events = ids.iter().map(|id| input(id)).collect();
        self.streams.append(AppendRequest { stream: key(name), events, expected_seq, traceparent: None }).await
    }

    pub async fn subscribe(&self, what: Subscribed, start: Start) -> Reader {
        self.try_subscribe(what, start).await.unwrap()
    }

    pub async fn try_subscribe(&self, what: Subscribed, start: Start) -> Result<Reader, ServiceError> {
        let request = SubscribeRequest { tenant: tenant(), what, start, replay_events: 0 };
        Ok(Reader { subscription: self.streams.subscribe(request).await? })
    }

    pub async fn relay(&self, name: &str) -> RelayView {
        self.streams.relay(&relay_name(name)).await.unwrap().view
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

pub struct Reader {
    pub subscription: Box<dyn Subscription>,
}

impl Reader {
    /// The next events; a test that waits for none for ever fails.
    pub async fn next(&mut self) -> Result<Vec<EventPiece>, SubscriptionEnd> {
        tokio::time::timeout(PATIENCE, self.subscription.next()).await.expect("nothing came")
    }

    /// So many events, as (stream, number, id).
    pub async fn take(&mut self, count: usize) -> Vec<(String, u64, String)> {
        let mut taken = Vec::new();
        while taken.len() < count {
            taken.extend(self.next().await.unwrap().iter().map(shown));
        }
        assert_eq!(taken.len(), count, "more came: {taken:?}");
        taken
    }

    /// Whether nothing comes within a time.
    pub async fn is_quiet(&mut self, time: Duration) -> bool {
        tokio::time::timeout(time, self.subscription.next()).await.is_err()
    }
}

/// An event as (stream, number, id).
pub fn shown(piece: &EventPiece) -> (String, u64, String) {
    let event = envelope::unpack(&piece.packed).unwrap();
    (piece.stream.name.to_string(), piece.seq, event.id.to_string())
}

/// Numbers of what was taken.
pub fn seqs(taken: &[(String, u64, String)]) -> Vec<u64> {
    taken.iter().map(|taken| taken.1).collect()
}

pub fn numbered(appended: Appended) -> Vec<u64> {
    match appended {
        Appended::Numbered { seqs, .. } => seqs,
        Appended::Accepted { ids } => panic!("{ids:?} have no numbers"),
    }
}

/// An event with this id, of the resource that the id begins with up to a dash.
pub fn input(id: &str) -> EventInput {
    let resource = id.split('-').next().unwrap();
    EventInput {
        id: Some(EventId::new(id).unwrap()),
        ts: None,
        resource_type: "TASK".into(),
        resource_id: resource.into(),
        op: Op::UPDATE,
        schema_version: 1,
        node_uuid: None,
        correlation_id: None,
        cause: None,
        headers: Default::default(),
        content_type: Some("application/json".into()),
        body: Body::Bytes(Bytes::from_static(b"{}")),
    }
}

pub fn tenant() -> Tenant {
    Tenant::new("acme").unwrap()
}

pub fn name(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

pub fn key(stream: &str) -> StreamKey {
    StreamKey { tenant: tenant(), name: name(stream) }
}

pub fn named(names: &[&str]) -> Subscribed {
    Subscribed::Streams(names.iter().map(|stream| name(stream)).collect())
}

pub fn prefix(text: &str) -> Subscribed {
    Subscribed::Many(Selector::Prefix(text.to_owned()))
}

pub fn relay_name(name: &str) -> RelayName {
    RelayName::new(name).unwrap()
}

/// A relay of all streams through the bus.
pub fn plan(name: &str) -> RelayPlan {
    RelayPlan::new(relay_name(name), StreamPattern::parse("**").unwrap(), "bus")
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
