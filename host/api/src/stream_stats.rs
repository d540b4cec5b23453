//! How event streams do: what a tenant's keep, and how this host does with those of all.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::service::streams::{StreamStats, StreamSummary};

/// How event streams do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamStats)]
pub struct StreamStatsView {
    /// Whose streams are counted.
    pub tenant: String,
    /// Streams that the credential may read.
    pub streams: u64,
    /// There are more streams than are counted: `streams`, `events` and `bytes` are lower bounds.
    pub more: bool,
    /// Numbers from the first to the last that is kept; of a compacted stream fewer events are there.
    pub events: u64,
    /// Bytes of all events that these streams ever had.
    pub bytes: u64,
    /// How this host does with the streams of all tenants; null for a credential of some tenants.
    pub host: Option<HostStreams>,
}

impl StreamStatsView {
    /// Counts one stream more.
    pub fn add(&mut self, stream: &StreamSummary) {
        self.streams += 1;
        self.events = self.events.saturating_add(stream.last.saturating_add(1).saturating_sub(stream.first));
        self.bytes = self.bytes.saturating_add(stream.bytes);
    }
}

/// How a host does with event streams.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HostStreams {
    /// Shards whose events it numbers, of `shards`.
    pub owned: u64,
    /// All shards that streams are spread over.
    pub shards: u64,
    /// Events that it numbered, since its start.
    pub appended: u64,
    /// Appends that wait for their numbers here.
    pub waiting: u64,
    /// Appends of transactions that lie on the doorsteps of its shards and aren't numbered, as the latest looks found them: a page of each
    /// at most.
    pub door_rows: u64,
    /// Age of the oldest of these, in milliseconds; null = there is none.
    pub door_age_ms: Option<u64>,
    /// Subscriptions that are open, of `readers_max` at most.
    pub readers: u64,
    /// Subscriptions that there may be.
    pub readers_max: u64,
    /// Subscriptions that lagged, since its start.
    pub lagged: u64,
    /// Selectors with somebody who listens live.
    pub rings: u64,
    /// Bytes of events that are held for them.
    pub ring_bytes: u64,
    /// Bytes of pages of replay that are held for readers.
    pub replay_bytes: u64,
    /// Events that retention took, since its start.
    pub trimmed: u64,
    /// Events that compaction took, since its start.
    pub compacted: u64,
    /// Events that retention took before a relay had them.
    pub overtaken: u64,
}

impl From<StreamStats> for HostStreams {
    fn from(stats: StreamStats) -> Self {
        let in_ms = |age: Duration| u64::try_from(age.as_millis()).unwrap_or(u64::MAX);
        Self {
            owned: stats.owned,
            shards: stats.shards,
            appended: stats.appended,
            waiting: stats.waiting,
            door_rows: stats.door_rows,
            door_age_ms: stats.door_age.map(in_ms),
            readers: stats.readers,
            readers_max: stats.readers_max,
            lagged: stats.lagged,
            rings: stats.rings,
            ring_bytes: stats.ring_bytes,
            replay_bytes: stats.replay_bytes,
            trimmed: stats.trimmed,
            compacted: stats.compacted,
            overtaken: stats.overtaken,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use waybill_core::ids::Tenant;
    use waybill_core::streams::name::{StreamKey, StreamName};

    #[test]
    fn what_is_kept_of_streams_is_added_up_and_an_empty_one_counts_as_a_stream() {
        let stream = StreamKey { tenant: Tenant::new("acme").unwrap(), name: StreamName::new("task").unwrap() };
        let mut stats = StreamStatsView::default();
        for (first, last, bytes) in [(3, 1_005, 900), (6, 5, 100)] {
            stats.add(&StreamSummary { stream: stream.clone(), first, last, bytes, readers: 0 });
        }
        assert_eq!((stats.streams, stats.events, stats.bytes), (2, 1_003, 1_000));
    }
}
