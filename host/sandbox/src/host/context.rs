//! What all instances of one endpoint share: who it is, what it may reach, where its log and measurements go.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustls::ClientConfig;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use waybill_core::changes::ChangeKind;
use waybill_core::endpoint::{Grants, PluginLimits};
use waybill_core::port::kv::{KvQuota, KvStore};
use waybill_core::port::tasks::Tasks;
use waybill_core::port::transport::Fault;

use super::log::LogGate;
use super::metrics::GuestMetrics;
use super::redact::Redactor;
use super::secrets::SecretProvider;
use crate::changes::ChangeReporter;
use crate::error::SandboxError;
use crate::grants::EgressPolicy;
use crate::http::HttpClient;
use crate::load::Loaded;
use crate::log_book::LogPage;
use crate::meters::{Bound, Meters};

/// A task that failed is begun again after this, where nobody keeps account of failures.
const TASK_PAUSE: Duration = Duration::from_secs(1);

/// Shared by the instances of one generation of one endpoint.
pub(crate) struct EndpointContext {
    pub(crate) name: Arc<str>,
    pub(crate) plugin: Arc<str>,
    /// Which load of the plugin this is, counted from 1.
    pub(crate) generation: u32,
    pub(crate) limits: PluginLimits,
    pub(crate) policy: Arc<EgressPolicy>,
    pub(crate) http: HttpClient,
    /// TLS settings with the platform's roots.
    pub(crate) tls: Arc<ClientConfig>,
    /// The manifest asks for `wasi:http`.
    pub(crate) wasi_http: bool,
    /// Secrets both asked for and granted: name -> source.
    pub(crate) secrets: BTreeMap<String, String>,
    pub(crate) secret_provider: Arc<dyn SecretProvider>,
    /// Durable state, when both asked for and granted.
    pub(crate) kv: Option<(Arc<dyn KvStore>, KvQuota)>,
    pub(crate) log: LogGate,
    /// Its latest lines, for who follows them.
    pub(crate) log_page: Arc<LogPage>,
    pub(crate) redactor: Redactor,
    pub(crate) guest_metrics: GuestMetrics,
    pub(crate) meters: Arc<Meters>,
    /// Instances that were lost.
    pub(crate) losses: watch::Sender<Losses>,
    /// Instances that lanes opened, over all generations of a slot.
    pub(crate) openings: Arc<watch::Sender<u64>>,
    /// Cancelled when the endpoint is to end.
    pub(crate) closing: CancellationToken,
    tasks: Option<Arc<dyn Tasks>>,
    told: ChangeReporter,
    /// Lanes whose breaker is open.
    broken: AtomicUsize,
}

/// Instances of an endpoint that trapped, ran out of time or broke the contract.
#[derive(Clone, Debug, Default)]
pub(crate) struct Losses {
    pub(crate) count: u64,
    /// What became of the last.
    pub(crate) last: Option<Fault>,
}

/// What a context is made of.
pub(crate) struct ContextParts<'a> {
    pub(crate) name: &'a str,
    pub(crate) generation: u32,
    pub(crate) plugin: &'a Loaded,
    pub(crate) grants: Grants,
    pub(crate) limits: PluginLimits,
    pub(crate) secret_provider: Arc<dyn SecretProvider>,
    pub(crate) kv: Option<Arc<dyn KvStore>>,
    pub(crate) openings: Arc<watch::Sender<u64>>,
}

impl EndpointContext {
    pub(crate) fn new(parts: ContextParts<'_>) -> Result<Self, SandboxError> {
        let ContextParts { name, generation, plugin, grants, limits, secret_provider, kv, openings } = parts;
        let manifest = &plugin.inspection.manifest;
        let limits = limits.tighten(&manifest.ask.limits, &grants.limits);
        let ask = manifest.ask.net.iter().chain(&manifest.ask.http).cloned().collect();
        let shared = &plugin.sandbox.0;
        let policy = EgressPolicy::new(name, ask, &grants, Arc::clone(&shared.resolver))?;
        let policy = Arc::new(policy.beside(shared.own.clone()));
        let asked = |secret: &String| manifest.ask.secrets.contains(secret);
        let meters = Arc::new(Meters::new(name, &manifest.name, generation));
        Ok(Self {
            name: Arc::from(name),
            plugin: Arc::from(manifest.name.as_str()),
            generation,
            http: HttpClient::new(Arc::clone(&policy), &shared.tls, &limits, Arc::clone(&meters)),
            tls: shared.tls.platform(),
            policy,
            wasi_http: manifest.ask.wasi_http,
            secrets: grants.secrets.into_iter().filter(|(secret, _)| asked(secret)).collect(),
            secret_provider,
            kv: kv.zip(grants.kv).filter(|_| manifest.ask.kv),
            log: LogGate::new(limits.log_per_second),
            log_page: shared.log_book.page(name),
            redactor: Redactor::default(),
            guest_metrics: GuestMetrics::new(name),
            meters,
            limits,
            losses: watch::Sender::new(Losses::default()),
            openings,
            closing: CancellationToken::new(),
            tasks: shared.tasks.clone(),
            told: shared.changes.clone(),
            broken: AtomicUsize::new(0),
        })
    }

    /// Notes that a task of the endpoint panicked in the host; answers how long to wait before it is begun again.
    pub(crate) fn task_failed(&self, task: &'static str, panic: &(dyn Any + Send)) -> Duration {
        let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
        let reason = format!("{}: {}", self.name, text.unwrap_or("it panicked"));
        match &self.tasks {
            Some(tasks) => tasks.failed(task, reason),
            None => {
                tracing::error!(task, reason, "a background task failed and is begun again");
                TASK_PAUSE
            }
        }
    }

    /// Notes that an instance was lost.
    pub(crate) fn lost(&self, fault: &Fault) {
        self.losses.send_modify(|losses| {
            losses.count = losses.count.saturating_add(1);
            losses.last = Some(fault.clone());
        });
    }

    /// The breaker of one more lane is open.
    pub(crate) fn breaker_opened(&self, fault: &Fault) {
        if self.broken.fetch_add(1, Ordering::AcqRel) == 0 {
            self.told.tell(ChangeKind::BreakerOpened, &self.name, |change| {
                change.code(&fault.code).detail(&format!("generation {}: {}", self.generation, fault.reason))
            });
        }
    }

    /// That of a lane is closed again, or the lane ends.
    pub(crate) fn breaker_closed(&self) {
        // One that ends has closed nothing: another generation serves, or the host stops.
        if self.broken.fetch_sub(1, Ordering::AcqRel) == 1 && !self.closing.is_cancelled() {
            let generation = format!("generation {}", self.generation);
            self.told.tell(ChangeKind::BreakerClosed, &self.name, |change| change.detail(&generation));
        }
    }

    /// Notes that a log entry was dropped for the rate.
    pub(crate) fn log_dropped(&self) {
        self.meters.log_dropped.increment(1);
        self.meters.hit(Bound::Log);
    }

    /// Notes that something was refused: counted, and logged within the log rate.
    pub(crate) fn denied(&self, why: &str) {
        self.meters.denied.increment(1);
        if self.log.admit() {
            tracing::warn!(target: "waybill::plugin", transport = %self.name, plugin = %self.plugin, generation = self.generation, "denied: {why}");
            self.note(None, format!("denied: {why}"));
        }
    }

    /// Keeps what the host says of the plugin among the plugin's own lines.
    pub(crate) fn note(&self, instance: Option<u32>, message: String) {
        self.log_page.note(self.generation, instance, message);
    }
}
