//! Why somebody acts, where an act takes nothing else.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Why an act, for the audit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ActReason {
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
}
