//! How streams do at this host.

use std::sync::atomic::{AtomicU64, Ordering};

use waybill_core::port::service::streams::StreamStats;
use waybill_core::time::UnixMillis;

use super::Streams;

impl Streams {
    pub(super) fn stats(&self) -> StreamStats {
        let (shared, settings) = (&self.shared, self.shared.settings());
        let (rings, ring_bytes) = shared.rings.size();
        let overtaken =
            settings.relays.iter().map(|plan| shared.relays.of(&plan.name).overtaken.load(Ordering::Acquire));
        let count = |of: &AtomicU64| of.load(Ordering::Relaxed);
        let (unnumbered, now) = (shared.meter.unnumbered(), self.steady_now());
        let age_ms = |since: UnixMillis| now.0.saturating_sub(since.0);
        StreamStats {
            owned: self.shards.iter().filter(|shard| shard.is_owned()).count() as u64,
            shards: self.shards.len() as u64,
            appended: count(&shared.meter.appended_count),
            waiting: unnumbered.appends,
            door_rows: unnumbered.door_rows,
            door_age_ms: unnumbered.door_since.map(age_ms),
            readers: shared.readers.count() as u64,
            readers_max: settings.events.subscriptions_max as u64,
            lagged: count(&shared.meter.lagged_count),
            rings: rings as u64,
            ring_bytes: ring_bytes as u64,
            replay_bytes: shared.readers.replay_bytes() as u64,
            trimmed: count(&shared.meter.trimmed_count),
            compacted: count(&shared.meter.compacted_count),
            overtaken: overtaken.sum(),
        }
    }
}
