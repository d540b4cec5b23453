//! Bulk acts on dead letters and on sagas.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::fates::{Death, Fates};
use waybill_core::ids::Tenant;
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::transact::{Operation, OperationState};

use crate::dead_letters::DeadGroupView;
use crate::instant::Instant;

/// What became of what a replay put back. It is counted with the commits that settle the messages, also when the operation is over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = OperationFate)]
pub struct FateView {
    /// Messages and events that were put back.
    pub put_back: u64,
    /// How many of them were delivered since.
    pub delivered: u64,
    /// How many died again.
    pub died_again: u64,
    /// How many were taken back, or were over before they could be sent.
    pub ended_otherwise: u64,
    /// How many wait or are being sent.
    pub on_the_way: u64,
    /// Stuck sagas and received messages that were put back besides: what becomes of these isn't counted.
    pub not_followed: u64,
    /// The first that died again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_death: Option<Death>,
}

impl FateView {
    pub fn of(operation: &Operation, fates: Fates) -> Self {
        Self {
            on_the_way: fates.on_the_way(),
            put_back: fates.put_back,
            delivered: fates.delivered,
            died_again: fates.died,
            ended_otherwise: fates.ended,
            not_followed: operation.not_followed,
            first_death: fates.first_death,
        }
    }
}

/// A bulk replay that put something of a group of dead letters back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = LastReplay)]
pub struct LastReplayView {
    /// Id of the operation.
    pub operation: String,
    /// Who asked for it.
    pub actor: String,
    /// When it was asked for.
    pub at: Instant,
    /// It is at work.
    pub running: bool,
    /// How many of all that matched it hasn't come to.
    pub to_go: u64,
    /// Groups that it put something of back, this one among them; 100 are counted.
    pub groups: usize,
    /// What became of what it put back, of all these groups together.
    pub fate: FateView,
}

impl LastReplayView {
    pub fn of(operation: &Operation, fates: Fates) -> Self {
        Self {
            operation: operation.id.clone(),
            actor: operation.actor.clone(),
            at: Instant(operation.created_at),
            running: operation.state == OperationState::Running,
            to_go: operation.to_go(),
            groups: operation.causes.len(),
            fate: FateView::of(operation, fates),
        }
    }
}

/// Bulk acts as a service.
#[async_trait]
pub trait OperationService: Send + Sync + 'static {
    /// Starts a bulk act.
    async fn start_operation(&self, request: OperationRequest) -> Result<Operation, ServiceError>;
    /// How a bulk act stands.
    async fn operation(&self, id: &str) -> Result<Operation, ServiceError>;
    /// What became of what a bulk replay put back.
    async fn fates(&self, operation: &Operation) -> Result<Fates, ServiceError>;
    /// Latest bulk acts, newest first.
    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, ServiceError>;
    /// Groups of dead letters with the latest bulk replay of each. With a tenant only of replays that are confined to it: others count what
    /// other tenants have.
    async fn with_last_replays(
        &self,
        tenant: Option<&Tenant>,
        groups: Vec<DeadGroupView>,
    ) -> Result<Vec<DeadGroupView>, ServiceError>;
    /// Stops a bulk act.
    async fn cancel_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError>;
}
