//! Gauges that are counted when somebody asks: depths, ages, breakers. Made anew each time and not kept in the recorder, so that a tenant
//! or transport that is gone leaves no stale line.

mod inbound;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Weak;

use waybill_api::status::{BlockedView, CheckStatus, OutboxStats};
use waybill_api::transports::{Breaker, TransportView};
use waybill_core::port::saga::SagaStats;

use crate::app::Inner;
use crate::caller::now;
use crate::limits::{PROBE_TIMEOUT, TENANT_LABELS_MAX};
use crate::metrics::SCRAPED;

/// A gauge that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Counted {
    pub name: &'static str,
    pub help: &'static str,
    /// Labels and value of each series.
    pub series: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Counts what `/metrics` counts, for whoever exports it by itself. Of a server that is gone there is nothing to count.
#[derive(Clone)]
pub struct Counting(pub(crate) Weak<Inner>);

impl Counting {
    pub async fn count(&self) -> Vec<Counted> {
        match self.0.upgrade() {
            Some(app) => count(&app).await,
            None => Vec::new(),
        }
    }
}

pub(crate) async fn render(app: &Inner) -> String {
    let mut text = app.metrics.as_ref().map(|metrics| metrics.render()).unwrap_or_default();
    for counted in count(app).await {
        counted.write(&mut text);
    }
    text
}

async fn count(app: &Inner) -> Vec<Counted> {
    let outbox = tokio::time::timeout(PROBE_TIMEOUT, async {
        let (stats, blocked, transports, checks) = tokio::join!(
            app.service.stats(None),
            app.service.blocked(None),
            app.service.transports(),
            app.readiness.checks(app.service.as_ref())
        );
        let ready = checks.iter().all(|check| check.status != CheckStatus::Fail);
        Some((stats.ok()?, blocked.ok()?, transports, ready))
    });
    let (counted, inbound) = tokio::join!(outbox, inbound::ask(app));
    let counted = counted.ok().flatten();
    let mut page = Page::default();
    page.family("waybill_build_info", [(vec![("version", app.version.as_str())], 1.0)]);
    if let Some(sagas) = &app.sagas {
        trees(&mut page, &sagas.saga_stats());
    }
    if let Some((stats, sources)) = inbound {
        inbound::write(&mut page, &stats, &sources, now());
    }
    page.family("waybill_scrape_complete", [(vec![], f64::from(u8::from(counted.is_some())))]);
    if let Some((stats, blocked, transports, ready)) = counted {
        page.family("waybill_ready", [(vec![], f64::from(u8::from(ready)))]);
        depths(&mut page, stats);
        holds(&mut page, &blocked);
        senders(&mut page, &transports);
    }
    page.0
}

/// Families in the order in which they are shown.
#[derive(Default)]
struct Page(Vec<Counted>);

impl Page {
    fn family<'l>(&mut self, name: &'static str, lines: impl IntoIterator<Item = (Vec<(&'static str, &'l str)>, f64)>) {
        let help = SCRAPED.iter().find(|(known, _)| *known == name).map_or("", |(_, help)| help);
        let owned = |labels: Vec<(&'static str, &str)>| -> Vec<(&'static str, String)> {
            labels.into_iter().map(|(label, text)| (label, text.to_owned())).collect()
        };
        let series = lines.into_iter().map(|(labels, value)| (owned(labels), value)).collect();
        self.0.push(Counted { name, help, series });
    }
}

impl Counted {
    /// Writes it, unless the recorder has one of this name: two would make the page unreadable.
    fn write(&self, text: &mut String) {
        let Self { name, help, series } = self;
        if text.contains(&format!("# TYPE {name} ")) {
            return;
        }
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} gauge");
        for (labels, value) in series {
            text.push_str(name);
            for (index, (label, of)) in labels.iter().enumerate() {
                let _ = write!(text, "{}{label}=\"{}\"", if index == 0 { '{' } else { ',' }, escape(of));
            }
            let _ = writeln!(text, "{} {value}", if labels.is_empty() { "" } else { "}" });
        }
        text.push('\n');
    }
}

fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Sums the tenants past the bound, smallest first, into `_other`.
fn bounded(stats: Vec<OutboxStats>) -> Vec<OutboxStats> {
    let mut load: BTreeMap<&str, u64> = BTreeMap::new();
    for row in &stats {
        *load.entry(&row.tenant).or_default() += row.ready + row.leased + row.parked + row.scheduled + row.dead;
    }
    let mut largest: Vec<(&str, u64)> = load.into_iter().collect();
    largest.sort_by_key(|(_, messages)| std::cmp::Reverse(*messages));
    let shown: BTreeSet<String> =
        largest.into_iter().take(TENANT_LABELS_MAX).map(|(tenant, _)| tenant.to_owned()).collect();
    let mut rows: BTreeMap<(String, String), OutboxStats> = BTreeMap::new();
    for row in stats {
        let tenant = if shown.contains(&row.tenant) { row.tenant.clone() } else { "_other".to_owned() };
        let sum = rows.entry((tenant.clone(), row.transport.clone())).or_insert_with(|| OutboxStats {
            tenant,
            transport: row.transport.clone(),
            ..OutboxStats::default()
        });
        sum.ready += row.ready;
        sum.leased += row.leased;
        sum.parked += row.parked;
        sum.scheduled += row.scheduled;
        sum.scheduled_until = [sum.scheduled_until, row.scheduled_until].into_iter().flatten().min();
        sum.dead += row.dead;
        sum.counted_since = sum.counted_since.max(row.counted_since);
        sum.oldest_ready_ms = sum.oldest_ready_ms.max(row.oldest_ready_ms);
    }
    rows.into_values().collect()
}

fn depths(page: &mut Page, stats: Vec<OutboxStats>) {
    let rows = bounded(stats);
    let states = |row: &OutboxStats| {
        [
            ("ready", row.ready),
            ("leased", row.leased),
            ("parked", row.parked),
            ("scheduled", row.scheduled),
            ("dead", row.dead),
        ]
    };
    page.family(
        "waybill_outbox_depth",
        rows.iter().flat_map(|row| {
            states(row).map(|(state, count)| {
                (
                    vec![("tenant", row.tenant.as_str()), ("transport", row.transport.as_str()), ("state", state)],
                    count as f64,
                )
            })
        }),
    );
    let since = rows.iter().filter_map(|row| row.counted_since).max();
    page.family(
        "waybill_outbox_dead_counted_since_seconds",
        since.map(|since| (Vec::new(), since.0.0 as f64 / 1000.0)),
    );
    let until = rows.iter().filter_map(|row| row.scheduled_until).min();
    page.family("waybill_outbox_scheduled_until_seconds", until.map(|until| (Vec::new(), until.0.0 as f64 / 1000.0)));
    page.family(
        "waybill_outbox_oldest_ready_seconds",
        rows.iter().filter_map(|row| {
            let age = row.oldest_ready_ms? as f64 / 1000.0;
            Some((vec![("tenant", row.tenant.as_str()), ("transport", row.transport.as_str())], age))
        }),
    );
}

fn holds(page: &mut Page, blocked: &[BlockedView]) {
    let mut kinds: BTreeMap<&str, u64> = ["key", "destination", "transport", "no_route", "paused", "rate", "unclaimed"]
        .into_iter()
        .map(|kind| (kind, 0))
        .collect();
    for hold in blocked {
        *kinds.entry(hold.kind.as_str()).or_default() += 1;
    }
    page.family("waybill_outbox_blocked", kinds.into_iter().map(|(kind, count)| (vec![("kind", kind)], count as f64)));
}

fn senders(page: &mut Page, transports: &[TransportView]) {
    let lines = |value: fn(&TransportView) -> f64| {
        transports.iter().map(move |view| (vec![("transport", view.name.as_str())], value(view)))
    };
    page.family(
        "waybill_transport_breaker_state",
        lines(|view| match view.breaker {
            Breaker::Closed => 0.0,
            Breaker::HalfOpen => 1.0,
            Breaker::Open => 2.0,
        }),
    );
    page.family("waybill_transport_paused", lines(|view| f64::from(u8::from(view.paused))));
    page.family("waybill_transport_in_flight", lines(|view| view.in_flight as f64));
}

fn trees(page: &mut Page, stats: &SagaStats) {
    for (name, count) in [
        ("tx_saga_running", stats.running),
        ("tx_saga_running_bytes", stats.running_bytes),
        ("tx_saga_paused", stats.paused),
        ("tx_saga_stuck", stats.stuck),
        ("tx_saga_timers", stats.timers),
        ("tx_saga_uncommitted", stats.uncommitted),
    ] {
        page.family(name, [(vec![], count as f64)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tenants_past_the_bound_are_summed_up() {
        let row = |index: usize, ready| OutboxStats {
            tenant: format!("t{index}"),
            transport: "web".into(),
            ready,
            oldest_ready_ms: Some(ready),
            ..OutboxStats::default()
        };
        let stats: Vec<OutboxStats> = (0..TENANT_LABELS_MAX + 3).map(|index| row(index, index as u64 + 1)).collect();
        let rows = bounded(stats);
        assert_eq!(rows.len(), TENANT_LABELS_MAX + 1);
        let other = rows.iter().find(|row| row.tenant == "_other").unwrap();
        assert_eq!((other.ready, other.oldest_ready_ms), (1 + 2 + 3, Some(3)));
    }

    #[test]
    fn a_count_of_scheduled_messages_that_ended_early_says_how_far_it_got() {
        let row = |tenant: &str, until| OutboxStats {
            tenant: tenant.into(),
            transport: "-".into(),
            scheduled: 7,
            scheduled_until: until,
            ..OutboxStats::default()
        };
        let told = |until| {
            let mut page = Page::default();
            depths(&mut page, vec![row("a", until), row("b", until)]);
            let found = page.0.into_iter().find(|counted| counted.name == "waybill_outbox_scheduled_until_seconds");
            found.and_then(|counted| counted.series.first().map(|(_, value)| *value))
        };
        assert_eq!(told(Some(waybill_core::time::UnixMillis(1_500).into())), Some(1.5));
        assert_eq!(told(None), None, "all were counted");
    }

    #[test]
    fn label_values_are_escaped() {
        let mut text = String::new();
        let hostile = "a\"} 1\nx{b=\"\\";
        let ready = |series| Counted { name: "waybill_ready", help: "", series };
        ready(vec![(vec![("tenant", hostile.to_owned())], 2.0)]).write(&mut text);
        assert!(text.contains(r#"waybill_ready{tenant="a\"} 1\nx{b=\"\\"} 2"#), "{text}");
        assert_eq!(text.lines().filter(|line| !line.is_empty()).count(), 3);
        ready(vec![(Vec::new(), 1.0)]).write(&mut text);
        assert_eq!(text.matches("# TYPE waybill_ready gauge").count(), 1);
    }
}
