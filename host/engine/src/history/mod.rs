//! How this host did in the last hour, and what changed at it: in memory, for people who look for when something began.
//!
//! | file | holds |
//! |---|---|
//! | `counts` | what is counted as it happens |
//! | `service` | both as the API sees them |
//!
//! One task looks every ten seconds at counts and at what owners have in memory. It reads no row, so a host at which nobody looks does
//! the same with an empty store and a full one.

mod counts;
mod service;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use metrics::gauge;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use waybill_api::sagas::SagaService;
use waybill_core::history::{By, Measure, Reading, Series, until_next};
use waybill_core::outbox::owner::Waits;

pub(crate) use counts::Counts;

use crate::service::Outbox;
use crate::shard::OwnerQuery;

/// An owner that doesn't answer for so long leaves a gap.
const LOOK_TIMEOUT: Duration = Duration::from_secs(2);
/// Behind the beginning of a step: timers are read to the millisecond, and none may ring before it.
const MARGIN: Duration = Duration::from_millis(1);

/// Starts the task that looks.
pub(crate) fn start(outbox: &Arc<Outbox>) -> JoinHandle<()> {
    let begin = {
        let outbox = Arc::clone(outbox);
        move || look_on(Arc::clone(&outbox))
    };
    outbox.context.supervisor.run("history", outbox.context.stop.clone(), begin)
}

async fn look_on(outbox: Arc<Outbox>) {
    outbox.context.closing.run_until_cancelled(look_each_step(&outbox)).await;
}

async fn look_each_step(outbox: &Outbox) {
    loop {
        take_point(outbox).await;
        sleep(until_next(outbox.context.clock.now().mono) + MARGIN).await;
    }
}

async fn take_point(outbox: &Outbox) {
    // What is seen is seen now, however long an owner takes to answer.
    let now = outbox.context.clock.now().mono;
    let counts = &outbox.context.counts;
    let mut seen = counts.messages();
    if let Some(sagas) = &outbox.sagas {
        let of_all = [
            (Measure::SagasStarted, Reading::Total(counts.sagas_started.load(Ordering::Relaxed))),
            (Measure::SagasEnded, Reading::Total(counts.sagas_ended.load(Ordering::Relaxed))),
            (Measure::SagasStuck, Reading::Level(sagas.saga_stats().stuck)),
        ];
        seen.extend(of_all.map(|(measure, reading)| (Series::of_all(measure), reading)));
    }
    if let Some(inbox) = &outbox.inbox {
        let processed = Reading::Total(counts.inbox_processed.load(Ordering::Relaxed));
        seen.push((Series::of_all(Measure::InboxProcessed), processed));
        let lags = inbox.lags().into_iter();
        seen.extend(lags.map(|(source, lag)| (of(Measure::SourceLag, By::Source(source)), Reading::Level(lag))));
    }
    seen.extend(waits(outbox).await.unwrap_or_default());
    if let Some(streams) = &outbox.streams {
        for (relay, events, lag) in timeout(LOOK_TIMEOUT, streams.relay_lags()).await.unwrap_or_default() {
            let lag_ms = u64::try_from(lag.as_millis()).unwrap_or(u64::MAX);
            let by = By::Relay(relay.to_string());
            seen.push((of(Measure::RelayLagEvents, by.clone()), Reading::Level(events)));
            seen.push((of(Measure::RelayLagMs, by), Reading::Level(lag_ms)));
        }
    }
    let kept = {
        let mut history = outbox.history.lock();
        history.record(now, seen);
        history.len()
    };
    gauge!("waybill_history_series").set(kept as f64);
}

fn of(measure: Measure, by: By) -> Series {
    Series { measure, by }
}

/// How much waits in the shards of this host, of all and by transport. None = it has none, or one of their owners doesn't answer.
async fn waits(outbox: &Outbox) -> Option<Vec<(Series, Reading)>> {
    let owned: Vec<_> = outbox.shards.iter().filter(|shard| shard.is_owned()).collect();
    if owned.is_empty() {
        return None;
    }
    let asked = owned.into_iter().map(|shard| shard.query(|reply| OwnerQuery::Waits { reply }));
    let answers = timeout(LOOK_TIMEOUT, futures::future::join_all(asked)).await.ok()?;
    let live = outbox.context.live();
    let mut all = Waits::default();
    // A transport for which nothing waits has a point, too.
    let mut by_transport: BTreeMap<String, Waits> =
        live.iter().map(|(_, entry)| (entry.name.to_string(), Waits::default())).collect();
    for answer in answers {
        for (transport, waits) in answer? {
            add(&mut all, waits);
            if let Some(name) = transport.and_then(|id| live.routing.name(id)) {
                add(by_transport.entry(name.to_owned()).or_default(), waits);
            }
        }
    }
    let of_all = levels(&all).map(|(measure, level)| (Series::of_all(measure), level));
    let of_transports = by_transport.iter().flat_map(|(transport, waits)| {
        levels(waits).map(|(measure, level)| (Series::of_transport(measure, transport), level))
    });
    Some(of_all.into_iter().chain(of_transports).collect())
}

fn add(sum: &mut Waits, waits: Waits) {
    sum.waiting += waits.waiting;
    sum.blocked += waits.blocked;
}

fn levels(waits: &Waits) -> [(Measure, Reading); 2] {
    [(Measure::Waiting, Reading::Level(waits.waiting)), (Measure::Blocked, Reading::Level(waits.blocked))]
}
