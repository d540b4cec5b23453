//! A transport plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Mutex as AsyncMutex, OnceCell, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use waybill_bindings::api::types::OpenPurpose;
use waybill_core::message::Delivery;
use waybill_core::port::kv::KvStore;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, Health, HealthReport, Outcome, OutcomeSink, PluginIdentity, Transport, TransportLimits,
};

use crate::config::check_config;
use crate::convert;
use crate::error::SandboxError;
use crate::grants::Grants;
use crate::host::{ContextParts, EndpointContext, Losses, ProcessSecrets, Reported, SecretProvider};
use crate::instance::{
    Answer, Claim, Command, Endpoint, Lane, LaneStatus, Work, busy, closed, open, provision, supervise,
};
use crate::limits::{LANE_QUEUE, PluginLimits};
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// What a caller waits beyond a call's deadline for the instance's own verdict on it.
const VERDICT_GRACE: Duration = Duration::from_secs(5);

/// How a transport is configured.
#[derive(Clone)]
pub struct TransportSettings {
    /// Name, e.g. `orders-nats`.
    pub name: String,
    /// Instances that serve at once; at least 1.
    pub instances: u32,
    /// Configuration, checked against the manifest's schema.
    pub config: Value,
    /// What the operator grants.
    pub grants: Grants,
    /// Reads granted secrets.
    pub secrets: Arc<dyn SecretProvider>,
    /// Durable state; used only if asked for and granted.
    pub kv: Option<Arc<dyn KvStore>>,
    /// Stable id of this installation.
    pub host_id: String,
    /// Generation of this transport's plugin, from 1.
    pub generation: u32,
    /// Bounds before ask and grant.
    pub limits: PluginLimits,
    /// Create what is missing at the peer before the first instance serves. A conflict keeps the transport from opening.
    pub provision: bool,
}

impl TransportSettings {
    /// One instance, no configuration, nothing granted.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            instances: 1,
            config: Value::Null,
            grants: Grants::none(),
            secrets: Arc::new(ProcessSecrets),
            kv: None,
            host_id: "unnamed".to_owned(),
            generation: 1,
            limits: PluginLimits::default(),
            provision: false,
        }
    }
}

impl std::fmt::Debug for TransportSettings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TransportSettings")
            .field("name", &self.name)
            .field("instances", &self.instances)
            .field("generation", &self.generation)
            .finish_non_exhaustive()
    }
}

/// A running transport plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmTransport {
    endpoint: Arc<Endpoint>,
    lanes: Vec<Handle>,
    /// Held while a provisioning call runs: one at a time.
    provisioning: AsyncMutex<()>,
}

/// How the first `open`s go.
pub(crate) type Opening = BoxFuture<'static, Result<(), SandboxError>>;

struct Handle {
    lane: Arc<Lane>,
    inbox: mpsc::Sender<Command>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl std::fmt::Debug for WasmTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmTransport")
            .field("name", &self.endpoint.context.name)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

fn endpoint(plugin: LoadedPlugin, settings: TransportSettings) -> Result<Endpoint, SandboxError> {
    let manifest = plugin.manifest();
    if !manifest.world.serves(World::Transport) {
        let (plugin, found) = (manifest.name.clone(), manifest.world);
        return Err(SandboxError::OtherWorld { plugin, found, asked: World::Transport });
    }
    let config = check_config(manifest, &settings.name, &settings.config)?;
    if settings.provision && !plugin.provisions() {
        let (endpoint, plugin) = (settings.name, manifest.name.clone());
        return Err(SandboxError::NoProvisioning { endpoint, plugin });
    }
    let context = EndpointContext::new(ContextParts {
        name: &settings.name,
        generation: settings.generation,
        plugin: &plugin.0,
        grants: settings.grants,
        limits: settings.limits,
        secret_provider: settings.secrets,
        kv: settings.kv,
    });
    let (host_id, instances) = (settings.host_id, settings.instances.max(1));
    let (provision, provisioned) = (settings.provision, OnceCell::new());
    Ok(Endpoint { context: Arc::new(context), config, host_id, instances, plugin, provision, provisioned })
}

fn open_error(endpoint: &str, error: CallError) -> SandboxError {
    SandboxError::Open { endpoint: endpoint.to_owned(), kind: error.kind, fault: error.fault }
}

impl WasmTransport {
    /// Starts a transport and waits until every instance is open. If one doesn't open, all are ended and the reason is the
    /// error. Must be called inside a tokio runtime.
    pub async fn start(plugin: LoadedPlugin, settings: TransportSettings) -> Result<Arc<Self>, SandboxError> {
        let (transport, opened) = Self::start_supervised(plugin, settings).await?;
        match opened {
            Ok(()) => Ok(transport),
            Err(error) => {
                transport.close(Duration::from_secs(1)).await;
                Err(error)
            }
        }
    }

    /// Starts a transport and keeps it, however the first `open`s went: what found nobody is tried again by itself, what was
    /// refused when [`Self::reopen`] asks for it. Errors only when it can never serve (world, configuration by schema).
    pub async fn start_supervised(
        plugin: LoadedPlugin,
        settings: TransportSettings,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let (transport, opening) = Self::spawn(plugin, settings)?;
        let opened = opening.await;
        Ok((transport, opened))
    }

    /// The same without waiting for the first `open`s: calls wait in the lanes until one is open. The second part tells how
    /// they went, and needn't be awaited.
    pub(crate) fn spawn(
        plugin: LoadedPlugin,
        settings: TransportSettings,
    ) -> Result<(Arc<Self>, Opening), SandboxError> {
        let endpoint = Arc::new(endpoint(plugin, settings)?);
        let mut lanes = Vec::new();
        let mut firsts = Vec::new();
        for number in 0..endpoint.instances {
            let (inbox, commands) = mpsc::channel(LANE_QUEUE);
            let (first, opened) = oneshot::channel();
            let lane = Arc::new(Lane::new(number));
            let task = tokio::spawn(supervise(Arc::clone(&endpoint), Arc::clone(&lane), commands, first));
            lanes.push(Handle { lane, inbox, task: Mutex::new(Some(task)) });
            firsts.push(opened);
        }
        let name = Arc::clone(&endpoint.context.name);
        let opening = async move {
            let mut result = Ok(());
            for first in firsts {
                if let Err(error) = first.await.unwrap_or_else(|_| Err(closed())) {
                    result = Err(open_error(&name, error));
                }
            }
            result
        };
        let transport = Arc::new(Self { endpoint, lanes, provisioning: AsyncMutex::default() });
        Ok((transport, Box::pin(opening)))
    }

    /// Tells of each instance that is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<Losses> {
        self.endpoint.context.losses.subscribe()
    }

    /// Opens one instance with purpose `probe`, asks for its health, and closes it: whether a transport would work, while
    /// another generation serves.
    pub async fn probe(plugin: LoadedPlugin, settings: TransportSettings) -> Result<HealthReport, SandboxError> {
        let endpoint = endpoint(plugin, settings)?;
        let name = Arc::clone(&endpoint.context.name);
        let failed = |error| open_error(&name, error);
        let live = open(&endpoint, 0, OpenPurpose::Probe, Reported::default())
            .await
            .map_err(|failure| failed(failure.into_call_error()))?;
        crate::instance::probe(live, &endpoint.context).await.map_err(failed)
    }

    /// Tries `open` again on every lane that waits or was refused, e.g. after a secret has changed.
    pub fn reopen(&self) {
        for handle in &self.lanes {
            if matches!(handle.lane.status(), LaneStatus::Refused { .. } | LaneStatus::Waiting { .. }) {
                handle.lane.reopen.notify_one();
            }
        }
    }

    /// How each lane is, for `transport show`: a word and the reason.
    pub fn lanes(&self) -> Vec<(&'static str, Option<Fault>)> {
        self.lanes
            .iter()
            .map(|handle| match handle.lane.status() {
                LaneStatus::Opening => ("opening", None),
                LaneStatus::Serving => ("serving", None),
                LaneStatus::Waiting { fault, .. } => ("waiting", Some(fault)),
                LaneStatus::Refused { fault, .. } => ("refused", Some(fault)),
                LaneStatus::Closed => ("closed", None),
            })
            .collect()
    }

    fn handle(&self, lane: u32) -> Option<&Handle> {
        let count = u32::try_from(self.lanes.len()).unwrap_or(u32::MAX).max(1);
        self.lanes.get((lane % count) as usize)
    }

    /// Hands work to a lane and waits for the answer.
    async fn ask(&self, lane: u32, work: Work, deadline: Instant) -> Result<Answer, CallError> {
        let Some(handle) = self.handle(lane) else { return Err(closed()) };
        if let Some(error) = handle.lane.refusal() {
            return Err(error);
        }
        let claim = Arc::new(Claim::default());
        let (reply, mut answer) = oneshot::channel();
        let command = Command { work, deadline, claim: Arc::clone(&claim), reply };
        match timeout_at(deadline, handle.inbox.send(command)).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(closed()),
            Err(_) => return Err(busy()),
        }
        let answered = match timeout_at(deadline, &mut answer).await {
            Ok(answered) => answered,
            Err(_) if claim.give_up() => return Err(busy()),
            // An instance has it: its verdict is due now, and knows more than we do.
            Err(_) => match timeout_at(deadline + VERDICT_GRACE, answer).await {
                Ok(answered) => answered,
                Err(_) => return Err(lost("the instance gave no verdict in time")),
            },
        };
        answered.unwrap_or_else(|_| Err(lost("the instance's task ended without a verdict")))
    }
}

/// The answer when nothing is known.
fn lost(why: &str) -> CallError {
    let fault = Fault { maybe_delivered: true, ..Fault::new("PLUGIN.TRAPPED", why) };
    CallError { kind: ErrorKind::Trapped, fault }
}

#[async_trait]
impl Transport for WasmTransport {
    fn name(&self) -> &str {
        &self.endpoint.context.name
    }

    fn identity(&self) -> PluginIdentity {
        let manifest = self.endpoint.plugin.manifest();
        PluginIdentity {
            plugin: manifest.name.clone(),
            version: manifest.version.clone(),
            digest: self.endpoint.plugin.digest().to_owned(),
            generation: self.endpoint.context.generation,
        }
    }

    fn limits(&self) -> TransportLimits {
        let own = &self.endpoint.context.limits;
        let mut limits = TransportLimits {
            lanes: self.endpoint.instances,
            calls_per_lane: own.calls_per_instance.max(1),
            max_batch: own.max_batch.max(1),
            max_batch_bytes: own.max_batch_bytes,
            max_payload_bytes: None,
        };
        for handle in &self.lanes {
            if let Some(facts) = &*handle.lane.facts.lock() {
                limits.calls_per_lane = limits.calls_per_lane.min(facts.calls);
                limits.max_batch = limits.max_batch.min(facts.max_batch);
                limits.max_payload_bytes =
                    [limits.max_payload_bytes, facts.max_payload_bytes].into_iter().flatten().min();
            }
        }
        limits
    }

    async fn send_batch(
        &self,
        lane: u32,
        batch: Vec<Delivery>,
        timeout: Duration,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let deadline = Instant::now() + timeout;
        let count = batch.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let fits = fitting(&batch, &self.limits());
        // Made here, on the caller's task: the instance's own has enough to do.
        let messages = batch.iter().take(fits).map(convert::message).collect();
        drop(batch);
        match self.ask(lane, Work::Send { batch: messages, sink }, deadline).await? {
            Answer::Outcomes(mut outcomes) => {
                outcomes.resize_with(count, || Outcome::Release(over_the_limit()));
                Ok(outcomes)
            }
            Answer::Health(_) => Err(lost("the instance answered another question")),
        }
    }

    async fn health(&self) -> HealthReport {
        let deadline = Instant::now() + self.endpoint.context.limits.health_timeout;
        let asks = self.lanes.iter().map(|handle| self.lane_health(handle, deadline));
        let reports = futures::future::join_all(asks).await;
        reports
            .into_iter()
            .max_by_key(|report| severity(report.health))
            .unwrap_or(HealthReport { health: Health::Down, detail: Some("no instances".to_owned()) })
    }

    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let _alone = self.provisioning.lock().await;
        let changes = provision(&self.endpoint, apply).await?;
        if apply {
            // What kept it from opening may be there now.
            self.reopen();
        }
        Ok(changes)
    }

    async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.endpoint.context.closing.cancel();
        let tasks: Vec<_> = self.lanes.iter().filter_map(|handle| handle.task.lock().take()).collect();
        let all = futures::future::join_all(tasks);
        tokio::pin!(all);
        if timeout_at(deadline, &mut all).await.is_err() {
            for handle in &self.lanes {
                handle.lane.abort.cancel();
            }
            // An aborted lane only drops its Store.
            let _ = timeout_at(deadline + VERDICT_GRACE, all).await;
        }
    }
}

impl WasmTransport {
    async fn lane_health(&self, handle: &Handle, deadline: Instant) -> HealthReport {
        let number = handle.lane.number;
        if let LaneStatus::Waiting { fault, .. } | LaneStatus::Refused { fault, .. } = handle.lane.status() {
            return down(number, &fault);
        }
        match self.ask(number, Work::Health, deadline).await {
            Ok(Answer::Health(report)) => {
                handle.lane.reported.set(report.clone());
                report
            }
            Ok(Answer::Outcomes(_)) => down(number, &lost("the instance answered another question").fault),
            // A peer that asks to wait isn't down.
            Err(error) if error.kind == ErrorKind::Throttled => {
                HealthReport { health: Health::Blocked, detail: Some(error.fault.reason) }
            }
            // Every instance is at work: that is no trouble.
            Err(error) if error.fault.code == busy().fault.code => {
                HealthReport { health: Health::Degraded, detail: Some(error.fault.reason) }
            }
            Err(error) => down(number, &error.fault),
        }
    }
}

fn down(number: u32, fault: &Fault) -> HealthReport {
    let detail = format!("instance {number}: {}: {}", fault.code, fault.reason);
    HealthReport { health: Health::Down, detail: Some(detail) }
}

fn severity(health: Health) -> u8 {
    match health {
        Health::Ready => 0,
        Health::Degraded => 1,
        Health::Blocked => 2,
        Health::Down => 3,
    }
}

/// How many messages from the front go in one call; at least one.
fn fitting(batch: &[Delivery], limits: &TransportLimits) -> usize {
    let mut bytes = 0_usize;
    batch
        .iter()
        .take(limits.max_batch as usize)
        .enumerate()
        .take_while(|(place, delivery)| {
            bytes = bytes.saturating_add(delivery.payload.len());
            *place == 0 || bytes <= limits.max_batch_bytes as usize
        })
        .count()
}

/// For the rest of a batch that is larger than the instance takes: not tried.
fn over_the_limit() -> Fault {
    Fault::new("PLUGIN.BATCH_LIMIT", "the batch was larger than the instance takes; this message waits for the next")
}

impl Drop for WasmTransport {
    fn drop(&mut self) {
        self.endpoint.context.closing.cancel();
        for handle in &self.lanes {
            handle.lane.abort.cancel();
        }
    }
}
