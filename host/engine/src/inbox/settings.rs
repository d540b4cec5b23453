//! Which sources and consumers live in a shard, as its owner goes by them.

use std::cell::LazyCell;
use std::sync::Arc;

use waybill_core::ids::{ConsumerName, ShardId};
use waybill_core::inbox::intake::Intake;
use waybill_core::inbox::settings::{ConsumerId, ConsumerSettings, InboxSettings, SourceId, SourceSettings, Target};
use waybill_core::topic::Topic;

use super::config::{ConsumerConfig, ConsumerTarget, InboundConfig, SourceConfig};

/// What lives in one shard. Each instance of a source is a source of its own to the owner: it has a session and a part of the window
/// of its own.
pub(super) struct HomeSettings {
    /// What it was made of.
    pub config: Arc<InboundConfig>,
    pub owner: Arc<InboxSettings>,
    pub sources: Vec<Arc<HomeSource>>,
    /// By [`SourceId`]: which source, and which of its instances.
    pub lanes: Vec<(usize, u32)>,
    /// By [`ConsumerId`].
    pub consumers: Vec<Arc<ConsumerConfig>>,
}

/// One source of a shard.
pub(super) struct HomeSource {
    pub config: Arc<SourceConfig>,
    pub intake: Intake,
    /// Its consumers with what they take.
    pub consumers: Vec<(ConsumerId, Arc<ConsumerConfig>)>,
}

impl HomeSource {
    /// Who takes messages of a subject, in order of the configuration.
    pub fn takers(&self, subject: &str) -> Vec<ConsumerId> {
        // Who takes everything doesn't ask for it.
        let topic = LazyCell::new(|| Topic::parse(&format!("bus:{subject}")).ok());
        let takes = |consumer: &ConsumerConfig| {
            let matches = &consumer.matches;
            let is_matched = |topic: &Topic| matches.iter().any(|one| one.matches(topic));
            matches.is_empty() || LazyCell::force(&topic).as_ref().is_some_and(is_matched)
        };
        self.consumers.iter().filter(|(_, consumer)| takes(consumer)).map(|(id, _)| *id).collect()
    }
}

impl HomeSettings {
    /// Of one shard among `shards`.
    pub fn of(config: &Arc<InboundConfig>, shard: ShardId, shards: u16) -> Self {
        let here = |source: &&Arc<SourceConfig>| ShardId::of_home(&source.home, shards) == shard;
        let configs: Vec<Arc<SourceConfig>> = config.sources.iter().filter(here).cloned().collect();
        let feeds =
            |consumer: &&Arc<ConsumerConfig>| configs.iter().any(|source| consumer.sources.contains(&source.name));
        let consumers: Vec<Arc<ConsumerConfig>> = config.consumers.iter().filter(feeds).cloned().collect();
        let (mut sources, mut lanes, mut settings) = (Vec::new(), Vec::new(), Vec::new());
        for (index, source) in configs.into_iter().enumerate() {
            let home = home_source(config, source, &consumers);
            for lane in 0..home.config.instances.max(1) {
                lanes.push((index, lane));
                settings.push(lane_settings(&home));
            }
            sources.push(Arc::new(home));
        }
        let owner = InboxSettings {
            sources: settings,
            consumers: consumers.iter().map(|consumer| consumer_settings(consumer)).collect(),
            dedup_window: config.dedup_window,
        };
        Self { config: Arc::clone(config), owner: Arc::new(owner), sources, lanes, consumers }
    }

    pub fn is_empty(&self) -> bool {
        self.sources.is_empty()
    }

    /// Whether an owner goes on as it is under another configuration: to it sources, consumers and their bounds are the same. What
    /// differs then is read anew for each delivery and each call, or is the plugin of a source.
    pub fn goes_on_as(&self, next: &Self) -> bool {
        let homes =
            |settings: &Self| settings.sources.iter().map(|source| source.config.home.clone()).collect::<Vec<_>>();
        self.owner == next.owner && self.lanes == next.lanes && homes(self) == homes(next)
    }

    pub fn consumer(&self, id: ConsumerId) -> Option<&Arc<ConsumerConfig>> {
        self.consumers.get(usize::from(id.0))
    }

    pub fn consumer_named(&self, name: &ConsumerName) -> Option<ConsumerId> {
        self.owner.consumer_named(name)
    }

    /// The source that an owner's source is an instance of.
    pub fn source_of(&self, id: SourceId) -> Option<(usize, u32)> {
        self.lanes.get(usize::from(id.0)).copied()
    }

    /// The owner's sources that are instances of one.
    pub fn instances_of(&self, source: usize) -> impl Iterator<Item = SourceId> + use<'_> {
        let numbered = self.lanes.iter().enumerate().filter(move |(_, (of, _))| *of == source);
        numbered.filter_map(|(at, _)| u16::try_from(at).ok().map(SourceId))
    }
}

fn home_source(config: &InboundConfig, source: Arc<SourceConfig>, all: &[Arc<ConsumerConfig>]) -> HomeSource {
    let numbered = all.iter().enumerate().filter(|(_, consumer)| consumer.sources.contains(&source.name));
    let consumers =
        numbered.filter_map(|(at, consumer)| Some((ConsumerId(u16::try_from(at).ok()?), Arc::clone(consumer))));
    let intake = Intake {
        source: source.name.clone(),
        context: source.context.clone(),
        tenants: source.tenants.clone(),
        missing_id: source.missing_id,
        names: source.names.clone(),
        payload_bytes_max: config.payload_bytes_max,
    };
    HomeSource { intake, consumers: consumers.collect(), config: source }
}

/// Of one instance.
fn lane_settings(home: &HomeSource) -> SourceSettings {
    let source = &home.config;
    let part = |whole: u32| usize::try_from((whole / source.instances.max(1)).max(1)).unwrap_or(usize::MAX);
    SourceSettings {
        window: part(source.window),
        window_bytes: part(source.window_bytes),
        orphan_wait: source.orphan_wait,
        consumers: home.consumers.iter().map(|(id, _)| *id).collect(),
        id_time_occurred: source.id_time_occurred,
        ..SourceSettings::new(source.name.clone())
    }
}

fn consumer_settings(consumer: &ConsumerConfig) -> ConsumerSettings {
    let target = match &consumer.target {
        ConsumerTarget::Topic(_) | ConsumerTarget::Saga => Target::Forward,
        ConsumerTarget::Http { .. } | ConsumerTarget::Component(_) => Target::Handler,
    };
    ConsumerSettings {
        name: consumer.name.clone(),
        target,
        concurrency: usize::try_from(consumer.concurrency).unwrap_or(usize::MAX).max(1),
        stored_max: consumer.stored_max,
        retry: consumer.retry,
        on_reused_id: consumer.on_reused_id,
        acknowledge_rows: consumer.acknowledge_rows,
        idempotent: consumer.idempotent,
        dlq_subject: consumer.dlq_subject.clone(),
    }
}
