//! Background work: retires what is old.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use metrics::counter;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use waybill_core::ids::{Seq, ShardId};
use waybill_core::outbox::records::HistoryKey;
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;
use waybill_core::time::UnixMillis;

use crate::service::Outbox;
use crate::shard::{OperatorCommand, ShardHandle};
use crate::streams::service::Streams;

/// Pause between two rounds of retirement.
const RETIRE_EVERY: Duration = Duration::from_secs(30);
/// History chunks removed in one transaction.
const RETIRE_PAGE: usize = 100;
/// Ids of events forgotten in one transaction, about.
const EVENT_IDS_PAGE: usize = 1_000;
/// What is old is looked for from the very beginning this often.
const ANEW_EVERY: Duration = Duration::from_secs(3600);
/// Pause between two pages, so that retirement never takes the store for itself.
const RETIRE_PAUSE: Duration = Duration::from_millis(5);

const HISTORY: &str = "retirement of finished messages";
const DEAD: &str = "retirement of dead letters";

/// Starts the tasks that remove history after `keep_done`, dead letters after `dead.keep`, payload dedup after its window,
/// the audit trail and bulk operations after `audit.keep`, idempotency keys after their time, ids of events after `events.keep_ids`, and ended sagas after `saga.keep_done`. Each is a task of its own, so that none waits for
/// another, and one that fails holds up none of them.
pub(crate) fn start(outbox: &Arc<Outbox>) -> Vec<JoinHandle<()>> {
    let config = &outbox.context.config;
    let wait = config.retire_after;
    vec![
        retire(outbox, HISTORY, wait.min(config.keep_done), |outbox| async move {
            retire_history(&outbox).await;
            Ok(())
        }),
        retire(outbox, "retirement of ids", wait, |outbox| async move { Ok(retire_ids(&outbox).await?) }),
        retire(outbox, "retirement of events' ids", wait, |outbox| async move {
            match &outbox.streams {
                Some(streams) => Ok(retire_event_ids(&outbox, streams).await?),
                None => Ok(()),
            }
        }),
        retire(outbox, "retirement of payload dedup", wait, |outbox| async move { Ok(retire_dedup(&outbox).await?) }),
        retire(outbox, "retirement of idempotency keys", wait, |outbox| async move {
            Ok(retire_idempotency(&outbox).await?)
        }),
        retire(outbox, DEAD, wait.min(config.keep_dead), |outbox| async move {
            retire_dead(&outbox).await;
            Ok(())
        }),
        retire(outbox, "retirement of events' dead letters", wait.min(config.keep_dead), |outbox| async move {
            match &outbox.streams {
                Some(streams) => streams.retire_dead(outbox.context.live().config.keep_dead).await,
                None => Ok(()),
            }
        }),
        retire(outbox, "retirement of received dead letters", wait.min(config.keep_dead), |outbox| async move {
            match &outbox.inbox {
                Some(inbox) => inbox.retire_dead(outbox.context.live().config.keep_dead).await,
                None => Ok(()),
            }
        }),
        retire(outbox, "retirement of the audit trail", wait.min(config.keep_audit), |outbox| async move {
            Ok(retire_audit(&outbox).await?)
        }),
        retire(outbox, "retirement of bulk operations", wait.min(config.keep_audit), |outbox| async move {
            Ok(retire_operations(&outbox).await?)
        }),
        retire(outbox, "retirement of sagas", wait.min(config.sagas.keep_done), |outbox| async move {
            match &outbox.sagas {
                Some(sagas) => Ok(sagas.retire().await?),
                None => Ok(()),
            }
        }),
    ]
}

/// Does one kind of retirement in rounds, until the host drains; the first one after `wait`, also when it is begun again. A process
/// believes the first reading of its wall clock: one that is ahead is likely set right by then. What is kept for less than that
/// needs no longer wait.
fn retire<F>(outbox: &Arc<Outbox>, task: &'static str, wait: Duration, round: fn(Arc<Outbox>) -> F) -> JoinHandle<()>
where
    F: Future<Output = Result<(), ServiceError>> + Send + 'static,
{
    let first = Instant::now() + wait;
    let begin = {
        let outbox = Arc::clone(outbox);
        move || {
            let outbox = Arc::clone(&outbox);
            async move {
                let closing = outbox.context.closing.clone();
                let rounds = async {
                    sleep_until(first).await;
                    in_rounds(&outbox, task, round).await;
                };
                closing.run_until_cancelled(rounds).await;
            }
        }
    };
    outbox.context.supervisor.run(task, outbox.context.stop.clone(), begin)
}

async fn in_rounds<F: Future<Output = Result<(), ServiceError>>>(
    outbox: &Arc<Outbox>,
    task: &'static str,
    round: fn(Arc<Outbox>) -> F,
) {
    loop {
        if let Err(error) = round(Arc::clone(outbox)).await {
            tracing::warn!(task, code = error.code().as_str(), %error, "what is old can't be removed now");
        }
        let live = outbox.context.live();
        let keep = live.config.keep_done.min(live.config.keep_dead).min(live.config.sagas.keep_done);
        sleep(RETIRE_EVERY.min(keep.max(Duration::from_millis(100)))).await;
    }
}

/// One shard that can't be cleared holds up no other.
fn not_now(task: &'static str, shard: ShardId, error: &ServiceError) {
    let code = error.code().as_str();
    tracing::warn!(task, shard = shard.0, code, %error, "what is old of a shard can't be removed now");
}

fn before(outbox: &Outbox, keep: Duration) -> UnixMillis {
    let now = outbox.context.clock.now().wall;
    UnixMillis(now.0.saturating_sub(u64::try_from(keep.as_millis()).unwrap_or(u64::MAX)))
}

async fn retire_history(outbox: &Outbox) {
    for shard in outbox.shards.iter().filter(|shard| shard.is_owned()) {
        if let Err(error) = retire_history_of(outbox, shard.shard).await {
            not_now(HISTORY, shard.shard, &error.into());
        }
    }
}

async fn retire_history_of(outbox: &Outbox, shard: ShardId) -> Result<(), StoreError> {
    let store = &outbox.context.stores.owner;
    let live = outbox.context.live();
    let (limit, keep_derived) = (before(outbox, live.config.keep_done), live.config.idempotency.ttl);
    let mut after = outbox.history_fronts.begin(shard);
    loop {
        let page = store.history_before(shard, after, limit, RETIRE_PAGE).await?;
        let Some(last) = page.last().map(|chunk| chunk.key()) else { return Ok(()) };
        store.purge_history(&page, keep_derived, outbox.context.clock.now().wall).await?;
        outbox.history_fronts.reached(shard, last);
        after = Some(last);
        counter!("waybill_history_purged_total").increment(page.iter().map(|chunk| chunk.entries.len() as u64).sum());
        sleep(RETIRE_PAUSE).await;
    }
}

/// Ids that outlived their history belong to no shard.
async fn retire_ids(outbox: &Outbox) -> Result<(), StoreError> {
    loop {
        let now = outbox.context.clock.now().wall;
        if outbox.context.stores.owner.purge_ids(now, RETIRE_PAGE).await? < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

/// They belong to no shard, as their index goes by tenant.
async fn retire_event_ids(outbox: &Outbox, streams: &Streams) -> Result<(), StoreError> {
    loop {
        // They were recorded by a clock that never goes back, and go only when the wall clock, set right by now, says so as well.
        let wall = outbox.context.clock.now().wall;
        let forgotten = streams.forget_ids(wall, EVENT_IDS_PAGE).await?;
        counter!("tx_stream_ids_forgotten_total").increment(forgotten as u64);
        if forgotten < EVENT_IDS_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

/// Up to where the history of each shard was removed: what was removed leaves marks in the database until it compacts them, and
/// reading over them takes as long as reading what was there.
#[derive(Default)]
pub(crate) struct HistoryFronts(Mutex<BTreeMap<ShardId, (HistoryKey, Instant)>>);

impl HistoryFronts {
    /// Where to go on; none = at the beginning, now and then, so that what a clock that was set back has put behind is found.
    fn begin(&self, shard: ShardId) -> Option<HistoryKey> {
        let fronts = self.0.lock();
        fronts.get(&shard).filter(|(_, since)| since.elapsed() < ANEW_EVERY).map(|(after, _)| *after)
    }

    fn reached(&self, shard: ShardId, last: HistoryKey) {
        let mut fronts = self.0.lock();
        let since = fronts.get(&shard).map(|(_, since)| *since).filter(|since| since.elapsed() < ANEW_EVERY);
        fronts.insert(shard, (last, since.unwrap_or_else(Instant::now)));
    }
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
        // Keys are judged by a clock that never goes back, and removed only when the wall clock, set right by now, says so as well.
        let now = outbox.idempotency.now().min(outbox.context.clock.now().wall);
        let purged = outbox.context.stores.idempotency.purge_idempotency(now, RETIRE_PAGE).await?;
        counter!("tx_idempo_expired_total").increment(purged as u64);
        if purged < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

/// It belongs to no shard.
async fn retire_audit(outbox: &Outbox) -> Result<(), StoreError> {
    loop {
        let limit = before(outbox, outbox.context.live().config.keep_audit);
        if outbox.context.stores.transact.purge_audit(limit, RETIRE_PAGE).await? < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

/// They are kept as acts are. They belong to no shard either.
async fn retire_operations(outbox: &Outbox) -> Result<(), StoreError> {
    loop {
        let limit = before(outbox, outbox.context.live().config.keep_audit);
        if outbox.context.stores.transact.purge_operations(limit, RETIRE_PAGE).await? < RETIRE_PAGE {
            return Ok(());
        }
        sleep(RETIRE_PAUSE).await;
    }
}

async fn retire_dead(outbox: &Outbox) {
    for shard in outbox.shards.iter().filter(|shard| shard.is_owned()) {
        if let Err(error) = retire_dead_of(outbox, shard).await {
            not_now(DEAD, shard.shard, &error);
        }
    }
}

/// Dead letters are purged as operators purge them, a page at once: their commands share commits.
async fn retire_dead_of(outbox: &Outbox, shard: &ShardHandle) -> Result<(), ServiceError> {
    let now = outbox.context.clock.now().wall;
    let limit = before(outbox, outbox.context.live().config.keep_dead);
    let mut after: Option<Seq> = None;
    loop {
        let page = outbox.context.stores.owner.dead_before(shard.shard, after, limit, now, RETIRE_PAGE).await?;
        let Some(last) = page.last() else { return Ok(()) };
        after = Some(last.seq());
        let purges = page.iter().map(|place| shard.command(OperatorCommand::Purge { place: *place, died_at: None }));
        for purged in futures::future::join_all(purges).await {
            match purged {
                // An operator was first.
                Ok(()) | Err(ServiceError::State { .. } | ServiceError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        sleep(RETIRE_PAUSE).await;
    }
}
