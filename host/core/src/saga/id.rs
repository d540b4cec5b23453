//! Names: of sagas, definitions and their contents.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::limits::{DEPTH_MAX, NAME_BYTES_MAX, SAGA_ID_BYTES_MAX};
use crate::error::{InputError, InputResult};
use crate::ids::{MessageId, ShardId, Tenant};

/// Stands between the id of a saga and the name of the step in the id of a sub-saga.
pub const CHILD_SEPARATOR: char = '~';

/// Id of a saga: 26 characters made by the host, the caller's own, or `{parent}~{step}` of a sub-saga.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SagaId(Arc<str>);

impl SagaId {
    /// Checks the id of a root: not empty, at most [`SAGA_ID_BYTES_MAX`] bytes, no `~`, no control characters.
    pub fn root(text: &str) -> InputResult<Self> {
        if text.is_empty() {
            return Err(InputError::Empty { field: "id" });
        }
        if text.len() > SAGA_ID_BYTES_MAX {
            return Err(InputError::TooLong { field: "id", bytes: text.len(), bytes_max: SAGA_ID_BYTES_MAX });
        }
        if text.chars().any(char::is_control) {
            return Err(InputError::ControlCharacter { field: "id" });
        }
        if text.contains(CHILD_SEPARATOR) {
            return Err(InputError::name("id", text, "holds ~, which is kept for the ids of sub-sagas: leave it out"));
        }
        Ok(Self(Arc::from(text)))
    }

    /// Checks any id, a sub-saga's included.
    pub fn new(text: &str) -> InputResult<Self> {
        let bytes_max = SAGA_ID_BYTES_MAX + DEPTH_MAX * (NAME_BYTES_MAX + 1);
        if text.len() > bytes_max {
            return Err(InputError::TooLong { field: "id", bytes: text.len(), bytes_max });
        }
        for part in text.split(CHILD_SEPARATOR) {
            Self::root(part)?;
        }
        Ok(Self(Arc::from(text)))
    }

    /// The sub-saga that a step starts.
    #[must_use]
    pub fn child(&self, step: &str) -> Self {
        Self(Arc::from(format!("{}{CHILD_SEPARATOR}{step}", self.0)))
    }

    /// The root of its tree: itself, or what stands before the first `~`.
    #[must_use]
    pub fn root_id(&self) -> Self {
        match self.0.split_once(CHILD_SEPARATOR) {
            Some((root, _)) => Self(Arc::from(root)),
            None => self.clone(),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SagaId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for SagaId {
    type Error = InputError;
    fn try_from(text: String) -> InputResult<Self> {
        Self::new(&text)
    }
}

impl From<SagaId> for String {
    fn from(id: SagaId) -> Self {
        id.0.to_string()
    }
}

impl From<&SagaId> for Arc<str> {
    fn from(id: &SagaId) -> Self {
        Self::clone(&id.0)
    }
}

/// Whose saga, and which: the key of a tree is that of its root.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SagaKey {
    pub tenant: Tenant,
    pub id: SagaId,
}

impl SagaKey {
    /// The key of the tree that this saga belongs to.
    #[must_use]
    pub fn root(&self) -> Self {
        Self { tenant: self.tenant.clone(), id: self.id.root_id() }
    }

    /// The shard of its tree among `count`: by tenant and root id, so that everybody who knows the id finds it.
    pub fn shard(&self, count: u16) -> ShardId {
        let root = self.id.root_id();
        MessageId::new(root.as_str()).map_or(ShardId(0), |id| ShardId::of(&self.tenant, None, Some(&id), 0, count))
    }
}

impl fmt::Display for SagaKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of tenant {}", self.id, self.tenant)
    }
}

/// sha-256 of a definition's canonical form, in 64 lower-case hex digits: what a running saga keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DefinitionHash(pub Arc<str>);

impl fmt::Display for DefinitionHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A definition by name, version and content.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct DefinitionRef {
    pub name: Arc<str>,
    /// Counts from 1, as in its definition.
    pub version: u32,
    pub hash: DefinitionHash,
}

/// What is told of a text that may not: see [`is_name`].
pub const NAME_RULE: &str =
    "isn't a name: it takes 1 to 64 letters, digits, '-', '_' and '.', beginning with a letter or digit";

/// Whether a text may name a definition, step or signal: lower-case or upper-case letters, digits, `-`, `_` and `.`,
/// beginning with a letter or digit.
pub fn is_name(text: &str) -> bool {
    text.len() <= NAME_BYTES_MAX
        && text.chars().next().is_some_and(|c| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_sub_saga_lives_on_the_shard_of_its_root() {
        let root = SagaKey { tenant: Tenant::unnamed(), id: SagaId::root("order-17").unwrap() };
        let child = SagaKey { id: root.id.child("pay").child("card"), ..root.clone() };
        assert_eq!(child.id.as_str(), "order-17~pay~card");
        assert_eq!(child.root(), root);
        assert_eq!(child.shard(16), root.shard(16));
        assert!(child.root().id != child.id && root.root().id == root.id);
    }

    #[test]
    fn a_caller_cannot_choose_the_id_of_a_sub_saga() {
        for bad in ["", "a~b", "a\nb", &"x".repeat(129)] {
            assert!(SagaId::root(bad).is_err(), "{bad}");
        }
        let told = SagaId::root("a~b").unwrap_err().to_string();
        assert_eq!(told, "id \"a~b\" holds ~, which is kept for the ids of sub-sagas: leave it out");
        assert!(SagaId::root("a\nb").unwrap_err().to_string().contains("control character"));
        assert!(SagaId::new("a~b").is_ok());
        assert!(SagaId::new("a~").is_err());
    }
}
