//! The table port: one configured plugin that publishes the rows of an application's outbox table directly. A row is marked
//! by the transaction that claimed it, after the receiver's word; nothing is stored here. The contract is
//! `wit/inbound/table.wit`.
//!
//! A claim lives in the instance that made it: each names its session, and committing in a session that has ended is
//! [`Ended::Lost`]; the database has ended its transaction.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;

use super::provision::{ProvisionChange, ProvisionError};
use super::source::LaneNotices;
use super::transport::{CallError, Fault, HealthReport, PluginIdentity};
use crate::message::Headers;
use crate::time::UnixMillis;

/// Which rows to claim, and how many.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableClaim {
    /// 0-based number of the lane.
    pub lane: u32,
    /// How many lanes share the table on this host.
    pub lanes: u32,
    /// Most rows.
    pub batch: u32,
    /// Most payload bytes of all rows together.
    pub batch_bytes: u32,
    /// How many waiting rows to look at, from the first.
    pub window: u32,
    /// Aggregates to leave out.
    pub held: Vec<String>,
    /// Claim also if another session has the lane's lock.
    pub without_lock: bool,
    /// After this time without a statement the database ends the transaction.
    pub idle: Duration,
}

/// A row as a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowMessage {
    /// Stable id on the wire; the same at each send.
    pub id: String,
    /// Tenant by a column.
    pub tenant: Option<String>,
    /// Topic URI.
    pub topic: String,
    /// Ordering key at the receiver.
    pub key: Option<String>,
    /// What its counts are shown under.
    pub context: Option<String>,
    pub headers: Headers,
    /// Media type of the payload.
    pub content_type: Option<String>,
    pub payload: Bytes,
    pub event_type: Option<String>,
    /// Version of the event type's schema.
    pub event_version: Option<u32>,
    pub envelope_id: Option<String>,
    pub correlation_id: Option<String>,
    pub causation_id: Option<String>,
    /// Where a reply is expected.
    pub reply_to: Option<String>,
    pub occurred_at: Option<UnixMillis>,
    pub attributes: Vec<(String, String)>,
}

/// A row that a claim has locked, in its newest version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRow {
    /// For `commit`.
    pub token: Bytes,
    /// The row's own key as text, for operators, [`Table::dead`] and [`Table::replay`].
    pub id: String,
    /// Failed attempts so far, as far as the table counts them.
    pub attempts: u32,
    /// What to send, or why the row can't be one: `INVALID_OUTBOX` fails for good, `FUTURE_EVENT` waits for `after`.
    pub message: Result<RowMessage, Fault>,
}

/// What a claim has of one row of an aggregate's run.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "most are the large one, in a list that lives for one claim")]
pub enum Found {
    Locked(TableRow),
    /// Another session has it, or it no longer waits: nothing behind it in its aggregate may be sent.
    Elsewhere,
    /// Due and not read, for there was no room: nothing behind it in its aggregate may be sent.
    Unread,
}

/// One row of an aggregate's run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClaimedRow {
    /// What is in order with what; the same text as in [`TableClaim::held`].
    pub aggregate: String,
    pub found: Found,
}

/// Names an open claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClaimId {
    /// The instance that has it.
    pub session: u64,
    pub number: u32,
}

/// What one claim brought.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimed {
    /// None = nothing is locked and no transaction is open.
    pub claim: Option<ClaimId>,
    /// Another session has the lane's lock; nothing was looked at.
    pub refused: bool,
    /// Waiting rows that were looked at, due or not.
    pub seen: u32,
    /// Rows in the table's order.
    pub rows: Vec<ClaimedRow>,
}

/// What becomes of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RowFate {
    /// The receiver has it: marked published, or deleted.
    Published,
    /// Tried again later.
    Again {
        /// Not before this long from the mark, by the database's clock.
        after: Duration,
        /// Attempts to add: 0 or 1.
        attempts: u32,
        /// Why; none leaves the last error as it is.
        cause: Option<Fault>,
    },
    /// Given up, in the table.
    Failed {
        /// Attempts to add: 0 or 1.
        attempts: u32,
        cause: Fault,
    },
}

/// One row's fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    pub token: Bytes,
    pub fate: RowFate,
}

/// How a claim ended. Its locks are gone in any case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The marks are committed.
    Committed,
    /// The table refused a mark, or counted fewer rows: nothing is marked.
    Refused(Fault),
    /// The transaction was lost: nothing is marked; `maybe_delivered`: unless its commit still arrived.
    Lost(Fault),
}

/// Counts of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContextStats {
    pub context: String,
    /// Rows that wait.
    pub waiting: u32,
    /// Stamp of the oldest of them.
    pub oldest: Option<UnixMillis>,
    /// Rows that stand failed.
    pub dead: u32,
}

/// A row that stands failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadRow {
    /// The row's key, as in [`TableRow::id`].
    pub id: String,
    pub aggregate: String,
    pub context: Option<String>,
    /// Topic URI; none = it can't be told.
    pub topic: Option<String>,
    pub event_type: Option<String>,
    /// Failed attempts that the table counts.
    pub attempts: u32,
    /// The last error as the table has it.
    pub error: String,
    pub occurred_at: Option<UnixMillis>,
    /// When it was given up, if the table tells.
    pub failed_at: Option<UnixMillis>,
}

/// A page of them, in the table's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadPage {
    pub rows: Vec<DeadRow>,
    /// Where the next page begins; none = this was the last.
    pub next: Option<String>,
}

/// What a table is and can, as its instances told at `open`, within the host's limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableFacts {
    /// Independent instances. A lane's claims may go to any of them.
    pub instances: u32,
    /// Claims that one of them can hold at once.
    pub claims_per_instance: u32,
    /// Most rows of one claim.
    pub max_batch: u32,
    /// The table keeps the time of the next try itself; without it, who claims holds the aggregate back.
    pub keeps_due: bool,
    /// The table counts attempts itself.
    pub keeps_attempts: bool,
}

#[async_trait]
pub trait Table: Send + Sync + 'static {
    /// Name from the configuration.
    fn name(&self) -> &str;
    fn identity(&self) -> PluginIdentity;
    /// What it is and can.
    fn facts(&self) -> TableFacts;
    /// Begins a transaction through `instance` and locks the rows that a lane sends next, within `timeout`. With nothing
    /// locked it has ended the transaction.
    async fn claim(&self, instance: u32, claim: TableClaim, timeout: Duration) -> Result<Claimed, CallError>;
    /// Marks rows of a claim and commits, within `timeout`; without marks it gives the claim back. An error: as
    /// [`Ended::Lost`], whose commit may have arrived.
    async fn commit(
        &self,
        instance: u32,
        claim: ClaimId,
        marks: Vec<Mark>,
        timeout: Duration,
    ) -> Result<Ended, CallError>;
    /// Counts and oldest by context.
    async fn stats(&self, timeout: Duration) -> Result<Vec<ContextStats>, CallError>;
    /// At most `max` rows that stand failed, from the beginning or from [`DeadPage::next`].
    async fn dead(&self, page: Option<String>, max: u32, timeout: Duration) -> Result<DeadPage, CallError>;
    /// Puts failed rows back to waiting, attempts 0. One answer an id, in order: whether it waits again.
    async fn replay(&self, ids: Vec<String>, timeout: Duration) -> Result<Vec<bool>, CallError>;
    /// What an instance told besides (something new waits), as soon as one tells it. Nothing is lost when it isn't awaited to
    /// its end.
    async fn next_notices(&self) -> LaneNotices;
    async fn health(&self) -> HealthReport;
    /// What is missing at the database; with `apply` it is created. One call at a time. Conflicts are told and left alone.
    async fn provision(&self, _apply: bool) -> Result<Vec<ProvisionChange>, ProvisionError> {
        Err(ProvisionError::NotOffered { plugin: self.identity().plugin })
    }
    /// Ends all instances in good order, within `timeout`. No claim is open by then.
    async fn close(&self, timeout: Duration);
}
