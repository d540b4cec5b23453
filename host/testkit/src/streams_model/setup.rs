//! Names, bounds, and what differs from run to run.

use std::time::Duration;

use waybill_core::ids::{RelayName, ShardId, Tenant};
use waybill_core::streams::name::{StreamKey, StreamName, StreamPattern};
use waybill_core::streams::owner::OwnerConfig;
use waybill_core::streams::records::StreamShardRecord;
use waybill_core::streams::relay::{Relay, RelaySettings, Relays};
use waybill_core::streams::rules::Rules;

use crate::model::rng::Rng;

pub(super) const SHARDS: u16 = 2;
pub(super) const STREAMS: usize = 4;
/// The stream that is compacted; the two before it are trimmed.
pub(super) const COMPACTED: usize = 3;
/// How long an owner may act, in steps, and after how long without a beat another one takes over.
pub(super) const OWNER_TTL: u64 = 60;
pub(super) const OBSERVER_TTL: u64 = 110;
pub(super) const DOOR_PAGE: usize = 3;
/// Entries of a ring.
pub(super) const RING: usize = 3;
/// Feed records that are kept.
pub(super) const FEED_KEEP: u64 = 8;
/// Most events of a run.
pub(super) const EVENTS_MAX: usize = 90;
pub(super) const WALL_START: u64 = 1_700_000_000_000;

pub(super) struct Setup {
    pub hosts: usize,
    pub rules: Rules,
    /// Retention and compaction wait for the relay.
    pub holds: bool,
    /// Events that are kept of each stream.
    pub keep: [Option<u64>; STREAMS],
    pub streams: Vec<StreamKey>,
    pub relay: RelayName,
    /// Bytes of the relay's windows, and those of one read; none = there is always room.
    pub room: Option<(usize, usize)>,
    /// The stream that the broker never takes anything of.
    pub blocked: Option<usize>,
    /// The relay takes what is appended from this step on; none = it is there from the beginning, and takes all.
    pub latest_from: Option<u64>,
    /// Most events of a key that the relay sends together, to a broker that takes them one behind the other.
    pub run_max: usize,
}

impl Setup {
    pub fn draw(rng: &mut Rng, rules: Rules) -> Self {
        let holds = rng.percent(50);
        let mut keep = [None; STREAMS];
        for slot in &mut keep[1..COMPACTED] {
            *slot = Some(3 + rng.below(8));
        }
        let hosts = 1 + rng.index(3);
        let streams = (0..STREAMS).map(stream_of).collect();
        let room = rng.percent(50).then_some((200, 100));
        let blocked = rng.percent(30).then(|| rng.index(STREAMS));
        let latest_from = rng.percent(30).then(|| 200 + rng.below(500));
        let (relay, run_max) = (RelayName::new("out").unwrap(), if hosts == 2 { 3 } else { 1 });
        Self { hosts, rules, holds, keep, streams, relay, room, blocked, latest_from, run_max }
    }

    pub fn stream(&self, number: usize) -> &StreamKey {
        &self.streams[number]
    }

    pub fn number(&self, stream: &StreamKey) -> usize {
        self.streams.iter().position(|known| known == stream).unwrap()
    }

    pub fn owner(&self, shard: ShardId) -> OwnerConfig {
        OwnerConfig {
            door_page: DOOR_PAGE,
            commit_events: 6,
            tx_events: Some("model".into()),
            rules: self.rules,
            ..OwnerConfig::new(shard, SHARDS, Duration::from_millis(OWNER_TTL))
        }
    }

    /// Whether the relay is configured by then.
    pub fn has_relay(&self, now: u64) -> bool {
        self.latest_from.is_none_or(|from| now >= from)
    }

    pub fn relays(&self, record: &StreamShardRecord, now: u64) -> Relays {
        if !self.has_relay(now) {
            return Relays::default();
        }
        let settings = RelaySettings::new(self.relay.clone(), StreamPattern::parse("**").unwrap());
        let (window_bytes, read_bytes) = self.room.unwrap_or((settings.window_bytes, settings.read_bytes));
        let settings = RelaySettings {
            holds: self.holds,
            from_latest: self.latest_from.is_some(),
            in_flight_max: 3,
            window_events: 5,
            window_bytes,
            read_bytes,
            rules: self.rules,
            ..settings
        };
        Relays::new(vec![Relay::new(settings, record)])
    }
}

/// The shard of a stream by number.
pub(super) fn shard_of(stream: usize) -> ShardId {
    ShardId(u16::try_from(stream).unwrap() % SHARDS)
}

/// A name that lies in the stream's shard. Names sort as numbers do.
fn stream_of(number: usize) -> StreamKey {
    let names = (0..).map(|try_| StreamName::new(format!("s{number}.{try_}")).unwrap());
    let mut keys = names.map(|name| StreamKey { tenant: Tenant::unnamed(), name });
    keys.find(|key| key.shard(SHARDS) == shard_of(number)).unwrap()
}
