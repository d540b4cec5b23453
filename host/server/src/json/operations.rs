//! Bulk acts as answers.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use waybill_api::dead_letters::{DeadLetterView, PlannedDead};
use waybill_api::instant::Instant;
use waybill_api::messages::MessageView;
use waybill_api::operations::FateView;
use waybill_api::sagas::SagaView;
use waybill_core::fates::{Fates, Trial, TrialState};
use waybill_core::ids::Tenant;
use waybill_core::port::saga::RetryMode;
use waybill_core::port::transact::{Operation, OperationState, Refusal};

use super::requests::OperationKind;

/// A bulk act and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Operation)]
pub struct OperationOut {
    /// ULID that the host made.
    pub id: String,
    /// On dead letters `replay`, `quarantine` or `purge`; on sagas `pause`, `resume`, `cancel`, `kill`, `retry` or `accept`; on messages
    /// `cancel_messages` or `reschedule_messages`.
    pub kind: String,
    /// What it selects, among what died, was enqueued, or which sagas started, before `created_at`.
    pub filter: String,
    /// Of a retry: from which step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// Of a retry: which way stuck sagas go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<RetryMode>,
    /// Of a `reschedule_messages`: when they go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Instant>,
    /// On dead letters: it takes what died until then; `created_at` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub before: Option<Instant>,
    /// Of a replay: what is put back first, and how that went.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trial: Option<TrialOut>,
    /// Of a replay: what became of what it put back. Lists leave it out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fate: Option<FateView>,
    /// Tenant it is confined to; null = all.
    pub tenant: Option<String>,
    /// Most acts a second.
    pub rate: u32,
    /// Why, as the request gave it.
    pub reason: String,
    /// Who asked for it.
    pub actor: String,
    pub state: OperationStateOut,
    /// How many matched when it began.
    pub matched: u64,
    /// Set when the counting ended after a bounded number of messages. `matched` is then a lower bound. Dead letters are counted the latest
    /// first: of what entered the order before this instant nothing was counted; messages that wait as they are listed: it is the instant of
    /// the last one; it is worked on all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// How many are done.
    pub done: u64,
    /// How many were so already.
    pub unchanged: u64,
    /// How many could not be done.
    pub failed: u64,
    /// Why not, by code; of 20 codes at most.
    pub refusals: Vec<Refusal>,
    /// Error that stopped it.
    pub error: Option<String>,
    /// When it was asked for.
    pub created_at: Instant,
    /// When its progress was last stored.
    pub updated_at: Instant,
}

/// State of a bulk act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = OperationState)]
pub enum OperationStateOut {
    /// At work, or resumed after a restart.
    Running,
    /// All that matched was worked on.
    Done,
    /// Stopped by an operator.
    Cancelled,
    /// Stopped by its trial: a message of it wasn't delivered, and `error` says why. Nothing else was put back.
    Stopped,
    /// Stopped by an error.
    Failed,
}

/// A few messages that a replay puts back first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OperationTrial)]
pub struct TrialOut {
    /// How many at most.
    pub size: u32,
    pub state: TrialState,
}

impl OperationOut {
    /// With what became of what it put back, if it put anything back.
    pub fn with_fates(operation: Operation, fates: Fates) -> Self {
        let is_replay = operation.kind == OperationKind::Replay.as_str();
        let fate = is_replay.then(|| FateView::of(&operation, fates));
        Self { fate, ..Self::from(operation) }
    }
}

impl From<Operation> for OperationOut {
    fn from(operation: Operation) -> Self {
        let has_failed_trial = operation.trial.is_some_and(|trial| trial.state == TrialState::Failed);
        Self {
            id: operation.id,
            kind: operation.kind,
            filter: operation.filter,
            step: operation.step,
            mode: operation.mode,
            not_before: operation.not_before.map(Instant),
            before: operation.before.map(Instant),
            trial: operation.trial.map(|Trial { size, state }| TrialOut { size, state }),
            fate: None,
            tenant: operation.tenant,
            rate: operation.rate,
            reason: operation.reason,
            actor: operation.actor,
            state: match operation.state {
                OperationState::Running => OperationStateOut::Running,
                OperationState::Done => OperationStateOut::Done,
                OperationState::Cancelled => OperationStateOut::Cancelled,
                OperationState::Failed if has_failed_trial => OperationStateOut::Stopped,
                OperationState::Failed => OperationStateOut::Failed,
            },
            matched: operation.matched,
            counted_since: operation.counted_since.map(Instant),
            done: operation.done,
            unchanged: operation.unchanged,
            failed: operation.failed,
            refusals: operation.refusals,
            error: operation.error,
            created_at: operation.created_at.into(),
            updated_at: operation.updated_at.into(),
        }
    }
}

/// What a bulk act would concern.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct DryRun {
    /// Always true: nothing was started.
    pub dry_run: bool,
    /// How many match now.
    pub matched: u64,
    /// Set when the counting ended after a bounded number of messages. `matched` is then a lower bound. Dead letters are counted the latest
    /// first: of what entered the order before this instant nothing was counted; messages that wait as they are listed: it is the instant of
    /// the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_since: Option<Instant>,
    /// The first of them, in the order they would be taken.
    pub sample: Vec<Concerned>,
    /// On dead letters: what else there is to know before it is done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<DeadPlanOut>,
}

impl DryRun {
    /// Of what isn't a dead letter.
    pub fn counted(matched: u64, sample: Vec<Concerned>) -> Self {
        Self { dry_run: true, matched, counted_since: None, sample, plan: None }
    }
}

/// What a bulk act on dead letters would leave out and may repeat. To do exactly that, send `before` and, as `expect_count`, `matched`.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DeadPlan)]
pub struct DeadPlanOut {
    /// It would take what died until then.
    pub before: Instant,
    /// They were all counted, not the latest 10,000 alone.
    pub exact: bool,
    pub left_out: LeftOut,
    /// How many of the messages among them were put back before.
    pub replayed_before: u64,
    /// How many keys have several of them: these are taken in their order.
    pub keys_with_several: u64,
}

/// What a bulk act leaves out.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct LeftOut {
    /// How many match and are quarantined.
    pub quarantined: u64,
    /// Dead letters of all tenants but this one; absent = it is confined to none. How many these are isn't told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub other_tenants_than: Option<String>,
}

impl DryRun {
    /// Of dead letters, as they were counted (`exact` or not) for a caller who is confined to a tenant, or to none.
    pub fn planned(planned: PlannedDead, exact: bool, tenant: Option<&Tenant>) -> Self {
        let (counted, sample) = (planned.counted, planned.sample.into_iter());
        let plan = DeadPlanOut {
            before: planned.before.into(),
            exact,
            left_out: LeftOut {
                quarantined: counted.value.quarantined,
                other_tenants_than: tenant.map(Tenant::to_string),
            },
            replayed_before: counted.value.replayed_before,
            keys_with_several: counted.value.keys_with_several,
        };
        let sample = sample.map(|dead| Concerned::DeadLetter(Box::new(dead))).collect();
        Self {
            counted_since: counted.since.map(Instant),
            plan: Some(plan),
            ..Self::counted(counted.value.matched, sample)
        }
    }
}

/// One that a bulk act would concern.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub enum Concerned {
    /// A dead letter, without payload.
    DeadLetter(Box<DeadLetterView>),
    /// A saga, without steps.
    Saga(Box<SagaView>),
    /// A message, without payload.
    Message(Box<MessageView>),
}

impl PartialSchema for Concerned {
    fn schema() -> RefOr<Schema> {
        // A message that died has all that a message has: it is of two of them.
        let forms = [DeadLetterView::name(), SagaView::name(), MessageView::name()];
        let forms = forms.into_iter().map(Ref::from_schema_name);
        let about =
            "One that a bulk act would concern: a dead letter or a message without payload, or a saga without steps.";
        forms.fold(AnyOfBuilder::new(), AnyOfBuilder::item).description(Some(about)).into()
    }
}

impl ToSchema for Concerned {
    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((DeadLetterView::name().into_owned(), DeadLetterView::schema()));
        schemas.push((SagaView::name().into_owned(), SagaView::schema()));
        schemas.push((MessageView::name().into_owned(), MessageView::schema()));
        DeadLetterView::schemas(schemas);
        SagaView::schemas(schemas);
        MessageView::schemas(schemas);
    }
}
