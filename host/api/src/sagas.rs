//! Sagas: an item of a list, and all that `waybill saga show` draws.

use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::port::query::Page;
use waybill_core::port::saga::{
    Acted, ActedBy, Define, Defined, SagaAct, SagaStats, StartSaga, StartedSaga, StepReply,
};
use waybill_core::port::transport::PluginIdentity;
use waybill_core::saga::error::SagaError;
use waybill_core::saga::event::{Failure, PauseCause};
use waybill_core::saga::filter::SagaFilter;
use waybill_core::saga::id::SagaId;
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{SagaSummary, StoredDefinition};
use waybill_core::saga::state::{Pause, SagaState};

use crate::headers::HeadersJson;
use crate::instant::Instant;
use crate::saga_definitions::DefinitionView;
use crate::saga_history::HistoryLine;
use crate::saga_node::SagaNodeView;
use crate::saga_ways::WayOutView;

/// A saga was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SagaStarted {
    /// As the request chose it, else made by the host.
    pub id: String,
    pub tenant: String,
    /// It was there: the same id with the same definition and input was sent before.
    pub duplicate: bool,
    /// Its state when it was at rest or the time was over; only with `wait_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SagaState>,
}

impl SagaStarted {
    /// Of a tenant's saga.
    pub fn new(tenant: &Tenant, started: &StartedSaga) -> Self {
        Self { id: started.id.to_string(), tenant: tenant.to_string(), duplicate: started.duplicate, state: None }
    }
}

/// What became of an act, a signal or a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SagaActed {
    /// Id of the root, also after an act on a sub-saga.
    pub id: String,
    /// State of the saga now.
    pub state: SagaState,
    /// Nothing had to be done: it was so already.
    pub unchanged: bool,
}

impl From<Acted> for SagaActed {
    fn from(acted: Acted) -> Self {
        Self { id: acted.id.to_string(), state: acted.state, unchanged: acted.unchanged }
    }
}

/// Why a step failed or a saga went back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaFailure)]
pub struct FailureView {
    /// Stable code: the host's own, or the participant's.
    pub code: String,
    /// The same in a sentence, for people.
    pub reason: String,
    /// It may have had its effect all the same.
    pub maybe_done: bool,
}

impl From<&Failure> for FailureView {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.code.to_string(), reason: failure.reason.to_string(), maybe_done: failure.maybe_done }
    }
}

/// A saga. The members after `deadline` are there when one is shown, not in lists.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Saga)]
pub struct SagaView {
    /// Id of the root: sub-sagas are shown below it.
    pub id: String,
    pub tenant: String,
    /// Name of its definition.
    pub definition: String,
    /// Version of that definition, from 1.
    pub version: u32,
    /// sha-256 of that, in hex: the definition a running saga keeps.
    pub definition_hash: String,
    /// `failed`: stuck in a compensation, killed, or accepted as it is.
    pub state: SagaState,
    /// What it waits for: `call`, `reply`, `signal:<name>`, `approval`, `saga`, `retry`, `blocked` or `operator`.
    pub waiting_for: Option<String>,
    /// Since when it waits for that; null once it has ended.
    pub since: Option<Instant>,
    /// Until when it waits at most.
    pub until: Option<Instant>,
    /// Active steps, `<step>` or `<sub-saga's path>/<step>`; of an ended one those that failed.
    pub steps: Vec<String>,
    /// Code of what made it go back or stop.
    pub code: Option<String>,
    /// Text of that error, for people.
    pub reason: Option<String>,
    pub started_at: Instant,
    /// When its latest event happened.
    pub updated_at: Instant,
    /// Null until it has ended; a stuck one hasn't.
    pub ended_at: Option<Instant>,
    /// Must be over by then.
    pub deadline: Option<Instant>,
    /// What it waits for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Held: since when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseView>,
    /// The saga with its steps, and sub-sagas below theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saga: Option<SagaNodeView>,
    /// Participants, and the plugin that served each when the saga began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<SagaParticipant>>,
    /// Handed to every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeadersJson>,
    /// Trace chain of the business operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_id: Option<String>,
    /// Ties replies to the saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What may be done to it now, and what each act leads to: while it waits for an operator, or is held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ways_out: Option<Vec<WayOutView>>,
    /// What happened, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HistoryLine>>,
    /// Events in the middle of a long history that aren't kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_dropped: Option<u32>,
}

impl From<SagaSummary> for SagaView {
    fn from(saga: SagaSummary) -> Self {
        let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
        Self {
            id: saga.key.id.to_string(),
            tenant: saga.key.tenant.to_string(),
            definition: saga.definition.name.to_string(),
            version: saga.definition.version,
            definition_hash: saga.definition.hash.to_string(),
            state: saga.state,
            waiting_for: text(saga.waiting_for),
            since: saga.since.map(Instant),
            until: saga.until.map(Instant),
            steps: saga.steps.iter().map(ToString::to_string).collect(),
            code: text(saga.code),
            reason: text(saga.reason),
            started_at: saga.started_at.into(),
            updated_at: saga.updated_at.into(),
            ended_at: saga.ended_at.map(Instant),
            deadline: saga.deadline.map(Instant),
            waiting: None,
            paused: None,
            saga: None,
            plugins: None,
            headers: None,
            envelope_id: None,
            correlation_id: None,
            ways_out: None,
            history: None,
            history_dropped: None,
        }
    }
}

/// A participant of a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SagaParticipant {
    /// Name in the configuration.
    pub participant: String,
    /// Plugin that served it when the saga began.
    pub plugin: PluginIdentity,
}

/// Why a saga is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaPause)]
pub struct PauseView {
    /// Since when it is held.
    pub at: Instant,
    /// `asked` (an operator), `unknown_result` (of a step that isn't idempotent), `suspect` (the host died too often in
    /// this step) or `policy` (the step's retry policy).
    #[schema(value_type = String)]
    pub cause: PauseCause,
    /// Who asked; null where the host held it by itself.
    pub actor: Option<String>,
    /// The reason given with the request.
    pub note: Option<String>,
}

impl From<Pause> for PauseView {
    fn from(pause: Pause) -> Self {
        Self {
            at: pause.at.into(),
            cause: pause.cause,
            actor: pause.actor.map(|actor| actor.to_string()),
            note: pause.note.map(|note| note.to_string()),
        }
    }
}

/// Sagas read in one page of a count.
const COUNT_PAGE: usize = 1_000;

/// Counts by reading the list, page by page.
///
/// # Errors
/// The list's.
pub async fn count_by_pages<S: SagaService + ?Sized>(sagas: &S, filter: &SagaFilter) -> Result<u64, SagaError> {
    let (mut count, mut cursor) = (0, None::<String>);
    loop {
        let page = sagas.sagas(filter, cursor.as_deref(), COUNT_PAGE).await?;
        count += page.items.len() as u64;
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(count);
        }
    }
}

/// Sagas, for the API.
#[async_trait]
pub trait SagaService: Send + Sync + 'static {
    /// Checks a definition and stores it, unless it is a dry run.
    async fn define(&self, define: Define) -> Result<Defined, SagaError>;
    /// A definition; without a version the latest.
    async fn definition(&self, name: &str, version: Option<u32>) -> Result<DefinitionView, SagaError>;
    /// All definitions, or all versions of one.
    async fn definitions(
        &self,
        name: Option<&str>,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<StoredDefinition>, SagaError>;
    /// Starts a saga; answered when the start is durable.
    async fn start(&self, start: StartSaga) -> Result<StartedSaga, SagaError>;
    /// A saga, running or ended. The id of a sub-saga answers its tree.
    async fn saga(&self, tenant: &Tenant, id: &SagaId) -> Result<SagaView, SagaError>;
    /// State of a saga as soon as it is durably at rest (ended, stuck or paused), none if it moves for longer than `within`.
    async fn at_rest(&self, tenant: &Tenant, id: &SagaId, within: Duration) -> Result<Option<SagaState>, SagaError>;
    /// Sagas that match, newest start first, those in memory as they are now.
    async fn sagas(
        &self,
        filter: &SagaFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<SagaSummary>, SagaError>;
    /// How many match. A host that has them all in memory counts there instead.
    async fn count(&self, filter: &SagaFilter) -> Result<u64, SagaError> {
        count_by_pages(self, filter).await
    }
    /// Does what an operator asks; answered when it is durable.
    async fn act(&self, tenant: &Tenant, id: &SagaId, act: SagaAct, by: ActedBy) -> Result<Acted, SagaError>;
    /// A signal: taken by the step that waits for it, or kept for one that will.
    async fn signal(
        &self,
        tenant: &Tenant,
        id: &SagaId,
        name: &str,
        data: Json,
        by: ActedBy,
    ) -> Result<Acted, SagaError>;
    /// A correlated reply; the inbox calls it too. A reply that comes twice changes nothing.
    async fn reply(&self, tenant: &Tenant, reply: StepReply) -> Result<Acted, SagaError>;
    fn saga_stats(&self) -> SagaStats;
}
