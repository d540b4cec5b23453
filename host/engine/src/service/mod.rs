//! The outbox as the API sees it.
//!
//! | file | holds |
//! |---|---|
//! | `enqueue` | direct messages and business transactions |
//! | `doorsteps` | which messages of a transaction lie on doorsteps already |
//! | `views` | one message or a list of them, as people see them |
//! | `dead` | dead letters, one by one |
//! | `dead_list` | dead letters of both kinds, as a list, counted, grouped |
//! | `operations` | bulk acts that survive a crash |
//! | `workers` | claims and settlements of workers outside |
//! | `provision` | what is missing at a transport's peer |
//! | `quarantine` | rows that could not be read |
//! | `stats` | depths, what is blocked, transports, readiness |

mod dead;
mod dead_list;
mod doorsteps;
mod enqueue;
pub(crate) mod operations;
mod provision;
mod quarantine;
mod stats;
mod views;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::Value;
use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::filter::Filter;
use waybill_core::port::dead::{DeadId, DeadView, Replay, Replayed};
use waybill_core::port::dedup::FirstDelivery;
use waybill_core::port::idempotency::FinishWith;
use waybill_core::port::provision::ProvisionChange;
use waybill_core::port::query::{Counted, DeadGroup, Page};
use waybill_core::port::service::{
    BlockedView, Check, Enqueued, MessageView, OperationRequest, OutboxService, OutboxStats, ServiceError,
    TransactionDone, TransportView,
};
use waybill_core::port::transact::{AuditEvent, Operation, Statement};
use waybill_core::port::workers::{ClaimRequest, ClaimedMessage, SettleAnswer, SettleRequest};
use waybill_core::time::UnixMillis;

use crate::admission::Admission;
use crate::idempotency::Idempotency;
use crate::janitor::HistoryFronts;
use crate::saga::service::Sagas;
use crate::shard::{Context, ShardHandle, Wish};
use operations::Operations;

/// Pauses between attempts to write an audit event.
const AUDIT_PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5)];

/// The outbox of this host.
pub(crate) struct Outbox {
    pub context: Arc<Context>,
    pub idempotency: Arc<Idempotency>,
    /// Stuck ones are dead letters. Retired and told of in readiness with it.
    pub sagas: Option<Arc<Sagas>>,
    pub shards: Vec<ShardHandle>,
    pub admission: Arc<Admission>,
    pub operations: Arc<Operations>,
    pub history_fronts: HistoryFronts,
    pub quarantine: Arc<quarantine::Counts>,
    pub spread: AtomicU64,
    pub draining: AtomicBool,
}

/// The id of a message that goes over the doorstep and that its caller didn't name.
pub(crate) fn door_id() -> MessageId {
    let ulid = ulid::Ulid::new().to_string();
    // A ULID is 26 letters and digits, which every id may be.
    MessageId::new(&ulid).unwrap_or_else(|_| {
        waybill_core::ids::host_made_id(waybill_core::ids::Place {
            shard: ShardId(0),
            segment: waybill_core::ids::Seq(0),
            index: 0,
        })
    })
}

/// Says that something may lie on a doorstep.
fn knock(context: &Context, shards: &[ShardHandle]) {
    context.door.ring();
    for shard in shards {
        shard.knock();
    }
}

impl Outbox {
    pub fn knock(&self) {
        knock(&self.context, &self.shards);
    }

    fn now(&self) -> UnixMillis {
        self.context.clock.now().wall
    }

    fn shard(&self, shard: ShardId) -> Result<&ShardHandle, ServiceError> {
        let missing = || ServiceError::Unavailable(format!("shard {shard} isn't one of this host's"));
        self.shards.get(usize::from(shard.0)).ok_or_else(missing)
    }

    /// A filter, confined to the tenants of the caller. None = it can match nothing.
    fn filter(&self, tenant: Option<&Tenant>, text: &str) -> Result<Option<Filter>, ServiceError> {
        let mut filter = Filter::parse(text, self.now())?;
        let possible = tenant.is_none_or(|tenant| filter.confine(tenant.as_str()));
        Ok(possible.then_some(filter))
    }

    /// Has an operator's act done and audited. In a task of its own: an act whose caller went away is audited all the same.
    async fn audited_act(&self, shard: ShardId, wish: Wish, event: AuditEvent) -> Result<(), ServiceError> {
        let (context, shard) = (Arc::clone(&self.context), self.shard(shard)?.clone());
        let work = tokio::spawn(async move {
            shard.command(wish).await?;
            audit(&context, &event).await;
            Ok(())
        });
        work.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))
    }

    /// Writes to the audit trail what has been done.
    async fn audit_event(&self, event: AuditEvent) {
        let context = Arc::clone(&self.context);
        // It ends whether or not anybody waits.
        let _ended = tokio::spawn(async move { audit(&context, &event).await }).await;
    }

    fn event(&self, kind: &str, actor: &str, tenant: Option<&str>, object: &str, detail: Value) -> AuditEvent {
        AuditEvent {
            at: self.now(),
            kind: kind.to_owned(),
            actor: actor.to_owned(),
            tenant: tenant.map(str::to_owned),
            object: object.to_owned(),
            detail,
        }
    }
}

/// An act that is done can't be refused any more because its audit failed: that is tried again, and at last goes to the log.
pub(crate) async fn audit(context: &Context, event: &AuditEvent) {
    for pause in AUDIT_PAUSES {
        match context.stores.transact.audit(event).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(code = error.code(), %error, "an audit event could not be written yet"),
        }
        tokio::time::sleep(pause).await;
    }
    if let Err(error) = context.stores.transact.audit(event).await {
        tracing::error!(code = error.code(), %error, ?event, "an operator's act could not be written to the audit trail");
    }
}

#[async_trait]
impl OutboxService for Outbox {
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Result<Enqueued, ServiceError> {
        self.enqueue_messages(messages).await
    }
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<NewMessage>,
        finish: Option<FinishWith>,
    ) -> Result<TransactionDone, ServiceError> {
        self.run_transaction(statements, messages, finish).await
    }
    async fn message(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError> {
        self.show_message(tenant, id).await
    }
    async fn messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError> {
        self.list_messages(tenant, filter, cursor, limit).await
    }
    async fn cancel(&self, tenant: &Tenant, id: &str, actor: &str) -> Result<MessageView, ServiceError> {
        self.cancel_message(tenant, id, actor).await
    }
    async fn reschedule(
        &self,
        tenant: &Tenant,
        id: &str,
        not_before: UnixMillis,
        actor: &str,
    ) -> Result<MessageView, ServiceError> {
        self.reschedule_message(tenant, id, not_before, actor).await
    }
    async fn stats(&self, tenant: Option<&Tenant>) -> Result<Vec<OutboxStats>, ServiceError> {
        self.outbox_stats(tenant).await
    }
    async fn blocked(&self, tenant: Option<&Tenant>) -> Result<Vec<BlockedView>, ServiceError> {
        self.blocked_views(tenant).await
    }
    async fn dead_letters(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadView>, ServiceError> {
        self.list_dead(tenant, filter, cursor, limit).await
    }
    async fn count_dead(&self, tenant: Option<&Tenant>, filter: &str) -> Result<Counted<u64>, ServiceError> {
        match self.filter(tenant, filter)? {
            None => Ok(Counted::default()),
            Some(filter) => self.number_of_dead(&filter).await,
        }
    }
    async fn dead_groups(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
    ) -> Result<Counted<Vec<DeadGroup>>, ServiceError> {
        match self.filter(tenant, filter)? {
            None => Ok(Counted::default()),
            Some(filter) => self.groups_of_dead(&filter).await,
        }
    }
    async fn dead_letter(&self, dead: &DeadId) -> Result<DeadView, ServiceError> {
        self.show_dead(dead).await
    }
    async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Result<Replayed, ServiceError> {
        self.replay_one(dead, how, actor).await
    }
    async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Result<DeadView, ServiceError> {
        self.quarantine_one(dead, note, actor).await
    }
    async fn edit(&self, dead: &DeadId, edited: NewMessage, actor: &str) -> Result<Enqueued, ServiceError> {
        self.edit_dead(dead, edited, actor).await
    }
    async fn start_operation(&self, request: OperationRequest) -> Result<Operation, ServiceError> {
        self.begin_operation(request).await
    }
    async fn operation(&self, id: &str) -> Result<Operation, ServiceError> {
        self.find_operation(id).await
    }
    async fn cancel_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError> {
        self.stop_operation(id, actor).await
    }
    async fn transports(&self) -> Vec<TransportView> {
        self.transport_views().await
    }
    async fn pause(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError> {
        self.set_paused(transport, true, actor).await
    }
    async fn resume(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError> {
        self.set_paused(transport, false, actor).await
    }
    async fn probe(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError> {
        self.probe_transport(transport, actor).await
    }
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<ClaimedMessage>, ServiceError> {
        self.claim_messages(request).await
    }
    async fn settle(&self, request: SettleRequest) -> Result<Vec<SettleAnswer>, ServiceError> {
        self.settle_claimed(request).await
    }
    async fn provision(&self, transport: &str, apply: bool, actor: &str) -> Result<Vec<ProvisionChange>, ServiceError> {
        self.provision_transport(transport, apply, actor).await
    }
    async fn check_dedup(
        &self,
        tenant: &Tenant,
        target: &str,
        sha256: &str,
    ) -> Result<Option<FirstDelivery>, ServiceError> {
        self.find_delivery(tenant, target, sha256).await
    }
    async fn audit(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<AuditEvent>, ServiceError> {
        Ok(self.context.stores.transact.audit_tail(tenant, limit).await?)
    }
    async fn ready(&self) -> Vec<Check> {
        self.readiness().await
    }
}
