//! Dead letters of all kinds: messages that can't be delivered, sagas whose compensation is stuck, received messages that can't be
//! handled, and events of streams that can't be numbered or relayed.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::ids::Tenant;
use waybill_core::new_message::NewMessage;
use waybill_core::outbox::dead_plan::DeadPlan;
use waybill_core::outbox::records::DeadState;
use waybill_core::port::dead::{DeadId, DeadKind};
use waybill_core::port::query::{Counted, DeadGroup, Page};
use waybill_core::port::saga::RetryMode;
use waybill_core::port::service::{MessageState, ServiceError};
use waybill_core::saga::event::StepDirection;
use waybill_core::saga::records::SagaDead;
use waybill_core::saga::state::SagaState;
use waybill_core::time::UnixMillis;

use crate::dead_events::DeadEvent;
use crate::dead_inbox::DeadInbox;
use crate::facets::FacetsView;
use crate::inbox::InboxMessageView;
use crate::instant::Instant;
use crate::messages::{Enqueued, MessageView};
use crate::operations::LastReplayView;

/// A message that can't be delivered, a saga whose compensation is stuck, a received message that can't be handled, or an event of a
/// stream that can't be numbered or relayed.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = DeadLetter)]
pub enum DeadLetterView {
    /// A message that wasn't delivered.
    Message(Box<MessageView>),
    /// A saga whose compensation failed for good.
    Saga(Box<DeadSaga>),
    /// A received message that can't be handled.
    Inbox(Box<DeadInbox>),
    /// An event of a stream that can't be numbered or relayed.
    Event(Box<DeadEvent>),
}

impl DeadLetterView {
    /// The message, if it is one.
    pub fn message(&self) -> Option<&MessageView> {
        match self {
            Self::Message(message) => Some(message),
            Self::Saga(_) | Self::Inbox(_) | Self::Event(_) => None,
        }
    }

    /// The stuck saga, if it is one.
    pub fn saga(&self) -> Option<&DeadSaga> {
        match self {
            Self::Saga(saga) => Some(saga),
            Self::Message(_) | Self::Inbox(_) | Self::Event(_) => None,
        }
    }
}

impl From<MessageView> for DeadLetterView {
    fn from(message: MessageView) -> Self {
        Self::Message(Box::new(message))
    }
}

impl From<DeadInbox> for DeadLetterView {
    fn from(inbox: DeadInbox) -> Self {
        Self::Inbox(Box::new(inbox))
    }
}

impl From<DeadEvent> for DeadLetterView {
    fn from(event: DeadEvent) -> Self {
        Self::Event(Box::new(event))
    }
}

impl From<&SagaDead> for DeadLetterView {
    fn from(saga: &SagaDead) -> Self {
        Self::Saga(Box::new(saga.into()))
    }
}

/// A saga whose compensation failed for good: an operator has to act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeadSaga {
    /// Id of the root.
    pub id: String,
    pub tenant: String,
    /// `dead`, or `quarantined` once an operator fenced it off.
    pub state: MessageState,
    /// The saga whose compensation failed: the root or one of its sub-sagas.
    pub saga: String,
    /// Definition of that one.
    pub definition: String,
    /// Version of that definition, from 1.
    pub version: u32,
    /// The step that isn't undone.
    pub step: String,
    /// What failed of it: always its compensation.
    pub direction: StepDirection,
    /// How often the compensation was tried.
    pub attempts: u32,
    /// Code of the last error.
    pub code: String,
    /// Text of that error, for people.
    pub reason: String,
    /// Both, `CODE: reason`, as a message has it.
    pub last_error: String,
    /// When the compensation failed for good.
    pub ended_at: Instant,
    /// Operator's note on a quarantined one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// Where to look further.
    pub links: SagaLinks,
}

impl From<&SagaDead> for DeadSaga {
    fn from(dead: &SagaDead) -> Self {
        let (state, note) = match &dead.state {
            DeadState::Dead => (MessageState::Dead, None),
            DeadState::Quarantined { note, .. } => (MessageState::Quarantined, Some(note.clone())),
        };
        Self {
            id: dead.key.id.to_string(),
            tenant: dead.key.tenant.to_string(),
            state,
            saga: dead.saga.to_string(),
            definition: dead.definition.name.to_string(),
            version: dead.definition.version,
            step: dead.step.to_string(),
            direction: StepDirection::Compensate,
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
    /// Of a tenant's saga.
    pub fn of(tenant: &Tenant, id: &str) -> Self {
        Self { saga: saga_address(tenant, id) }
    }
}

/// What became of a replay.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
#[schema(as = ReplayedDeadLetter)]
pub enum Replayed {
    /// The message, pending again.
    Message(Box<MessageView>),
    /// The saga, going on.
    Saga(ReplayedSaga),
    /// The received message, stored again.
    Inbox(Box<InboxMessageView>),
    /// The event, which its relay's broker has now.
    Event(Box<DeadEvent>),
}

impl Replayed {
    /// The message, if it was one.
    pub fn message(&self) -> Option<&MessageView> {
        match self {
            Self::Message(message) => Some(message),
            Self::Saga(_) | Self::Inbox(_) | Self::Event(_) => None,
        }
    }
}

/// A stuck saga that goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReplayedSaga {
    /// Id of the root.
    pub id: String,
    pub tenant: String,
    /// State of the saga now.
    pub state: SagaState,
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

/// Dead letters of one tenant with one code and one error signature.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = DeadGroup)]
pub struct DeadGroupView {
    pub kind: DeadKind,
    pub tenant: String,
    /// Error code that all of the group died with.
    pub code: String,
    /// Error text without numbers and quoted parts.
    pub signature: String,
    /// A topic of the group; of stuck sagas `saga:<definition>/<step>`, of received messages a subject, of events a stream.
    pub topic: String,
    /// Dead letters in the group; a lower bound if the list has `counted_since`.
    pub count: u64,
    /// When the first of them died.
    pub first_at: Instant,
    /// When the latest of them died.
    pub latest_at: Instant,
    /// How many of them died in each of the last sixty minutes, the oldest first; the last one has only begun. Null where nothing was counted
    /// (`counted_since`); behind that a lower bound. Left out where none did. Those that were put back meanwhile aren't among them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hour: Vec<Option<u64>>,
    /// Id of one of them.
    pub example: String,
    /// The latest bulk replay that put something of this group back, among the latest 100 operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_replay: Option<LastReplayView>,
}

impl DeadGroupView {
    /// As it stands at an instant; of what entered the order before `since` nothing was counted.
    pub fn of(group: DeadGroup, now: UnixMillis, since: Option<UnixMillis>) -> Self {
        let instant = |ms| Instant(UnixMillis(ms));
        Self {
            kind: group.kind,
            tenant: group.tenant,
            code: group.code,
            signature: group.signature,
            topic: group.topic,
            count: group.count,
            first_at: instant(group.first_at),
            latest_at: instant(group.latest_at),
            hour: group.minutes.until(now, since),
            example: group.example,
            last_replay: None,
        }
    }
}

/// How and why a dead letter is replayed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Replay {
    /// Of a stuck saga: which way it goes on; `compensate` if absent. Not for others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RetryMode>,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}

impl Replay {
    /// In the usual way.
    pub fn because(reason: &str) -> Self {
        Self { mode: None, reason: reason.to_owned() }
    }
}

/// Why a dead letter is fenced off.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Quarantine {
    /// Kept with the dead letter.
    pub note: String,
}

/// What a plan is asked for.
#[derive(Clone, Copy, Debug)]
pub struct PlanAsk<'a> {
    /// The filter that the act will be asked for with.
    pub filter: &'a str,
    /// The act leaves quarantined ones alone.
    pub spares_quarantined: bool,
    /// Only what died until then; none, or one in the future = until now.
    pub before: Option<UnixMillis>,
    /// Count all, not the latest [`PLAN_READS_MAX`](waybill_core::outbox::dead_plan::PLAN_READS_MAX) alone. Past
    /// [`DEAD_READS_MAX`](waybill_core::limits::DEAD_READS_MAX) it is a lower bound all the same.
    pub exact: bool,
    /// Most of them to show.
    pub sample: usize,
}

/// What a bulk act on dead letters would concern.
#[derive(Clone, Debug)]
pub struct PlannedDead {
    /// It would take what died until then.
    pub before: UnixMillis,
    pub counted: Counted<DeadPlan>,
    /// The latest of them.
    pub sample: Vec<DeadLetterView>,
}

/// Dead letters as a service. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait DeadLetterService: Send + Sync + 'static {
    /// Dead letters that match: messages, the latest in the order first, then stuck sagas by tenant and id, then received messages and
    /// events of streams by their places.
    async fn dead_letters(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<DeadLetterView>, ServiceError>;
    /// How many dead letters match. At most [`DEAD_READS_MAX`](waybill_core::limits::DEAD_READS_MAX) messages are looked at, the latest
    /// in the order first; stuck sagas all are; of received messages as many again.
    async fn count_dead(&self, tenant: Option<&Tenant>, filter: &str) -> Result<Counted<u64>, ServiceError>;
    /// What a bulk act on those that match would concern, without doing it.
    async fn plan_dead(&self, tenant: Option<&Tenant>, ask: PlanAsk<'_>) -> Result<PlannedDead, ServiceError>;
    /// Dead letters by error signature; bounded like the count.
    async fn dead_groups(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
    ) -> Result<Counted<Vec<DeadGroupView>>, ServiceError>;
    /// How often each value stands in what matches, the latest first. At most 10,000 rows are looked at, for two seconds.
    async fn dead_facets(&self, tenant: Option<&Tenant>, filter: &str) -> Result<FacetsView, ServiceError>;
    /// One dead letter; a message with payload and attempts, a received one with its payload.
    async fn dead_letter(&self, dead: &DeadId) -> Result<DeadLetterView, ServiceError>;
    /// Puts one dead letter back; works on quarantined ones too. A stuck saga tries its compensation again, or goes forward; a
    /// received message is stored for its consumer again, behind what is there of its key; an event is sent through its relay at once.
    async fn replay(&self, dead: &DeadId, how: Replay, actor: &str) -> Result<Replayed, ServiceError>;
    /// Fences one dead letter off. A stuck saga stays so until it moves.
    async fn quarantine(&self, dead: &DeadId, note: &str, actor: &str) -> Result<DeadLetterView, ServiceError>;
    /// Enqueues an edited copy of a dead letter as a new message that links to it by `causation_id`. `edited` is the whole copy:
    /// what the edit left as it was is in it. Of a received one the copy is stored for its consumer, under a new id; topic and
    /// tenant stay. Not of a stuck saga.
    async fn edit(
        &self,
        dead: &DeadId,
        edited: NewMessage,
        reason: &str,
        actor: &str,
    ) -> Result<Enqueued, ServiceError>;
}
