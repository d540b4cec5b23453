//! `[idempotency]` and `[inbox]`.

use std::time::Duration;

use waybill_core::idempotency::{Keep, Settings};
use waybill_core::limits::{IDEMPOTENCY_LEASE_MIN, IDEMPOTENCY_TTL_MIN};

use super::{DAY, SECOND, usize_of};
use crate::config::model::{DeadSettings, InboxSettings};
use crate::config::problem::{Origin, Problem};
use crate::config::reader::{Key, Reader, Section, same};

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

pub fn inbox(mut section: Section<'_, '_>) -> InboxSettings {
    let dedup_window = section.duration("dedup_window", 30 * DAY, SECOND);
    section.done();
    InboxSettings { dedup_window }
}

/// A message that was processed has to be known as such for as long as its dead letter may be replayed.
pub fn check_dedup_window(reader: &mut Reader<'_>, inbox: &InboxSettings, dead: &DeadSettings) {
    let (window, keep) = (inbox.dedup_window, dead.keep);
    if window >= keep {
        return;
    }
    let origin_of = |path: &str| reader.shown.iter().find(|shown| shown.path == path).map(|shown| shown.origin.clone());
    let written = origin_of("inbox.dedup_window").filter(|origin| *origin != Origin::Default);
    let origin = written.or_else(|| origin_of("dead.keep")).unwrap_or(Origin::Default);
    let words = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
    let problem = Problem::BadValue {
        key: "inbox.dedup_window".to_owned(),
        value: format!("{:?}", words(window)),
        cause: format!(
            "it is shorter than dead.keep = {:?}, so a dead letter replayed late would be processed twice: set \
             inbox.dedup_window to {} or more, or dead.keep to {} or less",
            words(keep),
            words(keep),
            words(window)
        ),
    };
    reader.problem(problem, origin);
}
