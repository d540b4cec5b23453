//! A transport whose answers a test writes, and that remembers every delivery.
//!
//! | file | holds |
//! |---|---|
//! | `answer` | what one call does: outcomes, delay, early results, failures, gates |
//! | `log` | what was delivered, when and in which call |
//!
//! It is a [`Transport`] like any other: it takes batches on lanes, waits by tokio's clock (so a paused one costs
//! nothing) and never waits longer than the caller allows. What it doesn't do: check anything. Tests read the log.

mod answer;
mod log;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use waybill_core::message::Delivery;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, Health, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport,
    TransportLimits,
};

pub use answer::{Answer, Batch, End, Gate, ack, blocked, permanent, released, retryable};
pub use log::{Log, Sent};

type Script = dyn Fn(&Batch<'_>) -> Answer + Send + Sync;

pub struct FakeTransport {
    name: String,
    limits: Mutex<TransportLimits>,
    identity: Mutex<PluginIdentity>,
    health: Mutex<HealthReport>,
    provisioned: Mutex<Result<Vec<ProvisionChange>, ProvisionError>>,
    script: Mutex<Arc<Script>>,
    log: Mutex<Log>,
    /// Rung after every change of the log.
    changed: Notify,
    calls: AtomicU64,
    under_way: AtomicUsize,
    closed: AtomicBool,
    logging: AtomicBool,
    /// Rung when an instance opens.
    opens: Notify,
}

impl FakeTransport {
    /// One that acknowledges everything at once: one lane, one call at a time, batches of up to 100.
    pub fn new(name: impl Into<String>) -> Arc<Self> {
        let name = name.into();
        let identity = PluginIdentity {
            plugin: format!("fake-{name}"),
            version: "1.2.3".to_owned(),
            digest: format!("sha256:{}", "ab".repeat(32)),
            generation: 1,
        };
        let not_offered = ProvisionError::NotOffered { plugin: identity.plugin.clone() };
        Arc::new(Self {
            name,
            provisioned: Mutex::new(Err(not_offered)),
            limits: Mutex::new(TransportLimits {
                lanes: 1,
                calls_per_lane: 1,
                max_batch: 100,
                max_batch_bytes: 1024 * 1024,
                max_payload_bytes: None,
                key_runs: false,
            }),
            identity: Mutex::new(identity),
            health: Mutex::new(HealthReport { health: Health::Ready, detail: None }),
            script: Mutex::new(Arc::new(|batch: &Batch<'_>| Answer::each(batch, |_| ack()))),
            log: Mutex::new(Log::default()),
            changed: Notify::new(),
            calls: AtomicU64::new(0),
            under_way: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            logging: AtomicBool::new(true),
            opens: Notify::new(),
        })
    }

    /// From now on every message gets the outcome that `tell` has for it.
    pub fn tell(&self, tell: impl Fn(&Delivery) -> Outcome + Send + Sync + 'static) {
        self.answer(move |batch| Answer::each(batch, &tell));
    }

    /// From now on every call does what `answer` has for it.
    pub fn answer(&self, answer: impl Fn(&Batch<'_>) -> Answer + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(answer);
    }

    /// Changes what it takes.
    pub fn set_limits(&self, change: impl FnOnce(&mut TransportLimits)) {
        change(&mut self.limits.lock());
    }

    /// Changes who serves, as a hot reload does.
    pub fn set_identity(&self, change: impl FnOnce(&mut PluginIdentity)) {
        change(&mut self.identity.lock());
    }

    /// Changes how it says it is.
    pub fn set_health(&self, health: Health, detail: Option<&str>) {
        *self.health.lock() = HealthReport { health, detail: detail.map(str::to_owned) };
    }

    /// An instance of it opens.
    pub fn open(&self) {
        self.opens.notify_waiters();
    }

    /// Changes what comes of provisioning.
    pub fn set_provisioned(&self, result: Result<Vec<ProvisionChange>, ProvisionError>) {
        *self.provisioned.lock() = result;
    }

    /// Forgets deliveries instead of keeping them: for measurements.
    pub fn stop_logging(&self) {
        self.logging.store(false, Ordering::Release);
    }

    /// What was delivered so far.
    pub fn log(&self) -> Log {
        self.log.lock().clone()
    }

    /// Calls under way now.
    pub fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Acquire)
    }

    /// Calls begun so far.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::Acquire)
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Waits until the log is as wanted; answers it. It never gives up by itself.
    pub async fn until(&self, wanted: impl Fn(&Log) -> bool) -> Log {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that a change right after it isn't missed.
            changed.as_mut().enable();
            let log = self.log();
            if wanted(&log) {
                return log;
            }
            changed.await;
        }
    }

    /// Waits until at least `count` deliveries were begun.
    pub async fn until_sent(&self, count: usize) -> Log {
        self.until(|log| log.sent.len() >= count).await
    }

    fn note(&self, call: u64, lane: u32, batch: &[Delivery]) {
        if !self.logging.load(Ordering::Acquire) {
            return;
        }
        let at = Instant::now();
        let plugin = self.identity.lock().generation;
        self.log
            .lock()
            .sent
            .extend(batch.iter().map(|delivery| Sent::new(call, lane, batch.len(), at, plugin, delivery)));
        self.changed.notify_waiters();
    }
}

/// Counts a call as under way until it is dropped, also when its caller gives up.
struct UnderWay<'a>(&'a AtomicUsize);

impl<'a> UnderWay<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[async_trait]
impl Transport for FakeTransport {
    fn name(&self) -> &str {
        &self.name
    }
    fn identity(&self) -> PluginIdentity {
        self.identity.lock().clone()
    }
    fn limits(&self) -> TransportLimits {
        *self.limits.lock()
    }
    async fn send_batch(
        &self,
        how: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let _under_way = UnderWay::begin(&self.under_way);
        let call = self.calls.fetch_add(1, Ordering::AcqRel) + 1;
        self.note(call, how.lane, &batch);
        let script = Arc::clone(&self.script.lock());
        let answer = script(&Batch { call, lane: how.lane, deliveries: &batch });
        for (index, outcome) in answer.early {
            sink.settled(index, outcome);
        }
        let wait = async {
            if !answer.delay.is_zero() {
                sleep(answer.delay).await;
            }
            if let Some(gate) = answer.gate {
                gate.passed().await;
            }
            if matches!(answer.end, End::Never) {
                std::future::pending::<()>().await;
            }
        };
        if matches!(answer.end, End::Stuck) {
            std::future::pending::<()>().await;
        }
        if timeout(how.timeout, wait).await.is_err() {
            let fault = Fault::new("PLUGIN.TIMEOUT", format!("the call took longer than {:?}", how.timeout));
            return Err(CallError { kind: ErrorKind::TimedOut, fault });
        }
        match answer.end {
            End::Outcomes(outcomes) => Ok(outcomes),
            End::Failed(error) => Err(error),
            End::Never | End::Stuck => {
                Err(CallError { kind: ErrorKind::TimedOut, fault: Fault::new("PLUGIN.TIMEOUT", "it never answered") })
            }
        }
    }
    async fn health(&self) -> HealthReport {
        self.health.lock().clone()
    }
    async fn opened(&self) {
        self.opens.notified().await;
    }
    async fn provision(&self, _apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        self.provisioned.lock().clone()
    }
    async fn close(&self, _timeout: Duration) {
        self.closed.store(true, Ordering::Release);
    }
}
