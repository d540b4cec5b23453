//! What differs from run to run, and every time and bound of the model. One step is a millisecond.

use std::sync::Arc;
use std::time::Duration;

use waybill_core::backoff::RetryPolicy;
use waybill_core::ids::{ConsumerName, ShardId, SourceName};
use waybill_core::inbox::fingerprint::HashSecret;
use waybill_core::inbox::owner::{InboxConfig, Rules};
use waybill_core::inbox::settings::{
    AcknowledgeRows, ConsumerId, ConsumerSettings, InboxSettings, SourceSettings, Target,
};
use waybill_core::outbox::suspicion::Caution;

use super::broker::Kind;
use crate::model::rng::Rng;

/// Wall clock at step 0.
pub(super) const WALL_START: u64 = 1_700_000_000_000;
/// An owner begins no call this long after its last beat.
pub(super) const OWNER_TTL: u64 = 60;
/// A rival waits this long for a beat.
pub(super) const OBSERVER_TTL: u64 = 110;
/// A broker delivers again after this time.
pub(super) const ACK_WAIT: u64 = 80;
pub(super) const ORPHAN_WAIT: u64 = 3 * ACK_WAIT;
pub(super) const WINDOW: usize = 8;
pub(super) const STORED: usize = 24;
pub(super) const CONCURRENCY: usize = 3;
pub(super) const MAX_ATTEMPTS: u32 = 4;
/// The window of the seen set.
pub(super) const DEDUP_WINDOW: u64 = 500;
/// A delivery with so many left is among the last.
pub(super) const LAST: u32 = 2;
pub(super) const SHARD: ShardId = ShardId(0);
pub(super) const SECRET: HashSecret = HashSecret(0x5EC2E7);
const CAUTION: Caution = Caution {
    first: Duration::from_millis(400),
    longest: Duration::from_millis(3_000),
    forget: Duration::from_millis(2_500),
    quiet: Duration::from_millis(20),
    life_max: Duration::from_millis(150),
};

/// Consumers: the first takes from both sources, the second from the first source only.
pub(super) const CONSUMERS: [&str; 2] = ["ship", "bill"];
pub(super) const SOURCES: [&str; 2] = ["shop", "mail"];

/// How ids look: which of the three forms of the seen set is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum IdShape {
    Time,
    Counter,
    Neither,
}

pub(super) struct Setup {
    pub hosts: usize,
    pub kinds: [Kind; 2],
    pub ids: IdShape,
    pub settings: Arc<InboxSettings>,
    pub rules: Rules,
}

impl Setup {
    pub fn draw(rng: &mut Rng, rules: Rules) -> Self {
        let kinds = [kind(rng), kind(rng)];
        let hosts = 1 + rng.index(3);
        let (forwards, at_once, both_dlq) = (rng.percent(40), rng.percent(40), rng.percent(50));
        let ids = match rng.below(3) {
            0 => IdShape::Time,
            1 => IdShape::Counter,
            _ => IdShape::Neither,
        };
        let consumers = (0..2_u16).map(|number| consumer(number, forwards, at_once, both_dlq)).collect();
        let sources = (0..2_u16).map(|number| source(number, kinds[usize::from(number)])).collect();
        let dedup_window = Duration::from_millis(DEDUP_WINDOW);
        Self { hosts, kinds, ids, settings: Arc::new(InboxSettings { sources, consumers, dedup_window }), rules }
    }

    pub fn config(&self, unclean: bool) -> InboxConfig {
        InboxConfig {
            shard: SHARD,
            shards: 1,
            settings: Arc::clone(&self.settings),
            caution: CAUTION,
            unclean,
            tx_events: Some("model".into()),
            rules: self.rules,
        }
    }

    /// Who takes from a source.
    pub fn takers(&self, source: usize) -> &[ConsumerId] {
        &self.settings.sources[source].consumers
    }

    pub fn has_dlq(&self, consumer: u16) -> bool {
        self.settings.consumers[usize::from(consumer)].dlq_subject.is_some()
    }

    /// Whether the messages of a key come again in their order.
    pub fn replays(&self, source: usize) -> bool {
        self.kinds[source].log || self.kinds[source].ordered
    }
}

fn kind(rng: &mut Rng) -> Kind {
    let drawn = rng.below(4);
    let (log, ordered) = (drawn == 0, drawn == 1);
    let extends = rng.percent(65);
    let limit = if !log && rng.percent(40) { 7 } else { 0 };
    Kind { log, ordered, extends, limit }
}

fn consumer(number: u16, forwards: bool, at_once: bool, both_dlq: bool) -> ConsumerSettings {
    let name = ConsumerName::new(CONSUMERS[usize::from(number)]).unwrap();
    let target = if number == 1 && forwards { Target::Forward } else { Target::Handler };
    ConsumerSettings {
        concurrency: CONCURRENCY,
        stored_max: STORED,
        retry: RetryPolicy {
            max_attempts: MAX_ATTEMPTS,
            base_ms: 25,
            factor: 1.0,
            jitter: 0.8,
            cap_ms: 25,
            floor_ms: Some(5),
        },
        acknowledge_rows: if at_once { AcknowledgeRows::AtOnce } else { AcknowledgeRows::WhenFinished },
        dlq_subject: (number == 0 || both_dlq).then(|| "dead.{subject}".to_owned()),
        ..ConsumerSettings::new(name, target)
    }
}

fn source(number: u16, kind: Kind) -> SourceSettings {
    let consumers = if number == 0 { vec![ConsumerId(0), ConsumerId(1)] } else { vec![ConsumerId(0)] };
    SourceSettings {
        window: WINDOW,
        replays_in_order: kind.ordered || kind.log,
        by_offsets: kind.log,
        extends: kind.extends,
        settle_within: Duration::from_millis(ACK_WAIT),
        orphan_wait: Some(Duration::from_millis(ORPHAN_WAIT)),
        consumers,
        ..SourceSettings::new(SourceName::new(SOURCES[usize::from(number)]).unwrap())
    }
}
