//! Gauges of the inbox and its sources.

use waybill_api::inbox::{ConsumerStats, ContextStats, InboxStats, Waiters};
use waybill_api::sources::SourceView;
use waybill_core::port::transport::Health;
use waybill_core::time::UnixMillis;

use super::Page;
use crate::app::Inner;
use crate::limits::PROBE_TIMEOUT;

/// What the host has of them; none = it has no inbox, or didn't answer in time.
pub(super) async fn ask(app: &Inner) -> Option<(InboxStats, Vec<SourceView>)> {
    let inbound = app.inbound.as_ref()?;
    let asked = async { tokio::join!(inbound.inbox_stats(None), inbound.sources()) };
    let (stats, sources) = tokio::time::timeout(PROBE_TIMEOUT, asked).await.ok()?;
    Some((stats.ok()?, sources))
}

pub(super) fn write(page: &mut Page, stats: &InboxStats, sources: &[SourceView], now: UnixMillis) {
    let (contexts, consumers) = (&stats.contexts, &stats.consumers);
    waiters(page, contexts, now, ["waybill_inbox_unprocessed", "waybill_inbox_oldest_unprocessed_seconds"], |row| {
        row.unprocessed
    });
    waiters(page, contexts, now, ["waybill_table_unpublished", "waybill_table_oldest_unpublished_seconds"], |row| {
        row.unpublished
    });
    let failed = contexts.iter().map(|row| (vec![("context", row.context.as_str())], row.failed as f64));
    page.family("waybill_table_failed", failed);
    depths(page, consumers);
    let of = |consumer| vec![("consumer", consumer)];
    let stored_max = consumers.iter().map(|row| (of(row.consumer.as_str()), row.stored_max as f64));
    page.family("waybill_inbox_stored_max", stored_max);
    let in_calls = consumers.iter().map(|row| (of(row.consumer.as_str()), row.in_calls as f64));
    page.family("waybill_inbox_in_calls", in_calls);
    let concurrency = consumers.iter().map(|row| (of(row.consumer.as_str()), row.concurrency as f64));
    page.family("waybill_inbox_concurrency", concurrency);
    let held = consumers.iter().map(|row| (of(row.consumer.as_str()), flag(row.held.is_some())));
    page.family("waybill_inbox_held", held);
    bringers(page, sources);
}

fn flag(is_set: bool) -> f64 {
    f64::from(u8::from(is_set))
}

/// A count and the age of the oldest, by context.
fn waiters(
    page: &mut Page,
    contexts: &[ContextStats],
    now: UnixMillis,
    [count, oldest]: [&'static str; 2],
    of: fn(&ContextStats) -> Waiters,
) {
    let counts = contexts.iter().map(|row| (vec![("context", row.context.as_str())], of(row).count as f64));
    page.family(count, counts);
    let ages = contexts.iter().filter_map(|row| {
        let age = now.since(of(row).oldest_at?.0);
        Some((vec![("context", row.context.as_str())], age.as_secs_f64()))
    });
    page.family(oldest, ages);
}

fn depths(page: &mut Page, consumers: &[ConsumerStats]) {
    let states = |row: &ConsumerStats| {
        [
            ("in_hand", row.in_hand),
            ("stored", row.stored),
            ("orphan", row.orphans),
            ("suspect", row.suspects),
            ("dead", row.dead),
        ]
    };
    let lines = consumers.iter().flat_map(|row| {
        states(row).map(|(state, count)| (vec![("consumer", row.consumer.as_str()), ("state", state)], count as f64))
    });
    page.family("waybill_inbox_depth", lines);
}

fn bringers(page: &mut Page, sources: &[SourceView]) {
    let lines = |value: fn(&SourceView) -> Option<f64>| {
        sources.iter().filter_map(move |view| Some((vec![("source", view.name.as_str())], value(view)?)))
    };
    page.family("waybill_source_paused", lines(|view| Some(flag(view.paused))));
    page.family("waybill_source_unsettled", lines(|view| Some(view.unsettled as f64)));
    page.family("waybill_source_window", lines(|view| Some(view.window as f64)));
    page.family("waybill_source_lag", lines(|view| view.lag.map(|lag| lag as f64)));
    page.family("waybill_source_down", lines(|view| Some(flag(matches!(view.health, Health::Blocked | Health::Down)))));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_is_written_by_context_and_an_age_only_where_something_waits() {
        let waits = Waiters { count: 3, oldest_at: Some(UnixMillis(1_000).into()) };
        let stats = InboxStats {
            contexts: vec![
                ContextStats { context: "sales".into(), unprocessed: waits, ..ContextStats::default() },
                ContextStats { context: "stock".into(), failed: 2, ..ContextStats::default() },
            ],
            consumers: vec![ConsumerStats {
                consumer: "ship".into(),
                stored: 4,
                stored_max: 5_000,
                in_calls: 3,
                concurrency: 16,
                ..ConsumerStats::default()
            }],
        };
        let (mut page, mut text) = (Page::default(), String::new());
        write(&mut page, &stats, &[], UnixMillis(3_500));
        page.0.iter().for_each(|counted| counted.write(&mut text));
        for line in [
            "waybill_inbox_unprocessed{context=\"sales\"} 3",
            "waybill_inbox_oldest_unprocessed_seconds{context=\"sales\"} 2.5",
            "waybill_table_failed{context=\"stock\"} 2",
            "waybill_inbox_depth{consumer=\"ship\",state=\"stored\"} 4",
            "waybill_inbox_held{consumer=\"ship\"} 0",
            "waybill_inbox_stored_max{consumer=\"ship\"} 5000",
            "waybill_inbox_in_calls{consumer=\"ship\"} 3",
            "waybill_inbox_concurrency{consumer=\"ship\"} 16",
        ] {
            assert!(text.lines().any(|written| written == line), "{line} isn't in {text}");
        }
        assert!(!text.contains("oldest_unprocessed_seconds{context=\"stock\"}"), "{text}");
    }
}
