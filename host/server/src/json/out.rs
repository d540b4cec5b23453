//! Answers other than messages: lists, counts, transports, operations, audit, checks.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::query::DeadGroup;
use waybill_core::port::service::{BlockedView, Check, Enqueued, OutboxStats, TransactionDone, TransportView};
use waybill_core::port::transact::{AuditEvent, Operation, OperationState};
use waybill_core::port::transport::Health;

use super::dead::{DeadKindJson, DeadLetterOut};
use super::instant::Instant;
use super::message_out::PluginOut;

/// One page of a list.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct List<T> {
    /// Items.
    pub items: Vec<T>,
    /// Goes on after the last item; null at the end. A page may be short, or empty, before the end.
    pub next_cursor: Option<String>,
    /// How many match in all, if it was asked for with `count=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. The counts are then lower bounds: of what
    /// entered the order before this instant nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
}

impl<T> List<T> {
    /// A list that fits one page.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next_cursor: None, count: None, counted_since: None }
    }
}

/// Result of an enqueue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Enqueued)]
pub struct EnqueuedOut {
    /// Ids in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before with the same content.
    pub duplicates: Vec<String>,
}

impl From<Enqueued> for EnqueuedOut {
    fn from(done: Enqueued) -> Self {
        Self { ids: done.ids, duplicates: done.duplicates }
    }
}

/// Result of a business transaction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Transacted)]
pub struct TransactedOut {
    /// Ids of the messages in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before with the same content.
    pub duplicates: Vec<String>,
    /// What each statement answered, in order.
    pub results: Vec<serde_json::Value>,
}

impl From<TransactionDone> for TransactedOut {
    fn from(done: TransactionDone) -> Self {
        Self { ids: done.ids, duplicates: done.duplicates, results: done.results }
    }
}

/// Depths and age of one tenant in one transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OutboxStats)]
pub struct StatsOut {
    /// Tenant.
    pub tenant: String,
    /// Transport; `-` for messages without a route or not read yet.
    pub transport: String,
    /// In order and not being sent.
    pub ready: u64,
    /// Being sent.
    pub leased: u64,
    /// Waiting for a retry.
    pub parked: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Set when the counting ended after a bounded number of scheduled messages, the soonest due first. `scheduled` is then a lower
    /// bound: of what is due at this instant or later not all was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_until: Option<Instant>,
    /// Dead letters.
    pub dead: u64,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. `dead` is then a lower bound: of what
    /// entered the order before this instant nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// Age of the oldest message that could be sent.
    pub oldest_ready_ms: Option<u64>,
}

impl From<OutboxStats> for StatsOut {
    fn from(stats: OutboxStats) -> Self {
        Self {
            tenant: stats.tenant,
            transport: stats.transport,
            ready: stats.ready,
            leased: stats.leased,
            parked: stats.parked,
            scheduled: stats.scheduled,
            scheduled_until: stats.scheduled_until.map(Instant),
            dead: stats.dead,
            counted_since: stats.counted_since.map(Instant),
            oldest_ready_ms: stats.oldest_ready_ms,
        }
    }
}

/// Something that holds messages back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Blocked)]
pub struct BlockedOut {
    /// `key`, `destination`, `transport`, `no_route` or `paused`.
    pub kind: String,
    /// Tenant; null = all.
    pub tenant: Option<String>,
    /// Transport, if one is concerned.
    pub transport: Option<String>,
    /// Key, scope or topic that is held.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Error code.
    pub code: Option<String>,
    /// Since when.
    pub since: Instant,
    /// Next try, if one is planned.
    pub until: Option<Instant>,
    /// Messages known to wait for it.
    pub waiting: u64,
}

impl From<BlockedView> for BlockedOut {
    fn from(blocked: BlockedView) -> Self {
        Self {
            kind: blocked.kind,
            tenant: blocked.tenant,
            transport: blocked.transport,
            subject: blocked.subject,
            reason: blocked.reason,
            code: blocked.code,
            since: blocked.since.into(),
            until: blocked.until.map(Instant),
            waiting: blocked.waiting,
        }
    }
}

/// Dead letters of one tenant with one code and one error signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadGroup)]
pub struct DeadGroupOut {
    /// Kind.
    pub kind: DeadKindJson,
    /// Tenant.
    pub tenant: String,
    /// Error code.
    pub code: String,
    /// Error text without numbers and quoted parts.
    pub signature: String,
    /// A topic of the group; of stuck sagas `saga:<definition>/<step>`.
    pub topic: String,
    /// How many.
    pub count: u64,
    /// First death.
    pub first_at: Instant,
    /// Latest death.
    pub latest_at: Instant,
    /// Id of one of them.
    pub example: String,
}

impl From<DeadGroup> for DeadGroupOut {
    fn from(group: DeadGroup) -> Self {
        let instant = |ms| Instant(waybill_core::time::UnixMillis(ms));
        Self {
            kind: group.kind.into(),
            tenant: group.tenant,
            code: group.code,
            signature: group.signature,
            topic: group.topic,
            count: group.count,
            first_at: instant(group.first_at),
            latest_at: instant(group.latest_at),
            example: group.example,
        }
    }
}

/// A bulk act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Operation)]
pub struct OperationOut {
    /// Id.
    pub id: String,
    /// `replay`, `quarantine` or `purge`.
    pub kind: String,
    /// What it selects, among what died before `created_at`.
    pub filter: String,
    /// Tenant it is confined to; null = all.
    pub tenant: Option<String>,
    /// Most acts a second.
    pub rate: u32,
    /// Why.
    pub reason: String,
    /// State.
    pub state: OperationStateOut,
    /// How many matched when it began.
    pub matched: u64,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. `matched` is then a lower bound: of what
    /// entered the order before this instant nothing was counted; it is worked on all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// How many are done.
    pub done: u64,
    /// How many could not be done.
    pub failed: u64,
    /// Error that stopped it.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Instant,
    /// Latest progress.
    pub updated_at: Instant,
}

/// State of a bulk act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OperationState)]
pub enum OperationStateOut {
    /// At work, or resumed after a restart.
    Running,
    /// Done.
    Done,
    /// Stopped by an operator.
    Cancelled,
    /// Stopped by an error.
    Failed,
}

impl From<Operation> for OperationOut {
    fn from(operation: Operation) -> Self {
        Self {
            id: operation.id,
            kind: operation.kind,
            filter: operation.filter,
            tenant: operation.tenant,
            rate: operation.rate,
            reason: operation.reason,
            state: match operation.state {
                OperationState::Running => OperationStateOut::Running,
                OperationState::Done => OperationStateOut::Done,
                OperationState::Cancelled => OperationStateOut::Cancelled,
                OperationState::Failed => OperationStateOut::Failed,
            },
            matched: operation.matched,
            counted_since: operation.counted_since.map(Instant),
            done: operation.done,
            failed: operation.failed,
            error: operation.error,
            created_at: operation.created_at.into(),
            updated_at: operation.updated_at.into(),
        }
    }
}

/// What a bulk act would concern.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DryRun {
    /// Always true.
    pub dry_run: bool,
    /// How many dead letters match now.
    pub matched: u64,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. `matched` is then a lower bound: of what
    /// entered the order before this instant nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// The first of them, in the order they would be taken.
    pub sample: Vec<DeadLetterOut>,
}

/// A configured transport.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Transport)]
pub struct TransportOut {
    /// Name.
    pub name: String,
    /// Plugin that serves.
    pub plugin: PluginOut,
    /// An operator paused it.
    pub paused: bool,
    /// `closed` (serving), `open` (held) or `half-open` (probing).
    pub breaker: String,
    /// Instances.
    pub lanes: u32,
    /// Messages being sent now.
    pub in_flight: u64,
    /// `ready`, `degraded`, `blocked` or `down`.
    pub health: HealthOut,
    /// A word of explanation.
    pub health_detail: Option<String>,
}

/// Condition of a transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = Health)]
pub enum HealthOut {
    /// Serving.
    Ready,
    /// Serving with trouble.
    Degraded,
    /// Alive and asked by the peer to wait.
    Blocked,
    /// Not serving.
    Down,
}

impl From<TransportView> for TransportOut {
    fn from(view: TransportView) -> Self {
        Self {
            name: view.name,
            plugin: view.plugin.into(),
            paused: view.paused,
            breaker: view.breaker,
            lanes: view.lanes,
            in_flight: view.in_flight,
            health: match view.health.health {
                Health::Ready => HealthOut::Ready,
                Health::Degraded => HealthOut::Degraded,
                Health::Blocked => HealthOut::Blocked,
                Health::Down => HealthOut::Down,
            },
            health_detail: view.health.detail,
        }
    }
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEvent)]
pub struct AuditOut {
    /// When.
    pub at: Instant,
    /// `TxReplayRequested`, `outbox_flush_conflict`, ...
    pub kind: String,
    /// Who asked: a token's name, `local`, or a host.
    pub actor: String,
    /// Whose data; null = everybody's.
    pub tenant: Option<String>,
    /// Message, operation or transport it is about.
    pub object: String,
    /// More.
    pub detail: serde_json::Value,
}

impl From<AuditEvent> for AuditOut {
    fn from(event: AuditEvent) -> Self {
        Self {
            at: event.at.into(),
            kind: event.kind,
            actor: event.actor,
            tenant: event.tenant,
            object: event.object,
            detail: event.detail,
        }
    }
}

/// Whether the host can do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ok`, `warn` or `fail`: the worst of the checks.
    pub status: String,
    /// The checks.
    pub checks: Vec<CheckOut>,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Check)]
pub struct CheckOut {
    /// Name.
    pub name: String,
    /// `ok`, `warn` or `fail`.
    pub status: String,
    /// One sentence; empty for callers without a token where tokens are configured.
    pub detail: String,
}

impl From<Check> for CheckOut {
    fn from(check: Check) -> Self {
        Self { name: check.name, status: check.status, detail: check.detail }
    }
}

/// The process answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Liveness {
    /// Always `ok`.
    pub status: String,
}

/// Who the caller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// Name, as the audit shows it.
    pub name: String,
    /// Tenants; `["*"]` = all.
    pub tenants: Vec<String>,
    /// Roles.
    pub roles: Vec<String>,
    /// `token`, or `none` where the host asks for no token.
    pub auth: String,
}
