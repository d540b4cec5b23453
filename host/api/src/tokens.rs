//! API tokens: made and revoked while the host runs, and shown, but for what they are.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::instant::Instant;

/// A token that is to be made.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Name for the audit, and by which it is revoked: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// What it may do, at least one of `viewer`, `sender`, `transactor`, `worker`, `operator`, `backup`, `admin`, `append:PATTERN` and
    /// `read:PATTERN`; nothing that its maker may not.
    pub roles: Vec<String>,
    /// Tenants that it is for; absent, or with `*` among them, all.
    #[serde(default)]
    pub tenants: Option<Vec<String>>,
    /// How long it is good, in milliseconds, at least 1,000 and at most ten years; until it is revoked if absent; no
    /// longer than its maker's.
    #[serde(default)]
    #[schema(minimum = 1000, maximum = 315_360_000_000_u64)]
    pub expires_ms: Option<u64>,
}

/// A token that was made. Only this answer has it.
#[derive(Clone, Serialize, Deserialize, ToSchema)]
pub struct CreatedToken {
    /// The token itself, for `authorization: Bearer`.
    pub token: String,
    /// What is kept of it.
    pub stored: TokenView,
}

/// What is known of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Token)]
pub struct TokenView {
    /// Name for the audit.
    pub name: String,
    /// Whether it is configured or stored.
    pub source: TokenSource,
    /// Whether it lets anybody in.
    pub state: TokenState,
    /// What it may do, and for which streams.
    pub roles: Vec<String>,
    /// Tenants that it is for; `*` = all.
    pub tenants: Vec<String>,
    /// Its last characters, by which it is known again; null = it is configured, and only its hash is known.
    pub ends_with: Option<String>,
    /// When it was made; null = it is configured.
    pub created_at: Option<Instant>,
    /// The token by which it was made, `local` or `offline`; null = it is configured.
    pub created_by: Option<String>,
    /// From when on it is good for nothing; null = it doesn't expire.
    pub expires_at: Option<Instant>,
}

/// Where a token stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenSource {
    /// In the configuration, as `[[auth.token]]`.
    Configuration,
    /// In the store, where it was made by `POST /v1/tokens` or the command line.
    Store,
}

/// Whether a token lets anybody in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// It does, where the host asks for one.
    InForce,
    /// Its time is over.
    Expired,
    /// A token of its name is configured, which counts in its place.
    Shadowed,
    /// This host can't make sense of what it may do.
    Unusable,
}
