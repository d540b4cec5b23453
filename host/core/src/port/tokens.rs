//! The port for API tokens that are made and revoked while hosts run. Of a token there is its hash and what it may, never itself.
//!
//! What it doesn't do: check what a token may, or who may make one; tell other hosts of a change.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// What is kept of a token that was made while a host ran: not the token itself.
///
/// A record that lacks a member, or has one that nobody knows, can't be read: by what it lost it would get rights.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredToken {
    /// Name for the audit, and its key: there is one token of a name.
    pub name: String,
    /// SHA-256 of the token, 64 hex digits.
    pub sha256: String,
    /// Its last characters, by which people know it again.
    pub ends_with: String,
    /// What it may do, and for which streams, as a configuration has it: `viewer`, `append:task.**`.
    pub roles: Vec<String>,
    /// Tenants it is for; none = all, which is written.
    #[serde(deserialize_with = "Option::deserialize")]
    pub tenants: Option<Vec<String>>,
    pub created_at: UnixMillis,
    /// Who made it: a token's name, `local`, or `offline`.
    pub created_by: String,
    /// From when on it is good for nothing; none = it doesn't expire, which is written.
    #[serde(deserialize_with = "Option::deserialize")]
    pub expires_at: Option<UnixMillis>,
}

/// Stored tokens. Each call is one transaction, durable when it is answered.
#[async_trait]
pub trait TokenStore: Send + Sync + 'static {
    /// Adds a token; [`StoreError::Exists`] when there is one of its name.
    async fn add_token(&self, token: &StoredToken) -> Result<(), StoreError>;
    /// Removes a token; false = there is none of this name.
    async fn remove_token(&self, name: &str) -> Result<bool, StoreError>;
    /// All of them by name, without those that can't be read.
    async fn stored_tokens(&self) -> Result<Vec<StoredToken>, StoreError>;
}
