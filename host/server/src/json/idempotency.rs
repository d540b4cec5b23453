//! Values of requests about idempotency keys, checked.

use std::time::Duration;

use waybill_core::ids::{HoldToken, IdempotencyKey, RequestHash};
use waybill_core::limits::{IDEMPOTENCY_LEASE_MAX, IDEMPOTENCY_LEASE_MIN, IDEMPOTENCY_TTL_MAX, IDEMPOTENCY_TTL_MIN};

use crate::problem::Problem;

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
