//! A source plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::time::Instant;
use waybill_core::port::source::{Pulled, Settled, Source, SourceFacts, SourceSettlement};
use waybill_core::port::transport::{CallError, HealthReport, PluginIdentity};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::instance::{Answer, Endpoint, Lanes, Work, other_question};
use crate::limits::PULL_MARGIN;
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// A running source plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmSource {
    lanes: Lanes,
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
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let (lanes, opening) = Lanes::start(Endpoint::new(plugin, World::Source, spec)?);
        let opened = opening.await;
        Ok((Arc::new(Self { lanes }), opened))
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
        let mut each = self.lanes.facts();
        let mut features = each.next().map(|facts| facts.features).unwrap_or_default();
        for facts in each {
            features.retain(|feature| facts.features.contains(feature));
        }
        SourceFacts { lanes: self.lanes.endpoint.instances, features }
    }

    async fn pull(&self, lane: u32, max: u32, max_bytes: u32, wait: Duration) -> Result<Pulled, CallError> {
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

    async fn health(&self) -> HealthReport {
        self.lanes.health().await
    }

    async fn close(&self, timeout: Duration) {
        self.lanes.close(timeout).await;
    }
}
