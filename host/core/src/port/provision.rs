//! Provisioning: what is missing at a transport's peer (streams, queues, topics), and creating it.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::ToSchema;

use super::transport::CallError;

/// What would be done to one thing, or was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProvisionAction {
    /// It is as it should be.
    Keep,
    /// It is missing.
    Create,
    /// It differs and can be changed in place.
    Change,
    /// It differs in a way that would lose data: never applied.
    Conflict,
}

/// One thing at a transport's peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ProvisionChange {
    /// E.g. `stream ORDERS`.
    pub target: String,
    /// What would be done, or was done.
    pub action: ProvisionAction,
    /// Difference.
    pub detail: String,
}

/// Why there is no plan, or why it wasn't applied.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProvisionError {
    /// The plugin has no provisioning.
    #[error("its plugin {plugin:?} has nothing to provision")]
    NotOffered { plugin: String },
    /// The call failed. When changes were to be applied, some of them may be in place.
    #[error("{}: {}", .0.fault.code, .0.fault.reason)]
    Failed(CallError),
}
