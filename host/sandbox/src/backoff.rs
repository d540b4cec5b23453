//! Retry policies as components.
//!
//! Every decision runs in a fresh instance with a fixed amount of fuel, so nothing is kept between two of them and the same
//! arguments get the same answer. What traps, or takes too long, counts as no opinion.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use metrics::{Counter, Gauge, counter, gauge};
use serde_json::Value;
use tokio::sync::watch;
use wasmtime::Store;
use waybill_bindings::backoff::exports::waybill::plugin::backoff_api::{
    Attempt, Decision, FailureKind, Guest, WorkKind,
};
use waybill_core::code::Code;
use waybill_core::endpoint::HOSTCALL_BYTES_MIN;
use waybill_core::port::backoff::{self, BackoffDecision, BackoffPolicy, FailedAttempt};
use waybill_core::port::transport::{ErrorKind, Fault};

use crate::config::check_config;
use crate::convert::{millis, to_millis};
use crate::error::{SandboxError, one_line};
use crate::host::Losses;
use crate::limits::{
    BACKOFF_DELAY_MAX, BACKOFF_FUEL, BACKOFF_TICKS, BACKOFF_VALIDATE_FUEL, FAULT_REASON_BYTES_MAX, HANDLES_MAX,
};
use crate::load::{Linked, LoadedPlugin};
use crate::log_book::LogPage;
use crate::manifest::World;
use crate::pure::PureState;
use crate::text::cut_owned;

/// Longest a decision may wait for its thread, beside its fuel: the budget is CPU, this is the end of patience.
const DECISION_TIMEOUT: Duration = Duration::from_secs(2);

/// A configured retry policy.
pub struct WasmBackoff {
    name: String,
    plugin: LoadedPlugin,
    config: String,
    decisions: Counter,
    failures: Counter,
    memory: Gauge,
    /// Decisions whose instance was lost.
    losses: watch::Sender<Losses>,
    generation: u32,
    /// What the host says of it, for who follows it: a policy has nothing to write with.
    log_page: Arc<LogPage>,
}

impl std::fmt::Debug for WasmBackoff {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmBackoff").field("name", &self.name).finish_non_exhaustive()
    }
}

impl WasmBackoff {
    /// Checks the configuration by the manifest's schema, then by the policy itself.
    pub async fn start(plugin: LoadedPlugin, name: &str, config: &Value) -> Result<Self, SandboxError> {
        let policy = Self::new(plugin, name, config, 1)?;
        policy.validate().await?;
        Ok(policy)
    }

    /// Checks the configuration by the manifest's schema only.
    pub(crate) fn new(plugin: LoadedPlugin, name: &str, config: &Value, generation: u32) -> Result<Self, SandboxError> {
        let manifest = plugin.manifest();
        if manifest.world != World::Backoff {
            let (plugin, found) = (manifest.name.clone(), manifest.world);
            return Err(SandboxError::OtherWorld { plugin, found, asked: World::Backoff });
        }
        let config = check_config(manifest, name, config)?;
        let labels = [("policy", name.to_owned()), ("plugin", manifest.name.clone())];
        Ok(Self {
            name: name.to_owned(),
            config,
            decisions: counter!("waybill_backoff_decisions_total", &labels),
            failures: counter!("waybill_backoff_failures_total", &labels),
            memory: gauge!("waybill_backoff_memory_bytes", &labels),
            losses: watch::Sender::new(Losses::default()),
            generation,
            log_page: plugin.0.sandbox.0.log_book.page(name),
            plugin,
        })
    }

    /// Tells of each decision that trapped, ran out of its fuel or didn't come in time.
    pub(crate) fn losses(&self) -> watch::Receiver<Losses> {
        self.losses.subscribe()
    }

    /// Has the policy itself check its configuration.
    pub(crate) async fn validate(&self) -> Result<(), SandboxError> {
        let refused = |kind, code: Code, reason: String| SandboxError::Open {
            endpoint: self.name.clone(),
            kind,
            fault: Fault::new(code, cut_owned(reason, FAULT_REASON_BYTES_MAX)),
        };
        let answer = async {
            let (mut store, guest) = self.instance(BACKOFF_VALIDATE_FUEL).await?;
            guest.call_validate(&mut store, &self.config).await
        }
        .await;
        match answer {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(refused(ErrorKind::InvalidConfig, Code::PLUGIN_CONFIG, reason)),
            Err(error) => Err(refused(ErrorKind::Trapped, Code::PLUGIN_TRAPPED, one_line(&error))),
        }
    }

    async fn instance(&self, fuel: u64) -> wasmtime::Result<(Store<PureState>, Guest)> {
        let Linked::Backoff { pre, guest } = &self.plugin.0.linked else {
            return Err(wasmtime::format_err!("the plugin isn't a retry policy"));
        };
        let mut store = Store::new(pre.engine(), PureState::new(self.memory.clone()));
        store.limiter(|state| &mut state.limiter);
        store.set_hostcall_fuel(HOSTCALL_BYTES_MIN);
        store.set_max_component_handles(HANDLES_MAX);
        // Instantiation has fuel of its own, so that what is left for the call is always the same.
        store.set_fuel(BACKOFF_VALIDATE_FUEL)?;
        store.set_epoch_deadline(BACKOFF_TICKS);
        store.epoch_deadline_trap();
        let instance = pre.instantiate_async(&mut store).await?;
        let guest = guest.load(&mut store, &instance)?;
        store.set_fuel(fuel)?;
        Ok((store, guest))
    }

    /// Decides, or says why it didn't (a trap, no fuel left, no answer in time): what `decide` turns into `fallback`. For checks
    /// of a policy.
    pub async fn try_decide(&self, attempt: &FailedAttempt) -> Result<BackoffDecision, String> {
        match tokio::time::timeout(DECISION_TIMEOUT, self.ask(attempt)).await {
            Ok(decision) => decision.map_err(|error| one_line(&error)),
            Err(_) => Err("no answer in time".to_owned()),
        }
    }

    async fn ask(&self, attempt: &FailedAttempt) -> wasmtime::Result<BackoffDecision> {
        let (mut store, guest) = self.instance(BACKOFF_FUEL).await?;
        let decision = guest.call_decide(&mut store, &self.config, &to_guest(attempt)).await?;
        Ok(match decision {
            Decision::Delay(ms) => BackoffDecision::Delay(millis(ms).min(BACKOFF_DELAY_MAX)),
            Decision::Dead(reason) => BackoffDecision::Dead(cut_owned(reason, FAULT_REASON_BYTES_MAX)),
            Decision::Pause(reason) => BackoffDecision::Pause(cut_owned(reason, FAULT_REASON_BYTES_MAX)),
            Decision::Fallback => BackoffDecision::Fallback,
        })
    }
}

#[async_trait]
impl BackoffPolicy for WasmBackoff {
    fn name(&self) -> &str {
        &self.name
    }

    async fn decide(&self, attempt: &FailedAttempt) -> BackoffDecision {
        self.decisions.increment(1);
        let cause = match self.try_decide(attempt).await {
            Ok(decision) => return decision,
            Err(cause) => cause,
        };
        self.failures.increment(1);
        self.losses.send_modify(|losses| {
            losses.count = losses.count.saturating_add(1);
            losses.last = Some(Fault::new(Code::PLUGIN_TRAPPED, cause.clone()));
        });
        tracing::warn!(target: "waybill::plugin", policy = %self.name, %cause, "a retry policy failed; the built-in formula decides");
        let told = format!("it failed, and the built-in formula decides: {}: {cause}", Code::PLUGIN_TRAPPED);
        self.log_page.note(self.generation, None, told);
        BackoffDecision::Fallback
    }
}

fn to_guest(attempt: &FailedAttempt) -> Attempt {
    Attempt {
        work: match attempt.work {
            backoff::WorkKind::Delivery => WorkKind::Delivery,
            backoff::WorkKind::Step => WorkKind::Step,
            backoff::WorkKind::Compensation => WorkKind::Compensation,
            backoff::WorkKind::Inbox => WorkKind::Inbox,
        },
        kind: match attempt.kind {
            backoff::FailureKind::Retryable => FailureKind::Retryable,
            backoff::FailureKind::Permanent => FailureKind::Permanent,
            backoff::FailureKind::Unavailable => FailureKind::Unavailable,
            backoff::FailureKind::Throttled => FailureKind::Throttled,
            backoff::FailureKind::TimedOut => FailureKind::TimedOut,
            backoff::FailureKind::Trapped => FailureKind::Trapped,
        },
        code: attempt.fault.code.clone(),
        reason: attempt.fault.reason.clone(),
        maybe_delivered: attempt.fault.maybe_delivered,
        number: attempt.number,
        max_attempts: attempt.max_attempts,
        elapsed: to_millis(attempt.elapsed),
        age: to_millis(attempt.age),
        previous_delay: attempt.previous_delay.map(to_millis),
        after: attempt.fault.after.map(to_millis),
        tenant: attempt.tenant.clone(),
        topic: attempt.topic.clone(),
        endpoint: attempt.endpoint.clone(),
        now: attempt.now.0,
        deadline: attempt.deadline.map(|at| at.0),
        random: attempt.random,
        attributes: attempt.fault.attributes.clone(),
    }
}
