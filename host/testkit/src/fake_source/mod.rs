//! A broker in memory with sources on it: it keeps messages until they are settled, delivers again what isn't settled in time or whose
//! connection is gone, and remembers what it was told.
//!
//! | file | holds |
//! |---|---|
//! | `broker` | the messages: what waits, what is out, what was settled |
//!
//! Hosts open it through [`SourcePlugin`]. It waits by tokio's clock, so a paused one costs nothing.

mod broker;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};
use waybill_core::endpoint::ReloadPolicy;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::source::{
    LaneNotices, Notices, OpenSource, Pulled, Settled, Source, SourceDelivery, SourceFacts, SourcePlugin,
    SourceSettlement,
};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Health, HealthReport, PluginIdentity};

use broker::Broker;
pub use broker::{Kept, Standing};

/// A broker with one queue. Clones of the `Arc` are one broker.
pub struct FakeSource {
    name: String,
    broker: Mutex<Broker>,
    changed: Notify,
    features: Mutex<Vec<String>>,
    lanes: u32,
    /// Sessions count up: each connection has its own, and another one when it broke.
    sessions: AtomicU64,
    /// Sessions below this one are broken.
    broken: AtomicU64,
    opened: Mutex<Vec<OpenSource>>,
    behind: Mutex<Vec<Option<String>>>,
    closed: AtomicU64,
    open_time: Mutex<Duration>,
    close_time: Mutex<Duration>,
    refuses: Mutex<Option<CallError>>,
    overlaps: AtomicBool,
    pull_fails: Mutex<Option<CallError>>,
    settle_fails: AtomicBool,
    settle_loses: AtomicBool,
    /// Session that was pulled last.
    pulled: AtomicU64,
    notices: Mutex<VecDeque<LaneNotices>>,
    told: Notify,
    provisioned: Mutex<Result<Vec<ProvisionChange>, ProvisionError>>,
}

impl FakeSource {
    /// A queue whose deliveries can be extended, with `settle-within` of 30 s.
    pub fn new(name: impl Into<String>) -> Arc<Self> {
        Self::with_lanes(name, 1)
    }

    pub fn with_lanes(name: impl Into<String>, lanes: u32) -> Arc<Self> {
        let name = name.into();
        let provisioned = Err(ProvisionError::NotOffered { plugin: name.clone() });
        Arc::new(Self {
            name,
            broker: Mutex::default(),
            changed: Notify::new(),
            features: Mutex::new(vec!["extend".to_owned()]),
            lanes,
            sessions: AtomicU64::new(0),
            broken: AtomicU64::new(0),
            opened: Mutex::default(),
            behind: Mutex::default(),
            closed: AtomicU64::new(0),
            open_time: Mutex::default(),
            close_time: Mutex::default(),
            refuses: Mutex::default(),
            overlaps: AtomicBool::new(false),
            pull_fails: Mutex::default(),
            settle_fails: AtomicBool::new(false),
            settle_loses: AtomicBool::new(false),
            pulled: AtomicU64::new(0),
            notices: Mutex::default(),
            told: Notify::new(),
            provisioned: Mutex::new(provisioned),
        })
    }

    /// What it says that it can, from now on.
    pub fn set_features(&self, features: &[&str]) {
        *self.features.lock() = features.iter().map(|feature| (*feature).to_owned()).collect();
    }

    /// How long a delivery stays out before it is delivered again.
    pub fn set_settle_within(&self, time: Duration) {
        self.broker.lock().settle_within = time;
    }

    /// A message is given up after so many deliveries.
    pub fn set_max_deliveries(&self, most: u32) {
        self.broker.lock().max_deliveries = Some(most);
    }

    /// From now on `open` fails so; none = it works.
    pub fn refuse(&self, error: Option<CallError>) {
        *self.refuses.lock() = error;
    }

    /// From now on it takes so long to open, or to be refused.
    pub fn set_open_time(&self, time: Duration) {
        *self.open_time.lock() = time;
    }

    /// From now on it takes so long to close, if it is given the time.
    pub fn set_close_time(&self, time: Duration) {
        *self.close_time.lock() = time;
    }

    /// From now on it is opened beside itself when it is replaced.
    pub fn overlap(&self) {
        self.overlaps.store(true, Ordering::Release);
    }

    /// From now on every pull fails so; none = it works.
    pub fn fail_pulls(&self, error: Option<CallError>) {
        *self.pull_fails.lock() = error;
    }

    /// From now on what is to be settled fails, or works again.
    pub fn fail_settling(&self, fails: bool) {
        self.settle_fails.store(fails, Ordering::Release);
    }

    /// From now on the broker no longer knows what is to be settled, or does again.
    pub fn lose_settlements(&self, loses: bool) {
        self.settle_loses.store(loses, Ordering::Release);
    }

    pub fn set_provisioned(&self, result: Result<Vec<ProvisionChange>, ProvisionError>) {
        *self.provisioned.lock() = result;
    }

    /// Lets a message arrive; its number.
    pub fn push(&self, delivery: SourceDelivery) -> usize {
        let number = self.broker.lock().push(delivery);
        self.changed.notify_waiters();
        number
    }

    /// Lets a message with an id arrive.
    pub fn send(&self, id: &str, topic: &str, payload: &str) -> usize {
        let delivery = SourceDelivery::new("", topic, payload.to_owned());
        self.push(SourceDelivery { id: Some(id.to_owned()), ..delivery })
    }

    /// The same with a key.
    pub fn send_keyed(&self, id: &str, key: &str, payload: &str) -> usize {
        let delivery = SourceDelivery::new("", "orders.paid", payload.to_owned());
        self.push(SourceDelivery { id: Some(id.to_owned()), key: Some(key.to_owned()), ..delivery })
    }

    /// Delivers a message again although it is out: another copy with a token of its own.
    pub fn repeat(&self, number: usize) {
        self.broker.lock().repeat(number);
        self.changed.notify_waiters();
    }

    /// The broker gives a message up: it is never delivered again.
    pub fn give_up(&self, number: usize) {
        self.broker.lock().give_up(number);
    }

    /// Every connection breaks: what is out comes again, tokens are of no use.
    pub fn break_connections(&self) {
        self.broker.lock().give_back(None);
        self.broken.store(self.next_session(), Ordering::Release);
        self.changed.notify_waiters();
    }

    /// Tells something besides, through this lane, of the session that was pulled last. Nobody hears it once that is broken.
    pub fn tell(&self, lane: u32, notices: Notices) {
        let session = self.pulled.load(Ordering::Acquire);
        self.notices.lock().push_back(LaneNotices { lane, session, notices });
        self.told.notify_waiters();
    }

    /// What became of a message.
    pub fn kept(&self, number: usize) -> Kept {
        self.broker.lock().kept(number)
    }

    /// How each message stands, in order of arrival.
    pub fn standings(&self) -> Vec<Standing> {
        self.broker.lock().standings()
    }

    /// Deliveries that are out now.
    pub fn unsettled(&self) -> usize {
        self.broker.lock().unsettled()
    }

    /// Most deliveries that were out at once.
    pub fn most_unsettled(&self) -> usize {
        self.broker.lock().most_unsettled
    }

    /// How it was opened, each time.
    pub fn opened(&self) -> Vec<OpenSource> {
        self.opened.lock().clone()
    }

    /// Behind which position it was to begin, each time.
    pub fn resumed(&self) -> Vec<Option<String>> {
        self.behind.lock().clone()
    }

    /// How often it was closed.
    pub fn closed(&self) -> u64 {
        self.closed.load(Ordering::Acquire)
    }

    fn next_session(&self) -> u64 {
        self.sessions.fetch_add(1, Ordering::AcqRel) + 1
    }

    fn identity(&self) -> PluginIdentity {
        let digest = format!("sha256:{}", "cd".repeat(32));
        PluginIdentity { plugin: format!("fake-{}", self.name), version: "1.0.0".to_owned(), digest, generation: 1 }
    }
}

/// One way in which hosts have it open.
struct Connection {
    source: Arc<FakeSource>,
    session: AtomicU64,
    closed: AtomicBool,
}

impl Connection {
    /// Its session, which is another one when it was broken.
    fn session(&self) -> u64 {
        if self.session.load(Ordering::Acquire) < self.source.broken.load(Ordering::Acquire) {
            self.session.store(self.source.next_session(), Ordering::Release);
        }
        self.session.load(Ordering::Acquire)
    }

    /// What was told first of its session and isn't heard yet.
    fn next_unheard(&self) -> Option<LaneNotices> {
        let (session, mut notices) = (self.session(), self.source.notices.lock());
        let first = notices.iter().position(|told| told.session == session)?;
        notices.remove(first)
    }
}

/// A [`SourcePlugin`] on a broker.
pub struct FakeSourcePlugin(pub Arc<FakeSource>);

#[async_trait]
impl SourcePlugin for FakeSourcePlugin {
    fn name(&self) -> &str {
        &self.0.name
    }
    fn identity(&self) -> PluginIdentity {
        self.0.identity()
    }
    fn reload(&self) -> ReloadPolicy {
        match self.0.overlaps.load(Ordering::Acquire) {
            true => ReloadPolicy::Overlap,
            false => ReloadPolicy::StopStart,
        }
    }
    async fn open(&self, how: OpenSource) -> Result<Arc<dyn Source>, CallError> {
        self.0.opened.lock().push(how);
        let takes = *self.0.open_time.lock();
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        if let Some(error) = self.0.refuses.lock().clone() {
            return Err(error);
        }
        let session = AtomicU64::new(self.0.next_session());
        Ok(Arc::new(Connection { source: Arc::clone(&self.0), session, closed: AtomicBool::new(false) }))
    }
    fn resume_after(&self, position: Option<String>) {
        self.0.behind.lock().push(position);
    }
    async fn provision(&self, _apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        self.0.provisioned.lock().clone()
    }
}

fn closed() -> CallError {
    CallError { kind: ErrorKind::Cancelled, fault: Fault::new("PLUGIN.CLOSED", "it was closed") }
}

#[async_trait]
impl Source for Connection {
    fn name(&self) -> &str {
        &self.source.name
    }
    fn identity(&self) -> PluginIdentity {
        self.source.identity()
    }
    fn facts(&self) -> SourceFacts {
        let settle_within = Some(self.source.broker.lock().settle_within);
        let features = self.source.features.lock().clone();
        SourceFacts { lanes: self.source.lanes, calls_per_lane: 2, features, settle_within }
    }

    async fn pull(&self, lane: u32, max: u32, _max_bytes: u32, wait: Duration) -> Result<Pulled, CallError> {
        let until = Instant::now() + wait;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return Err(closed());
            }
            if let Some(error) = self.source.pull_fails.lock().clone() {
                return Err(error);
            }
            let changed = self.source.changed.notified();
            tokio::pin!(changed);
            // Before the look, so that a change right after it isn't missed.
            changed.as_mut().enable();
            let session = self.session();
            self.source.pulled.store(session, Ordering::Release);
            let (deliveries, caught_up, next) = self.source.broker.lock().pull(session, lane, max as usize);
            if !deliveries.is_empty() || Instant::now() >= until {
                return Ok(Pulled { session, notices: Notices::default(), deliveries, caught_up });
            }
            let wake = next.map_or(until, |next| next.min(until));
            let _time = timeout_at(wake, changed).await;
        }
    }

    async fn settle(
        &self,
        _lane: u32,
        session: u64,
        items: Vec<SourceSettlement>,
        _timeout: Duration,
    ) -> Result<Vec<Settled>, CallError> {
        if self.closed.load(Ordering::Acquire) || session != self.session() {
            return Ok(vec![Settled::Lost; items.len()]);
        }
        if self.source.settle_loses.load(Ordering::Acquire) {
            return Ok(vec![Settled::Lost; items.len()]);
        }
        if self.source.settle_fails.load(Ordering::Acquire) {
            let fault = Fault::new("BROKER.AWAY", "nobody answers");
            return Ok(vec![Settled::Failed(fault); items.len()]);
        }
        let mut broker = self.source.broker.lock();
        let settled = items.iter().map(|item| broker.settle(&item.token, &item.disposition)).collect();
        drop(broker);
        self.source.changed.notify_waiters();
        Ok(settled)
    }

    async fn next_notices(&self) -> LaneNotices {
        loop {
            let told = self.source.told.notified();
            tokio::pin!(told);
            told.as_mut().enable();
            if let Some(notices) = self.next_unheard() {
                return notices;
            }
            told.await;
        }
    }

    fn resume_after(&self, _position: String) {}

    async fn quiesce(&self, _timeout: Duration) -> Result<(), CallError> {
        Ok(())
    }

    async fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: None }
    }

    async fn close(&self, timeout: Duration) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            let takes = *self.source.close_time.lock();
            if !takes.is_zero() {
                tokio::time::sleep(takes.min(timeout)).await;
            }
            self.source.closed.fetch_add(1, Ordering::AcqRel);
            let session = self.session();
            self.source.broker.lock().give_back(Some(session));
            self.source.changed.notify_waiters();
        }
    }
}
