//! What configuration says of streams and relays: `[events]`, `[[stream]]`, `[relay.NAME]`.

use std::time::Duration;

use super::event::EventLimits;
use super::limits::{
    FEED_KEEP_DEFAULT, HOLD_MAX_DEFAULT, KEEP_IDS_DEFAULT, LIVE_BYTES, LIVE_BYTES_TOTAL_DEFAULT, LIVE_ENTRIES,
    PAYLOAD_BYTES_MAX_DEFAULT, RELAY_ATTEMPTS_DEFAULT, RELAY_BATCH_BYTES_DEFAULT, RELAY_BATCH_DEFAULT,
    RELAY_INFLIGHT_DEFAULT, REPLAY_BYTES_TOTAL_DEFAULT, RETENTION_EVENTS_DEFAULT, STALL_TIMEOUT_DEFAULT,
    SUBSCRIPTIONS_MAX_DEFAULT, TOMBSTONE_KEEP_DEFAULT,
};
use super::name::{StreamName, StreamPattern};
use super::reading::PageLimits;
use super::relay::OrderBy;
use super::upkeep::{Compaction, Retention};
use crate::ids::RelayName;

/// All that is configured of streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamsSettings {
    pub events: EventsSettings,
    /// `[[stream]]`, in the order of the file: the first match wins.
    pub patterns: Vec<PatternSettings>,
    /// `[relay.NAME]`, in the order of the file.
    pub relays: Vec<RelayPlan>,
}

impl StreamsSettings {
    /// The `[[stream]]` that a stream goes by; none = the defaults.
    pub fn pattern(&self, name: &StreamName) -> Option<&PatternSettings> {
        self.patterns.iter().find(|settings| settings.pattern.matches(name))
    }

    /// What is taken of events for a stream.
    pub fn event_limits(&self, name: &StreamName) -> EventLimits {
        EventLimits {
            payload_bytes_max: self.events.payload_bytes_max,
            schema_versions: self.pattern(name).and_then(|settings| settings.schema_versions),
            is_stored: false,
        }
    }

    /// What of a stream is kept at least. The number that holds for all streams isn't a limit of one that has its own, or that is
    /// compacted: there the latest event of a resource may be the oldest of the stream.
    pub fn retention(&self, name: &StreamName) -> Retention {
        let normal = Retention { keep_count: Some(self.events.retention_events), ..Retention::default() };
        match self.pattern(name) {
            Some(settings) if settings.retention != Retention::default() => settings.retention,
            Some(settings) if settings.compact_lag.is_some() => Retention::default(),
            _ => normal,
        }
    }

    /// How a stream is compacted, and how long an event lies there before it may be replaced; none = it isn't.
    pub fn compaction(&self, name: &StreamName) -> Option<(Compaction, Duration)> {
        let lag = self.pattern(name)?.compact_lag?;
        Some((Compaction { tombstone_keep: Some(self.events.tombstone_keep) }, lag))
    }

    /// What is in force when these were, and others were read: what may change while the host runs, and the rest as it was. A relay that
    /// came or went does so at the next start.
    #[must_use]
    pub fn reloaded(&self, next: &Self) -> Self {
        let mut now = self.clone();
        now.events.live_entries = next.events.live_entries;
        now.events.replay.events = next.events.replay.events;
        now.events.retention_events = next.events.retention_events;
        now.events.payload_bytes_max = next.events.payload_bytes_max;
        for relay in &mut now.relays {
            if let Some(next) = next.relays.iter().find(|next| next.name == relay.name) {
                relay.in_flight_max = next.in_flight_max;
            }
        }
        now
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventsSettings {
    /// Entries of a ring, and their bytes. A ring that is live keeps the size that it began with.
    pub live_entries: usize,
    pub live_bytes: usize,
    /// Bytes of all rings.
    pub live_bytes_total: usize,
    /// Largest page of replay, whatever its reader asks for.
    pub replay: PageLimits,
    /// Bytes of all pages of replay in memory: who would exceed it waits.
    pub replay_bytes_total: usize,
    pub payload_bytes_max: usize,
    /// Events kept of a stream for which nothing else is said.
    pub retention_events: u64,
    /// How long an id that a caller chose is recognized.
    pub keep_ids: Duration,
    /// How long a delete stays in a compacted stream.
    pub tombstone_keep: Duration,
    /// How long a reader of many streams may be away without scanning again.
    pub feed_keep: Duration,
    /// A reader that takes nothing for so long is cut off.
    pub stall_timeout: Duration,
    pub subscriptions_max: usize,
}

impl Default for EventsSettings {
    fn default() -> Self {
        Self {
            live_entries: LIVE_ENTRIES,
            live_bytes: LIVE_BYTES,
            live_bytes_total: LIVE_BYTES_TOTAL_DEFAULT,
            replay: PageLimits::default(),
            replay_bytes_total: REPLAY_BYTES_TOTAL_DEFAULT,
            payload_bytes_max: PAYLOAD_BYTES_MAX_DEFAULT,
            retention_events: RETENTION_EVENTS_DEFAULT,
            keep_ids: KEEP_IDS_DEFAULT,
            tombstone_keep: TOMBSTONE_KEEP_DEFAULT,
            feed_keep: FEED_KEEP_DEFAULT,
            stall_timeout: STALL_TIMEOUT_DEFAULT,
            subscriptions_max: SUBSCRIPTIONS_MAX_DEFAULT,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternSettings {
    pub pattern: StreamPattern,
    pub retention: Retention,
    /// How long every event stays before a later one may replace it; none = the streams aren't compacted.
    pub compact_lag: Option<Duration>,
    /// Versions of payloads that are taken, first and last; none = any.
    pub schema_versions: Option<(u32, u32)>,
}

impl PatternSettings {
    /// Streams for which nothing is said.
    pub fn new(pattern: StreamPattern) -> Self {
        Self { pattern, retention: Retention::default(), compact_lag: None, schema_versions: None }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayPlan {
    pub name: RelayName,
    /// Streams that it takes, of every tenant.
    pub streams: StreamPattern,
    /// Name of the transport that it sends through.
    pub transport: String,
    pub order_by: OrderBy,
    pub body: RelayBody,
    pub from: RelayFrom,
    /// Where events go, as a template; none = as is usual for this kind of transport.
    pub topic: Option<String>,
    /// Most events of one call, and their bytes.
    pub batch: u32,
    pub batch_bytes: u32,
    /// Events under way at once, on this host.
    pub in_flight_max: usize,
    /// Attempts in all, the first included.
    pub attempts_max: u32,
    pub on_refused: OnRefused,
    /// How long retention and compaction wait for it at most; none = they don't.
    pub hold_max: Option<Duration>,
    pub on_overtaken: OnOvertaken,
}

impl RelayPlan {
    /// A relay with every bound at its default.
    pub fn new(name: RelayName, streams: StreamPattern, transport: impl Into<String>) -> Self {
        Self {
            name,
            streams,
            transport: transport.into(),
            order_by: OrderBy::default(),
            body: RelayBody::default(),
            from: RelayFrom::default(),
            topic: None,
            batch: RELAY_BATCH_DEFAULT,
            batch_bytes: RELAY_BATCH_BYTES_DEFAULT,
            in_flight_max: RELAY_INFLIGHT_DEFAULT,
            attempts_max: RELAY_ATTEMPTS_DEFAULT,
            on_refused: OnRefused::default(),
            hold_max: Some(HOLD_MAX_DEFAULT),
            on_overtaken: OnOvertaken::default(),
        }
    }
}

/// What receivers get as the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayBody {
    /// The envelope as `application/protobuf`.
    #[default]
    Protobuf,
    /// The envelope as JSON.
    Json,
}

/// Where a relay begins that has no checkpoint yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RelayFrom {
    /// With the earliest events that are kept.
    #[default]
    Earliest,
    /// With what is appended after it was taken up.
    Latest,
}

/// What a refusal for good leads to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRefused {
    /// A dead letter; the key goes on when it is durable.
    #[default]
    DeadLetter,
    /// The relay stops until an operator resumes it.
    Stop,
}

/// What a relay does that retention was faster than.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnOvertaken {
    /// It stops until an operator resumes it.
    #[default]
    Stop,
    /// It goes on with the earliest event that is kept.
    GoOn,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streams::limits::COMPACT_LAG_DEFAULT;

    fn pattern(text: &str) -> PatternSettings {
        PatternSettings::new(StreamPattern::parse(text).unwrap())
    }

    fn count(events: u64) -> Retention {
        Retention { keep_count: Some(events), ..Retention::default() }
    }

    #[test]
    fn the_first_pattern_that_matches_decides_alone() {
        let beats = PatternSettings { retention: count(1_000), ..pattern("task.beats.**") };
        let tasks = PatternSettings { schema_versions: Some((1, 3)), ..pattern("task.**") };
        let settings = StreamsSettings { patterns: vec![beats, tasks], ..StreamsSettings::default() };
        let of = |name: &str| {
            let name = StreamName::new(name).unwrap();
            (settings.retention(&name).keep_count, settings.event_limits(&name).schema_versions)
        };
        assert_eq!(of("task.beats.1"), (Some(1_000), None));
        assert_eq!(of("task.node.1"), (Some(10_000), Some((1, 3))));
        assert_eq!(of("execution"), (Some(10_000), None));
    }

    #[test]
    fn the_number_for_all_streams_is_no_limit_where_another_one_is_said_or_events_are_compacted() {
        let day = Duration::from_secs(24 * 3600);
        let aged =
            PatternSettings { retention: Retention { keep_age: Some(day), ..Retention::default() }, ..pattern("a") };
        let state = PatternSettings { compact_lag: Some(day), ..pattern("b") };
        let both = PatternSettings { retention: count(5), compact_lag: Some(day), ..pattern("c") };
        let settings = StreamsSettings { patterns: vec![aged, state, both], ..StreamsSettings::default() };
        let of = |name: &str| settings.retention(&StreamName::new(name).unwrap());
        assert_eq!(of("a"), Retention { keep_age: Some(day), ..Retention::default() });
        assert_eq!((of("b"), of("c"), of("d")), (Retention::default(), count(5), count(10_000)));
    }

    #[test]
    fn a_reload_changes_five_settings_and_no_other() {
        let relay = |in_flight_max, batch| {
            let plan = RelayPlan::new(RelayName::new("out").unwrap(), StreamPattern::parse("**").unwrap(), "nats");
            RelayPlan { in_flight_max, batch, ..plan }
        };
        let of = |relays| StreamsSettings { relays, ..StreamsSettings::default() };
        let (running, mut next) = (of(vec![relay(64, 50)]), of(vec![relay(8, 1)]));
        next.patterns.push(pattern("task.**"));
        next.events = EventsSettings {
            live_entries: 64,
            live_bytes: 1,
            replay: PageLimits { events: 10, bytes: 1 },
            payload_bytes_max: 7,
            retention_events: 5,
            stall_timeout: Duration::ZERO,
            ..EventsSettings::default()
        };
        let now = running.reloaded(&next);
        let normal = PageLimits::default();
        let events = EventsSettings {
            live_entries: 64,
            replay: PageLimits { events: 10, ..normal },
            payload_bytes_max: 7,
            retention_events: 5,
            ..EventsSettings::default()
        };
        assert_eq!((now.events, now.patterns), (events, Vec::new()));
        assert_eq!(now.relays, [relay(8, 50)]);
        assert_eq!(running.reloaded(&of(Vec::new())).relays, [relay(64, 50)]);
    }

    #[test]
    fn a_stream_is_compacted_where_its_pattern_says_so() {
        let lag = COMPACT_LAG_DEFAULT;
        let state = PatternSettings { compact_lag: Some(lag), ..pattern("node.**") };
        let settings = StreamsSettings { patterns: vec![state], ..StreamsSettings::default() };
        let of = |name: &str| settings.compaction(&StreamName::new(name).unwrap());
        let keep = Some(settings.events.tombstone_keep);
        assert_eq!(of("node.1"), Some((Compaction { tombstone_keep: keep }, lag)));
        assert_eq!(of("task.1"), None);
    }
}
