//! A transport plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{Mutex as AsyncMutex, watch};
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::transport::{
    CallError, Fault, HealthReport, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport, TransportLimits,
};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::host::Losses;
use crate::instance::{Answer, Endpoint, Lanes, Opening, Work, other_question, probe_endpoint, provision};
use crate::load::LoadedPlugin;
use crate::manifest::World;
use crate::tally::Tally;

/// The feature of [`TransportLimits::key_runs`].
const KEY_RUNS: &str = "key-runs";

/// A running transport plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmTransport {
    lanes: Lanes,
    /// Held while a provisioning call runs: one at a time.
    provisioning: AsyncMutex<()>,
}

impl std::fmt::Debug for WasmTransport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmTransport")
            .field("name", &self.lanes.endpoint.name)
            .field("lanes", &self.lanes.len())
            .finish_non_exhaustive()
    }
}

impl WasmTransport {
    /// Starts a transport and waits until every instance is open. If one doesn't open, all are ended and the reason is the
    /// error. Must be called inside a tokio runtime.
    pub async fn start(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<Arc<Self>, SandboxError> {
        let (transport, opened) = Self::start_supervised(plugin, spec).await?;
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
        spec: EndpointSpec,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let (transport, opening) = Self::spawn(plugin, spec)?;
        let opened = opening.await;
        Ok((transport, opened))
    }

    /// The same without waiting for the first `open`s: calls wait in the lanes until one is open. The second part tells how
    /// they went, and needn't be awaited.
    pub(crate) fn spawn(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<(Arc<Self>, Opening), SandboxError> {
        let (lanes, opening) = Lanes::start(Endpoint::new(plugin, World::Transport, spec)?);
        Ok((Arc::new(Self { lanes, provisioning: AsyncMutex::default() }), opening))
    }

    /// What is counted of it.
    pub(crate) fn tally(&self) -> Arc<Tally> {
        Arc::clone(&self.lanes.endpoint.context.meters.tally)
    }

    /// Tells of each instance that is lost.
    pub(crate) fn losses(&self) -> watch::Receiver<Losses> {
        self.lanes.endpoint.context.losses.subscribe()
    }

    /// Opens one instance with purpose `probe`, asks for its health, and closes it: whether a transport would work, while
    /// another generation serves.
    pub async fn probe(plugin: LoadedPlugin, spec: EndpointSpec) -> Result<HealthReport, SandboxError> {
        let endpoint = Endpoint::new(plugin, World::Transport, spec)?;
        probe_endpoint(&endpoint).await
    }

    /// Takes no more calls; those under way go on.
    pub(crate) fn retire(&self) {
        self.lanes.retire();
    }

    /// Tries `open` again on every lane that waits or was refused, e.g. after a secret has changed.
    pub fn reopen(&self) {
        self.lanes.reopen();
    }

    /// How each lane is, for `transport show`: a word and the reason.
    pub fn lanes(&self) -> Vec<(&'static str, Option<Fault>)> {
        self.lanes.statuses()
    }
}

#[async_trait]
impl Transport for WasmTransport {
    fn name(&self) -> &str {
        &self.lanes.endpoint.name
    }

    fn identity(&self) -> PluginIdentity {
        self.lanes.endpoint.identity()
    }

    fn limits(&self) -> TransportLimits {
        let own = &self.lanes.endpoint.context.limits;
        let mut limits = TransportLimits {
            lanes: self.lanes.endpoint.instances,
            calls_per_lane: own.calls_per_instance.max(1),
            max_batch: own.max_batch.max(1),
            max_batch_bytes: own.max_batch_bytes,
            max_payload_bytes: None,
            key_runs: false,
        };
        for (place, facts) in self.lanes.facts().enumerate() {
            let keeps_runs = facts.features.iter().any(|feature| feature == KEY_RUNS);
            // Which lane a call goes to isn't known here.
            limits.key_runs = keeps_runs && (place == 0 || limits.key_runs);
            limits.calls_per_lane = limits.calls_per_lane.min(facts.calls);
            limits.max_batch = limits.max_batch.min(facts.max_batch);
            limits.max_payload_bytes = [limits.max_payload_bytes, facts.max_payload_bytes].into_iter().flatten().min();
        }
        limits
    }

    async fn send_batch(
        &self,
        call: SendCall,
        batch: Vec<Delivery>,
        sink: Arc<dyn OutcomeSink>,
    ) -> Result<Vec<Outcome>, CallError> {
        let deadline = Instant::now() + call.timeout.min(self.lanes.endpoint.context.limits.call_time);
        let count = batch.len();
        if count == 0 {
            return Ok(Vec::new());
        }
        let fits = fitting(&batch, &self.limits());
        // Made here, on the caller's task: the instance's own has enough to do.
        let ids = &self.lanes.endpoint.message_ids;
        let messages = batch.iter().take(fits).map(|delivery| convert::message(delivery, ids)).collect();
        drop(batch);
        let work = Work::Send { batch: messages, sink, traceparent: call.traceparent };
        match self.lanes.ask(call.lane, work, deadline).await? {
            Answer::Outcomes(mut outcomes) => {
                outcomes.resize_with(count, || Outcome::Release(over_the_limit()));
                Ok(outcomes)
            }
            _ => Err(other_question()),
        }
    }

    async fn health(&self) -> HealthReport {
        self.lanes.health().await
    }

    async fn provision(&self, apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        let _alone = self.provisioning.lock().await;
        let changes = provision(&self.lanes.endpoint, apply).await?;
        if apply {
            // What kept it from opening may be there now.
            self.reopen();
        }
        Ok(changes)
    }

    async fn close(&self, timeout: Duration) {
        self.lanes.close(timeout).await;
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
    Fault::new(
        Code::PLUGIN_BATCH_LIMIT,
        "the batch was larger than the instance takes; this message waits for the next",
    )
}
