//! What is recorded of metrics, as instruments of the same names.
//!
//! Counters and gauges are numbers of ours that the SDK reads when it exports, so that counting costs an addition and not a look-up by
//! labels. Histograms are the SDK's.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder, SharedString, Unit,
};
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use parking_lot::{Mutex, RwLock};

/// Units by the ends of names, in the notation of UCUM.
const UNITS: [(&str, &str); 4] = [("_seconds", "s"), ("_ms", "ms"), ("_bytes", "By"), ("_microseconds_total", "us")];

/// Series of one counter or gauge, as the SDK reads them.
type Series<N> = Arc<Mutex<Vec<(Vec<KeyValue>, Arc<N>)>>>;

/// Handles by name and labels, and the series of each name.
struct Family<N> {
    handles: RwLock<HashMap<Key, Arc<N>>>,
    by_name: Mutex<HashMap<String, Series<N>>>,
}

impl<N> Default for Family<N> {
    fn default() -> Self {
        Self { handles: RwLock::default(), by_name: Mutex::default() }
    }
}

impl<N: Default> Family<N> {
    /// The handle of a key; `instrument` makes the instrument that reads a name's series, when the name is new.
    fn handle(&self, key: &Key, instrument: impl FnOnce(Series<N>)) -> Arc<N> {
        if let Some(found) = self.handles.read().get(key) {
            return Arc::clone(found);
        }
        let mut handles = self.handles.write();
        if let Some(found) = handles.get(key) {
            return Arc::clone(found);
        }
        let number = Arc::new(N::default());
        handles.insert(key.clone(), Arc::clone(&number));
        let mut by_name = self.by_name.lock();
        let series = by_name.entry(key.name().to_owned()).or_insert_with(|| {
            let series = Series::default();
            instrument(Arc::clone(&series));
            series
        });
        series.lock().push((attributes(key), Arc::clone(&number)));
        number
    }
}

#[derive(Default)]
struct Count(AtomicU64);

impl CounterFn for Count {
    fn increment(&self, value: u64) {
        self.0.fetch_add(value, Ordering::Relaxed);
    }

    fn absolute(&self, value: u64) {
        self.0.fetch_max(value, Ordering::Relaxed);
    }
}

/// A gauge's number, by its bits.
#[derive(Default)]
struct Level(AtomicU64);

impl Level {
    fn get(&self) -> f64 {
        f64::from_bits(self.0.load(Ordering::Relaxed))
    }

    fn change(&self, by: f64) {
        let changed = |bits| Some((f64::from_bits(bits) + by).to_bits());
        let _always = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

impl GaugeFn for Level {
    fn increment(&self, value: f64) {
        self.change(value);
    }

    fn decrement(&self, value: f64) {
        self.change(-value);
    }

    fn set(&self, value: f64) {
        self.0.store(value.to_bits(), Ordering::Relaxed);
    }
}

/// A histogram with the attributes of its series.
struct Distribution {
    instrument: opentelemetry::metrics::Histogram<f64>,
    attributes: Vec<KeyValue>,
}

impl HistogramFn for Distribution {
    fn record(&self, value: f64) {
        self.instrument.record(value, &self.attributes);
    }
}

pub(crate) struct MetricBridge {
    meter: Meter,
    bounds: fn(&str) -> Vec<f64>,
    help: RwLock<HashMap<String, SharedString>>,
    counters: Family<Count>,
    gauges: Family<Level>,
    histograms: RwLock<HashMap<Key, Arc<Distribution>>>,
    by_name: Mutex<HashMap<String, opentelemetry::metrics::Histogram<f64>>>,
}

impl MetricBridge {
    /// `bounds` tells the upper bounds of a histogram's buckets, by its name.
    pub fn new(provider: &SdkMeterProvider, bounds: fn(&str) -> Vec<f64>) -> Self {
        Self {
            meter: provider.meter(crate::SCOPE),
            bounds,
            help: RwLock::default(),
            counters: Family::default(),
            gauges: Family::default(),
            histograms: RwLock::default(),
            by_name: Mutex::default(),
        }
    }

    fn describe(&self, name: KeyName, help: SharedString) {
        self.help.write().insert(name.as_str().to_owned(), help);
    }

    fn help_of(&self, name: &str) -> String {
        self.help.read().get(name).map(ToString::to_string).unwrap_or_default()
    }

    fn distribution(&self, key: &Key) -> Arc<Distribution> {
        if let Some(found) = self.histograms.read().get(key) {
            return Arc::clone(found);
        }
        let mut by_name = self.by_name.lock();
        let instrument = by_name.entry(key.name().to_owned()).or_insert_with(|| {
            let name = key.name();
            let mut builder = self.meter.f64_histogram(name.to_owned()).with_description(self.help_of(name));
            builder = builder.with_unit(unit(name));
            let bounds = (self.bounds)(name);
            if !bounds.is_empty() {
                builder = builder.with_boundaries(bounds);
            }
            builder.build()
        });
        let made = Arc::new(Distribution { instrument: instrument.clone(), attributes: attributes(key) });
        Arc::clone(self.histograms.write().entry(key.clone()).or_insert(made))
    }
}

impl Recorder for MetricBridge {
    fn describe_counter(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key, description);
    }

    fn describe_gauge(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key, description);
    }

    fn describe_histogram(&self, key: KeyName, _: Option<Unit>, description: SharedString) {
        self.describe(key, description);
    }

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.counters.handle(key, |series| {
            let name = key.name();
            let builder = self.meter.u64_observable_counter(name.to_owned()).with_description(self.help_of(name));
            let _kept_by_the_meter = builder
                .with_unit(unit(name))
                .with_callback(move |observer| {
                    for (attributes, count) in series.lock().iter() {
                        observer.observe(count.0.load(Ordering::Relaxed), attributes);
                    }
                })
                .build();
        }))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.gauges.handle(key, |series| {
            let name = key.name();
            let builder = self.meter.f64_observable_gauge(name.to_owned()).with_description(self.help_of(name));
            let _kept_by_the_meter = builder
                .with_unit(unit(name))
                .with_callback(move |observer| {
                    for (attributes, level) in series.lock().iter() {
                        observer.observe(level.get(), attributes);
                    }
                })
                .build();
        }))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.distribution(key))
    }
}

fn attributes(key: &Key) -> Vec<KeyValue> {
    key.labels().map(|label| KeyValue::new(label.key().to_owned(), label.value().to_owned())).collect()
}

pub(crate) fn unit(name: &str) -> &'static str {
    UNITS.iter().find(|(end, _)| name.ends_with(end)).map_or("", |(_, unit)| unit)
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used)]
    use std::time::Duration;

    use opentelemetry_sdk::error::OTelSdkResult;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ResourceMetrics};
    use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
    use opentelemetry_sdk::metrics::{PeriodicReader, Temporality};

    use super::*;

    /// Keeps what is exported as text: its types hold borrowed data.
    #[derive(Clone, Default)]
    pub(crate) struct Kept(Arc<Mutex<Vec<String>>>);

    impl Kept {
        /// Of the latest export.
        pub(crate) fn lines(&self) -> Vec<String> {
            self.0.lock().clone()
        }
    }

    impl PushMetricExporter for Kept {
        async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
            let mut kept = self.0.lock();
            kept.clear();
            for metric in metrics.scope_metrics().flat_map(|scope| scope.metrics()) {
                let (name, unit) = (metric.name(), metric.unit());
                match metric.data() {
                    AggregatedMetrics::U64(MetricData::Sum(sum)) => kept.extend(
                        sum.data_points()
                            .map(|point| format!("{name} {} {}", point.value(), labels(point.attributes()))),
                    ),
                    AggregatedMetrics::F64(MetricData::Gauge(gauge)) => kept.extend(
                        gauge
                            .data_points()
                            .map(|point| format!("{name} {} {}", point.value(), labels(point.attributes()))),
                    ),
                    AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                        kept.extend(histogram.data_points().map(|point| {
                            let bounds: Vec<f64> = point.bounds().collect();
                            format!("{name} {unit} {} {:?} {}", point.count(), bounds, point.sum())
                        }));
                    }
                    other => kept.push(format!("{name} {other:?}")),
                }
            }
            Ok(())
        }

        fn force_flush(&self) -> OTelSdkResult {
            Ok(())
        }

        fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
            Ok(())
        }

        fn temporality(&self) -> Temporality {
            Temporality::Cumulative
        }
    }

    fn labels<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> String {
        attributes.map(|label| format!("{}={}", label.key, label.value)).collect::<Vec<_>>().join(",")
    }

    #[test]
    fn what_is_recorded_is_exported_with_its_labels_and_bounds() {
        let kept = Kept::default();
        let reader = PeriodicReader::builder(kept.clone()).with_interval(Duration::from_secs(3600)).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let bridge = MetricBridge::new(&provider, |_| vec![0.5, 1.0]);
        metrics::with_local_recorder(&bridge, || {
            metrics::counter!("tx_outbox_enqueued_total", "tenant" => "a").increment(2);
            metrics::counter!("tx_outbox_enqueued_total", "tenant" => "a").increment(1);
            metrics::counter!("tx_outbox_enqueued_total", "tenant" => "b").increment(5);
            metrics::gauge!("waybill_http_connections").increment(3.0);
            metrics::gauge!("waybill_http_connections").decrement(1.0);
            metrics::histogram!("waybill_commit_seconds").record(0.25);
            metrics::histogram!("waybill_commit_seconds").record(0.75);
        });
        provider.force_flush().unwrap();
        let mut lines = kept.lines();
        lines.sort();
        assert_eq!(
            lines,
            [
                "tx_outbox_enqueued_total 3 tenant=a",
                "tx_outbox_enqueued_total 5 tenant=b",
                "waybill_commit_seconds s 2 [0.5, 1.0] 1",
                "waybill_http_connections 2 ",
            ]
        );
    }
}
