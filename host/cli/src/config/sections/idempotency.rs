//! `[idempotency]`.

use waybill_core::idempotency::{Keep, Settings};
use waybill_core::limits::{IDEMPOTENCY_LEASE_MIN, IDEMPOTENCY_TTL_MIN};

use super::usize_of;
use crate::config::reader::{Key, Section, same};

/// Largest result that may be kept: many of them are written in one commit.
const RESULT_BYTES_MAX: u64 = 256 << 10;
/// Most entries in memory.
const CACHE_ENTRIES_MAX: u64 = 10_000_000;

pub fn idempotency(mut section: Section<'_, '_>) -> Settings {
    let normal = Settings::default();
    let ttl = section.duration("ttl", normal.ttl, IDEMPOTENCY_TTL_MIN);
    let lease = section.duration("lease", normal.lease, IDEMPOTENCY_LEASE_MIN);
    let result_bytes_max = section.size(
        Key::new("result_max_bytes").aliases(const { &[same("result_digest_max_bytes")] }),
        normal.result_bytes_max as u64,
        0..=RESULT_BYTES_MAX,
    );
    let keep = section.choice("store", "result", &[("result", Keep::Result), ("digest", Keep::Digest)]);
    let require = section.boolean("require", normal.require);
    let cache_entries = section.integer("cache_entries", normal.cache_entries as u64, 0..=CACHE_ENTRIES_MAX);
    section.done();
    Settings {
        ttl,
        lease,
        result_bytes_max: usize_of(result_bytes_max),
        keep: keep.unwrap_or(normal.keep),
        require,
        cache_entries: usize_of(cache_entries),
    }
}
