//! `metrics`: a guest's own measurements, under the host's prefix and within bounds.

use std::collections::HashMap;

use metrics::{Counter, Gauge, Histogram, Key, Label, Level, Metadata};
use parking_lot::Mutex;
use waybill_bindings::api::metrics::Host;

use super::state::InstanceState;
use crate::limits::{METRIC_LABEL_BYTES_MAX, METRIC_LABELS_MAX, METRIC_NAME_BYTES_MAX, METRIC_SERIES_MAX};
use crate::meters::Bound;

const PREFIX: &str = "waybill_plugin_";
/// Names (without prefix) that are the host's.
const HOSTS_OWN: [&str; 17] = [
    "calls_total",
    "cpu_microseconds_total",
    "cpu_seconds_total",
    "generation",
    "rollbacks_total",
    "swaps_total",
    "traps_total",
    "restarts_total",
    "call_seconds",
    "memory_bytes",
    "instances_open",
    "breaker_state",
    "denied_total",
    "log_dropped_total",
    "late_progress_total",
    "metrics_dropped_total",
    "limit_hits_total",
];
const METADATA: Metadata<'static> = Metadata::new("waybill::plugin", Level::INFO, None);

type Labels = Vec<(String, String)>;

enum Series {
    /// Counters of the recorder are whole numbers; the rest is carried over.
    Counter(Counter, f64),
    Gauge(Gauge),
    Histogram(Histogram),
}

#[derive(Clone, Copy)]
enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// The series of one endpoint. Bound: [`METRIC_SERIES_MAX`]; what goes past it is dropped and counted.
pub(crate) struct GuestMetrics {
    endpoint: String,
    series: Mutex<HashMap<(String, Labels), Series>>,
}

impl GuestMetrics {
    pub(crate) fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), series: Mutex::new(HashMap::new()) }
    }

    /// Records a value; false when it was dropped.
    fn record(&self, kind: Kind, name: String, value: f64, labels: Labels) -> bool {
        if !value.is_finite() || !is_name(&name) || HOSTS_OWN.contains(&name.as_str()) || !are_labels(&labels) {
            return false;
        }
        let mut series = self.series.lock();
        let key = (name, labels);
        if !series.contains_key(&key) {
            if series.len() >= METRIC_SERIES_MAX {
                return false;
            }
            let made = self.register(kind, &key.0, &key.1);
            series.insert(key.clone(), made);
        }
        match (kind, series.get_mut(&key)) {
            (Kind::Counter, Some(Series::Counter(counter, rest))) => {
                *rest += value.max(0.0);
                let whole = rest.floor();
                *rest -= whole;
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "a whole number from 0 up; `as` saturates"
                )]
                counter.increment(whole as u64);
            }
            (Kind::Gauge, Some(Series::Gauge(gauge))) => gauge.set(value),
            (Kind::Histogram, Some(Series::Histogram(histogram))) => histogram.record(value),
            // The name is taken by another kind of metric.
            _ => return false,
        }
        true
    }

    fn register(&self, kind: Kind, name: &str, labels: &Labels) -> Series {
        let own = Label::new("transport", self.endpoint.clone());
        let labels = labels.iter().map(|(name, value)| Label::new(name.clone(), value.clone()));
        let key = Key::from_parts(format!("{PREFIX}{name}"), std::iter::once(own).chain(labels).collect::<Vec<_>>());
        metrics::with_recorder(|recorder| match kind {
            Kind::Counter => Series::Counter(recorder.register_counter(&key, &METADATA), 0.0),
            Kind::Gauge => Series::Gauge(recorder.register_gauge(&key, &METADATA)),
            Kind::Histogram => Series::Histogram(recorder.register_histogram(&key, &METADATA)),
        })
    }
}

fn is_name(name: &str) -> bool {
    name.len() <= METRIC_NAME_BYTES_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
}

fn are_labels(labels: &Labels) -> bool {
    labels.len() <= METRIC_LABELS_MAX
        && labels
            .iter()
            .all(|(name, value)| is_name(name) && name != "transport" && value.len() <= METRIC_LABEL_BYTES_MAX)
}

impl InstanceState {
    fn record(&mut self, kind: Kind, name: String, value: f64, labels: Labels) {
        if !self.context.guest_metrics.record(kind, name, value, labels) {
            self.context.meters.metrics_dropped.increment(1);
            self.context.meters.hit(Bound::Metrics);
        }
    }
}

impl Host for InstanceState {
    fn counter_add(&mut self, name: String, value: f64, labels: Labels) -> wasmtime::Result<()> {
        self.record(Kind::Counter, name, value, labels);
        Ok(())
    }

    fn gauge_set(&mut self, name: String, value: f64, labels: Labels) -> wasmtime::Result<()> {
        self.record(Kind::Gauge, name, value, labels);
        Ok(())
    }

    fn histogram_record(&mut self, name: String, value: f64, labels: Labels) -> wasmtime::Result<()> {
        self.record(Kind::Histogram, name, value, labels);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(metrics: &GuestMetrics, name: &str, labels: &[(&str, &str)]) -> bool {
        let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        metrics.record(Kind::Counter, name.to_owned(), 1.0, labels)
    }

    #[test]
    fn names_and_labels_are_bounded() {
        let metrics = GuestMetrics::new("x");
        assert!(add(&metrics, "acks_total", &[("stream", "A")]));
        assert!(!add(&metrics, "Acks", &[]));
        assert!(!add(&metrics, "calls_total", &[]));
        assert!(!add(&metrics, "a", &[("transport", "other")]));
        assert!(!add(&metrics, "a", &[("l", &"x".repeat(65))]));
        assert!(!metrics.record(
            Kind::Gauge,
            "acks_total".to_owned(),
            1.0,
            vec![("stream".to_owned(), "A".to_owned())]
        ));
        assert!(!metrics.record(Kind::Gauge, "g".to_owned(), f64::NAN, Vec::new()));
    }

    #[test]
    fn a_flood_of_series_stops_at_the_bound() {
        let metrics = GuestMetrics::new("x");
        let kept = (0..1_000).filter(|n| add(&metrics, "a", &[("id", &n.to_string())])).count();
        assert_eq!(kept, METRIC_SERIES_MAX);
        assert!(add(&metrics, "a", &[("id", "0")]));
    }
}
