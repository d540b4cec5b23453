//! Bulk acts on dead letters and on sagas.

use async_trait::async_trait;
use waybill_core::fates::Fates;
use waybill_core::ids::Tenant;
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::transact::Operation;

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
    /// Stops a bulk act.
    async fn cancel_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError>;
}
