//! The metrics recorder, tables of metrics with their help, and the server's own metrics.
//!
//! Label values are bounded: routes by template, methods and statuses by what HTTP knows, tenants by
//! [`crate::limits::TENANT_LABELS_MAX`] at scrape time.

mod both;
mod tables;
mod units;

use std::sync::Arc;
use std::time::Duration;

use http::{Method, StatusCode};
use metrics::{Counter, Histogram, Recorder, Unit, counter, gauge, histogram};
use metrics_exporter_prometheus::{Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder};
use parking_lot::RwLock;
use waybill_core::code::Code;

use crate::edge::method_label;
use crate::error::ServerError;
use both::Both;

pub use crate::scrape::{Counted, Counting};
pub use tables::{INBOX_METRICS, METRICS, OTHER_UNITS, PLUGIN_METRICS, SAGA_METRICS, SCRAPED, Table};

/// Upper bounds of histograms in milliseconds: from a commit group to a retry an hour later. In seconds they are those of [`LONG`].
const BUCKETS_MS: [f64; 19] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 300e3, 900e3, 3600e3,
    86400e3,
];
/// Upper bounds of histograms in seconds: from a cached answer to the longest call.
const BUCKETS_SECONDS: [f64; 16] =
    [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 15.0, 60.0];
/// Histograms in seconds of what may wait for a retry, a person or another system, and not only for one call.
const LONG: [&str; 5] = [
    "tx_outbox_latency_seconds",
    "tx_saga_step_latency_seconds",
    "tx_saga_duration_seconds",
    "tx_inbox_call_seconds",
    "tx_inbox_latency_seconds",
];
/// Upper bounds of histograms in bytes.
const BUCKETS_BYTES: [f64; 9] = [256.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 67108864.0];
/// Upper bounds of histograms that count things (changes of a commit).
const BUCKETS_COUNT: [f64; 12] = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1e3, 5e3, 20e3];

/// Where metrics are recorded and rendered.
#[derive(Clone)]
pub struct MetricsHandle(PrometheusHandle);

impl MetricsHandle {
    /// Everything recorded, as Prometheus text, in the units in which it is shown.
    pub fn render(&self) -> String {
        units::shown(&self.0.render())
    }

    /// Drains histograms into their buckets. To be called now and then, so that memory stays flat without scrapes.
    pub fn upkeep(&self) {
        self.0.run_upkeep();
    }
}

/// Installs the process's recorder with the right buckets and describes the metrics of this crate and of `others` (the
/// engine's table, ...). Once a process, before anything takes a handle of a metric. `beside` records all of it too.
pub fn install(
    others: &[&Table],
    beside: Option<Box<dyn Recorder + Send + Sync>>,
) -> Result<MetricsHandle, ServerError> {
    let recorder = recorder()?;
    let handle = MetricsHandle(recorder.handle());
    let failed = |cause: String| ServerError::Metrics(cause);
    match beside {
        Some(beside) => {
            metrics::set_global_recorder(Both(recorder, beside)).map_err(|cause| failed(cause.to_string()))?;
        }
        None => metrics::set_global_recorder(recorder).map_err(|cause| failed(cause.to_string()))?,
    }
    describe(&[METRICS, SAGA_METRICS, INBOX_METRICS, PLUGIN_METRICS]);
    describe(others);
    Ok(handle)
}

/// Upper bounds of histograms, by the ends of their names.
const BY_SUFFIX: [(&str, &[f64]); 6] = [
    ("_ms", &BUCKETS_MS),
    ("_seconds", &BUCKETS_SECONDS),
    ("_bytes", &BUCKETS_BYTES),
    ("_writes", &BUCKETS_COUNT),
    ("_commit_sagas", &BUCKETS_COUNT),
    ("_commit_rows", &BUCKETS_COUNT),
];

fn long() -> [f64; 19] {
    BUCKETS_MS.map(|milliseconds| milliseconds / units::MS_PER_SECOND)
}

/// Upper bounds of a histogram, by its name; none = nobody has set any.
pub fn bounds(name: &str) -> Vec<f64> {
    if LONG.contains(&name) {
        return long().to_vec();
    }
    let by_suffix = BY_SUFFIX.into_iter().find(|(suffix, _)| name.ends_with(suffix));
    by_suffix.map(|(_, bounds)| bounds.to_vec()).unwrap_or_default()
}

fn recorder() -> Result<PrometheusRecorder, ServerError> {
    let long = long();
    let by_suffix = BY_SUFFIX.into_iter().map(|(suffix, buckets)| (Matcher::Suffix(suffix.to_owned()), buckets));
    let by_name = LONG.into_iter().map(|name| (Matcher::Full(name.to_owned()), long.as_slice()));
    let mut builder = PrometheusBuilder::new();
    for (matcher, buckets) in by_suffix.chain(by_name) {
        builder = builder
            .set_buckets_for_metric(matcher, buckets)
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

/// A page that is told what changes was opened (1.0) or closed (-1.0).
pub(crate) fn page_readers(change: f64) {
    gauge!("waybill_page_readers").increment(change);
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
        let tables = [METRICS, SCRAPED, SAGA_METRICS, INBOX_METRICS, PLUGIN_METRICS, OTHER_UNITS];
        for (name, help) in tables.into_iter().flatten() {
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
            describe(&[METRICS, &[("tx_outbox_latency_seconds", "Time from enqueue.")]]);
            histogram!("tx_outbox_latency_seconds", "tenant" => "a").record(7.0);
            histogram!("tx_saga_commit_rows").record(3.0);
            let (series, template) = (RouteSeries::default(), Arc::from("/v1/messages"));
            series.request(&template, &Method::POST, StatusCode::CREATED, Duration::from_millis(3));
        });
        let text = handle.render();
        assert!(text.contains("tx_outbox_latency_seconds_bucket{tenant=\"a\",le=\"10\"} 1"), "{text}");
        assert!(text.contains("tx_saga_commit_rows_bucket{le=\"5\"} 1"), "{text}");
        assert!(text.contains(
            "waybill_http_request_duration_seconds_bucket{route=\"/v1/messages\",method=\"POST\",le=\"0.005\"} 1"
        ));
        assert!(text.contains("waybill_http_requests_total{route=\"/v1/messages\",method=\"POST\",status=\"201\"} 1"));
        assert!(text.contains("# HELP tx_outbox_latency_seconds Time from enqueue"));
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
        let mut described: BTreeSet<&str> = texts.iter().flat_map(|text| pair_names(text)).collect();
        described.extend(units::SHOWN.iter().map(|shown| shown.recorded));
        let (mut missing, mut recorded) = (BTreeSet::new(), BTreeSet::new());
        for (source, text) in sources.iter().zip(&texts) {
            for name in macro_names(text.split("#[cfg(test)]").next().unwrap_or_default()) {
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
