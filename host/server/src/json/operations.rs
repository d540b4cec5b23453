//! Bulk acts as answers.

use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::AnyOfBuilder;
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};
use waybill_api::dead_letters::DeadLetterView;
use waybill_api::instant::Instant;
use waybill_api::messages::MessageView;
use waybill_api::sagas::SagaView;
use waybill_core::port::saga::RetryMode;
use waybill_core::port::transact::{Operation, OperationState, Refusal};

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
    /// Stopped by an error.
    Failed,
}

impl From<Operation> for OperationOut {
    fn from(operation: Operation) -> Self {
        Self {
            id: operation.id,
            kind: operation.kind,
            filter: operation.filter,
            step: operation.step,
            mode: operation.mode,
            not_before: operation.not_before.map(Instant),
            tenant: operation.tenant,
            rate: operation.rate,
            reason: operation.reason,
            actor: operation.actor,
            state: match operation.state {
                OperationState::Running => OperationStateOut::Running,
                OperationState::Done => OperationStateOut::Done,
                OperationState::Cancelled => OperationStateOut::Cancelled,
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
