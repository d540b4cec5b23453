//! Sagas as the API sees them.
//!
//! A saga's shard follows from its id. What runs is asked of the shard's memory, if this host writes it; what rests at another
//! host, or has ended, is read from its row. Commands for a saga that another host writes are refused, naming that host: they
//! aren't forwarded.
//!
//! | file | holds |
//! |---|---|
//! | `define` | definitions in and out |
//! | `start` | new sagas, repeats of a start |
//! | `lookup` | one saga, by memory or by row |
//! | `history` | its history as an event stream |
//! | `list` | many, memory and rows merged |
//! | `act` | what operators do; signals and replies |
//! | `dead` | stuck ones, as dead letters |
//! | `needs` | what running ones still need of a participant |

mod act;
mod dead;
mod define;
mod history;
mod list;
mod lookup;
mod needs;
mod start;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use waybill_api::saga_definitions::DefinitionView;
use waybill_api::sagas::{SagaService, SagaView, count_by_pages};
use waybill_api::status::{Check, CheckStatus};
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_core::port::saga::{
    Acted, ActedBy, Define, Defined, SagaAct, SagaStats, StartSaga, StartedSaga, StepReply,
};
use waybill_core::port::saga_store::{Expired, SagaStore};
use waybill_core::port::transact::AuditEvent;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::{SagaId, SagaKey};
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaSummary, StoredDefinition};
use waybill_core::saga::state::SagaState;
use waybill_core::time::UnixMillis;

use super::calls::Calls;
use super::definitions::Definitions;
use super::meter::SagaMeter;
use super::{SagaHandle, Shared};
use crate::commit::Condition;
use crate::service;
use crate::shard::{Context, ShardHandle};
use crate::streams::service::Streams;

/// Ended sagas removed or put off in one go.
const EXPIRE_PAGE: usize = 500;
/// Pause between two of those, so that retirement never takes the store for itself.
const EXPIRE_PAUSE: Duration = Duration::from_millis(5);

/// The sagas of this host.
pub(crate) struct Sagas {
    shared: Arc<Shared>,
    shards: Vec<SagaHandle>,
    began: Instant,
}

impl Sagas {
    /// Starts the tasks of all shards. They take their shards over as this host comes to own them.
    pub fn start(
        context: &Arc<Context>,
        store: &Arc<dyn SagaStore>,
        outbox: &[ShardHandle],
        streams: Option<Arc<Streams>>,
    ) -> (Arc<Self>, Vec<JoinHandle<()>>) {
        let shared = Arc::new(Shared {
            context: Arc::clone(context),
            store: Arc::clone(store),
            calls: Calls::new(Arc::clone(context)),
            definitions: Definitions::new(context.config.exclusive),
            meter: SagaMeter::new(Arc::clone(&context.counts)),
            outbox: outbox.to_vec(),
            streams,
        });
        let started = outbox.iter().map(|shard| SagaHandle::start(shard, Arc::clone(&shared)));
        let (shards, tasks) = started.unzip();
        (Arc::new(Self { shared, shards, began: Instant::now() }), tasks)
    }

    /// Begins no new calls, and waits for those under way at most `timeout`.
    pub async fn drain(&self, timeout: Duration) {
        futures::future::join_all(self.shards.iter().map(|shard| shard.release(timeout))).await;
    }

    /// How the sagas of this host are, for readiness.
    pub fn readiness(&self) -> Check {
        let check = |status, detail| Check { name: "sagas".to_owned(), status, detail };
        for shard in &self.shards {
            match shard.condition() {
                Condition::Trouble { error, .. } => {
                    return check(CheckStatus::Fail, format!("{}: {error}", error.code()));
                }
                Condition::Starting | Condition::Observing { .. } | Condition::Owning { .. } | Condition::Released => {}
            }
        }
        let written = self.shards.iter().filter(|shard| shard.is_written()).count();
        check(CheckStatus::Ok, format!("writes those of {written} of {} shards", self.shards.len()))
    }

    /// Whether lists miss nothing that this host is about to write: on a store of its own when it writes all shards; on a shared
    /// one, where others may have some, when the leases of hosts that died before it began are over.
    pub fn is_settled(&self) -> bool {
        let config = &self.shared.context.config;
        let is_old = || !config.exclusive && self.began.elapsed() >= config.owner_ttl * 2;
        self.shards.iter().all(SagaHandle::is_written) || is_old()
    }

    /// The inbox left something at doors.
    pub fn wake_doors(&self) {
        self.shards.iter().for_each(SagaHandle::wake_door);
    }

    /// Another configuration is in force.
    pub fn reconfigured(&self) {
        self.shared.calls.reconfigured();
    }

    /// Removes ended sagas after `keep_done`, and those with an id of an idempotency key not before the key's time is over. They
    /// belong to no host: whichever comes first removes them.
    pub async fn retire(&self) -> Result<(), SagaError> {
        let live = self.shared.context.live();
        let keep_done = live.config.sagas.keep_done;
        let derived_longer = live.config.idempotency.ttl.saturating_sub(keep_done);
        let keep = u64::try_from(keep_done.as_millis()).unwrap_or(u64::MAX);
        loop {
            let before = UnixMillis(self.now().0.saturating_sub(keep));
            let Expired { removed, put_off } =
                self.shared.store.expire_sagas(before, derived_longer, EXPIRE_PAGE).await?;
            self.shared.meter.expired(removed);
            if removed + put_off < EXPIRE_PAGE as u64 {
                return Ok(());
            }
            tokio::time::sleep(EXPIRE_PAUSE).await;
        }
    }

    fn now(&self) -> UnixMillis {
        self.shared.context.clock.now().wall
    }

    fn store(&self) -> &dyn SagaStore {
        self.shared.store.as_ref()
    }

    /// The task of a saga's shard.
    fn shard(&self, key: &SagaKey) -> Result<&SagaHandle, SagaError> {
        let shard = key.shard(self.shared.context.config.shards);
        let missing = || SagaError::Unavailable(format!("shard {shard} isn't one of this host's"));
        self.shards.get(usize::from(shard.0)).ok_or_else(missing)
    }

    fn event(&self, kind: &str, actor: &str, tenant: Option<&Tenant>, object: &str, detail: Value) -> AuditEvent {
        AuditEvent {
            at: self.now(),
            kind: kind.to_owned(),
            actor: actor.to_owned(),
            tenant: tenant.map(ToString::to_string),
            object: object.to_owned(),
            detail,
        }
    }

    /// Writes to the audit trail what has been done. It ends whether or not anybody waits.
    async fn audit(&self, event: AuditEvent) {
        let context = Arc::clone(&self.shared.context);
        let _ended = tokio::spawn(async move { service::audit(&context, &event).await }).await;
    }
}

#[async_trait]
impl SagaService for Sagas {
    async fn define(&self, define: Define) -> Result<Defined, SagaError> {
        self.put_definition(define).await
    }
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<DefinitionView, SagaError> {
        self.show_definition(name, version).await
    }
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, SagaError> {
        Ok(self.store().definitions(name, cursor, limit).await?)
    }
    async fn start(&self, start: StartSaga) -> Result<StartedSaga, SagaError> {
        self.start_saga(start).await
    }
    async fn saga(&self, tenant: &Tenant, id: &SagaId) -> Result<SagaView, SagaError> {
        self.show_saga(tenant, id).await
    }
    async fn at_rest(&self, tenant: &Tenant, id: &SagaId, within: Duration) -> Result<Option<SagaState>, SagaError> {
        self.rests(&SagaKey { tenant: tenant.clone(), id: id.clone() }, within).await
    }
    async fn sagas(
        &self,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, SagaError> {
        self.list_sagas(filter, cursor, limit).await
    }
    async fn count(&self, filter: &SagaFilter) -> Result<u64, SagaError> {
        match self.count_in_memory(filter).await {
            Some(count) => Ok(count),
            None => count_by_pages(self, filter).await,
        }
    }
    async fn act(&self, tenant: &Tenant, id: &SagaId, act: SagaAct, by: ActedBy) -> Result<Acted, SagaError> {
        self.do_act(tenant, id, act, by).await
    }
    async fn signal(
        &self,
        tenant: &Tenant,
        id: &SagaId,
        name: &str,
        data: Json,
        by: ActedBy,
    ) -> Result<Acted, SagaError> {
        self.send_signal(tenant, id, name, data, by).await
    }
    async fn reply(&self, tenant: &Tenant, reply: StepReply) -> Result<Acted, SagaError> {
        self.take_reply(tenant, reply).await
    }
    fn saga_stats(&self) -> SagaStats {
        let mut all = SagaStats::default();
        for shard in &self.shards {
            let stats = shard.stats();
            all.running += stats.running;
            all.running_bytes += stats.running_bytes;
            all.paused += stats.paused;
            all.stuck += stats.stuck;
            all.approvals += stats.approvals;
            all.timers += stats.timers;
            all.uncommitted += stats.uncommitted;
        }
        all
    }
}
