//! How the host does: depths, what holds messages back, the audit trail, readiness.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::audit::AuditQuery;
use waybill_core::history::Measure;
use waybill_core::ids::Tenant;
use waybill_core::outbox::owner::WaitKind;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transact::AuditEvent;

use crate::glance::{Glance, Totals};
use crate::history::{Changed, ChangesAsked, HistoryView};
use crate::instant::Instant;

/// Depths and age of one tenant in one transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OutboxStats {
    pub tenant: String,
    /// Transport; `-` for messages without a route or not read yet.
    pub transport: String,
    /// In order and not being sent.
    pub ready: u64,
    /// Being sent, or claimed by a worker outside.
    pub leased: u64,
    /// Waiting for a retry.
    pub parked: u64,
    /// Waiting for their time.
    pub scheduled: u64,
    /// Set when the counting ended after a bounded number of scheduled messages, the soonest due first. `scheduled` is then a lower
    /// bound: of what is due at this instant or later not all was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled_until: Option<Instant>,
    /// Dead letters, quarantined ones too; counted under transport `-`.
    pub dead: u64,
    /// Set when the counting ended after a bounded number of dead letters, the latest first. `dead` is then a lower bound: of what
    /// entered the order before this instant nothing was counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// Age of the oldest message that could be sent.
    pub oldest_ready_ms: Option<u64>,
}

/// Something that holds messages back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Blocked)]
pub struct BlockedView {
    /// `key`, `destination`, `transport`, `no_route`, `paused`, `unclaimed` or `rate`.
    #[schema(value_type = String)]
    pub kind: WaitKind,
    /// Tenant; null = all.
    pub tenant: Option<String>,
    /// Transport, if one is concerned.
    pub transport: Option<String>,
    /// Key, scope or topic that is held.
    pub subject: String,
    /// Explanation for people; of a key with the `seq` that holds it.
    pub reason: String,
    /// Error code of what holds it; null without one.
    pub code: Option<String>,
    /// Since when it is held.
    pub since: Instant,
    /// Next try, if one is planned.
    pub until: Option<Instant>,
    /// Messages known to wait for it.
    pub waiting: u64,
}

/// One line of the audit trail.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditEvent)]
pub struct AuditView {
    pub at: Instant,
    /// What happened, e.g. `TxReplayRequested` or `outbox_flush_conflict`; of messages and sagas `TxBegin`, `TxRetry`, `TxDead` and
    /// `TxReplay`, of received messages the last three, of events of streams `TxDead`.
    pub kind: String,
    /// Who asked: a token's name, a person as `E-MAIL (oidc:SUB)` or `oidc:SUB`, `local`, or a host.
    pub actor: String,
    /// Whose data; null = everybody's.
    pub tenant: Option<String>,
    /// Message, saga, operation or transport it is about. Of a received message the id that its sender gave it, of an event
    /// of a stream the place of its dead letter.
    pub object: String,
    /// Members that depend on `kind`; null without any. Of an event of a received message, and of acts on its dead letter, `consumer`.
    pub detail: serde_json::Value,
}

impl From<AuditEvent> for AuditView {
    fn from(event: AuditEvent) -> Self {
        let AuditEvent { at, kind, actor, tenant, object, detail } = event;
        Self { at: at.into(), kind, actor, tenant, object, detail }
    }
}

/// Whether the host can do its work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Readiness {
    /// `ok`, `warn` or `fail`: the worst of the checks.
    #[schema(value_type = String)]
    pub status: CheckStatus,
    /// One that fails makes the answer 503.
    pub checks: Vec<Check>,
}

/// One thing that readiness depends on, and how it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Check {
    /// What was checked, e.g. `outbox` or `transport orders`.
    pub name: String,
    /// `ok`, `warn` or `fail`.
    #[schema(value_type = String)]
    pub status: CheckStatus,
    /// One sentence; empty for callers without a token where tokens are configured.
    pub detail: String,
}

/// How a check came out. A later one is worse.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    Ok,
    /// Somebody should look at it.
    Warn,
    /// The host can't do its work.
    Fail,
}

/// The process runs; `/readyz` tells whether it can work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Liveness {
    /// Always `ok`: a process that is down gives no answer.
    pub status: String,
}

/// What answers here, and where to go on: for who opens the bare address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Welcome {
    /// Always `waybill`, by which a program knows whom it asked.
    pub service: String,
    pub version: String,
    /// Address of the API's document.
    pub openapi: String,
    /// Address that tells whether the host is ready.
    pub ready: String,
    /// Where an error code is explained.
    pub errors: String,
    /// What to run for an overview.
    pub command_line: String,
}

/// Who the caller is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WhoAmI {
    /// Name, as the audit shows it.
    pub name: String,
    /// Tenants; `["*"]` = all.
    pub tenants: Vec<String>,
    /// Any of `viewer`, `sender`, `transactor`, `worker`, `operator`, `backup`, `admin`, `append:PATTERN`, `read:PATTERN`.
    pub roles: Vec<String>,
    /// `token`, or `none` where the host asks for no token.
    pub auth: String,
}

/// How this host does. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait StatusService: Send + Sync + 'static {
    async fn stats(&self, tenant: Option<&Tenant>) -> Result<Vec<OutboxStats>, ServiceError>;
    /// What is known of them without reading a row.
    async fn glance(&self) -> Result<Glance, ServiceError>;
    /// What was counted since the process began. It asks nobody.
    fn totals(&self) -> Totals;
    /// What holds messages back.
    async fn blocked(&self, tenant: Option<&Tenant>) -> Result<Vec<BlockedView>, ServiceError>;
    /// Lines of the audit trail, newest first, at most `limit`.
    async fn audit(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditView>, ServiceError>;
    /// The last hour of one measure; none = of all.
    async fn history(&self, measure: Option<Measure>) -> Result<HistoryView, ServiceError>;
    /// What changed, newest first.
    async fn changes(&self, asked: &ChangesAsked) -> Result<Changed, ServiceError>;
    /// Checks for `/readyz`; ready when none fails.
    async fn ready(&self) -> Vec<Check>;
}
