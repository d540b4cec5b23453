//! What is known of a key.

use sha2::{Digest, Sha256};

use super::answer::Answer;
use crate::ids::{HoldToken, IdempotencyKey, RequestHash, Tenant};
use crate::time::UnixMillis;

/// Whose key, and which.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// Whose. Tenants never share one.
    pub tenant: Tenant,
    pub key: IdempotencyKey,
}

impl EntryKey {
    /// Its place in a list, for a cursor.
    pub fn to_cursor(&self) -> String {
        serde_json::json!([self.tenant.as_str(), self.key.as_str()]).to_string()
    }

    /// Reads a cursor; none when it isn't one of [`EntryKey::to_cursor`].
    pub fn from_cursor(cursor: &str) -> Option<Self> {
        let (tenant, key): (Tenant, IdempotencyKey) = serde_json::from_str(cursor).ok()?;
        Some(Self { tenant, key })
    }
}

/// An entry. It is over at `until`, which is never before its lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Of what is being done: another hash under the same key is refused.
    pub hash: RequestHash,
    /// Token of its first begin: the same over takeovers, so that what a crashed holder did is recognised.
    pub origin: HoldToken,
    /// Token of who has it, or had it last.
    pub token: HoldToken,
    /// How often it was begun: 1, and one more for each takeover.
    pub begun: u32,
    /// What has become of it.
    pub state: EntryState,
    pub created_at: UnixMillis,
    pub changed_at: UnixMillis,
    /// Its end: forgotten then.
    pub until: UnixMillis,
}

/// What has become of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EntryState {
    /// Somebody is at it.
    InFlight {
        /// Past this instant it may be taken over.
        lease_until: UnixMillis,
    },
    /// Done, with this result.
    Succeeded(Answer),
    /// It failed for good, with this error.
    Failed(String),
}

/// A state in a word, as in filters and JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateWord {
    /// Somebody is at it.
    InFlight,
    Succeeded,
    Failed,
}

impl StateWord {
    pub const ALL: [Self; 3] = [Self::InFlight, Self::Succeeded, Self::Failed];

    pub const fn word(self) -> &'static str {
        match self {
            Self::InFlight => "in_flight",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
        }
    }
}

impl Entry {
    /// Whether it is forgotten at an instant.
    pub fn is_over(&self, now: UnixMillis) -> bool {
        self.until <= now
    }

    /// Whether somebody is at it, whose lease isn't over at an instant.
    pub fn is_held(&self, now: UnixMillis) -> bool {
        matches!(self.state, EntryState::InFlight { lease_until } if lease_until > now)
    }

    /// Whether its outcome is known.
    pub fn is_finished(&self) -> bool {
        !matches!(self.state, EntryState::InFlight { .. })
    }

    /// Its state in a word.
    pub fn word(&self) -> StateWord {
        match self.state {
            EntryState::InFlight { .. } => StateWord::InFlight,
            EntryState::Succeeded(_) => StateWord::Succeeded,
            EntryState::Failed(_) => StateWord::Failed,
        }
    }

    /// Bytes that it takes in memory, roughly.
    pub fn weight(&self) -> usize {
        let outcome = match &self.state {
            EntryState::InFlight { .. } => 0,
            EntryState::Succeeded(answer) => answer.weight(),
            EntryState::Failed(error) => error.len(),
        };
        self.hash.as_str().len() + self.origin.as_str().len() + self.token.as_str().len() + outcome + 128
    }
}

/// An id for the `index`-th thing that is made under a key, the same for every holder of one entry: 32 hex digits. A
/// takeover of a crashed holder makes the same ids, so that what was made already is found; an entry that began anew
/// makes others.
pub fn derived_id(of: &EntryKey, origin: &HoldToken, index: usize) -> String {
    let mut hash = Sha256::new();
    for part in [of.tenant.as_str(), of.key.as_str(), origin.as_str()] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.update((index as u64).to_be_bytes());
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Length of a [`derived_id`].
const DERIVED_LEN: usize = 32;

/// Whether an id may have been made by [`derived_id`]: it has the shape. A caller's own id of that shape counts too.
pub fn is_derived(id: &str) -> bool {
    id.len() == DERIVED_LEN && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn derived_ids_differ_by_key_origin_and_index_and_are_never_taken_for_a_host_made_one() {
        let key = |tenant: &str, key: &str| EntryKey {
            tenant: Tenant::new(tenant).unwrap(),
            key: IdempotencyKey::new(key).unwrap(),
        };
        let origin = |text: &str| HoldToken::new(text).unwrap();
        let mut ids = BTreeSet::new();
        for of in [key("t", "ab"), key("ta", "b"), key("t", "abc")] {
            for origin in [origin("1"), origin("2")] {
                assert_eq!(EntryKey::from_cursor(&of.to_cursor()), Some(of.clone()));
                for index in 0..3 {
                    let id = derived_id(&of, &origin, index);
                    assert_eq!(id, derived_id(&of, &origin, index));
                    assert_eq!((is_derived(&id), crate::ids::place_of(&id)), (true, None));
                    assert!(ids.insert(id));
                }
            }
        }
    }
}
