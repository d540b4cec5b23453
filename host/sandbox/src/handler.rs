//! A handler plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::Instant;
use waybill_core::port::handler::{Handler, HandlerLimits, Inbound, Verdict, VerdictSink};
use waybill_core::port::transport::{CallError, HealthReport, PluginIdentity};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::host::Losses;
use crate::instance::{Answer, Endpoint, Lanes, Opening, Work, other_question, probe_endpoint};
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::tally::Tally;

/// A running handler plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmHandler {
    lanes: Lanes,
}

impl std::fmt::Debug for WasmHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmHandler").field("name", &self.lanes.endpoint.name).finish_non_exhaustive()
    }
}

impl WasmHandler {
    /// Starts a handler and keeps it, however the first `open`s went: what found nobody is tried again by itself. Errors only
    /// when it can never serve (world, configuration by schema). Must be called inside a tokio runtime.
    pub async fn start_supervised(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let (handler, opening) = Self::spawn(plugin, spec)?;
        let opened = opening.await;
        Ok((handler, opened))
    }

    /// The same without waiting for the first `open`s: calls wait in the lanes until one is open. The second part tells how they
    /// went, and needn't be awaited.
    pub(crate) fn spawn(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<(Arc<Self>, Opening), SandboxError> {
        let (lanes, opening) = Lanes::start(Endpoint::new(plugin, World::Handler, spec)?);
        Ok((Arc::new(Self { lanes }), opening))
    }

    /// Opens one instance with purpose `probe` and closes it: whether a handler would work, while another generation serves.
    pub(crate) async fn probe(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<HealthReport, SandboxError> {
        probe_endpoint(&Endpoint::new(plugin, World::Handler, spec)?).await
    }

    /// What is counted of it.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.lanes.endpoint.context.meters.tally)
    }

    /// Tells of each instance that is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<Losses> {
        self.lanes.endpoint.context.losses.subscribe()
    }

    /// Takes no more calls; those under way go on.
    pub(crate) fn retire(&self) {
        self.lanes.retire();
    }

    /// Tries `open` again on every lane that waits or was refused.
    pub fn reopen(&self) {
        self.lanes.reopen();
    }
}

#[async_trait]
impl Handler for WasmHandler {
    fn name(&self) -> &str {
        &self.lanes.endpoint.name
    }

    fn identity(&self) -> PluginIdentity {
        self.lanes.endpoint.identity()
    }

    fn limits(&self) -> HandlerLimits {
        let own = &self.lanes.endpoint.context.limits;
        let mut limits = HandlerLimits {
            lanes: self.lanes.endpoint.instances,
            calls_per_lane: own.calls_per_instance.max(1),
            max_batch: own.max_batch.max(1),
            max_batch_bytes: own.max_batch_bytes,
        };
        for facts in self.lanes.facts() {
            limits.calls_per_lane = limits.calls_per_lane.min(facts.calls);
            limits.max_batch = limits.max_batch.min(facts.max_batch);
        }
        limits
    }

    async fn handle(
        &self,
        lane: u32,
        batch: Vec<Inbound>,
        timeout: Duration,
        sink: Arc<dyn VerdictSink>,
    ) -> Result<Vec<Verdict>, CallError> {
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let deadline = Instant::now() + timeout;
        let batch = batch.into_iter().map(convert::handler::inbound).collect();
        match self.lanes.ask(lane, Work::Handle { batch, sink }, deadline).await? {
            Answer::Verdicts(verdicts) => Ok(verdicts),
            _ => Err(other_question()),
        }
    }

    fn health(&self) -> HealthReport {
        self.lanes.health_seen()
    }

    async fn close(&self, timeout: Duration) {
        self.lanes.close(timeout).await;
    }
}
