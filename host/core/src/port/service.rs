//! The outbox as the API sees it: implemented by the engine, used by the server.

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::error::InputError;
use crate::ids::Tenant;
use crate::new_message::NewMessage;
use crate::outbox::filter::FilterError;
use crate::outbox::records::AttemptRecord;
use crate::port::dead::{DeadId, DeadView, Replay, Replayed};
use crate::port::dedup::FirstDelivery;
use crate::port::idempotency::FinishWith;
use crate::port::provision::{ProvisionChange, ProvisionError};
use crate::port::quarantine::QuarantineService;
use crate::port::query::{Counted, DeadGroup, Page};
use crate::port::store::StoreError;
use crate::port::transact::{AuditEvent, Operation, Statement};
use crate::port::transport::{HealthReport, PluginIdentity, Receipt};
use crate::port::workers::{ClaimRequest, ClaimedMessage, SettleAnswer, SettleRequest};
use crate::saga::error::SagaError;
use crate::time::UnixMillis;

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Error)]
pub enum ServiceError {
    /// The caller's input is wrong. `index` names the message in the request, from 0.
    #[error("message {index}: {error}")]
    Message {
        /// Which.
        index: usize,
        /// What.
        error: InputError,
    },
    /// The caller's input is wrong.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The filter is wrong.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// An id is taken by another message.
    #[error(
        "id {id:?} of tenant {tenant:?} belongs to a different message: choose another id, or send exactly the same content again"
    )]
    IdTaken {
        /// Tenant.
        tenant: String,
        /// Id.
        id: String,
    },
    /// A transaction's messages are there already, but not with its statements.
    #[error(
        "the messages of this transaction are there already ({id:?} of tenant {tenant:?} for one), but weren't committed with these \
         statements, so nothing was run: repeat exactly the same transaction, or give its messages new ids"
    )]
    OtherStatements {
        /// Tenant.
        tenant: String,
        /// Id of one of them.
        id: String,
    },
    /// There is no such thing.
    #[error("there is no {what} {id:?}")]
    NotFound {
        /// `message`, `dead letter`, `operation`, `transport`.
        what: &'static str,
        /// As asked.
        id: String,
    },
    /// It is in a state that doesn't allow this.
    #[error("{what} {id:?} is {state}: {fix}")]
    State {
        /// What.
        what: &'static str,
        /// Which.
        id: String,
        /// Its state.
        state: String,
        /// What can be done.
        fix: &'static str,
    },
    /// The act isn't for dead letters of this kind, or the id names one of each.
    #[error("dead letter {id:?}: {fix}")]
    DeadKind {
        /// Which.
        id: String,
        /// What it is, and what can be done.
        fix: &'static str,
    },
    /// A stuck saga can't be put back.
    #[error(transparent)]
    Saga(#[from] SagaError),
    /// Somebody else has it.
    #[error("{what} {id:?} isn't this token's any more: it was finished, taken over, released, or its time is over")]
    LeaseLost {
        /// `idempotency key`.
        what: &'static str,
        /// Which.
        id: String,
    },
    /// Too much is waiting.
    #[error("{what} is full ({count} of {count_max}): try again after a moment")]
    Busy {
        /// Which queue.
        what: &'static str,
        /// Its fill.
        count: usize,
        /// Its bound.
        count_max: usize,
    },
    /// The plugin of a transport has no provisioning.
    #[error("transport {transport:?}: {error}")]
    NoProvisioning {
        /// Transport.
        transport: String,
        /// Whose plugin it is, and what to do.
        error: ProvisionError,
    },
    /// Provisioning failed.
    #[error("transport {transport:?}: {error}")]
    ProvisionFailed {
        /// Transport.
        transport: String,
        /// What the plugin said, or what became of it.
        error: ProvisionError,
    },
    /// The host drains or has lost the shard.
    #[error("this host doesn't take messages now: {0}")]
    Unavailable(String),
    /// The commit's outcome isn't known.
    #[error("the store didn't say whether the messages were committed: send them again with the same ids ({0})")]
    OutcomeUnknown(StoreError),
    /// It isn't known whether an act on an idempotency key was done.
    #[error("the store didn't say whether this was done: ask again the same way, done twice it is the same ({0})")]
    Unsure(StoreError),
    /// The store failed; nothing was committed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ServiceError {
    /// Stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Message { error, .. } | Self::Input(error) => error.code(),
            Self::Filter(_) => "SCHEMA.VALIDATION_FAILED",
            Self::IdTaken { .. } => "STORAGE.CONFLICT",
            Self::OtherStatements { .. } => "TX.OTHER_STATEMENTS",
            Self::NotFound { .. } => "OUTBOX.NOT_FOUND",
            Self::State { .. } => "OUTBOX.STATE",
            Self::DeadKind { .. } => "DEAD.KIND",
            Self::Saga(error) => error.code(),
            Self::LeaseLost { .. } => "TX.LEASE_LOST",
            Self::Busy { .. } => "OUTBOX.BUSY",
            Self::NoProvisioning { .. } => "PLUGIN.NO_PROVISIONING",
            Self::ProvisionFailed { .. } => "PLUGIN.PROVISION_FAILED",
            Self::Unavailable(_) => "PROVIDER.UNAVAILABLE",
            Self::OutcomeUnknown(StoreError::DiskFull(_)) | Self::Unsure(StoreError::DiskFull(_)) => {
                "STORAGE.DISK_FULL"
            }
            Self::OutcomeUnknown(_) | Self::Unsure(_) => "TX.TIMEOUT",
            Self::Store(error) => error.code(),
        }
    }
}

/// Result of an enqueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Enqueued {
    /// Ids in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before, with the same content.
    pub duplicates: Vec<String>,
}

/// Result of a business transaction.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TransactionDone {
    /// Ids in the order of the request.
    pub ids: Vec<String>,
    /// Those of them that were there before, with the same content.
    pub duplicates: Vec<String>,
    /// What each statement answered.
    pub results: Vec<serde_json::Value>,
}

/// State of a message in a word (`semantics.md` §1, States).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageState {
    /// Ready or waiting for a retry, its time or its key.
    Pending,
    /// Claimed by a worker; a send may be under way.
    Leased,
    /// Delivered.
    Done,
    /// A dead letter.
    Dead,
    /// A dead letter fenced off by an operator.
    Quarantined,
    /// Taken back before it was sent.
    Cancelled,
    /// Over before it could be sent.
    Expired,
    /// A dead letter that was deleted for good.
    Purged,
}

impl MessageState {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Pending,
        Self::Leased,
        Self::Done,
        Self::Dead,
        Self::Quarantined,
        Self::Cancelled,
        Self::Expired,
        Self::Purged,
    ];

    /// In a word, as in filters and JSON.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Leased => "leased",
            Self::Done => "done",
            Self::Dead => "dead",
            Self::Quarantined => "quarantined",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Purged => "purged",
        }
    }
}

/// Why a message waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiting {
    /// `key`, `retry`, `schedule`, `destination`, `transport`, `no_route`, `paused`, `unclaimed`, `turn`.
    pub on: String,
    /// One sentence.
    pub reason: String,
    /// Since when, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<UnixMillis>,
    /// Until when, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<UnixMillis>,
}

/// Who has a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseView {
    /// Worker.
    pub worker: String,
    /// Until when; past it, the next claim may take it.
    pub until: UnixMillis,
}

/// A message as shown. Its JSON is the server's business (`waybill_server::json`).
#[derive(Clone, Debug, PartialEq)]
pub struct MessageView {
    /// Id.
    pub id: String,
    /// Tenant.
    pub tenant: String,
    /// State.
    pub state: MessageState,
    /// Topic.
    pub topic: String,
    /// Transport that its topic is routed to; none = no route.
    pub transport: Option<String>,
    /// Key.
    pub key: Option<String>,
    /// Place in its shard's order.
    pub seq: Option<u64>,
    /// Shard.
    pub shard: u16,
    /// Definite failures (and the success, when done).
    pub attempts: u32,
    /// Crashes that it is held suspect for; lists say it of dead letters only.
    pub suspect: u32,
    /// When it was enqueued.
    pub created_at: UnixMillis,
    /// When it happened.
    pub occurred_at: UnixMillis,
    /// Not before.
    pub not_before: Option<UnixMillis>,
    /// Of no use after.
    pub expires_at: Option<UnixMillis>,
    /// Finished or dead since.
    pub ended_at: Option<UnixMillis>,
    /// Latest error, `CODE: reason`.
    pub last_error: Option<String>,
    /// Receipt.
    pub receipt: Option<Receipt>,
    /// What it waits for.
    pub waiting: Option<Waiting>,
    /// The worker outside that has it.
    pub lease: Option<LeaseView>,
    /// Attempts, oldest first.
    pub history: Vec<AttemptRecord>,
    /// Event type.
    pub event_type: String,
    /// Event version.
    pub event_version: u32,
    /// Aggregate type.
    pub aggregate_type: Option<String>,
    /// Aggregate id.
    pub aggregate_id: Option<String>,
    /// Trace chain.
    pub envelope_id: Option<String>,
    /// Correlation id.
    pub correlation_id: Option<String>,
    /// Causation id.
    pub causation_id: Option<String>,
    /// Reply address.
    pub reply_to: Option<String>,
    /// Trace context.
    pub traceparent: Option<String>,
    /// Headers.
    pub headers: Vec<(String, String)>,
    /// Media type.
    pub content_type: Option<String>,
    /// Size of the payload.
    pub payload_bytes: u64,
    /// sha-256 of the payload in hex; in single views only.
    pub payload_sha256: Option<String>,
    /// The payload's bytes as enqueued; in single views only.
    pub payload: Option<Bytes>,
    /// Operator's note on a quarantined dead letter.
    pub note: Option<String>,
}

/// Depths and ages of one tenant in one transport.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxStats {
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
    /// Waiting for their time; at least so many when `scheduled_until` is set.
    pub scheduled: u64,
    /// Of scheduled messages due at this instant or later not all were counted. None = all were.
    pub scheduled_until: Option<UnixMillis>,
    /// Dead letters; at least so many when `counted_since` is set.
    pub dead: u64,
    /// Of dead letters that entered the order before this instant none was counted. None = all were.
    pub counted_since: Option<UnixMillis>,
    /// Age of the oldest message that could be sent, in milliseconds.
    pub oldest_ready_ms: Option<u64>,
}

/// Something that holds messages back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockedView {
    /// `key`, `destination`, `transport`, `no_route`, `paused`, `unclaimed`.
    pub kind: String,
    /// Tenant; none = all.
    pub tenant: Option<String>,
    /// Transport, if one is concerned.
    pub transport: Option<String>,
    /// Key, scope or topic that is held.
    pub subject: String,
    /// Why.
    pub reason: String,
    /// Code.
    pub code: Option<String>,
    /// Since when.
    pub since: UnixMillis,
    /// Next try, if one is planned.
    pub until: Option<UnixMillis>,
    /// Messages known to wait for it.
    pub waiting: u64,
}

/// A configured transport as shown.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TransportView {
    /// Name.
    pub name: String,
    /// Who serves.
    pub plugin: PluginIdentity,
    /// Operator paused it.
    pub paused: bool,
    /// `closed` (serving), `open` (held), `half-open` (probing).
    pub breaker: String,
    /// Instances.
    pub lanes: u32,
    /// Messages being sent now.
    pub in_flight: u64,
    /// How it says it is.
    pub health: HealthReport,
}

/// One check of `/readyz`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Check {
    /// Name.
    pub name: String,
    /// `ok`, `warn`, `fail`.
    pub status: String,
    /// One sentence.
    pub detail: String,
}

/// A request for a bulk act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperationRequest {
    /// `replay`, `quarantine` or `purge`.
    pub kind: String,
    /// Filter.
    pub filter: String,
    /// Confined to this tenant; none = all.
    pub tenant: Option<Tenant>,
    /// Most acts a second; none = 100.
    pub rate: Option<u32>,
    /// Why.
    pub reason: String,
    /// Who asks.
    pub actor: String,
}

/// The outbox as a service. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait OutboxService: QuarantineService {
    /// Enqueues all or none and answers after the durable commit.
    async fn enqueue(&self, messages: Vec<NewMessage>) -> Result<Enqueued, ServiceError>;
    /// Commits statements and messages together. With `finish` it also finishes an idempotency key, in the same commit: when
    /// the key isn't the caller's any more, nothing is committed ([`ServiceError::LeaseLost`]).
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<NewMessage>,
        finish: Option<FinishWith>,
    ) -> Result<TransactionDone, ServiceError>;
    /// One message with payload and attempts.
    async fn message(&self, tenant: &Tenant, id: &str) -> Result<MessageView, ServiceError>;
    /// Messages that match. States: `pending`, `leased`, `done`, `cancelled`, `expired` by the filter's `state=`; dead ones are listed with dead letters.
    async fn messages(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<MessageView>, ServiceError>;
    /// Takes a message back unless it is being sent.
    async fn cancel(&self, tenant: &Tenant, id: &str, actor: &str) -> Result<MessageView, ServiceError>;
    /// Moves a waiting message (scheduled or parked) to another instant.
    async fn reschedule(
        &self,
        tenant: &Tenant,
        id: &str,
        not_before: UnixMillis,
        actor: &str,
    ) -> Result<MessageView, ServiceError>;
    /// Depths and ages.
    async fn stats(&self, tenant: Option<&Tenant>) -> Result<Vec<OutboxStats>, ServiceError>;
    /// What holds messages back.
    async fn blocked(&self, tenant: Option<&Tenant>) -> Result<Vec<BlockedView>, ServiceError>;
    /// Dead letters that match: messages, the latest in the order first, then stuck sagas by tenant and id.
    async fn dead_letters(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadView>, ServiceError>;
    /// How many dead letters match. At most [`DEAD_READS_MAX`](crate::limits::DEAD_READS_MAX) messages are looked at, the latest
    /// in the order first; stuck sagas all are.
    async fn count_dead(&self, tenant: Option<&Tenant>, filter: &str) -> Result<Counted<u64>, ServiceError>;
    /// Dead letters by error signature; bounded like the count.
    async fn dead_groups(&self, tenant: Option<&Tenant>, filter: &str)
    -> Result<Counted<Vec<DeadGroup>>, ServiceError>;
    /// One dead letter; a message with payload and attempts.
    async fn dead_letter(&self, dead: &DeadId) -> Result<DeadView, ServiceError>;
    /// Puts one dead letter back; works on quarantined ones too. A stuck saga tries its compensation again, or goes forward.
    async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Result<Replayed, ServiceError>;
    /// Fences one dead letter off. A stuck saga stays so until it moves.
    async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Result<DeadView, ServiceError>;
    /// Enqueues an edited copy of a dead letter as a new message that links to it by `causation_id`. Not of a stuck saga.
    async fn edit(&self, dead: &DeadId, edited: NewMessage, actor: &str) -> Result<Enqueued, ServiceError>;
    /// Starts a bulk act.
    async fn start_operation(&self, request: OperationRequest) -> Result<Operation, ServiceError>;
    /// How a bulk act stands.
    async fn operation(&self, id: &str) -> Result<Operation, ServiceError>;
    /// Stops a bulk act.
    async fn cancel_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError>;
    /// Transports.
    async fn transports(&self) -> Vec<TransportView>;
    /// Stops sending through a transport.
    async fn pause(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError>;
    /// Goes on sending.
    async fn resume(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError>;
    /// Asks a transport how it is, and tries its held destinations again now.
    async fn probe(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError>;
    /// Hands messages of the transport `external` to a worker.
    async fn claim(&self, request: ClaimRequest) -> Result<Vec<ClaimedMessage>, ServiceError>;
    /// Does what a worker wants with messages it claimed: an answer for each, in order.
    async fn settle(&self, request: SettleRequest) -> Result<Vec<SettleAnswer>, ServiceError>;
    /// What is missing at a transport's peer; with `apply`, creates it and answers what was done.
    async fn provision(&self, transport: &str, apply: bool, actor: &str) -> Result<Vec<ProvisionChange>, ServiceError>;
    /// The first delivery of a payload by a worker outside, within the window of its route.
    async fn check_dedup(
        &self,
        tenant: &Tenant,
        target: &str,
        sha256: &str,
    ) -> Result<Option<FirstDelivery>, ServiceError>;
    /// Latest audit events.
    async fn audit(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<AuditEvent>, ServiceError>;
    /// Checks for `/readyz`; ready when none is `fail`.
    async fn ready(&self) -> Vec<Check>;
}
