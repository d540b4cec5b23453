//! A table plugin behind the core's port: its lanes, and what callers see of them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;
use waybill_core::port::provision::{ProvisionChange, ProvisionError};
use waybill_core::port::source::LaneNotices;
use waybill_core::port::table::{ClaimId, Claimed, ContextStats, DeadPage, Ended, Mark, Table, TableClaim, TableFacts};
use waybill_core::port::transport::{CallError, Fault, HealthReport, PluginIdentity};

use crate::convert;
use crate::endpoint::EndpointSpec;
use crate::error::SandboxError;
use crate::instance::{Answer, Endpoint, Lanes, Wants, Work, claim_lost, other_question, provision};
use crate::load::LoadedPlugin;
use crate::manifest::World;

/// A running table plugin. Instances are replaced as they are lost; dropping it ends them at once, without `close`.
pub struct WasmTable {
    lanes: Lanes,
    /// Most claims open at once in one instance.
    claims: u32,
    /// Held while a provisioning call runs: one at a time.
    provisioning: AsyncMutex<()>,
}

impl std::fmt::Debug for WasmTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WasmTable").field("name", &self.lanes.endpoint.name).finish_non_exhaustive()
    }
}

impl WasmTable {
    /// Starts a table and keeps it, however the first `open`s went: what found nobody is tried again by itself. `claims`: most
    /// of them open at once in one instance. Errors only when it can never serve (world, configuration by schema). Must be
    /// called inside a tokio runtime.
    pub async fn start_supervised(
        plugin: LoadedPlugin,
        spec: EndpointSpec,
        claims: u32,
    ) -> Result<(Arc<Self>, Result<(), SandboxError>), SandboxError> {
        let claims = claims.max(1);
        let endpoint = Endpoint::new(plugin, World::Table, spec)?.wanting(Wants::Table { claims });
        let (lanes, opening) = Lanes::start(endpoint);
        let opened = opening.await;
        Ok((Arc::new(Self { lanes, claims, provisioning: AsyncMutex::default() }), opened))
    }

    /// Tries `open` again on every lane that waits or was refused.
    pub fn reopen(&self) {
        self.lanes.reopen();
    }

    /// How each instance is: a word and the reason.
    pub fn lanes(&self) -> Vec<(&'static str, Option<Fault>)> {
        self.lanes.statuses()
    }

    /// Asks any open instance, for what concerns no claim.
    async fn ask_any(&self, work: Work, timeout: Duration) -> Result<Answer, CallError> {
        self.lanes.ask(self.lanes.open_one(), work, Instant::now() + timeout).await
    }
}

#[async_trait]
impl Table for WasmTable {
    fn name(&self) -> &str {
        &self.lanes.endpoint.name
    }

    fn identity(&self) -> PluginIdentity {
        self.lanes.endpoint.identity()
    }

    fn facts(&self) -> TableFacts {
        let own = &self.lanes.endpoint.context.limits;
        let features = self.lanes.features();
        let has = |name: &str| features.iter().any(|feature| feature == name);
        let mut facts = TableFacts {
            instances: self.lanes.endpoint.instances,
            claims_per_instance: self.claims,
            max_batch: own.max_batch.max(1),
            keeps_due: has("keeps-due"),
            keeps_attempts: has("keeps-attempts"),
        };
        for open in self.lanes.facts() {
            facts.claims_per_instance = facts.claims_per_instance.min(open.calls);
            facts.max_batch = facts.max_batch.min(open.max_batch);
        }
        facts
    }

    async fn claim(&self, instance: u32, claim: TableClaim, timeout: Duration) -> Result<Claimed, CallError> {
        let own = &self.lanes.endpoint.context.limits;
        let claim = TableClaim {
            batch: claim.batch.clamp(1, own.max_batch.max(1)),
            batch_bytes: claim.batch_bytes.min(own.max_batch_bytes),
            ..claim
        };
        let work = Work::Claim(convert::table::claim(claim));
        match self.lanes.ask(instance, work, Instant::now() + timeout).await? {
            Answer::Claimed(claimed) => Ok(claimed),
            _ => Err(other_question()),
        }
    }

    async fn commit(
        &self,
        instance: u32,
        claim: ClaimId,
        marks: Vec<Mark>,
        timeout: Duration,
    ) -> Result<Ended, CallError> {
        let ClaimId { session, number } = claim;
        if !self.lanes.serves(instance, session) {
            return Ok(Ended::Lost(claim_lost()));
        }
        let marks = marks.into_iter().map(convert::table::mark).collect();
        let work = Work::Commit { session, claim: number, marks };
        match self.lanes.ask(instance, work, Instant::now() + timeout).await? {
            Answer::Ended(ended) => Ok(ended),
            _ => Err(other_question()),
        }
    }

    async fn stats(&self, timeout: Duration) -> Result<Vec<ContextStats>, CallError> {
        match self.ask_any(Work::Stats, timeout).await? {
            Answer::Stats(stats) => Ok(stats),
            _ => Err(other_question()),
        }
    }

    async fn dead(&self, page: Option<String>, max: u32, timeout: Duration) -> Result<DeadPage, CallError> {
        match self.ask_any(Work::Dead { page, max }, timeout).await? {
            Answer::Dead(page) => Ok(page),
            _ => Err(other_question()),
        }
    }

    async fn replay(&self, ids: Vec<String>, timeout: Duration) -> Result<Vec<bool>, CallError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        match self.ask_any(Work::Replay(ids), timeout).await? {
            Answer::Replayed(replayed) => Ok(replayed),
            _ => Err(other_question()),
        }
    }

    async fn next_notices(&self) -> LaneNotices {
        self.lanes.next_notices().await
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
