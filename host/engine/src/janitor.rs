//! Background work: retires what is old.

use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use tokio::time::sleep;
use waybill_core::ids::Seq;
use waybill_core::outbox::filter::Filter;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use crate::service::Outbox;
use crate::shard::Wish;

/// Pause between two rounds of retirement.
const RETIRE_EVERY: Duration = Duration::from_secs(30);
/// History chunks removed in one transaction.
const RETIRE_PAGE: usize = 100;
/// Pause between two pages, so that retirement never takes the store for itself.
const RETIRE_PAUSE: Duration = Duration::from_millis(5);

/// Removes history after `keep_done`, dead letters after `dead.keep`, payload dedup after its window, idempotency keys after their
/// time, and ended sagas after `saga.keep_done`.
pub(crate) async fn retire(outbox: Arc<Outbox>) {
    let closing = outbox.context.closing.clone();
    closing.run_until_cancelled(retire_for_ever(&outbox)).await;
}

async fn retire_for_ever(outbox: &Outbox) {
    loop {
        if let Err(error) = retire_history(outbox).await {
            tracing::warn!(code = error.code(), %error, "can't retire finished messages now");
        }
        if let Err(error) = retire_dedup(outbox).await {
            tracing::warn!(code = error.code(), %error, "can't retire entries of payload dedup now");
        }
        if let Err(error) = retire_idempotency(outbox).await {
            tracing::warn!(code = error.code(), %error, "can't retire idempotency keys now");
        }
        if let Some(sagas) = &outbox.sagas
            && let Err(error) = sagas.retire().await
        {
            tracing::warn!(code = error.code(), %error, "can't retire ended sagas now");
        }
        if let Err(error) = retire_dead(outbox).await {
            tracing::warn!(%error, "can't retire dead letters now");
        }
        let live = outbox.context.live();
        let keep = live.config.keep_done.min(live.config.keep_dead).min(live.config.sagas.keep_done);
        sleep(RETIRE_EVERY.min(keep.max(Duration::from_millis(100)))).await;
    }
}

fn before(outbox: &Outbox, keep: Duration) -> UnixMillis {
    let now = outbox.context.clock.now().wall;
    UnixMillis(now.0.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)))
}

async fn retire_history(outbox: &Outbox) -> Result<(), StoreError> {
    let store = &outbox.context.stores.owner;
    for shard in outbox.shards.iter().filter(|shard| shard.is_owned()) {
        let limit = before(outbox, outbox.context.live().config.keep_done);
        let mut after: Option<(Seq, u64)> = None;
        loop {
            let page = store.history_before(shard.shard, after, limit, RETIRE_PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.segment, last.beat));
            store.purge_history(&page).await?;
            counter!("waybill_history_purged_total")
                .increment(page.iter().map(|chunk| chunk.entries.len() as u64).sum());
            sleep(RETIRE_PAUSE).await;
        }
    }
    Ok(())
}

/// Entries belong to no shard: whichever host comes first removes them, also those of routes that want no dedup any more.
async fn retire_dedup(outbox: &Outbox) -> Result<(), StoreError> {
    loop {
        let now = outbox.context.clock.now().wall;
        if outbox.context.stores.dedup.purge_dedup(now, RETIRE_PAGE).await? < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

/// Keys belong to no shard either.
async fn retire_idempotency(outbox: &Outbox) -> Result<(), StoreError> {
    loop {
        let now = outbox.idempotency.now();
        let purged = outbox.context.stores.idempotency.purge_idempotency(now, RETIRE_PAGE).await?;
        counter!("tx_idempo_expired_total").increment(purged as u64);
        if purged < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

async fn retire_dead(outbox: &Outbox) -> Result<(), ServiceError> {
    let filter = Filter { before: Some(before(outbox, outbox.context.live().config.keep_dead)), ..Filter::default() };
    let mut cursor: Option<String> = None;
    loop {
        let page = outbox.context.stores.query.dead_letters(&filter, cursor.as_deref(), RETIRE_PAGE).await?;
        for dead in &page.items {
            let Some(shard) = outbox.shards.get(usize::from(dead.place.shard.0)).filter(|shard| shard.is_owned())
            else {
                // Another host's.
                continue;
            };
            match shard.command(Wish::Purge { place: dead.place }).await {
                // An operator was first.
                Ok(()) | Err(ServiceError::State { .. } | ServiceError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        cursor = page.next_cursor;
        if cursor.is_none() {
            return Ok(());
        }
    }
}
