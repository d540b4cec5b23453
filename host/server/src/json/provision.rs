//! Request and answer of provisioning.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::provision::{ProvisionAction, ProvisionChange};

/// What to do with the plan.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Provision)]
pub struct ProvisionIn {
    /// Do what the plan says, instead of only telling it.
    pub apply: bool,
}

/// What would be done at a transport's peer, or was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Provisioned)]
pub struct ProvisionOut {
    /// Transport.
    pub transport: String,
    /// It was done; otherwise it is a plan.
    pub applied: bool,
    /// One entry a thing at the peer.
    pub changes: Vec<ProvisionChangeOut>,
}

/// One thing at a transport's peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ProvisionChange)]
pub struct ProvisionChangeOut {
    /// E.g. `stream ORDERS`.
    pub target: String,
    /// What would be done, or was done.
    pub action: ProvisionActionOut,
    /// Difference.
    pub detail: String,
}

/// What would be done to one thing, or was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
#[schema(as = ProvisionAction)]
pub enum ProvisionActionOut {
    /// It is as it should be.
    Keep,
    /// It is missing.
    Create,
    /// It differs and can be changed in place.
    Change,
    /// It differs in a way that would lose data: never applied.
    Conflict,
}

impl ProvisionOut {
    /// As the service answers it.
    pub fn new(transport: String, applied: bool, changes: Vec<ProvisionChange>) -> Self {
        let change = |change: ProvisionChange| ProvisionChangeOut {
            target: change.target,
            action: match change.action {
                ProvisionAction::Keep => ProvisionActionOut::Keep,
                ProvisionAction::Create => ProvisionActionOut::Create,
                ProvisionAction::Change => ProvisionActionOut::Change,
                ProvisionAction::Conflict => ProvisionActionOut::Conflict,
            },
            detail: change.detail,
        };
        Self { transport, applied, changes: changes.into_iter().map(change).collect() }
    }
}
