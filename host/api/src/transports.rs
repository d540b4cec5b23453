//! Transports, and what is missing at their peers.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::provision::ProvisionChange;
use waybill_core::port::service::ServiceError;
use waybill_core::port::transport::{Health, PluginIdentity};

/// A configured transport, and how it does now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Transport)]
pub struct TransportView {
    /// Name in the configuration.
    pub name: String,
    /// Plugin that serves its calls now.
    pub plugin: PluginIdentity,
    /// An operator paused it.
    pub paused: bool,
    /// `closed` (serving), `open` (held) or `half-open` (probing).
    #[schema(value_type = String)]
    pub breaker: Breaker,
    /// Instances of its plugin; messages of one key go to one.
    pub lanes: u32,
    /// Messages being sent now.
    pub in_flight: u64,
    /// `ready`, `degraded`, `blocked` or `down`.
    pub health: Health,
    /// A word of explanation.
    pub health_detail: Option<String>,
}

/// Whether a transport sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Breaker {
    Closed,
    Open,
    /// One message is being tried.
    HalfOpen,
}

/// What to do with the plan.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Provision {
    /// Do what the plan says, instead of only telling it.
    pub apply: bool,
}

/// What would be done at a transport's peer, or was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Provisioned {
    pub transport: String,
    /// It was done; otherwise it is a plan.
    pub applied: bool,
    /// One entry a thing at the peer.
    pub changes: Vec<ProvisionChange>,
}

/// The transports of this host. `actor` is who asks, for the audit.
#[async_trait]
pub trait TransportService: Send + Sync + 'static {
    async fn transports(&self) -> Vec<TransportView>;
    /// Stops sending through a transport. The reason is for the audit.
    async fn pause(&self, transport: &str, reason: &str, actor: &str) -> Result<TransportView, ServiceError>;
    async fn resume(&self, transport: &str, reason: &str, actor: &str) -> Result<TransportView, ServiceError>;
    /// Asks a transport how it is, and tries its held destinations again now.
    async fn probe(&self, transport: &str, actor: &str) -> Result<TransportView, ServiceError>;
    /// What is missing at a transport's peer; with `apply`, creates it and answers what was done.
    async fn provision(&self, transport: &str, apply: bool, actor: &str) -> Result<Vec<ProvisionChange>, ServiceError>;
}
