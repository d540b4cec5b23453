//! How much waits, by context and by consumer.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;
use waybill_api::inbox::{ConsumerStats, ContextStats, InboxStats, Waiters};
use waybill_core::ids::{ConsumerName, Tenant};
use waybill_core::inbox::owner::ConsumerDepths;
use waybill_core::inbox::records::ContextCount;
use waybill_core::limits::DEAD_READS_MAX;
use waybill_core::port::inbox_store::InboxFilter;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;

use super::Inbox;

/// Dead letters are counted this often at most: scrapes and people want the number more often than all should be read.
const COUNT_EVERY: Duration = Duration::from_secs(10);
/// Dead letters read in one page of a count.
const WALK_PAGE: usize = 500;

/// What one shard answers.
struct ShardFigures {
    contexts: BTreeMap<String, ContextCount>,
    consumers: Vec<(ConsumerName, ConsumerDepths, Option<waybill_api::messages::Waiting>)>,
    abandoned: BTreeMap<ConsumerName, usize>,
}

impl Inbox {
    pub(super) async fn count_all(&self, tenant: Option<&Tenant>) -> Result<InboxStats, ServiceError> {
        let config = self.config();
        let shown = |name: &ConsumerName| {
            let consumer = config.consumers.iter().find(|known| known.name == *name);
            tenant.is_none_or(|tenant| consumer.is_some_and(|consumer| self.is_of(&config, consumer, tenant)))
        };
        let mut contexts: BTreeMap<String, ContextStats> = BTreeMap::new();
        let mut consumers: BTreeMap<ConsumerName, ConsumerStats> = BTreeMap::new();
        for consumer in config.consumers.iter().filter(|consumer| shown(&consumer.name)) {
            let home = self.home_of_consumer(&config, consumer).map(|home| home.home.clone()).unwrap_or_default();
            let stats = ConsumerStats {
                consumer: consumer.name.to_string(),
                configured: true,
                home,
                concurrency: u64::from(consumer.concurrency),
                stored_max: consumer.stored_max as u64,
                seen_reads_percent: self.shared.meter.seen_reads_percent(&consumer.name),
                ..ConsumerStats::default()
            };
            consumers.insert(consumer.name.clone(), stats);
        }
        for shard in &self.shards {
            let Some(figures) = self.figures_of(shard).await else { continue };
            // A context may hold messages of several tenants.
            for (context, count) in figures.contexts.into_iter().filter(|_| tenant.is_none()) {
                let stats = slot(&mut contexts, &context);
                stats.unprocessed = joined(stats.unprocessed, count);
            }
            for (name, depths, held) in figures.consumers {
                let Some(stats) = consumers.get_mut(&name) else { continue };
                stats.in_hand += depths.in_hand as u64;
                stats.in_calls += depths.in_calls as u64;
                stats.stored += depths.rows as u64;
                stats.orphans += depths.orphans as u64;
                stats.suspects += depths.suspects as u64;
                stats.held = held;
            }
            for (name, rows) in figures.abandoned.into_iter().filter(|(name, _)| shown(name)) {
                let stats = consumers.entry(name.clone()).or_default();
                (stats.consumer, stats.stored) = (name.to_string(), stats.stored + rows as u64);
            }
        }
        for (name, dead) in self.dead_counts().await? {
            if let Some(stats) = consumers.get_mut(&name) {
                stats.dead = dead;
            }
        }
        if let Some(tables) = self.tables.get().filter(|_| tenant.is_none()) {
            for counted in tables.contexts().await {
                let stats = slot(&mut contexts, &counted.context);
                stats.unpublished = counted.unpublished;
                stats.failed = counted.failed;
            }
        }
        Ok(InboxStats { contexts: contexts.into_values().collect(), consumers: consumers.into_values().collect() })
    }

    async fn figures_of(&self, shard: &crate::inbox::InboxHandle) -> Option<ShardFigures> {
        let now = self.now();
        shard
            .query(move |owner, home, holds| {
                let numbered = home.consumers.iter().enumerate();
                let consumers = numbered.filter_map(|(at, consumer)| {
                    let id = waybill_core::inbox::settings::ConsumerId(u16::try_from(at).ok()?);
                    let held = owner.held_for(id).map(|left| holds.of(id, left, now));
                    Some((consumer.name.clone(), owner.consumer_depths(id), held))
                });
                let contexts = owner.unprocessed().into_iter().map(|(name, count)| (name.to_string(), count));
                ShardFigures {
                    contexts: contexts.collect(),
                    consumers: consumers.collect(),
                    abandoned: owner.abandoned_rows(),
                }
            })
            .await
    }

    /// Dead letters by consumer, of as many as are looked at elsewhere; as counted at most [`COUNT_EVERY`] ago.
    pub async fn dead_counts(&self) -> Result<BTreeMap<ConsumerName, u64>, StoreError> {
        let mut counted = self.dead_counted.lock().await;
        if let Some((_, counts)) = counted.as_ref().filter(|(at, _)| at.elapsed() < COUNT_EVERY) {
            return Ok(counts.clone());
        }
        let mut counts: BTreeMap<ConsumerName, u64> = BTreeMap::new();
        let (mut cursor, mut read) = (None::<String>, 0);
        loop {
            let page = self.store().inbox_dead(&InboxFilter::default(), cursor.as_deref(), WALK_PAGE).await?;
            read += page.reads;
            for (_, dead) in page.items {
                *counts.entry(dead.consumer.clone()).or_default() += 1;
            }
            cursor = page.next_cursor.filter(|_| read < DEAD_READS_MAX);
            if cursor.is_none() {
                break;
            }
        }
        *counted = Some((Instant::now(), counts.clone()));
        Ok(counts)
    }
}

fn slot<'a>(contexts: &'a mut BTreeMap<String, ContextStats>, context: &str) -> &'a mut ContextStats {
    contexts
        .entry(context.to_owned())
        .or_insert_with(|| ContextStats { context: context.to_owned(), ..ContextStats::default() })
}

fn joined(before: Waiters, count: ContextCount) -> Waiters {
    let oldest = before.oldest_at.map_or(count.oldest_at, |at| at.0.min(count.oldest_at));
    Waiters { count: before.count + count.count, oldest_at: Some(oldest.into()) }
}
