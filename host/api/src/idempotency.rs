//! Idempotency keys: what is asked and told.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;
use waybill_core::code::Code;
use waybill_core::idempotency::{Answer, Begun, EntryKey, EntryState, Grant, Settings, StateWord};
use waybill_core::ids::{RequestHash, Tenant};
use waybill_core::port::idempotency::{FoundEntry, Hold};
use waybill_core::port::query::Page;
use waybill_core::port::service::ServiceError;
use waybill_core::time::UnixMillis;

use crate::instant::Instant;
use crate::messages::TransactionDone;

/// The key that a caller reserves, and for how long.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BeginKey {
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct BegunKey {
    /// Always `new`: the key is the caller's now.
    #[schema(value_type = String)]
    pub state: KeyState,
    /// Needed to finish, fail, release or renew it.
    pub token: String,
    /// How often it was begun; above 1, a holder before let its lease end and may have done something.
    pub begun: u32,
    /// Past it somebody else may begin it.
    pub lease_until: Instant,
    /// It is forgotten then.
    pub until: Instant,
}

impl From<Grant> for BegunKey {
    fn from(grant: Grant) -> Self {
        Self {
            state: KeyState::New,
            token: grant.token.to_string(),
            begun: grant.begun,
            lease_until: grant.lease_until.into(),
            until: grant.until.into(),
        }
    }
}

/// How a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyState {
    /// It is its caller's now.
    New,
    /// Somebody is at it.
    InFlight,
    Succeeded,
    Failed,
    Released,
}

/// What came of a key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct KeyOutcome {
    /// Whether the work `succeeded` or `failed` for good.
    #[schema(value_type = String)]
    pub state: KeyState,
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

impl From<Answer> for KeyOutcome {
    fn from(answer: Answer) -> Self {
        let text = answer.body.and_then(|body| String::from_utf8(body.into()).ok());
        Self {
            state: KeyState::Succeeded,
            result: text.and_then(|text| RawValue::from_string(text).ok()),
            sha256: Some(answer.sha256),
            bytes: Some(answer.bytes),
            status: answer.status,
            code: answer.code,
            error: None,
        }
    }
}

impl KeyOutcome {
    /// Of a key that failed.
    pub fn failed(error: String) -> Self {
        Self {
            state: KeyState::Failed,
            result: None,
            sha256: None,
            bytes: None,
            status: None,
            code: Some(Code::TX_IDEMPOTENT_LAST_FAILED.into()),
            error: Some(error),
        }
    }
}

/// The work is done: its result is kept under the key.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FinishKey {
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct FailKey {
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
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseKey {
    pub key: String,
    /// The token of its begin.
    pub token: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// The work takes longer: the lease of its key is extended.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewKey {
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

/// An operator frees a key without its token.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ForgetKey {
    pub key: String,
    /// Also when its outcome is known: the key may execute again then.
    #[serde(default)]
    pub finished: bool,
    /// Why, for the audit; up to 2,000 bytes.
    #[serde(default)]
    pub reason: String,
    /// Whose; the credential's only tenant, else `default`, if absent.
    #[serde(default)]
    pub tenant: Option<String>,
}

/// How a key stands after an act of its holder.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
pub struct SettledKey {
    /// `succeeded`, `failed`, `released` or `in_flight`.
    #[schema(value_type = String)]
    pub state: KeyState,
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

impl SettledKey {
    pub fn new(state: KeyState) -> Self {
        Self { state, lease_until: None, kept: None, sha256: None }
    }
}

/// A key as shown.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = IdempotencyKey)]
pub struct KeyView {
    pub tenant: String,
    /// The key as its caller chose it.
    pub key: String,
    /// `in_flight`, `succeeded` or `failed`.
    #[schema(value_type = String)]
    pub state: KeyState,
    /// Of what is done under it.
    pub hash: String,
    /// How often it was begun.
    pub begun: u32,
    /// When it was begun for the first time.
    pub created_at: Instant,
    /// When it was begun, renewed or settled last.
    pub changed_at: Instant,
    /// While in flight: past it somebody else may begin it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lease_until: Option<Instant>,
    /// It is forgotten then.
    pub until: Instant,
    /// What came of it; in lists without the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<KeyOutcome>,
}

impl From<FoundEntry> for KeyView {
    fn from(found: FoundEntry) -> Self {
        let FoundEntry { of, entry } = found;
        let state = match entry.word() {
            StateWord::InFlight => KeyState::InFlight,
            StateWord::Succeeded => KeyState::Succeeded,
            StateWord::Failed => KeyState::Failed,
        };
        let (lease_until, outcome) = match entry.state {
            EntryState::InFlight { lease_until } => (Some(lease_until.into()), None),
            EntryState::Succeeded(answer) => (None, Some(answer.into())),
            EntryState::Failed(error) => (None, Some(KeyOutcome::failed(error))),
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
}

impl KeyView {
    #[must_use]
    pub fn brief(mut self) -> Self {
        if let Some(outcome) = &mut self.outcome {
            outcome.result = None;
        }
        self
    }
}

/// A request to begin a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginRequest {
    pub of: EntryKey,
    /// Of what is going to be done.
    pub hash: RequestHash,
    /// How long it is remembered; none = `idempotency.ttl`.
    pub ttl: Option<Duration>,
    /// How long it is reserved; none = `idempotency.lease`.
    pub lease: Option<Duration>,
}

/// A key that a business transaction finishes ([`transact`](crate::messages::EnqueueService::transact)).
#[derive(Clone)]
pub struct FinishWith {
    pub hold: Hold,
    /// The answer to its caller, whole.
    pub answer: Arc<dyn Fn(&TransactionDone) -> Answer + Send + Sync>,
}

/// Idempotency keys as a service. Tenants given are those the credential allows; none = all.
#[async_trait]
pub trait IdempotencyService: Send + Sync + 'static {
    /// What is in force now.
    fn settings(&self) -> Settings;
    /// Reserves a key, or says how it stands.
    async fn begin(&self, request: BeginRequest) -> Result<Begun, ServiceError>;
    /// It is done; answers what is kept of the result.
    async fn finish(&self, hold: Hold, answer: Answer) -> Result<Answer, ServiceError>;
    /// It failed for good.
    async fn fail(&self, hold: Hold, error: &str) -> Result<(), ServiceError>;
    /// Nothing was done: the key is free.
    async fn release(&self, hold: Hold) -> Result<(), ServiceError>;
    /// It isn't known what was done: the next begin takes over at once, with the same origin.
    async fn give_up(&self, hold: Hold) -> Result<(), ServiceError>;
    /// It takes longer; answers the end of the lease. None = `idempotency.lease`.
    async fn renew(&self, hold: Hold, lease: Option<Duration>) -> Result<UnixMillis, ServiceError>;
    async fn entry(&self, of: &EntryKey) -> Result<KeyView, ServiceError>;
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &str,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<KeyView>, ServiceError>;
    /// An operator's release, audited: forgets what is in flight, and with `finished` also a known outcome. Answers what it
    /// was.
    async fn forget(&self, of: &EntryKey, finished: bool, reason: &str, actor: &str) -> Result<KeyView, ServiceError>;
}
