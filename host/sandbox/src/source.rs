//! A source plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::source::{LaneNotices, Pulled, Settled, Source, SourceFacts, SourceSettlement, SourceWants};
use waybill_core::port::transport::{CallError, ErrorKind, Fault, HealthReport, PluginIdentity};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::instance::{Answer, Endpoint, Lanes, Wants, Work, closed, other_question, probe_endpoint, provision};
use crate::limits::PULL_MARGIN;
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// A running source plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmSource {
    lanes: Lanes,
    /// Nothing is pulled any more.
    quiescing: AtomicBool,
    /// Held while a provisioning call runs: one at a time.
    provisioning: AsyncMutex<()>,
}

impl std::fmt::Debug for WasmSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmSource").field("name", &self.lanes.endpoint.name).finish_non_exhaustive()
    }
}

impl WasmSource {
    /// Starts a source and keeps it, however the first `open`s went: what found nobody is tried again by itself. Errors only
    /// when it can never serve (world, configuration by schema). Must be called inside a tokio runtime.
    pub async fn start_supervised(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        wants: SourceWants,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let endpoint = Endpoint::new(plugin, World::Source, spec)?.wanting(Wants::Source(wants));
        let (lanes, opening) = Lanes::start(endpoint);
        let opened = opening.await;
        let source = Self { lanes, quiescing: AtomicBool::new(false), provisioning: AsyncMutex::default() };
        Ok((Arc::new(source), opened))
    }

    /// Opens one instance with purpose `probe`, asks for its health, and closes it: whether a source would work, while
    /// another generation serves. Nothing is consumed.
    pub async fn probe(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        wants: SourceWants,
    ) -> Result<HealthReport, SandboxError> {
        let endpoint = Endpoint::new(plugin, World::Source, spec)?.wanting(Wants::Source(wants));
        probe_endpoint(&endpoint).await
    }

    /// What is missing at the broker; with `apply` it is created. One call at a time.
    pub async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let _alone = self.provisioning.lock().await;
        let changes = provision(&self.lanes.endpoint, apply).await?;
        if apply {
            // What kept it from opening may be there now.
            self.reopen();
        }
        Ok(changes)
    }

    /// The same of a source that isn't open: nothing is fetched.
    pub async fn provision_closed(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        wants: SourceWants,
        apply: bool,
    ) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let endpoint = Endpoint::new(plugin, World::Source, spec).map_err(|error| {
            let fault = Fault::new(error.code(), error.to_string());
            ProvisionError::Failed(CallError { kind: ErrorKind::InvalidConfig, fault })
        })?;
        provision(&endpoint.wanting(Wants::Source(wants)), apply).await
    }

    /// How each lane is: a word and the reason.
    pub fn lanes(&self) -> Vec<(&'static str, Option<Fault>)> {
        self.lanes.statuses()
    }

    /// Tries `open` again on every lane that waits or was refused.
    pub fn reopen(&self) {
        self.lanes.reopen();
    }
}

#[async_trait]
impl Source for WasmSource {
    fn name(&self) -> &str {
        &self.lanes.endpoint.name
    }

    fn identity(&self) -> PluginIdentity {
        self.lanes.endpoint.identity()
    }

    fn facts(&self) -> SourceFacts {
        let most = self.lanes.endpoint.context.limits.calls_per_instance.max(1);
        let calls_per_lane = self.lanes.facts().map(|facts| facts.calls).fold(most, u32::min);
        let settle_within = self.lanes.facts().filter_map(|facts| facts.settle_within).max();
        let features = self.lanes.features();
        SourceFacts { lanes: self.lanes.endpoint.instances, calls_per_lane, features, settle_within }
    }

    async fn pull(&self, lane: u32, max: u32, max_bytes: u32, wait: Duration) -> Result<Pulled, CallError> {
        if self.quiescing.load(Ordering::Acquire) {
            return Err(closed());
        }
        let own = &self.lanes.endpoint.context.limits;
        let (max, max_bytes) = (max.clamp(1, own.max_batch.max(1)), max_bytes.min(own.max_batch_bytes));
        let deadline = Instant::now() + wait + PULL_MARGIN;
        let work = Work::Pull { max, max_bytes, wait: convert::to_millis(wait) };
        match self.lanes.ask(lane, work, deadline).await? {
            Answer::Pulled(pulled) => Ok(pulled),
            _ => Err(other_question()),
        }
    }

    async fn settle(
        &self,
        lane: u32,
        session: u64,
        items: Vec<SourceSettlement>,
        timeout: Duration,
    ) -> Result<Vec<Settled>, CallError> {
        if !self.lanes.serves(lane, session) {
            return Ok(vec![Settled::Lost; items.len()]);
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + timeout;
        let items = items.into_iter().map(convert::source::settlement).collect();
        match self.lanes.ask(lane, Work::Settle { session, items }, deadline).await? {
            Answer::Settled(settled) => Ok(settled),
            _ => Err(other_question()),
        }
    }

    async fn next_notices(&self) -> LaneNotices {
        self.lanes.next_notices().await
    }

    fn resume_after(&self, position: String) {
        if let Wants::Source(wants) = &mut *self.lanes.endpoint.wants.lock() {
            wants.resume_after = Some(position);
        }
    }

    async fn quiesce(&self, timeout: Duration) -> Result<(), CallError> {
        self.quiescing.store(true, Ordering::Release);
        let mut asked = self.lanes.ask_all(|| Work::Quiesce, Instant::now() + timeout).await;
        asked.find_map(Result::err).map_or(Ok(()), Err)
    }

    async fn health(&self) -> HealthReport {
        self.lanes.health().await
    }

    async fn close(&self, timeout: Duration) {
        self.lanes.close(timeout).await;
    }
}
