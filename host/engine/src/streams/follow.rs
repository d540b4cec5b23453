//! What other hosts publish: the feeds of the shards that aren't this host's, while somebody listens.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use waybill_core::ids::ShardId;
use waybill_core::port::store::StoreError;

use super::{Shared, StreamHandle};

/// How often feeds are looked at.
const POLL: Duration = Duration::from_millis(20);
/// Pause after a look that failed, and while nobody listens to what isn't this host's.
const TROUBLE_PAUSE: Duration = Duration::from_secs(1);
/// Records of one feed that are read at once. Of a feed that is further ahead, readers look into the store.
const RECORDS_AT_ONCE: u64 = 256;

/// Follows until the engine ends.
pub(super) async fn run(shared: Arc<Shared>, shards: Vec<StreamHandle>) {
    loop {
        if !shared.rings.has_readers() {
            for shard in &shards {
                shared.rings.forget_shard(shard.shard);
            }
            shared.rings.joined.notified().await;
        }
        let others: Vec<ShardId> = shards.iter().filter(|shard| !shard.is_owned()).map(|shard| shard.shard).collect();
        let pause = if others.is_empty() {
            TROUBLE_PAUSE
        } else {
            match follow_others(&shared, &others).await {
                Ok(()) => POLL,
                Err(error) => {
                    tracing::debug!(code = error.code().as_str(), %error, "can't follow other hosts' streams");
                    TROUBLE_PAUSE
                }
            }
        };
        sleep(pause).await;
    }
}

async fn follow_others(shared: &Shared, others: &[ShardId]) -> Result<(), StoreError> {
    let ends = shared.store.feed_ends(shared.shards()).await?;
    for shard in others {
        let end = ends.get(usize::from(shard.0)).copied().unwrap_or(0);
        let followed = shared.rings.followed(*shard, end);
        let first = (followed + 1).max(end.saturating_sub(RECORDS_AT_ONCE));
        for pos in first..=end {
            match shared.store.feed_slice(*shard, pos).await? {
                Some(slice) => shared.rings.publish_slice(*shard, &slice),
                // It was trimmed: its readers see that a number is missing.
                None => continue,
            }
        }
    }
    Ok(())
}
