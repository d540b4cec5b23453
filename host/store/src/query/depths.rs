//! Depths of what stopped, counted by walking a bounded number: of dead letters the latest, of scheduled messages the soonest
//! due. Embedded, where every commit passes through this process, the count is kept until something that stopped is written. A
//! count that took long is kept for a while all the same, so that counting takes at most a twentieth of a core however often it is
//! asked for.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use waybill_core::ids::ShardId;
use waybill_core::port::query::{Depth, Depths};
use waybill_core::port::store::StoreError;
use waybill_surreal::text_of;

use super::reach::Reach;
use super::{latest, soonest};
use crate::quarantine::Spoilt;
use crate::store::SurrealStore;

/// A count that took no longer than this is made anew whenever something has changed.
const QUICK: Duration = Duration::from_millis(5);
/// A slower one is kept for so many times as long as it took.
const KEPT_TIMES: u32 = 20;

#[derive(Clone, Debug)]
struct Count {
    depths: Depths,
    /// Dead letters, and scheduled messages, that it looked at, at most.
    reads: usize,
    /// [`DepthCache::changes`] when it began.
    changes: u64,
    took: Duration,
    ended: Instant,
}

/// The latest count and what it was made of.
#[derive(Debug, Default)]
pub struct DepthCache {
    changes: AtomicU64,
    counted: Mutex<Option<Count>>,
}

impl DepthCache {
    /// Says that a dead letter or scheduled message is written or removed: before and after the commit that does it, so that a
    /// count made in between isn't kept.
    pub fn touch(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
    }

    /// How often something that stopped was written.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::SeqCst)
    }

    fn kept(&self, embedded: bool, reads: usize) -> Option<Depths> {
        let counted = self.counted.lock().ok()?;
        let count = counted.as_ref().filter(|count| count.reads == reads)?;
        let unchanged = embedded && count.changes == self.changes();
        let dear = count.took > QUICK && count.ended.elapsed() < count.took * KEPT_TIMES;
        (unchanged || dear).then(|| count.depths.clone())
    }
}

/// Depths per shard and tenant, of the latest `reads` dead letters and of the scheduled messages that are due soonest, as many.
pub async fn depths(store: &SurrealStore, reads: usize) -> Result<Depths, StoreError> {
    let cache = store.depth_cache();
    if let Some(depths) = cache.kept(store.is_embedded(), reads) {
        return Ok(depths);
    }
    let (changes, begun) = (cache.changes(), Instant::now());
    let transaction = store.begin(false).await?;
    let mut counted: BTreeMap<(ShardId, String), Depth> = BTreeMap::new();
    let mut spoilt = Spoilt::default();
    let dead_since =
        latest::walk(transaction.as_ref(), &Reach::everything(), None, reads, &mut spoilt, |row, shard, _| {
            if let Some(tenant) = text_of(row.fields.get("tenant")) {
                let depth = entry(&mut counted, shard, tenant);
                match text_of(row.fields.get("status")) {
                    Some("quarantined") => depth.quarantined += 1,
                    _ => depth.dead += 1,
                }
            }
            Ok(())
        })
        .await?;
    let scheduled_until = soonest::walk(transaction.as_ref(), reads, |row, shard| {
        if let Some(tenant) = text_of(row.fields.get("tenant")) {
            entry(&mut counted, shard, tenant).scheduled += 1;
        }
    })
    .await?;
    drop(transaction);
    store.set_aside(spoilt).await;
    let depths = Depths { of: counted.into_values().collect(), dead_since, scheduled_until };
    if let Ok(mut kept) = cache.counted.lock() {
        *kept = Some(Count { depths: depths.clone(), reads, changes, took: begun.elapsed(), ended: Instant::now() });
    }
    Ok(depths)
}

fn entry<'c>(counted: &'c mut BTreeMap<(ShardId, String), Depth>, shard: ShardId, tenant: &str) -> &'c mut Depth {
    let tenant = tenant.to_owned();
    counted.entry((shard, tenant.clone())).or_insert_with(|| Depth { shard, tenant, ..Depth::default() })
}
