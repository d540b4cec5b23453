//! Metrics of event streams. Label values are bounded: relays are configured, codes are the host's. Help is in [`crate::METRICS`].

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use parking_lot::Mutex;
use waybill_core::code::Code;
use waybill_core::ids::{RelayName, ShardId};
use waybill_core::streams::owner::OwnerCounts;
use waybill_core::streams::records::StreamDoorRow;
use waybill_core::time::UnixMillis;

/// What an owner hasn't numbered yet.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unnumbered {
    pub appends: u64,
    /// Rows that the latest look at the doorstep found, and when the oldest was written.
    pub door_rows: u64,
    pub door_since: Option<UnixMillis>,
}

/// Cached handles, and what was counted since the start, for people.
pub(crate) struct StreamMeter {
    commit_seconds: Histogram,
    appended: Counter,
    adopted: Counter,
    duplicates: Counter,
    trimmed: Counter,
    compacted: Counter,
    readers: Gauge,
    lagged: Counter,
    stalled: Counter,
    pages: Counter,
    page_waits: Counter,
    rings: Gauge,
    ring_bytes: Gauge,
    replay_bytes: Gauge,
    pub appended_count: AtomicU64,
    pub trimmed_count: AtomicU64,
    pub compacted_count: AtomicU64,
    pub lagged_count: AtomicU64,
    unnumbered: Mutex<BTreeMap<ShardId, Unnumbered>>,
}

impl StreamMeter {
    pub fn new() -> Self {
        Self {
            commit_seconds: histogram!("tx_stream_commit_seconds"),
            appended: counter!("tx_stream_appended_total"),
            adopted: counter!("tx_stream_adopted_total"),
            duplicates: counter!("tx_stream_duplicates_total"),
            trimmed: counter!("tx_stream_trimmed_total"),
            compacted: counter!("tx_stream_compacted_total"),
            readers: gauge!("tx_stream_readers"),
            lagged: counter!("tx_stream_lagged_total"),
            stalled: counter!("tx_stream_stalled_total"),
            pages: counter!("tx_stream_replay_pages_total"),
            page_waits: counter!("tx_stream_replay_waits_total"),
            rings: gauge!("tx_stream_rings"),
            ring_bytes: gauge!("tx_stream_ring_bytes"),
            replay_bytes: gauge!("tx_stream_replay_bytes"),
            appended_count: AtomicU64::new(0),
            trimmed_count: AtomicU64::new(0),
            compacted_count: AtomicU64::new(0),
            lagged_count: AtomicU64::new(0),
            unnumbered: Mutex::default(),
        }
    }

    pub fn commit(&self, took: Duration) {
        self.commit_seconds.record(took.as_secs_f64());
    }

    pub fn commit_failed(&self, code: Code) {
        counter!("tx_stream_commit_failures_total", "code" => code.as_str()).increment(1);
    }

    /// What an owner counted since it was told last.
    pub fn counts(&self, counts: &OwnerCounts, told: &OwnerCounts) {
        let appended = (counts.numbered + counts.adopted).saturating_sub(told.numbered + told.adopted);
        self.appended_count.fetch_add(appended, Ordering::Relaxed);
        self.appended.increment(counts.numbered.saturating_sub(told.numbered));
        self.adopted.increment(counts.adopted.saturating_sub(told.adopted));
        self.duplicates.increment(counts.duplicates.saturating_sub(told.duplicates));
        counter!("tx_stream_moved_total").increment(counts.moved.saturating_sub(told.moved));
        counter!("tx_stream_dead_total").increment(counts.dead.saturating_sub(told.dead));
        counter!("tx_stream_quarantined_total").increment(counts.quarantined.saturating_sub(told.quarantined));
        counter!("tx_stream_unreadable_total").increment(counts.unreadable.saturating_sub(told.unreadable));
    }

    /// An append that wasn't taken: nothing of it is kept, or its outcome isn't known.
    pub fn refused(&self, code: Code) {
        counter!("tx_stream_refused_total", "code" => code.as_str()).increment(1);
    }

    /// Rows that a look at a shard's doorstep found, in their order. It reads a page at once, so a full page means that there are others.
    pub fn door(&self, shard: ShardId, rows: &[StreamDoorRow]) {
        gauge!("tx_stream_door_rows", "shard" => shard.0.to_string()).set(rows.len() as f64);
        let mut unnumbered = self.unnumbered.lock();
        let of_shard = unnumbered.entry(shard).or_default();
        of_shard.door_rows = rows.len() as u64;
        of_shard.door_since = rows.first().map(|row| UnixMillis(row.key.nanos / 1_000_000));
    }

    /// Up to where old records of a shard's feed were removed.
    pub fn feed_trimmed(&self, shard: ShardId, upto: u64) {
        gauge!("tx_stream_feed_trimmed_to", "shard" => shard.0.to_string()).set(upto as f64);
    }

    /// Appends that wait for their numbers at an owner.
    pub fn waiting(&self, shard: ShardId, count: usize) {
        gauge!("tx_stream_waiting", "shard" => shard.0.to_string()).set(count as f64);
        self.unnumbered.lock().entry(shard).or_default().appends = count as u64;
    }

    /// What isn't numbered yet in the shards of this host.
    pub fn unnumbered(&self) -> Unnumbered {
        let unnumbered = self.unnumbered.lock();
        unnumbered.values().fold(Unnumbered::default(), |sum, shard| Unnumbered {
            appends: sum.appends + shard.appends,
            door_rows: sum.door_rows + shard.door_rows,
            door_since: [sum.door_since, shard.door_since].into_iter().flatten().min(),
        })
    }

    pub fn trimmed(&self, events: u64) {
        self.trimmed.increment(events);
        self.trimmed_count.fetch_add(events, Ordering::Relaxed);
    }

    pub fn compacted(&self, events: u64) {
        self.compacted.increment(events);
        self.compacted_count.fetch_add(events, Ordering::Relaxed);
    }

    pub fn readers(&self, count: usize) {
        self.readers.set(count as f64);
    }

    pub fn lagged(&self) {
        self.lagged.increment(1);
        self.lagged_count.fetch_add(1, Ordering::Relaxed);
    }

    pub fn stalled(&self) {
        self.stalled.increment(1);
    }

    /// A page of replay is read; it had to wait for its place, or it hadn't.
    pub fn page(&self, has_waited: bool) {
        self.pages.increment(1);
        self.page_waits.increment(u64::from(has_waited));
    }

    pub fn rings(&self, count: usize, bytes: usize) {
        self.rings.set(count as f64);
        self.ring_bytes.set(bytes as f64);
    }

    pub fn replay_bytes(&self, bytes: usize) {
        self.replay_bytes.set(bytes as f64);
    }
}

/// An event of a relay was delivered, retried or refused.
pub(super) fn relayed(relay: &RelayName, result: &'static str) {
    counter!("tx_relay_events_total", "relay" => relay.to_string(), "result" => result).increment(1);
}

/// Retention took events before a relay had them.
pub(super) fn overtaken(relay: &RelayName, events: u64) {
    counter!("tx_relay_overtaken_total", "relay" => relay.to_string()).increment(events);
}

/// Events of a relay under way, over the shards of this host.
pub(super) fn in_flight(relay: &RelayName, events: usize) {
    gauge!("tx_relay_in_flight", "relay" => relay.to_string()).set(events as f64);
}

/// How far a relay is behind in a shard; a shard that isn't this host's any more has nothing to tell.
pub(super) fn relay(relay: &RelayName, shard: ShardId, events: u64, lag: Duration, streams: usize) {
    let (relay, shard) = (relay.to_string(), shard.0.to_string());
    gauge!("tx_relay_lag_events", "relay" => relay.clone(), "shard" => shard.clone()).set(events as f64);
    gauge!("tx_relay_lag_seconds", "relay" => relay.clone(), "shard" => shard.clone()).set(lag.as_secs_f64());
    gauge!("tx_relay_streams_behind", "relay" => relay, "shard" => shard).set(streams as f64);
}
