//! The metrics recorder, tables of metrics with their help, and the server's own metrics.
//!
//! Label values are bounded: routes by template, methods and statuses by what HTTP knows, tenants by
//! [`crate::limits::TENANT_LABELS_MAX`] at scrape time.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use metrics::{Counter, Histogram, Unit, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::RwLock;
use waybill_core::code::Code;

use crate::edge::method_label;
use crate::error::ServerError;

/// Upper bounds of histograms in milliseconds: from a commit group to a retry an hour later.
const BUCKETS_MS: [f64; 19] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 300e3, 900e3, 3600e3,
    86400e3,
];
/// Upper bounds of histograms in seconds: from a cached answer to the longest call.
const BUCKETS_SECONDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Upper bounds of histograms in bytes.
const BUCKETS_BYTES: [f64; 9] = [256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 67108864.0];
/// Upper bounds of histograms that count things (changes of a commit).
const BUCKETS_COUNT: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 5e3, 20e3];

/// Names and help of a crate's metrics. Kinds follow from names: `_total` is a counter, a unit at the end of what is
/// recorded many times a histogram, anything else a gauge.
pub type Table = [(&'static str, &'static str)];

/// Metrics of this server, counted as they happen.
pub const METRICS: &Table = &[
    ("waybill_http_requests_total", "Requests answered, by route template, method and status."),
    (
        "waybill_http_request_duration_seconds",
        "Time from a request's head to its answer, by route template and method, in seconds.",
    ),
    ("waybill_http_connections", "Open connections."),
    ("waybill_http_connections_cut_total", "Connections closed by the host, by reason."),
    ("waybill_http_connections_shed_total", "Connections that found no place, by bound: all or peer."),
    ("waybill_http_refusals_total", "Callers that were refused (401, 403, 421), by code and route template."),
];

/// Gauges that are counted when somebody scrapes.
pub const SCRAPED: &Table = &[
    ("waybill_build_info", "1, with the version as label."),
    ("waybill_ready", "1 while no check of /readyz fails."),
    ("waybill_scrape_complete", "0 when the outbox didn't answer in time and its depths are missing from this scrape."),
    ("waybill_outbox_depth", "Messages by tenant, transport and state."),
    (
        "waybill_outbox_dead_counted_since_seconds",
        "Unix time back to which dead letters were counted; absent while all are.",
    ),
    (
        "waybill_outbox_scheduled_until_seconds",
        "Unix time up to which scheduled messages were counted; absent while all are.",
    ),
    ("waybill_outbox_oldest_ready_seconds", "Age of the oldest message that could be sent, by tenant and transport."),
    ("waybill_outbox_blocked", "Things that hold messages back, by kind."),
    ("waybill_transport_breaker_state", "Breaker of a transport: 0 closed, 1 half-open, 2 open."),
    ("waybill_transport_paused", "1 while an operator has paused the transport."),
    ("waybill_transport_in_flight", "Messages being sent by the transport."),
    ("waybill_inbox_unprocessed", "Messages received and not processed, by context."),
    ("waybill_inbox_oldest_unprocessed_seconds", "Age of the oldest message received and not processed, by context."),
    ("waybill_inbox_depth", "Messages of a consumer by state: in_hand, stored, orphan, suspect or dead."),
    ("waybill_inbox_stored_max", "Stored messages of a consumer past which its sources wait."),
    ("waybill_inbox_in_calls", "Messages of a consumer that are being handled."),
    ("waybill_inbox_concurrency", "Messages of a consumer that may be handled at once."),
    ("waybill_inbox_held", "1 while a consumer handles nothing: its handler asked for a pause, or can't be reached."),
    ("waybill_table_unpublished", "Rows of outbox tables that aren't published, by context."),
    (
        "waybill_table_oldest_unpublished_seconds",
        "Age of the oldest row of outbox tables that isn't published, by context.",
    ),
    ("waybill_table_failed", "Rows of outbox tables that stand failed, by context."),
    ("waybill_source_paused", "1 while an operator has paused the source."),
    ("waybill_source_unsettled", "Deliveries of a source that aren't settled."),
    ("waybill_source_window", "Deliveries of a source that may be unsettled."),
    ("waybill_source_lag", "Messages known to wait at a source's peer; absent where it doesn't tell."),
    ("waybill_source_down", "1 while a source can't bring anything in: blocked or down."),
    ("tx_saga_running", "Sagas in memory: running, waiting, paused or stuck."),
    ("tx_saga_running_bytes", "Inputs and outputs of the sagas in memory."),
    ("tx_saga_paused", "Sagas that are held."),
    ("tx_saga_stuck", "Sagas stuck in a compensation: an operator has to act."),
    ("tx_saga_timers", "Timers of sagas: retries, timeouts and deadlines."),
    ("tx_saga_uncommitted", "Transitions of sagas that wait for a commit."),
];

/// Metrics of sagas, recorded by whoever runs them.
pub const SAGA_METRICS: &Table = &[
    ("tx_saga_started_total", "Sagas started, sub-sagas included, by tenant and definition."),
    ("tx_saga_completed_total", "Sagas whose steps all succeeded, by tenant and definition."),
    ("tx_saga_compensated_total", "Sagas that ended with all compensated, by tenant, definition and code."),
    ("tx_saga_failed_total", "Sagas that ended failed, by tenant, definition and cause: killed, accepted or skipped."),
    ("tx_saga_stuck_total", "Times that a saga got stuck in a compensation, by tenant and definition."),
    ("tx_saga_steps_total", "Attempts of steps answered, by kind of action, direction and result."),
    (
        "tx_saga_step_latency_ms",
        "Time from the call of an http: or fn: step to its answer, without waits for a turn, a retry or a reply, by \
         definition, step and direction, in milliseconds.",
    ),
    (
        "tx_saga_duration_ms",
        "Time from a saga's start to its end, sub-sagas included, by definition and state, in milliseconds.",
    ),
];

/// Metrics of the inbox and its sources, recorded by whoever runs them.
pub const INBOX_METRICS: &Table = &[
    ("tx_inbox_received_total", "Deliveries taken from a source."),
    ("tx_inbox_redelivered_total", "Deliveries that their source says it delivered before."),
    (
        "tx_inbox_duplicates_total",
        "Deliveries that a consumer had finished before (DUPLICATE_MESSAGE); nothing was handled.",
    ),
    ("tx_inbox_verdicts_total", "Answers of handlers, by consumer and verdict."),
    (
        "tx_inbox_processed_total",
        "Messages that a consumer finished, by consumer and end: processed, duplicate or dead.",
    ),
    ("tx_inbox_retry_total", "Failed attempts that are tried again, by consumer and code."),
    ("tx_inbox_dead_total", "Dead letters of the inbox, by consumer and code."),
    ("tx_inbox_dlq_total", "Messages left on a DLQ subject, by consumer."),
    (
        "tx_inbox_stored_total",
        "Messages stored, by consumer and cause: failed, or early (the window is nearly full, a deadline is near, its source brings it \
         a few times more only, an operator replays it).",
    ),
    (
        "tx_inbox_orphans_expired_total",
        "Places in the order that were given up because their messages didn't come again.",
    ),
    ("tx_inbox_seen_reads_total", "Reads of the store to look ids up in the seen set, by consumer."),
    (
        "tx_inbox_seen_forgotten_total",
        "Records of the seen set, with their notes, removed because all their ids were out of inbox.dedup_window.",
    ),
    ("tx_inbox_history_purged_total", "Records of finished messages removed after inbox.keep_done."),
    ("tx_inbox_call_ms", "Time of calls to a handler, by consumer, in milliseconds."),
    ("tx_inbox_latency_ms", "Time from the first delivery of a message to its end, by consumer, in milliseconds."),
    ("waybill_source_pulls_total", "Calls that asked a source for messages, by source and result."),
    ("waybill_source_settlements_total", "Deliveries settled at a source, by source and disposition."),
    (
        "waybill_source_lost_total",
        "Deliveries that could not be settled any more, by source and cause: revoked, lost or session.",
    ),
    ("waybill_source_unsettled_bytes", "Payload bytes of a source's deliveries that aren't settled."),
    ("waybill_source_overtaken_total", "Messages that a source's peer removed before they were read."),
    ("waybill_source_claims_expired_total", "Rows of which a source's claim ran out before they were settled."),
    ("waybill_source_made_anew_total", "How often what a source reads from was made anew."),
    (
        "waybill_source_place_lost_total",
        "How often more of a source was unsettled than is followed, so that a restart begins where it stood before.",
    ),
    ("waybill_source_commits_total", "Commits of a shard's inbox, by result: applied, or the code of what failed."),
    ("waybill_source_commit_seconds", "Time of one commit of a shard's inbox."),
];

/// Metrics of plugins, recorded by the sandbox.
pub const PLUGIN_METRICS: &Table = &[
    ("waybill_plugin_calls_total", "Calls into a plugin, by transport, plugin, generation and result."),
    ("waybill_plugin_call_seconds", "Time of calls into a plugin, in seconds."),
    ("waybill_plugin_traps_total", "Calls that trapped or ran out of time, by kind."),
    ("waybill_plugin_restarts_total", "Instances opened again after a failure."),
    ("waybill_plugin_cpu_microseconds_total", "CPU time of a plugin's instances, in microseconds."),
    ("waybill_plugin_memory_bytes", "Linear memory of a plugin's instances."),
    ("waybill_plugin_instances_open", "Instances that serve."),
    ("waybill_plugin_breaker_state", "Instances whose breaker is open because they kept failing."),
    ("waybill_plugin_denied_total", "Host calls refused because the grant doesn't cover them."),
    ("waybill_plugin_limit_hits_total", "Times that a plugin met one of its limits, by limit."),
    ("waybill_plugin_log_dropped_total", "Log lines dropped at the plugin's rate limit."),
    ("waybill_plugin_metrics_dropped_total", "Metrics of a plugin dropped at its limit of names and labels."),
    ("waybill_plugin_late_progress_total", "Outcomes told after their call was over."),
    ("waybill_plugin_generation", "Generation of the plugin that is live, by the name that operators know it by."),
    ("waybill_plugin_swaps_total", "Changes of plugin, by that name and result: live or rejected."),
    ("waybill_plugin_rollbacks_total", "Generations rolled back, by transport and cause: automatic or manual."),
    ("waybill_backoff_decisions_total", "Delays asked of a backoff plugin."),
    ("waybill_backoff_failures_total", "Answers of a backoff plugin that weren't usable; the built-in policy decided."),
    ("waybill_backoff_memory_bytes", "Linear memory of a backoff plugin."),
];

/// Where metrics are recorded and rendered.
#[derive(Clone)]
pub struct MetricsHandle(PrometheusHandle);

impl MetricsHandle {
    /// Everything recorded, as Prometheus text.
    pub fn render(&self) -> String {
        self.0.render()
    }

    /// Drains histograms into their buckets. To be called now and then, so that memory stays flat without scrapes.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Installs the process's recorder with the right buckets and describes the metrics of this crate and of `others` (the
/// engine's table, ...). Once a process, before anything takes a handle of a metric.
pub fn install(others: &[&Table]) -> Result<MetricsHandle, ServerError> {
    let recorder = recorder()?;
    let handle = MetricsHandle(recorder.handle());
    metrics::set_global_recorder(recorder).map_err(|cause| ServerError::Metrics(cause.to_string()))?;
    describe(&[METRICS, SAGA_METRICS, INBOX_METRICS, PLUGIN_METRICS]);
    describe(others);
    Ok(handle)
}

fn recorder() -> Result<PrometheusRecorder, ServerError> {
    let by_suffix = [
        ("_ms", BUCKETS_MS.as_slice()),
        ("_seconds", BUCKETS_SECONDS.as_slice()),
        ("_bytes", BUCKETS_BYTES.as_slice()),
        ("_writes", BUCKETS_COUNT.as_slice()),
    ];
    let mut builder = PrometheusBuilder::new();
    for (suffix, buckets) in by_suffix {
        builder = builder
            .set_buckets_for_metric(Matcher::Suffix(suffix.to_owned()), buckets)
            .map_err(|cause| ServerError::Metrics(cause.to_string()))?;
    }
    Ok(builder.build_recorder())
}

fn describe(tables: &[&Table]) {
    for (name, help) in tables.iter().copied().flatten() {
        // The recorder keeps the text by name alone; the type comes from what is recorded.
        metrics::describe_counter!(*name, Unit::Count, *help);
    }
}

/// The series of one route. Each is found by its labels once, which takes several times as long as to count in it.
#[derive(Default)]
pub(crate) struct RouteSeries {
    requests: RwLock<Vec<((&'static str, StatusCode), Counter)>>,
    durations: RwLock<Vec<(&'static str, Histogram)>>,
}

impl RouteSeries {
    /// Counts an answered request of the route with this template.
    pub fn request(&self, template: &Arc<str>, method: &Method, status: StatusCode, took: Duration) {
        let method = method_label(method);
        let made = || {
            let status = status.as_str().to_owned();
            counter!("waybill_http_requests_total", "route" => template.clone(), "method" => method, "status" => status)
        };
        found(&self.requests, (method, status), made).increment(1);
        let made =
            || histogram!("waybill_http_request_duration_seconds", "route" => template.clone(), "method" => method);
        found(&self.durations, method, made).record(took);
    }
}

/// A series among those of a route, which are a handful.
fn found<K: Copy + PartialEq, S: Clone>(known: &RwLock<Vec<(K, S)>>, labels: K, made: impl FnOnce() -> S) -> S {
    let of_these = |known: &[(K, S)]| known.iter().find(|(key, _)| *key == labels).map(|(_, series)| series.clone());
    if let Some(series) = of_these(&known.read()) {
        return series;
    }
    let mut known = known.write();
    of_these(&known).unwrap_or_else(|| {
        let series = made();
        known.push((labels, series.clone()));
        series
    })
}

/// A connection opened (1.0) or closed (-1.0).
pub(crate) fn connections(change: f64) {
    gauge!("waybill_http_connections").increment(change);
}

/// A connection closed by us.
pub(crate) fn cut(reason: &'static str) {
    counter!("waybill_http_connections_cut_total", "reason" => reason).increment(1);
}

/// A connection that found no place.
pub(crate) fn shed(bound: &'static str) {
    counter!("waybill_http_connections_shed_total", "bound" => bound).increment(1);
}

/// A caller that was refused.
pub(crate) fn refused(code: Code, template: &str) {
    counter!("waybill_http_refusals_total", "code" => code.as_str(), "route" => template.to_owned()).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    #[test]
    fn names_are_unique_and_helped() {
        let mut seen = BTreeSet::new();
        for (name, help) in [METRICS, SCRAPED, SAGA_METRICS, INBOX_METRICS, PLUGIN_METRICS].into_iter().flatten() {
            assert!(seen.insert(name), "{name} twice");
            assert!(help.ends_with('.'), "{name}");
        }
        assert!(SCRAPED.iter().all(|(name, _)| !name.ends_with("_total")), "what is scraped is a gauge");
    }

    #[test]
    fn histograms_have_buckets_of_their_unit() {
        let recorder = recorder().unwrap();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            describe(&[METRICS, &[("tx_outbox_latency_ms", "Time from enqueue.")]]);
            histogram!("tx_outbox_latency_ms", "tenant" => "a").record(7.0);
            let (series, template) = (RouteSeries::default(), Arc::from("/v1/messages"));
            series.request(&template, &Method::POST, StatusCode::CREATED, Duration::from_millis(3));
        });
        let text = handle.render();
        assert!(text.contains("tx_outbox_latency_ms_bucket{tenant=\"a\",le=\"10\"} 1"), "{text}");
        assert!(text.contains(
            "waybill_http_request_duration_seconds_bucket{route=\"/v1/messages\",method=\"POST\",le=\"0.005\"} 1"
        ));
        assert!(text.contains("waybill_http_requests_total{route=\"/v1/messages\",method=\"POST\",status=\"201\"} 1"));
        assert!(text.contains("# HELP tx_outbox_latency_ms Time from enqueue"));
    }

    /// Every metric name written in the host's code is in a table: one of ours, or one of `("name", "help")` pairs.
    #[test]
    fn every_recorded_metric_is_described() {
        let host = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let mut sources = Vec::new();
        for krate in std::fs::read_dir(host).unwrap() {
            collect(&krate.unwrap().path().join("src"), &mut sources);
        }
        assert!(sources.len() > 20, "the sources weren't found");
        let texts: Vec<String> = sources.iter().map(|source| std::fs::read_to_string(source).unwrap()).collect();
        let described: BTreeSet<&str> = texts.iter().flat_map(|text| pair_names(text)).collect();
        let (mut missing, mut recorded) = (BTreeSet::new(), BTreeSet::new());
        for (source, text) in sources.iter().zip(&texts) {
            for name in macro_names(text) {
                if !described.contains(name.as_str()) {
                    missing.insert(format!("{name} ({})", source.strip_prefix(host).unwrap().display()));
                }
                recorded.insert(name);
            }
        }
        assert!(missing.is_empty(), "in no table: {missing:#?}");
        let of_streams = described.iter().copied().filter(|name| is_of_streams(name));
        let checked = INBOX_METRICS.iter().map(|(name, _)| *name).chain(of_streams);
        let idle: Vec<&str> = checked.filter(|name| !recorded.contains(*name)).collect();
        assert!(idle.is_empty(), "described, and nobody records them: {idle:?}");
    }

    /// Those that the engine's table describes.
    fn is_of_streams(name: &str) -> bool {
        name.starts_with("tx_stream_") || name.starts_with("tx_relay_")
    }

    #[test]
    fn each_bound_of_the_inbox_names_a_metric_that_there_is() {
        let known: BTreeSet<&str> = [SCRAPED, INBOX_METRICS].into_iter().flatten().map(|(name, _)| *name).collect();
        each_bound_names_one_of("inbox.md", &known);
    }

    #[test]
    fn each_bound_of_event_streams_names_a_metric_that_there_is() {
        let table = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/src/meter.rs");
        let table = std::fs::read_to_string(table).unwrap();
        let of_streams = pair_names(&table).into_iter().filter(|name| is_of_streams(name));
        each_bound_names_one_of("streams.md", &METRICS.iter().map(|(name, _)| *name).chain(of_streams).collect());
    }

    fn each_bound_names_one_of(page: &str, known: &BTreeSet<&str>) {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(page);
        let page = std::fs::read_to_string(page).unwrap();
        let bounds = page.split_once("\n## Limits\n").unwrap().1.split("\n## ").next().unwrap();
        let rows: Vec<&str> = bounds.lines().filter(|line| line.starts_with("| ")).skip(1).collect();
        assert!(rows.len() > 10, "the table wasn't found");
        for row in rows {
            let metrics = row.trim_end_matches('|').rsplit('|').next().unwrap();
            let names: Vec<&str> =
                metrics.split('`').filter(|text| text.starts_with("tx_") || text.starts_with("waybill_")).collect();
            assert!(!names.is_empty() && names.iter().all(|name| known.contains(name)), "{row}");
        }
    }

    fn collect(folder: &Path, sources: &mut Vec<std::path::PathBuf>) {
        let Ok(entries) = std::fs::read_dir(folder) else { return };
        for entry in entries {
            let path = entry.unwrap().path();
            if path.is_dir() {
                collect(&path, sources);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                sources.push(path);
            }
        }
    }

    /// The first string in each pair of strings. The arguments of a macro or a function are none.
    fn pair_names(source: &str) -> Vec<&str> {
        let name = |(at, _)| {
            let (before, rest) = source.split_at(at);
            if before.ends_with(|c: char| c == '!' || c == '_' || c.is_alphanumeric()) {
                return None;
            }
            let (name, rest) = rest.strip_prefix('(')?.trim_start().strip_prefix('"')?.split_once('"')?;
            rest.trim_start().strip_prefix(',')?.trim_start().starts_with('"').then_some(name)
        };
        source.match_indices('(').filter_map(name).collect()
    }

    /// The first string in each `counter!(`, `gauge!(` and `histogram!(`.
    fn macro_names(source: &str) -> Vec<String> {
        let mut names = Vec::new();
        for kind in ["counter", "gauge", "histogram"] {
            for rest in source.split(&format!("{kind}!(")).skip(1) {
                if let Some(text) = rest.trim_start().strip_prefix('"')
                    && let Some((name, _)) = text.split_once('"')
                {
                    names.push(name.to_owned());
                }
            }
        }
        names
    }
}
