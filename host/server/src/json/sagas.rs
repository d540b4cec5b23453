//! Sagas as answers: an item of a list, and all that `waybill saga show` draws.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::port::saga::{Acted, StartedSaga};
use waybill_core::saga::event::{Failure, PauseCause};
use waybill_core::saga::records::SagaSummary;
use waybill_core::saga::state::{Pause, SagaState};
use waybill_core::saga::view::SagaView;

use super::headers::HeadersJson;
use super::instant::Instant;
use super::message_out::PluginOut;
use super::saga_history::HistoryOut;
use super::saga_node::SagaNodeOut;

/// State of a saga.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = SagaState)]
pub enum SagaStateOut {
    /// Going forward, or waiting for something.
    Running,
    /// Undoing what was done.
    Compensating,
    /// Every step succeeded or was skipped.
    Completed,
    /// All compensated.
    Cancelled,
    /// Stuck in a compensation, killed, or accepted.
    Failed,
    /// Held.
    Paused,
}

impl From<SagaState> for SagaStateOut {
    fn from(state: SagaState) -> Self {
        match state {
            SagaState::Running => Self::Running,
            SagaState::Compensating => Self::Compensating,
            SagaState::Completed => Self::Completed,
            SagaState::Cancelled => Self::Cancelled,
            SagaState::Failed => Self::Failed,
            SagaState::Paused => Self::Paused,
        }
    }
}

/// A saga was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaStarted)]
pub struct StartedOut {
    /// Its id.
    pub id: String,
    /// Whose it is.
    pub tenant: String,
    /// It was there: the same id with the same definition and input was sent before.
    pub duplicate: bool,
    /// Its state when it was at rest or the time was over; only with `wait_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<SagaStateOut>,
}

impl StartedOut {
    /// Of a tenant's saga.
    pub fn new(tenant: &Tenant, started: &StartedSaga) -> Self {
        Self { id: started.id.to_string(), tenant: tenant.to_string(), duplicate: started.duplicate, state: None }
    }
}

/// What became of an act, a signal or a reply.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaActed)]
pub struct ActedOut {
    /// The root.
    pub id: String,
    /// State of the saga now.
    pub state: SagaStateOut,
    /// Nothing had to be done: it was so already.
    pub unchanged: bool,
}

impl From<Acted> for ActedOut {
    fn from(acted: Acted) -> Self {
        Self { id: acted.id.to_string(), state: acted.state.into(), unchanged: acted.unchanged }
    }
}

/// Why something failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaFailure)]
pub struct FailureOut {
    /// Stable code.
    pub code: String,
    /// One sentence.
    pub reason: String,
    /// It may have had its effect all the same.
    pub maybe_done: bool,
}

impl From<&Failure> for FailureOut {
    fn from(failure: &Failure) -> Self {
        Self { code: failure.code.to_string(), reason: failure.reason.to_string(), maybe_done: failure.maybe_done }
    }
}

/// A saga. The members after `deadline` are there when one is shown, not in lists.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Saga)]
pub struct SagaOut {
    /// Id.
    pub id: String,
    /// Whose.
    pub tenant: String,
    /// Name of its definition.
    pub definition: String,
    /// Version of that.
    pub version: u32,
    /// sha-256 of that, in hex: the definition a running saga keeps.
    pub definition_hash: String,
    /// State.
    pub state: SagaStateOut,
    /// What it waits for: `call`, `reply`, `signal:<name>`, `approval`, `saga`, `retry`, `blocked` or `operator`.
    pub waiting_for: Option<String>,
    /// Since when.
    pub since: Option<Instant>,
    /// Until when it waits at most.
    pub until: Option<Instant>,
    /// Active steps, `<step>` or `<sub-saga's path>/<step>`; of an ended one those that failed.
    pub steps: Vec<String>,
    /// Code of what made it go back or stop.
    pub code: Option<String>,
    /// Text of that.
    pub reason: Option<String>,
    /// Began.
    pub started_at: Instant,
    /// Last moved.
    pub updated_at: Instant,
    /// Ended.
    pub ended_at: Option<Instant>,
    /// Must be over by then.
    pub deadline: Option<Instant>,
    /// What it waits for, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// Held: since when and why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<PauseOut>,
    /// The saga with its steps, and sub-sagas below theirs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saga: Option<SagaNodeOut>,
    /// Participants, and the plugin that served each when the saga began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugins: Option<Vec<ParticipantOut>>,
    /// Handed to every step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headers: Option<HeadersJson>,
    /// Trace chain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub envelope_id: Option<String>,
    /// Ties replies to the saga.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub correlation_id: Option<String>,
    /// What happened, oldest first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<Vec<HistoryOut>>,
    /// Events in the middle of a long history that aren't kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history_dropped: Option<u32>,
}

impl From<SagaSummary> for SagaOut {
    fn from(saga: SagaSummary) -> Self {
        let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
        Self {
            id: saga.key.id.to_string(),
            tenant: saga.key.tenant.to_string(),
            definition: saga.definition.name.to_string(),
            version: saga.definition.version,
            definition_hash: saga.definition.hash.to_string(),
            state: saga.state.into(),
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
            history: None,
            history_dropped: None,
        }
    }
}

impl From<SagaView> for SagaOut {
    fn from(view: SagaView) -> Self {
        let plugins = view.plugins.into_iter().map(|(participant, plugin)| ParticipantOut {
            participant: participant.to_string(),
            plugin: plugin.into(),
        });
        Self {
            waiting: view.waiting,
            paused: view.paused.map(PauseOut::from),
            saga: Some(view.saga.into()),
            plugins: Some(plugins.collect()),
            headers: Some(HeadersJson(view.headers)),
            envelope_id: view.envelope_id.map(|id| id.to_string()),
            correlation_id: view.correlation_id.map(|id| id.to_string()),
            history: Some(view.history.into_iter().map(HistoryOut::from).collect()),
            history_dropped: Some(view.history_dropped),
            ..Self::from(view.summary)
        }
    }
}

/// A participant of a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaParticipant)]
pub struct ParticipantOut {
    /// Name in the configuration.
    pub participant: String,
    /// Its plugin.
    pub plugin: PluginOut,
}

/// Why a saga is held.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SagaPause)]
pub struct PauseOut {
    /// Since when.
    pub at: Instant,
    /// `asked` (an operator), `unknown_result` (of a step that isn't idempotent), `suspect` (the host died too often in
    /// this step) or `policy` (the step's retry policy).
    pub cause: String,
    /// Who asked.
    pub actor: Option<String>,
    /// In their words.
    pub note: Option<String>,
}

impl From<Pause> for PauseOut {
    fn from(pause: Pause) -> Self {
        let cause = match pause.cause {
            PauseCause::Asked => "asked",
            PauseCause::UnknownResult => "unknown_result",
            PauseCause::Suspect => "suspect",
            PauseCause::Policy => "policy",
        };
        Self {
            at: pause.at.into(),
            cause: cause.to_owned(),
            actor: pause.actor.map(|actor| actor.to_string()),
            note: pause.note.map(|note| note.to_string()),
        }
    }
}
