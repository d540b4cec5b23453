//! The outbox as the API sees it.
//!
//! | file | holds |
//! |---|---|
//! | `enqueue` | direct messages and business transactions |
//! | `doorsteps` | which messages of a transaction lie on doorsteps already |
//! | `messages` | messages found, listed, cancelled, moved |
//! | `facets` | what a list of messages can be narrowed by |
//! | `neighbours` | who goes before a message of its key, and who behind it |
//! | `views` | a message as people see it |
//! | `dead` | dead letters |
//! | `dead_list` | dead letters of all kinds, as a list, counted, grouped |
//! | `operations` | bulk acts that survive a crash |
//! | `transports` | transports: paused, asked how they are, provisioned |
//! | `workers` | claims and settlements of workers outside |
//! | `quarantine` | rows that could not be read |
//! | `status` | depths, what is blocked, audit, readiness |

mod dead;
mod dead_list;
mod doorsteps;
mod enqueue;
mod facets;
mod messages;
mod neighbours;
pub(crate) mod operations;
mod quarantine;
mod status;
mod transports;
mod views;
mod workers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::Value;
use waybill_api::glance::DeadCounted;
use waybill_core::history::History;
use waybill_core::ids::{MessageId, ShardId, Tenant};
use waybill_core::outbox::filter::Filter;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::AuditEvent;
use waybill_core::time::UnixMillis;

use crate::admission::Admission;
use crate::alerts::Alerts;
use crate::idempotency::Idempotency;
use crate::inbox::service::Inbox;
use crate::janitor::HistoryFronts;
use crate::saga::service::Sagas;
use crate::shard::{Context, OperatorCommand, ShardHandle};
use crate::streams::service::Streams;
use operations::Operations;
pub(crate) use status::{HEALTH_TIMEOUT, health_within};
pub(crate) use transports::provision_detail;

/// Pauses between attempts to write an audit event.
const AUDIT_PAUSES: [Duration; 3] = [Duration::from_millis(50), Duration::from_millis(500), Duration::from_secs(5)];

/// The outbox of this host.
pub(crate) struct Outbox {
    pub context: Arc<Context>,
    pub idempotency: Arc<Idempotency>,
    /// Stuck ones are dead letters. Retired and told of in readiness with it.
    pub sagas: Option<Arc<Sagas>>,
    /// What it can't handle is a dead letter. Told of in readiness with it.
    pub inbox: Option<Arc<Inbox>>,
    /// Told of in readiness with it; transactions leave events on their doorsteps.
    pub streams: Option<Arc<Streams>>,
    pub shards: Vec<ShardHandle>,
    pub admission: Arc<Admission>,
    pub operations: Arc<Operations>,
    /// How it did in the last hour.
    pub history: Mutex<History>,
    pub history_fronts: HistoryFronts,
    pub quarantine: Arc<quarantine::Counts>,
    /// Dead letters of messages, of events and of the inbox, as readiness counted them last.
    pub dead_counted: Mutex<Option<DeadCounted>>,
    /// Told of in readiness with it.
    pub alerts: Alerts,
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
fn wake_door(context: &Context, shards: &[ShardHandle]) {
    context.door.ring();
    for shard in shards {
        shard.wake_door();
    }
}

impl Outbox {
    pub fn wake_door(&self) {
        wake_door(&self.context, &self.shards);
        self.streams.iter().for_each(|streams| streams.wake_doors());
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
    async fn audited_act(
        &self,
        shard: ShardId,
        command: OperatorCommand,
        event: AuditEvent,
    ) -> Result<(), ServiceError> {
        let (context, shard) = (Arc::clone(&self.context), self.shard(shard)?.clone());
        let work = tokio::spawn(async move {
            shard.command(command).await?;
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

/// What an act was, with its reason if one was given; nothing at all is null.
pub(crate) fn because(reason: &str, mut detail: Value) -> Value {
    if let (false, Some(members)) = (reason.trim().is_empty(), detail.as_object_mut()) {
        members.insert("reason".to_owned(), reason.into());
    }
    if detail.as_object().is_some_and(serde_json::Map::is_empty) { Value::Null } else { detail }
}

/// An act that is done can't be refused any more because its audit failed: that is tried again, and at last goes to the log.
/// What changed is told at once.
pub(crate) async fn audit(context: &Context, event: &AuditEvent) {
    context.config.changes.audited(event);
    for pause in AUDIT_PAUSES {
        match context.stores.transact.audit(event).await {
            Ok(()) => return,
            Err(error) => {
                tracing::debug!(code = error.code().as_str(), %error, "an audit event could not be written yet")
            }
        }
        tokio::time::sleep(pause).await;
    }
    if let Err(error) = context.stores.transact.audit(event).await {
        tracing::error!(code = error.code().as_str(), %error, ?event, "an operator's act could not be written to the audit trail");
    }
}
