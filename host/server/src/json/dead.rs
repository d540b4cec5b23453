//! Dead letters of both kinds as shown.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::dead::{DeadKind, DeadView, Replayed};
use waybill_core::saga::records::SagaDead;

use super::instant::Instant;
use super::message_out::{MessageOut, StateOut};
use super::saga_node::DirectionJson;
use super::sagas::SagaStateOut;

/// Kind of a dead letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = DeadLetterKind)]
pub enum DeadKindJson {
    /// A message that wasn't delivered.
    Message,
    /// A saga whose compensation failed for good.
    Saga,
}

impl From<DeadKindJson> for DeadKind {
    fn from(kind: DeadKindJson) -> Self {
        match kind {
            DeadKindJson::Message => Self::Message,
            DeadKindJson::Saga => Self::Saga,
        }
    }
}

impl From<DeadKind> for DeadKindJson {
    fn from(kind: DeadKind) -> Self {
        match kind {
            DeadKind::Message => Self::Message,
            DeadKind::Saga => Self::Saga,
        }
    }
}

/// A dead letter.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = DeadLetter)]
pub enum DeadLetterOut {
    /// A message that wasn't delivered.
    Message(Box<MessageOut>),
    /// A saga whose compensation failed for good.
    Saga(Box<DeadSagaOut>),
}

impl From<DeadView> for DeadLetterOut {
    fn from(dead: DeadView) -> Self {
        match dead {
            DeadView::Message(message) => Self::Message(Box::new((*message).into())),
            DeadView::Saga(saga) => Self::Saga(Box::new(DeadSagaOut::from(&*saga))),
        }
    }
}

/// A stuck saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadSaga)]
pub struct DeadSagaOut {
    /// Id of the root.
    pub id: String,
    /// Tenant.
    pub tenant: String,
    /// `dead` or `quarantined`.
    pub state: StateOut,
    /// The saga whose compensation failed: the root or one of its sub-sagas.
    pub saga: String,
    /// Definition of that one.
    pub definition: String,
    /// Version of that.
    pub version: u32,
    /// The step that isn't undone.
    pub step: String,
    /// What failed of it: always its compensation.
    pub direction: DirectionJson,
    /// Attempts at it.
    pub attempts: u32,
    /// Code of the last error.
    pub code: String,
    /// Text of that.
    pub reason: String,
    /// Both, `CODE: reason`, as a message has it.
    pub last_error: String,
    /// Stuck since.
    pub ended_at: Instant,
    /// Operator's note on a quarantined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where to look further.
    pub links: SagaLinks,
}

impl From<&SagaDead> for DeadSagaOut {
    fn from(dead: &SagaDead) -> Self {
        let (state, note) = match &dead.state {
            DeadState::Dead => (StateOut::Dead, None),
            DeadState::Quarantined { note, .. } => (StateOut::Quarantined, Some(note.clone())),
        };
        Self {
            id: dead.key.id.to_string(),
            tenant: dead.key.tenant.to_string(),
            state,
            saga: dead.saga.to_string(),
            definition: dead.definition.name.to_string(),
            version: dead.definition.version,
            step: dead.step.to_string(),
            direction: DirectionJson::Compensate,
            attempts: dead.attempts,
            code: dead.code.to_string(),
            reason: dead.reason.to_string(),
            last_error: format!("{}: {}", dead.code, dead.reason),
            ended_at: dead.died_at.into(),
            note,
            links: SagaLinks::of(&dead.key.tenant, dead.key.id.as_str()),
        }
    }
}

/// Addresses about a saga.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SagaLinks {
    /// The saga with its steps and its history.
    pub saga: String,
}

impl SagaLinks {
    fn of(tenant: &Tenant, id: &str) -> Self {
        Self { saga: saga_address(tenant, id) }
    }
}

/// What became of a replay.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = ReplayedDeadLetter)]
pub enum ReplayedOut {
    /// The message, pending again.
    Message(Box<MessageOut>),
    /// The saga, going on.
    Saga(ReplayedSagaOut),
}

impl From<Replayed> for ReplayedOut {
    fn from(done: Replayed) -> Self {
        match done {
            Replayed::Message(message) => Self::Message(Box::new((*message).into())),
            Replayed::Saga { tenant, acted } => Self::Saga(ReplayedSagaOut {
                links: SagaLinks::of(&tenant, acted.id.as_str()),
                id: acted.id.to_string(),
                tenant: tenant.to_string(),
                state: acted.state.into(),
                unchanged: acted.unchanged,
            }),
        }
    }
}

/// A stuck saga that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ReplayedSaga)]
pub struct ReplayedSagaOut {
    /// Id of the root.
    pub id: String,
    /// Tenant.
    pub tenant: String,
    /// State of the saga now.
    pub state: SagaStateOut,
    /// Nothing had to be done: it was so already.
    pub unchanged: bool,
    /// Where to look further.
    pub links: SagaLinks,
}

/// Address of a saga; whatever isn't plain in its id is escaped.
pub fn saga_address(tenant: &Tenant, id: &str) -> String {
    let escaped = |text: &str| {
        text.bytes().fold(String::new(), |mut to, byte| {
            if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
                to.push(char::from(byte));
            } else {
                to.push_str(&format!("%{byte:02X}"));
            }
            to
        })
    };
    format!("/v1/sagas/{}?tenant={}", escaped(id), escaped(tenant.as_str()))
}
