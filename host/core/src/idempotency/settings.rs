//! Settings of `[idempotency]`.

use std::time::Duration;

use crate::limits::{IDEMPOTENCY_LEASE_DEFAULT, IDEMPOTENCY_RESULT_BYTES_DEFAULT, IDEMPOTENCY_TTL_DEFAULT};

/// What is kept of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// The result, up to the bound.
    Result,
    /// Its digest and size: no raw result at rest (source document 1).
    Digest,
}

/// Settings, as they may change while the host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// How long a key is remembered, from its first begin.
    pub ttl: Duration,
    /// How long a key is reserved for who began it, unless they renew.
    pub lease: Duration,
    /// Largest result that is kept; above it, its digest and size are.
    pub result_bytes_max: usize,
    /// What is kept of a result.
    pub keep: Keep,
    /// Mutating calls that take an `Idempotency-Key` are refused without one.
    pub require: bool,
    /// Entries held in memory, so that repeats needn't read the store.
    pub cache_entries: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            ttl: IDEMPOTENCY_TTL_DEFAULT,
            lease: IDEMPOTENCY_LEASE_DEFAULT,
            result_bytes_max: IDEMPOTENCY_RESULT_BYTES_DEFAULT,
            keep: Keep::Result,
            require: false,
            cache_entries: 20_000,
        }
    }
}
