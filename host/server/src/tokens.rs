//! Tokens that are made and revoked while the host runs: kept in the store, known from memory.
//!
//! A host has its store to itself, so what it changes is all that changes. A second one on the same store would have to read the tokens
//! again ([`StoredTokens::read`]) whenever the other changed them: until then it lets in whom the other has revoked.

mod views;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use thiserror::Error;
use tokio::sync::Mutex;
use ulid::Ulid;
use waybill_api::tokens::{CreatedToken, NewToken, TokenSource, TokenState, TokenView};
use waybill_core::code::Code;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::port::tokens::{StoredToken, TokenStore};
use waybill_core::port::transact::{AuditEvent, TransactStore};
use waybill_core::streams::access::StreamRole;
use waybill_core::time::UnixMillis;

use crate::auth::{Permission, Principal, Role, Tokens, hash_of, is_reserved, parse_roles, parse_tenants};
use crate::caller::now;
use crate::limits::{
    RETRY_AFTER_BUSY, STORED_TOKENS_MAX, TOKEN_NAME_BYTES_MAX, TOKEN_ROLES_MAX, TOKEN_TENANTS_MAX, TOKEN_TIME_MAX,
    TOKEN_TIME_MIN,
};
use crate::problem::Problem;
use views::{of_configured, of_record, of_stored, unknown};

/// Before every token that a host makes, so that people and scanners know it for one.
const PREFIX: &str = "wb_";
/// Characters at the end of a token that are kept, of 64: the others are beyond guessing.
const ENDS_WITH: usize = 4;
/// ULIDs that a token's 256 bits are taken from: each has 80 random ones.
const SOURCES: usize = 4;

/// The stored tokens of a host. Cheap to clone.
#[derive(Clone)]
pub struct StoredTokens(Arc<Inner>);

struct Inner {
    known: Tokens,
    store: Arc<dyn TokenStore>,
    trail: Arc<dyn TransactStore>,
    /// Held while they are changed or read anew: one after the other. In it the names of those that were revoked, and that the store
    /// didn't take out: they let nobody in as long as this host runs.
    changing: Mutex<BTreeSet<String>>,
}

/// Why tokens weren't changed.
#[derive(Debug, Error)]
pub enum TokenError {
    #[error("{cause}")]
    Invalid {
        /// The member that is wrong.
        path: &'static str,
        cause: String,
    },
    #[error("token {by:?} was taken away, or has expired, while this was asked for: nothing was changed")]
    Gone { by: String },
    #[error("token {by:?} may not do this any more: it needs the role admin for all tenants")]
    Role { by: String },
    #[error("token {by:?} may not grant what it doesn't have: ask for less, or use a token that has all of it")]
    Grant { by: String },
    #[error(
        "token {by:?} is good until {until}, and nobody grants for longer than they have: ask for an end before that, or use a token that \
         lasts longer"
    )]
    Outlives { by: String, until: UnixMillis },
    #[error("there is a token {name:?} already: choose another name, or revoke that one first")]
    Taken { name: String },
    #[error("token {name:?} is configured: take its [[auth.token]] out of the configuration, and reload that")]
    Configured { name: String },
    #[error("there is no token {name:?}")]
    Missing { name: String },
    #[error("{max} tokens are stored, as many as may be: revoke some first", max = STORED_TOKENS_MAX)]
    Full,
    /// Whether the store did it isn't known.
    #[error("the store didn't say whether this was done: revoke the token by its name, then try again ({0})")]
    Unsure(StoreError),
    #[error(
        "token {name:?} lets nobody in any more, but the store didn't take it out: when this host starts again, it would let in whoever has \
         it; revoke it again"
    )]
    Kept {
        name: String,
        /// What the store said.
        cause: StoreError,
    },
    #[error(transparent)]
    Store(StoreError),
}

impl TokenError {
    pub fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } => Code::SCHEMA_VALIDATION_FAILED,
            Self::Gone { .. } => Code::AUTH_REQUIRED,
            Self::Role { .. } => Code::AUTH_ROLE,
            Self::Grant { .. } | Self::Outlives { .. } => Code::AUTH_GRANT,
            Self::Taken { .. } => Code::AUTH_TOKEN_TAKEN,
            Self::Configured { .. } => Code::AUTH_TOKEN_CONFIGURED,
            Self::Missing { .. } => Code::AUTH_TOKEN_NOT_FOUND,
            Self::Full => Code::AUTH_TOKEN_LIMIT,
            Self::Unsure(_) | Self::Kept { cause: StoreError::Unavailable(_), .. } => Code::TX_TIMEOUT,
            Self::Kept { cause, .. } => cause.code(),
            Self::Store(error) => error.code(),
        }
    }
}

impl From<StoreError> for TokenError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unavailable(_) => Self::Unsure(error),
            error => Self::Store(error),
        }
    }
}

impl From<TokenError> for Problem {
    fn from(error: TokenError) -> Self {
        let problem = Self::new(error.code(), error.to_string());
        match error {
            TokenError::Invalid { path, .. } => problem.at(path),
            TokenError::Outlives { .. } => problem.at("expires_ms"),
            TokenError::Unsure(_) => problem.after(RETRY_AFTER_BUSY),
            TokenError::Kept { cause, .. } => problem.after(RETRY_AFTER_BUSY).caused_by(cause),
            TokenError::Store(error) => ServiceError::Store(error).into(),
            _ => problem,
        }
    }
}

impl StoredTokens {
    /// Makes `known` go by what is stored, once it was read. Changes are noted in the trail.
    pub fn new(known: Tokens, store: Arc<dyn TokenStore>, trail: Arc<dyn TransactStore>) -> Self {
        Self(Arc::new(Inner { known, store, trail, changing: Mutex::default() }))
    }

    /// Reads what is stored.
    ///
    /// # Errors
    /// The store fails; then what was known stays known.
    pub async fn read(&self) -> Result<(), StoreError> {
        let revoked = self.0.changing.lock().await;
        self.read_now(&revoked).await
    }

    async fn read_now(&self, revoked: &BTreeSet<String>) -> Result<(), StoreError> {
        let mut records = self.0.store.stored_tokens().await?;
        records.retain(|record| !revoked.contains(&record.name));
        self.0.known.put_stored(records);
        for token in self.list().into_iter().filter(|token| token.source == TokenSource::Store) {
            match token.state {
                TokenState::Shadowed => {
                    tracing::warn!(token = %token.name, "a stored token has the name of a configured one, which counts in its place");
                }
                TokenState::Unusable => {
                    tracing::warn!(token = %token.name, "a stored token says what this host can't make sense of, and lets nobody in");
                }
                TokenState::InForce | TokenState::Expired => {}
            }
        }
        Ok(())
    }

    /// All tokens there are, configured ones too, by name.
    pub fn list(&self) -> Vec<TokenView> {
        let configured = self.0.known.configured();
        let is_configured = |name: &str| configured.iter().any(|principal| principal.name == name);
        let stored = self.0.known.stored();
        let stored = stored.iter().map(|token| of_stored(token, is_configured(&token.record.name)));
        let mut all: Vec<TokenView> = stored.chain(configured.iter().map(|token| of_configured(token))).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    /// A stored one, as it is now.
    fn stored(&self, name: &str) -> Option<TokenView> {
        self.list().into_iter().find(|token| token.name == name && token.source == TokenSource::Store)
    }

    fn is_configured(&self, name: &str) -> bool {
        self.0.known.configured().iter().any(|principal| principal.name == name)
    }

    /// Who changes tokens, as their own token is now, and until when it is good. It may have been revoked, reduced or expired since they
    /// were let in: a body may take its time, and so does whoever changes tokens before them.
    fn changer(&self, by: &Principal) -> Result<(Arc<Principal>, Option<UnixMillis>), TokenError> {
        let changer = self.0.known.now_of(by).ok_or_else(|| TokenError::Gone { by: by.name.clone() })?;
        if changer.0.may(Permission::Manage) {
            Ok(changer)
        } else {
            Err(TokenError::Role { by: changer.0.name.clone() })
        }
    }

    /// Makes a token for `by`, who may grant what they have, for as long as they have it. It is in force when this is answered.
    pub async fn create(&self, asked: NewToken, by: &Principal) -> Result<CreatedToken, TokenError> {
        let Checked { roles, streams, tenants, good_for } = check(&asked)?;
        let all = parse_tenants(tenants.as_deref()).map_err(|cause| TokenError::Invalid { path: "tenants", cause })?;
        let name = asked.name;
        let mut revoked = self.0.changing.lock().await;
        let (by, until) = self.changer(by)?;
        if !by.covers(&roles, &streams, &all) {
            return Err(TokenError::Grant { by: by.name.clone() });
        }
        let created_at = now();
        let expires_at = good_for.map(|time| UnixMillis(created_at.0.saturating_add(time)));
        if let Some(until) = until.filter(|until| expires_at.is_none_or(|end| end > *until)) {
            return Err(TokenError::Outlives { by: by.name.clone(), until });
        }
        if self.is_configured(&name) {
            return Err(TokenError::Taken { name });
        }
        if self.0.known.stored().len() + revoked.len() >= STORED_TOKENS_MAX {
            return Err(TokenError::Full);
        }
        let token = fresh();
        let record = StoredToken {
            name,
            sha256: hex(&hash_of(&token)),
            ends_with: token.chars().skip(token.len() - ENDS_WITH).collect(),
            roles: roles
                .iter()
                .map(|role| role.as_str().to_owned())
                .chain(streams.iter().map(StreamRole::to_string))
                .collect(),
            tenants,
            created_at,
            created_by: by.name.clone(),
            expires_at,
        };
        match self.0.store.add_token(&record).await {
            Ok(()) => {
                // The store had taken out the one that it didn't say so of.
                revoked.remove(&record.name);
                self.0.known.add(record.clone());
            }
            Err(StoreError::Exists(_)) => {
                // Perhaps one that is stored and wasn't known, because nobody heard that it went in.
                self.read_now(&revoked).await?;
                return Err(TokenError::Taken { name: record.name });
            }
            Err(error) => return Err(error.into()),
        }
        let detail = serde_json::json!({
            "roles": record.roles, "tenants": record.tenants, "ends_with": record.ends_with, "expires_at": record.expires_at,
        });
        self.note("TokenCreated", &record.name, &by.name, detail).await;
        // A reload may have put another one of its name in force meanwhile.
        let stored = self.stored(&record.name).unwrap_or_else(|| of_record(&record, TokenState::Unusable));
        Ok(CreatedToken { token, stored })
    }

    /// Revokes a stored token. It lets nobody in when this is answered, also with [`TokenError::Kept`].
    pub async fn revoke(&self, name: &str, by: &Principal) -> Result<TokenView, TokenError> {
        let mut revoked = self.0.changing.lock().await;
        let (by, _) = self.changer(by)?;
        if self.is_configured(name) {
            return Err(TokenError::Configured { name: name.to_owned() });
        }
        let known = self.stored(name);
        // Out of memory first: whatever the store does, it lets nobody in.
        if self.0.known.remove(name) {
            revoked.insert(name.to_owned());
        }
        let was_known = revoked.contains(name);
        let was_stored = match self.0.store.remove_token(name).await {
            Ok(was_stored) => was_stored,
            Err(cause) if was_known => {
                tracing::error!(token = %name, code = cause.code().as_str(), error = %cause, "a revoked token is still stored: it lets nobody in until this host starts again, revoke it again before that");
                return Err(TokenError::Kept { name: name.to_owned(), cause });
            }
            Err(error) => return Err(error.into()),
        };
        revoked.remove(name);
        if !was_stored && !was_known {
            return Err(TokenError::Missing { name: name.to_owned() });
        }
        self.note("TokenRevoked", name, &by.name, serde_json::json!({})).await;
        // One that wasn't known was stored by a call that nobody heard the end of.
        Ok(known.unwrap_or_else(|| unknown(name)))
    }

    async fn note(&self, kind: &str, name: &str, by: &str, detail: serde_json::Value) {
        let event = AuditEvent {
            at: now(),
            kind: kind.to_owned(),
            actor: by.to_owned(),
            tenant: None,
            object: name.to_owned(),
            detail,
        };
        // What is done is done: a trail that can't be written is told to the log.
        if let Err(error) = self.0.trail.audit(&event).await {
            tracing::error!(code = error.code().as_str(), %error, ?event, "an operator's act could not be written to the audit trail");
        }
    }
}

/// What was asked for, as far as it can be granted.
struct Checked {
    roles: Vec<Role>,
    streams: Vec<StreamRole>,
    /// Tenants by name; none = all.
    tenants: Option<Vec<String>>,
    /// Milliseconds; none = until it is revoked.
    good_for: Option<u64>,
}

fn check(asked: &NewToken) -> Result<Checked, TokenError> {
    let invalid = |path: &'static str, cause: String| TokenError::Invalid { path, cause };
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    let name = asked.name.as_str();
    if !(1..=TOKEN_NAME_BYTES_MAX).contains(&name.len()) || name.starts_with('.') || !name.bytes().all(is_name) {
        let cause = format!(
            "{name:?} can't be a token's name: take 1 to {TOKEN_NAME_BYTES_MAX} letters, digits, '-', '_' and '.', with no '.' at the front"
        );
        return Err(invalid("name", cause));
    }
    if is_reserved(name) {
        let cause = format!(
            "{name:?} can't be a token's name: the audit trail calls those so who show no token; choose another"
        );
        return Err(invalid("name", cause));
    }
    if asked.roles.len() > TOKEN_ROLES_MAX {
        return Err(invalid("roles", format!("a token has at most {TOKEN_ROLES_MAX} roles")));
    }
    let (roles, streams) = parse_roles(&asked.roles).map_err(|cause| invalid("roles", cause))?;
    let tenants = asked.tenants.clone().filter(|names| !names.iter().any(|name| name == "*"));
    if tenants.as_ref().is_some_and(|names| names.len() > TOKEN_TENANTS_MAX) {
        return Err(invalid("tenants", format!("a token names at most {TOKEN_TENANTS_MAX} tenants")));
    }
    let time = asked.expires_ms.map(Duration::from_millis);
    if time.is_some_and(|time| !(TOKEN_TIME_MIN..=TOKEN_TIME_MAX).contains(&time)) {
        let (least, most) = (TOKEN_TIME_MIN.as_millis(), TOKEN_TIME_MAX.as_millis());
        return Err(invalid("expires_ms", format!("expires_ms takes {least} to {most}")));
    }
    Ok(Checked { roles, streams, tenants, good_for: asked.expires_ms })
}

/// A token that nobody guesses: 256 bits.
fn fresh() -> String {
    let mut sources = Sha256::new();
    for _ in 0..SOURCES {
        sources.update(Ulid::new().0.to_be_bytes());
    }
    let bits: [u8; 32] = sources.finalize().into();
    format!("{PREFIX}{}", hex(&bits))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
