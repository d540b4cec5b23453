//! How event streams do: what those of some tenants keep, and how this host does with those of all.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use waybill_core::port::service::streams::{StreamStats, StreamSummary};

/// How event streams do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = StreamStats)]
pub struct StreamStatsView {
    /// Tenants whose streams are counted.
    pub tenants: Vec<String>,
    /// Streams that the credential may read.
    pub streams: u64,
    /// There are more streams than are counted: `streams`, `events` and `bytes` are lower bounds.
    pub more: bool,
    /// Numbers from the first to the last that is kept; of a compacted stream fewer events are there.
    pub events: u64,
    /// Bytes of all events that these streams ever had.
    pub bytes: u64,
    /// How this host does with the streams of all tenants; null for a credential of some tenants.
    pub host: Option<StreamStats>,
}

impl StreamStatsView {
    /// Counts one stream more.
    pub fn add(&mut self, stream: &StreamSummary) {
        self.streams += 1;
        self.events = self.events.saturating_add(stream.last.saturating_add(1).saturating_sub(stream.first));
        self.bytes = self.bytes.saturating_add(stream.bytes);
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
