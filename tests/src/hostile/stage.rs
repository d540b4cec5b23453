//! An engine with a good transport and, beside it, a hostile one; a steady load on both; and who got what.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::time::Instant;
use waybill_api::OutboxService;
use waybill_api::status::CheckStatus;
use waybill_core::annotation::Annotation;
use waybill_core::endpoint::{EndpointSettings, LimitOverlay, PluginLimits};
use waybill_core::ids::Tenant;
use waybill_core::message::Delivery;
use waybill_core::new_message::NewMessage;
use waybill_core::port::transport::{
    CallError, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport, TransportLimits,
};
use waybill_core::route::{Pattern, Route};
use waybill_engine::{Engine, EngineConfig, Stores, SystemClock};
use waybill_sandbox::{EndpointSpec, PluginSource, Sandbox, WasmTransport, World};

use super::{Behaviour, CPU_PER_CALL, SEND_TIMEOUT};

/// Time between two enqueues of a load.
const STEP: Duration = Duration::from_millis(10);
/// Keys of a load: enough that a key is never waited for.
const KEYS: u64 = 1_000;

/// Where an engine keeps its records.
pub type Stored = Stores;

/// How much is enqueued.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Good messages in 10 ms.
    pub good: u64,
    /// A hostile message every so many steps of 10 ms; 0 = none.
    pub hostile_every: u64,
    pub steps: u64,
}

/// What was enqueued, and when.
#[derive(Default)]
struct Sent {
    begun: HashMap<u64, Instant>,
    good: Vec<String>,
    hostile: Vec<String>,
}

/// An engine under load.
pub struct Stage {
    engine: Engine,
    outbox: Arc<dyn OutboxService>,
    good: Arc<Log>,
    sent: Arc<Mutex<Sent>>,
    next: u64,
}

/// When which message of a transport was acknowledged first.
#[derive(Default)]
struct Log(Mutex<HashMap<u64, Instant>>);

impl Log {
    fn note(&self, number: Option<u64>, outcome: &Outcome) {
        if let (Some(number), Outcome::Ack(_)) = (number, outcome) {
            self.0.lock().entry(number).or_insert_with(Instant::now);
        }
    }
}

/// A transport whose acknowledgements are noted.
struct Watched {
    inner: Arc<WasmTransport>,
    log: Arc<Log>,
}

struct WatchedSink {
    inner: Arc<dyn OutcomeSink>,
    numbers: Vec<Option<u64>>,
    log: Arc<Log>,
}

impl OutcomeSink for WatchedSink {
    fn settled(&self, index: usize, outcome: Outcome) {
        self.log.note(self.numbers.get(index).copied().flatten(), &outcome);
        self.inner.settled(index, outcome);
    }
}

/// The number that a message carries as its payload.
fn number(delivery: &Delivery) -> Option<u64> {
    std::str::from_utf8(&delivery.payload).ok()?.parse().ok()
}

#[async_trait]
impl Transport for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn identity(&self) -> PluginIdentity {
        self.inner.identity()
    }
    fn limits(&self) -> TransportLimits {
        self.inner.limits()
    }
    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let numbers: Vec<Option<u64>> = batch.iter().map(number).collect();
        let watched = WatchedSink { inner: sink, numbers: numbers.clone(), log: Arc::clone(&self.log) };
        let outcomes = self.inner.send_batch(call, batch, Arc::new(watched)).await?;
        for (number, outcome) in numbers.into_iter().zip(&outcomes) {
            self.log.note(number, outcome);
        }
        Ok(outcomes)
    }
    async fn health(&self) -> HealthReport {
        self.inner.health().await
    }
    async fn close(&self, timeout: Duration) {
        self.inner.close(timeout).await;
    }
}

/// Why a stage can't be set.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn transport(sandbox: &Sandbox, source: PluginSource, spec: EndpointSpec) -> Result<Watched, Failure> {
    let plugin = sandbox.load(source, World::Transport).await?;
    // One that doesn't open is kept as a host keeps it, and tried again.
    let (inner, _) = WasmTransport::start_supervised(plugin, spec).await?;
    Ok(Watched { inner, log: Arc::default() })
}

impl Stage {
    /// Starts an engine with a good transport and, if one is named, a hostile one.
    pub async fn set(sandbox: &Sandbox, stores: Stored, hostile: Option<&Behaviour>) -> Result<Self, Failure> {
        let noop = waybill_bundled::find("noop").ok_or("noop is bundled")?.component;
        let plain = EndpointSpec::new(EndpointSettings::new("good"));
        let good = transport(sandbox, PluginSource::Embedded(noop), plain).await?;
        let log = Arc::clone(&good.log);
        let mut config = EngineConfig::new("stage");
        config.routes.0.push(Route::new(Pattern::parse("bus:good")?, "good"));
        config.transports.push(Arc::new(good));
        if let Some(behaviour) = hostile {
            let limits = PluginLimits { cpu_per_call: CPU_PER_CALL, ..PluginLimits::default() };
            let mut settings = EndpointSettings::new("hostile");
            settings.config = serde_json::from_str(behaviour.config)?;
            let spec = EndpointSpec { limits, ..EndpointSpec::new(settings.clone()) };
            let started = transport(sandbox, behaviour.guest.source()?, spec).await?;
            config.routes.0.push(Route::new(Pattern::parse("bus:hostile")?, "hostile"));
            config.transports.push(Arc::new(started));
            settings.grants.limits = LimitOverlay { call_time: Some(SEND_TIMEOUT), ..LimitOverlay::default() };
            config.endpoints.push(settings);
        }
        let engine = Engine::start(config, stores, Arc::new(SystemClock));
        let outbox: Arc<dyn OutboxService> = engine.outbox();
        while outbox.ready().await.iter().any(|check| check.status == CheckStatus::Fail) {
            tokio::time::sleep(STEP).await;
        }
        Ok(Self { engine, outbox, good: log, sent: Arc::default(), next: 0 })
    }

    pub fn outbox(&self) -> &Arc<dyn OutboxService> {
        &self.outbox
    }

    /// Enqueues at a steady pace, whatever becomes of it, and waits until all of it is committed.
    pub async fn load(&mut self, load: Load) -> Result<(), Failure> {
        let start = Instant::now();
        let mut enqueues = tokio::task::JoinSet::new();
        for step in 0..load.steps {
            tokio::time::sleep_until(start + STEP * u32::try_from(step)?).await;
            let hostile = load.hostile_every > 0 && step % load.hostile_every == 0;
            let first = self.next;
            self.next += load.good + u64::from(hostile);
            let (outbox, sent, last) = (Arc::clone(&self.outbox), Arc::clone(&self.sent), self.next);
            enqueues.spawn(async move {
                let began = Instant::now();
                let is_hostile = |number: u64| hostile && number + 1 == last;
                let messages = (first..last).map(|number| message(number, is_hostile(number))).collect();
                {
                    let mut sent = sent.lock();
                    sent.begun
                        .extend((first..last).filter(|number| !is_hostile(*number)).map(|number| (number, began)));
                }
                let ids = outbox.enqueue(messages).await?.ids;
                let mut sent = sent.lock();
                for (number, id) in (first..last).zip(ids) {
                    if is_hostile(number) { sent.hostile.push(id) } else { sent.good.push(id) }
                }
                Ok::<(), waybill_core::port::service::ServiceError>(())
            });
        }
        while let Some(done) = enqueues.join_next().await {
            done??;
        }
        Ok(())
    }

    /// How many good messages were sent, and how many of them were acknowledged.
    pub fn good(&self) -> (usize, usize) {
        (self.sent.lock().good.len(), self.good.0.lock().len())
    }

    /// Ids of the good messages and of the hostile ones.
    pub fn ids(&self) -> (Vec<String>, Vec<String>) {
        let sent = self.sent.lock();
        (sent.good.clone(), sent.hostile.clone())
    }

    /// How long each acknowledged good message took from its enqueue, in order of length, and the time between the first enqueue
    /// and the last acknowledgement.
    pub fn latencies(&self) -> (Vec<Duration>, Duration) {
        let (sent, acked) = (self.sent.lock(), self.good.0.lock());
        let mut took: Vec<Duration> =
            acked.iter().filter_map(|(number, at)| Some(at.duration_since(*sent.begun.get(number)?))).collect();
        took.sort_unstable();
        let first = sent.begun.values().min().copied();
        let whole = first.zip(acked.values().max().copied()).map(|(first, last)| last.duration_since(first));
        (took, whole.unwrap_or_default())
    }

    /// The tenant of a hostile or a good message.
    pub fn tenant(hostile: bool) -> Result<Tenant, Failure> {
        Ok(Tenant::new(if hostile { "hostile" } else { "good" })?)
    }

    /// Ends it in good order; false if that took too long.
    pub async fn end(self, time: Duration) -> bool {
        self.engine.drain(time).await
    }
}

fn message(number: u64, hostile: bool) -> NewMessage {
    let who = if hostile { "hostile" } else { "good" };
    NewMessage {
        tenant: Some(who.to_owned()),
        topic: format!("bus:{who}"),
        payload: number.to_string().into(),
        annotations: [(Annotation::ContentType, "application/json")].into(),
        key: Some(format!("key-{}", number % KEYS)),
        ..NewMessage::default()
    }
}
