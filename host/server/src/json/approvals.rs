//! Links for approvals: what makes them, and what they show.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_api::instant::Instant;
use waybill_core::saga::limits::TIMEOUT_MAX;

use super::saga_requests::name;
use crate::approval::token::Decision;
use crate::limits::{LINK_BY_BYTES_MAX, LINK_TIME_MIN};
use crate::problem::Problem;

/// Who gets links for an approval, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = MakeApprovalLinks, example = json!({"by": "ann@example.com", "expires_ms": 86_400_000}))]
pub struct LinksJson {
    /// Who will decide: kept with the decision as `link:<by>`. At most 128 bytes.
    pub by: String,
    /// Which step; may be left out where only one waits.
    #[serde(default)]
    pub step: Option<String>,
    /// How long the links are good, in milliseconds, at least 1,000; as long as the step waits if absent, and never longer.
    #[serde(default)]
    #[schema(minimum = 1000, maximum = 31_622_400_000_u64)]
    pub expires_ms: Option<u64>,
}

impl LinksJson {
    /// How long the links are good; none = as long as the step waits.
    pub fn checked(&self) -> Result<Option<Duration>, Problem> {
        if self.by.trim().is_empty() || self.by.len() > LINK_BY_BYTES_MAX || self.by.chars().any(char::is_control) {
            let text = format!("by takes a name of 1 to {LINK_BY_BYTES_MAX} bytes without control characters");
            return Err(Problem::invalid(text).at("by"));
        }
        self.step.as_deref().map_or(Ok(()), |step| name("step", step))?;
        let time = self.expires_ms.map(Duration::from_millis);
        if time.is_some_and(|time| !(LINK_TIME_MIN..=TIMEOUT_MAX).contains(&time)) {
            let (least, most) = (LINK_TIME_MIN.as_millis(), TIMEOUT_MAX.as_millis());
            return Err(Problem::invalid(format!("expires_ms takes {least} to {most}")).at("expires_ms"));
        }
        Ok(time)
    }
}

/// Two links for one decision. Whoever has one of them can decide: they are as secret as a password.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ApprovalLinks)]
pub struct LinksOut {
    /// Saga, root or sub-saga.
    pub saga: String,
    /// Name of the step that waits for the decision.
    pub step: String,
    /// Who will decide, as in the request.
    pub by: String,
    /// From then on they are refused.
    pub expires_at: Instant,
    /// URL that approves the step by a POST; a GET only shows it.
    pub approve: String,
    /// URL that rejects the step by a POST; a GET only shows it.
    pub reject: String,
}

/// What a link would decide.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Approval)]
pub struct ApprovalOut {
    /// What a POST to this address does.
    pub decision: Decision,
    /// Tenant of the saga.
    pub tenant: String,
    /// Saga, root or sub-saga.
    pub saga: String,
    /// Name of its definition.
    pub definition: String,
    /// Version of that definition, from 1.
    pub version: u32,
    /// Name of the step that waits for the decision.
    pub step: String,
    /// It waits since then.
    pub since: Instant,
    /// Who decides: kept as `link:<by>`.
    pub by: String,
    /// From then on the link is refused.
    pub expires_at: Instant,
    /// What the step's `input` mapping made for the one who decides; `null` without a mapping.
    #[schema(value_type = serde_json::Value)]
    pub input: Option<Box<RawValue>>,
}
