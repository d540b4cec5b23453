//! A handler whose answers a test writes, over HTTP and as a component, and that remembers every call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::time::sleep;
use waybill_core::port::handler::{Handled, Handler, HandlerLimits, Inbound, Verdict, VerdictSink};
use waybill_core::port::http_handler::{HandlerAnswer, HandlerPost, HttpHandlers};
use waybill_core::port::transport::{Blame, CallError, ErrorKind, Fault, Health, HealthReport, PluginIdentity};

use crate::fake_transport::Gate;

/// A call over HTTP as a test reads it.
#[derive(Clone, Debug)]
pub struct Posted {
    pub url: String,
    pub id: String,
    pub body: serde_json::Value,
    pub headers: Vec<(String, String)>,
}

impl Posted {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn attempt(&self) -> u32 {
        self.header("waybill-attempt").and_then(|text| text.parse().ok()).unwrap_or(0)
    }

    pub fn is_maybe_handled(&self) -> bool {
        self.header("waybill-maybe-handled") == Some("true")
    }
}

/// What comes of one call over HTTP.
#[derive(Clone)]
pub struct Reply {
    delay: Duration,
    gate: Option<Gate>,
    result: Result<HandlerAnswer, CallError>,
}

impl Reply {
    pub fn status(status: u16) -> Self {
        let answer = HandlerAnswer { status, after: None, content_type: None, body: Bytes::new(), truncated: false };
        Self { delay: Duration::ZERO, gate: None, result: Ok(answer) }
    }

    /// An answer that leaves something behind.
    pub fn handled(body: &str) -> Self {
        Self::status(200).with(|answer| {
            answer.content_type = Some("application/vnd.waybill.handled+json".to_owned());
            answer.body = Bytes::copy_from_slice(body.as_bytes());
        })
    }

    pub fn failing(kind: ErrorKind, code: &str) -> Self {
        let error = CallError { kind, fault: Fault::new(code, "no answer came") };
        Self { delay: Duration::ZERO, gate: None, result: Err(error) }
    }

    #[must_use]
    pub fn with(mut self, change: impl FnOnce(&mut HandlerAnswer)) -> Self {
        if let Ok(answer) = &mut self.result {
            change(answer);
        }
        self
    }

    #[must_use]
    pub fn after(self, time: Duration) -> Self {
        self.with(|answer| answer.after = Some(time))
    }

    #[must_use]
    pub fn delayed(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }

    /// Answers when the gate is opened.
    #[must_use]
    pub fn behind(mut self, gate: &Gate) -> Self {
        self.gate = Some(gate.clone());
        self
    }
}

type HttpScript = dyn Fn(&Posted) -> Reply + Send + Sync;

/// A handler over HTTP that answers 204 to everything until it is told otherwise.
pub struct FakeHttpHandler {
    script: Mutex<Arc<HttpScript>>,
    posted: Mutex<Vec<Posted>>,
    running: Mutex<(usize, usize)>,
}

impl FakeHttpHandler {
    pub fn new() -> Arc<Self> {
        let script: Arc<HttpScript> = Arc::new(|_: &Posted| Reply::status(204));
        Arc::new(Self { script: Mutex::new(script), posted: Mutex::default(), running: Mutex::default() })
    }

    /// From now on each call gets the reply that `answer` has for it.
    pub fn answer(&self, answer: impl Fn(&Posted) -> Reply + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(answer);
    }

    /// The calls so far.
    pub fn posted(&self) -> Vec<Posted> {
        self.posted.lock().clone()
    }

    /// Ids of the messages of the calls so far.
    pub fn ids(&self) -> Vec<String> {
        self.posted.lock().iter().map(|posted| posted.id.clone()).collect()
    }

    /// Calls with this message so far.
    pub fn calls_with(&self, id: &str) -> Vec<Posted> {
        self.posted.lock().iter().filter(|posted| posted.id == id).cloned().collect()
    }

    /// Most calls under way at once.
    pub fn most_at_once(&self) -> usize {
        self.running.lock().1
    }
}

/// Counts a call as under way until it is dropped, also when its caller gives up.
struct Running<'a>(&'a Mutex<(usize, usize)>);

impl<'a> Running<'a> {
    fn begin(running: &'a Mutex<(usize, usize)>) -> Self {
        let mut count = running.lock();
        count.0 += 1;
        count.1 = count.1.max(count.0);
        Self(running)
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.lock().0 -= 1;
    }
}

#[async_trait]
impl HttpHandlers for FakeHttpHandler {
    async fn post(&self, post: HandlerPost) -> Result<HandlerAnswer, CallError> {
        let _running = Running::begin(&self.running);
        let body: serde_json::Value = serde_json::from_slice(&post.body).unwrap_or_default();
        let id = body.get("message_id").and_then(|id| id.as_str()).unwrap_or_default().to_owned();
        let posted = Posted { url: post.url.to_string(), id, body, headers: post.headers };
        self.posted.lock().push(posted.clone());
        let script = Arc::clone(&self.script.lock());
        let reply = script(&posted);
        let wait = async {
            sleep(reply.delay).await;
            if let Some(gate) = reply.gate {
                gate.passed().await;
            }
        };
        if tokio::time::timeout(post.timeout, wait).await.is_err() {
            let fault = Fault { maybe_delivered: true, ..Fault::new("HTTP.TIMEOUT", "no answer in the call's time") };
            return Err(CallError { kind: ErrorKind::TimedOut, fault });
        }
        reply.result
    }
}

/// What comes of one call of a component: early verdicts, then the rest or an error.
pub struct Handling {
    pub early: Vec<(usize, Verdict)>,
    /// What the result takes.
    pub delay: Duration,
    pub result: Result<Vec<Verdict>, CallError>,
}

impl Handling {
    /// One verdict for each message.
    pub fn each(batch: &[Inbound], verdict: impl Fn(&Inbound) -> Verdict) -> Self {
        Self { early: Vec::new(), delay: Duration::ZERO, result: Ok(batch.iter().map(verdict).collect()) }
    }

    pub fn trap() -> Self {
        Self::trap_of(Blame::Own)
    }

    /// Its instance is lost, with what is known of whose call it was.
    pub fn trap_of(blame: Blame) -> Self {
        let fault = Fault::new("PLUGIN.TRAPPED", "unreachable executed");
        let error = CallError { kind: ErrorKind::Trapped, fault }.blaming(blame);
        Self { early: Vec::new(), delay: Duration::ZERO, result: Err(error) }
    }

    #[must_use]
    pub fn delayed(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

type Script = dyn Fn(&[Inbound]) -> Handling + Send + Sync;

/// A handler that is a component: two lanes, batches of up to 10, and everything is processed until it is told otherwise.
pub struct FakeHandler {
    name: String,
    script: Mutex<Arc<Script>>,
    calls: Mutex<Vec<(u32, Vec<Inbound>)>>,
    limits: Mutex<HandlerLimits>,
    /// Calls under way by lane.
    running: Mutex<BTreeMap<u32, usize>>,
    /// For each call, how many were under way in its lane when it began.
    beside: Mutex<Vec<usize>>,
    closed: AtomicBool,
}

impl FakeHandler {
    pub fn new(name: impl Into<String>) -> Arc<Self> {
        let processed = |_: &Inbound| Verdict::Processed(Handled::default());
        let script: Arc<Script> = Arc::new(move |batch: &[Inbound]| Handling::each(batch, processed));
        let limits = HandlerLimits { lanes: 2, calls_per_lane: 1, max_batch: 10, max_batch_bytes: 1024 * 1024 };
        Arc::new(Self {
            name: name.into(),
            script: Mutex::new(script),
            calls: Mutex::default(),
            limits: Mutex::new(limits),
            running: Mutex::default(),
            beside: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// From now on each call does what `handle` has for it.
    pub fn handle_with(&self, handle: impl Fn(&[Inbound]) -> Handling + Send + Sync + 'static) {
        *self.script.lock() = Arc::new(handle);
    }

    /// Before it is used: one lane with so many calls at once, of one message each.
    pub fn set_calls_at_once(&self, calls: u32) {
        let mut limits = self.limits.lock();
        (limits.lanes, limits.calls_per_lane, limits.max_batch) = (1, calls, 1);
    }

    /// Before it is used: batches of up to so many.
    pub fn set_batch(&self, most: u32) {
        self.limits.lock().max_batch = most;
    }

    /// For each of [`Self::calls`], how many others were under way in its lane when it began.
    pub fn beside(&self) -> Vec<usize> {
        self.beside.lock().clone()
    }

    /// It was ended in good order.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The calls so far, with their lanes.
    pub fn calls(&self) -> Vec<(u32, Vec<Inbound>)> {
        self.calls.lock().clone()
    }
}

#[async_trait]
impl Handler for FakeHandler {
    fn name(&self) -> &str {
        &self.name
    }
    fn identity(&self) -> PluginIdentity {
        let digest = format!("sha256:{}", "ef".repeat(32));
        PluginIdentity { plugin: self.name.clone(), version: "1.0.0".to_owned(), digest, generation: 1 }
    }
    fn limits(&self) -> HandlerLimits {
        *self.limits.lock()
    }
    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        _timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        self.calls.lock().push((lane, batch.clone()));
        {
            let mut running = self.running.lock();
            let others = running.entry(lane).or_default();
            self.beside.lock().push(*others);
            *others += 1;
        }
        let script = Arc::clone(&self.script.lock());
        let handling = script(&batch);
        for (index, verdict) in handling.early {
            sink.settled(index, verdict);
        }
        sleep(handling.delay).await;
        *self.running.lock().entry(lane).or_insert(1) -= 1;
        handling.result
    }
    fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: None }
    }
    async fn close(&self, _timeout: Duration) {
        self.closed.store(true, Ordering::Release);
    }
}

/// A handler whose plugin is replaced when a test says so.
pub struct FakeHandlerSlot(Mutex<Generation>);

/// Who serves, as the calls have it that are made meanwhile.
#[derive(Clone)]
struct Generation(u32, Arc<FakeHandler>);

impl FakeHandlerSlot {
    pub fn new(first: &Arc<FakeHandler>) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Generation(1, Arc::clone(first)))))
    }

    /// The calls from now on are another plugin's, or an earlier one's again.
    pub fn swap(&self, next: &Arc<FakeHandler>) {
        let mut live = self.0.lock();
        *live = Generation(live.0 + 1, Arc::clone(next));
    }

    fn live(&self) -> Generation {
        self.0.lock().clone()
    }
}

#[async_trait]
impl Handler for FakeHandlerSlot {
    fn name(&self) -> &str {
        "slot"
    }
    fn identity(&self) -> PluginIdentity {
        self.live().identity()
    }
    fn limits(&self) -> HandlerLimits {
        self.live().limits()
    }
    fn generation(&self) -> u32 {
        self.live().0
    }
    fn serving(&self) -> Option<Arc<dyn Handler>> {
        Some(Arc::new(self.live()))
    }
    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        self.live().handle(lane, batch, timeout, sink).await
    }
    fn health(&self) -> HealthReport {
        self.live().health()
    }
    async fn close(&self, timeout: Duration) {
        self.live().1.close(timeout).await;
    }
}

#[async_trait]
impl Handler for Generation {
    fn name(&self) -> &str {
        self.1.name()
    }
    fn identity(&self) -> PluginIdentity {
        self.1.identity()
    }
    fn limits(&self) -> HandlerLimits {
        self.1.limits()
    }
    fn generation(&self) -> u32 {
        self.0
    }
    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        self.1.handle(lane, batch, timeout, sink).await
    }
    fn health(&self) -> HealthReport {
        self.1.health()
    }
    async fn close(&self, _timeout: Duration) {}
}
