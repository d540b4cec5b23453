//! Idempotency keys: what is asked and told.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::idempotency::{Answer, EntryState, Grant, StateWord};
use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash};
use waybill_core::limits::{IDEMPOTENCY_LEASE_MAX, IDEMPOTENCY_LEASE_MIN, IDEMPOTENCY_TTL_MAX, IDEMPOTENCY_TTL_MIN};
use waybill_core::port::idempotency::FoundEntry;

use super::instant::Instant;
use crate::problem::Problem;

/// Code told with an error that is kept for a key.
pub const LAST_FAILED: &str = "TX.IDEMPOTENT_LAST_FAILED";

/// Begins a key.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = BeginKey)]
pub struct BeginIn {
    /// Up to 255 bytes.
    pub key: String,
    /// Of what is going to be done, up to 128 bytes: another hash under the same key is refused.
    pub hash: String,
    /// How long the key is remembered, 100 to 31,622,400,000; `idempotency.ttl` if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 31_622_400_000_u64)]
    pub ttl_ms: Option<u64>,
    /// How long it is reserved for its caller, 100 to 86,400,000; `idempotency.lease` if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// A key that its caller has now.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = BegunKey)]
pub struct NewOut {
    /// `new`.
    pub state: &'static str,
    /// Needed to finish, fail, release or renew it.
    pub token: String,
    /// How often it was begun; above 1, a holder before let its lease end and may have done something.
    pub begun: u32,
    /// Past it somebody else may begin it.
    pub lease_until: Instant,
    /// It is forgotten then.
    pub until: Instant,
}

impl From<Grant> for NewOut {
    fn from(grant: Grant) -> Self {
        Self {
            state: "new",
            token: grant.token.to_string(),
            begun: grant.begun,
            lease_until: grant.lease_until.into(),
            until: grant.until.into(),
        }
    }
}

/// What came of a key.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = KeyOutcome)]
pub struct OutcomeOut {
    /// `succeeded` or `failed`.
    pub state: &'static str,
    /// The result, as its caller gave it; absent when only its digest was kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<serde_json::Value>)]
    pub result: Option<Box<RawValue>>,
    /// sha-256 of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Size of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// HTTP status, for a request with an `Idempotency-Key` header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// `TX.IDEMPOTENT_LAST_FAILED`, or the code of the problem that was answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The error, if it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Answer> for OutcomeOut {
    fn from(answer: Answer) -> Self {
        let text = answer.body.and_then(|body| String::from_utf8(body.into()).ok());
        Self {
            state: StateWord::Succeeded.word(),
            result: text.and_then(|text| RawValue::from_string(text).ok()),
            sha256: Some(answer.sha256),
            bytes: Some(answer.bytes),
            status: answer.status,
            code: answer.code,
            error: None,
        }
    }
}

impl OutcomeOut {
    /// Of a key that failed.
    pub fn failed(error: String) -> Self {
        Self {
            state: StateWord::Failed.word(),
            result: None,
            sha256: None,
            bytes: None,
            status: None,
            code: Some(LAST_FAILED.to_owned()),
            error: Some(error),
        }
    }
}

/// It is done.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FinishKey)]
pub struct FinishIn {
    /// Which key.
    pub key: String,
    /// The token of its begin.
    pub token: String,
    /// Any JSON; kept as it is up to `idempotency.result_max_bytes`, above it as its digest.
    #[schema(value_type = serde_json::Value)]
    pub result: Box<RawValue>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// It failed for good.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = FailKey)]
pub struct FailIn {
    /// Which key.
    pub key: String,
    /// The token of its begin.
    pub token: String,
    /// Why; kept up to 4,096 bytes, a longer text is cut.
    pub error: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// Nothing was done: the key is free.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ReleaseKey)]
pub struct ReleaseIn {
    /// Which key.
    pub key: String,
    /// The token of its begin.
    pub token: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// It takes longer.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = RenewKey)]
pub struct RenewIn {
    /// Which key.
    pub key: String,
    /// The token of its begin.
    pub token: String,
    /// Reserved for this long from now, 100 to 86,400,000; `idempotency.lease` if absent.
    #[serde(default)]
    #[schema(minimum = 100, maximum = 86_400_000)]
    pub lease_ms: Option<u64>,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// An operator's release.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ForgetKey)]
pub struct ForgetIn {
    /// Which key.
    pub key: String,
    /// Also when its outcome is known: the key may execute again then.
    #[serde(default)]
    pub finished: bool,
    /// For the audit.
    #[serde(default)]
    pub reason: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// How a key stands after an act of its holder.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = SettledKey)]
pub struct SettledOut {
    /// `succeeded`, `failed`, `released` or `in_flight`.
    pub state: &'static str,
    /// The end of the lease, after a renewal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Instant>,
    /// Whether the result itself is kept, after a finish; if not, its digest is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept: Option<bool>,
    /// sha-256 of the result, after a finish.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl SettledOut {
    /// In this state.
    pub fn new(state: &'static str) -> Self {
        Self { state, lease_until: None, kept: None, sha256: None }
    }
}

/// A key as shown.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = IdempotencyKey)]
pub struct EntryOut {
    /// Whose.
    pub tenant: String,
    /// Which.
    pub key: String,
    /// `in_flight`, `succeeded` or `failed`.
    pub state: &'static str,
    /// Of what is done under it.
    pub hash: String,
    /// How often it was begun.
    pub begun: u32,
    /// Its first begin.
    pub created_at: Instant,
    /// Its latest change.
    pub changed_at: Instant,
    /// While in flight: past it somebody else may begin it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Instant>,
    /// It is forgotten then.
    pub until: Instant,
    /// What came of it; in lists without the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<OutcomeOut>,
}

impl EntryOut {
    /// Whole.
    pub fn full(found: FoundEntry) -> Self {
        let FoundEntry { of, entry } = found;
        let state = entry.word().word();
        let (lease_until, outcome) = match entry.state {
            EntryState::InFlight { lease_until } => (Some(lease_until.into()), None),
            EntryState::Succeeded(answer) => (None, Some(answer.into())),
            EntryState::Failed(error) => (None, Some(OutcomeOut::failed(error))),
        };
        Self {
            tenant: of.tenant.to_string(),
            key: of.key.to_string(),
            state,
            hash: entry.hash.to_string(),
            begun: entry.begun,
            created_at: entry.created_at.into(),
            changed_at: entry.changed_at.into(),
            lease_until,
            until: entry.until.into(),
            outcome,
        }
    }

    /// Without its result.
    pub fn brief(found: FoundEntry) -> Self {
        let mut entry = Self::full(found);
        if let Some(outcome) = &mut entry.outcome {
            outcome.result = None;
        }
        entry
    }
}

/// A key as written.
pub fn key(text: &str) -> Result<IdempotencyKey, Problem> {
    IdempotencyKey::new(text).map_err(|error| Problem::from(error).at("key"))
}

/// A token as written.
pub fn token(text: &str) -> Result<HoldToken, Problem> {
    HoldToken::new(text).map_err(|error| Problem::from(error).at("token"))
}

/// A hash as written.
pub fn hash(text: &str) -> Result<RequestHash, Problem> {
    RequestHash::new(text).map_err(|error| Problem::from(error).at("hash"))
}

/// A time to live within its bounds.
pub fn ttl(ms: u64) -> Result<Duration, Problem> {
    bounded("ttl_ms", ms, IDEMPOTENCY_TTL_MIN, IDEMPOTENCY_TTL_MAX)
}

/// A lease within its bounds.
pub fn lease(ms: u64) -> Result<Duration, Problem> {
    bounded("lease_ms", ms, IDEMPOTENCY_LEASE_MIN, IDEMPOTENCY_LEASE_MAX)
}

fn bounded(field: &'static str, ms: u64, min: Duration, max: Duration) -> Result<Duration, Problem> {
    let time = Duration::from_millis(ms);
    if (min..=max).contains(&time) {
        return Ok(time);
    }
    let (min, max) = (min.as_millis(), max.as_millis());
    Err(Problem::invalid(format!("{field} is {ms}: take {min} to {max}")).at(field))
}
