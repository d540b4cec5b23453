//! Sources: what brings messages in, how it does, what is missing at its peer, and the failed rows of tables.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::provision::ProvisionChange;
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::port::table::DeadRow;
use waybill_core::port::transport::{Health, PluginIdentity};

use crate::instant::Instant;

/// A configured source, and how it does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Source)]
pub struct SourceView {
    /// Name in the configuration.
    pub name: String,
    /// Plugin that serves its calls now; null = this host doesn't run it, or it couldn't be opened.
    pub plugin: Option<PluginIdentity>,
    /// `stored`: messages go through the inbox. `direct`: rows are sent and marked in their table.
    #[schema(value_type = String)]
    pub publish: Publish,
    /// What its order and its seen set belong to. Sources of one consumer share it.
    pub home: String,
    /// Host that owns the home; null = none does now.
    pub owner: Option<String>,
    /// This host is the owner.
    pub here: bool,
    /// Context of its messages; null = the first token of the subject.
    pub context: Option<String>,
    /// Tenants of its messages.
    pub tenants: Vec<String>,
    /// Consumers of its messages.
    pub consumers: Vec<String>,
    /// An operator paused it.
    pub paused: bool,
    pub instances: u32,
    /// Deliveries that aren't settled; of a table rows that are locked.
    pub unsettled: u64,
    /// At most so many are.
    pub window: u64,
    /// Nothing more was waiting at the last pull; null = it wasn't asked yet.
    pub caught_up: Option<bool>,
    /// Messages known to wait at its peer; of a table its unpublished rows. Null where the peer doesn't tell.
    pub lag: Option<u64>,
    /// Messages that its peer removed before they were read.
    pub overtaken: u64,
    /// How often its stream, topic or table was made anew: what wasn't read of the one before is gone.
    pub made_anew: u64,
    /// Rows that stand failed in its table.
    pub failed: Option<u64>,
    /// `ready`, `degraded`, `blocked` or `down`.
    pub health: Health,
    /// A word of explanation, or why it stands still: `CODE: reason`.
    pub health_detail: Option<String>,
}

/// How a source's messages leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Publish {
    /// Through the inbox and the outbox.
    Stored,
    /// From the table to the transport, marked there.
    Direct,
}

/// What would be done at a source's peer, or was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SourceProvisioned {
    pub source: String,
    /// It was done; otherwise it is a plan.
    pub applied: bool,
    /// One entry a thing at the peer.
    pub changes: Vec<ProvisionChange>,
}

/// A row of an outbox table that stands failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FailedRow)]
pub struct FailedRowView {
    /// The row's own key.
    pub id: String,
    /// What is in order with what.
    pub aggregate: String,
    pub context: Option<String>,
    /// Where it goes; null = the row can't be a message.
    pub topic: Option<String>,
    pub event_type: Option<String>,
    pub attempts: u32,
    /// As the table has it.
    pub last_error: String,
    pub occurred_at: Option<Instant>,
    /// When it was given up, if the table tells.
    pub failed_at: Option<Instant>,
}

impl From<DeadRow> for FailedRowView {
    fn from(row: DeadRow) -> Self {
        let DeadRow { id, aggregate, context, topic, event_type, attempts, error, occurred_at, failed_at } = row;
        Self {
            id,
            aggregate,
            context,
            topic,
            event_type,
            attempts,
            last_error: error,
            occurred_at: occurred_at.map(Instant),
            failed_at: failed_at.map(Instant),
        }
    }
}

/// Which failed rows wait again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReplayRows {
    /// Keys of rows, at most 1,000.
    #[schema(min_items = 1, max_items = 1000)]
    pub ids: Vec<String>,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

/// What became of rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayedRows {
    pub source: String,
    /// Keys of those that wait again, with no attempts.
    pub replayed: Vec<String>,
    /// Keys of those that weren't failed: nothing was changed.
    pub unchanged: Vec<String>,
}

/// The sources of this host. `actor` is who asks, and `reason` why, for the audit: `SourcePaused`, `SourceResumed`, `SourceProvisioned`, and
/// `TxReplayRequested` with `kind` `row` for rows.
#[async_trait]
pub trait SourceService: Send + Sync + 'static {
    async fn sources(&self) -> Vec<SourceView>;
    /// Pulls no more from a source. What is in hand is finished. It stays paused when the host starts again.
    async fn pause_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError>;
    /// Pulls again, and also from where it stands still because it was overtaken.
    async fn resume_source(&self, source: &str, reason: &str, actor: &str) -> Result<SourceView, ServiceError>;
    /// What is missing at a source's peer; with `apply`, creates it and answers what was done.
    async fn provision_source(
        &self,
        source: &str,
        apply: bool,
        actor: &str,
    ) -> Result<Vec<ProvisionChange>, ServiceError>;
    /// Rows that stand failed in a source's table, in its order, at most `limit`. Of a source without a table
    /// [`Missing::Source`](waybill_core::port::missing::Missing::Source).
    async fn failed_rows(
        &self,
        source: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FailedRowView>, ServiceError>;
    /// Puts failed rows back to waiting, with no attempts, in their table.
    async fn replay_rows(&self, source: &str, rows: ReplayRows, actor: &str) -> Result<ReplayedRows, ServiceError>;
}
