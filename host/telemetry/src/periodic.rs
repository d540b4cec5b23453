//! When metrics are exported, and what is counted for each export.
//!
//! Some gauges are counted only when somebody asks, which reads the store. The SDK's reader collects without a word before, and holds
//! its instruments meanwhile: so its own interval never comes, and a task here counts first and has it export then.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use opentelemetry::KeyValue;
use opentelemetry::metrics::{Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use crate::metric_bridge::unit;
use crate::watched::TARGET;

/// Time between two exports, where neither the settings nor the environment names one.
const INTERVAL: Duration = Duration::from_secs(60);
/// The interval of the SDK's reader: no host runs as long.
pub(crate) const NEVER: Duration = Duration::from_secs(100 * 365 * 86_400);

/// A gauge that was counted.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    pub name: &'static str,
    pub help: &'static str,
    /// Labels and value of each series.
    pub series: Vec<(Vec<(&'static str, String)>, f64)>,
}

/// Counts gauges that nobody records.
#[async_trait]
pub trait Readings: Send + Sync + 'static {
    /// All of them, as they are now. It ends by itself within some seconds.
    async fn read(&self) -> Vec<Reading>;
}

/// Exports of metrics, for as long as they are wanted.
pub(crate) struct Exports {
    provider: SdkMeterProvider,
    gauges: Arc<Gauges>,
    readings: Arc<Mutex<Option<Arc<dyn Readings>>>>,
    task: JoinHandle<()>,
}

impl Exports {
    /// Begins them, one each `interval`. Within a runtime. The provider's reader has to wait for [`NEVER`].
    pub fn begin(provider: SdkMeterProvider, interval: Option<Duration>) -> Self {
        let interval = interval.or_else(of_environment).unwrap_or(INTERVAL);
        let gauges = Arc::new(Gauges::new(provider.meter(crate::SCOPE)));
        let readings: Arc<Mutex<Option<Arc<dyn Readings>>>> = Arc::default();
        let task = tokio::spawn({
            let (provider, gauges, readings) = (provider.clone(), Arc::clone(&gauges), Arc::clone(&readings));
            async move {
                let mut pulse = interval_at(Instant::now() + interval, interval);
                pulse.set_missed_tick_behavior(MissedTickBehavior::Delay);
                loop {
                    pulse.tick().await;
                    let source = readings.lock().clone();
                    gauges.set(read(source).await);
                    let provider = provider.clone();
                    // What became of it is told by whoever exports.
                    let _told = tokio::task::spawn_blocking(move || provider.force_flush()).await;
                }
            }
        });
        Self { provider, gauges, readings, task }
    }

    /// What is read before each export from now on.
    pub fn read_from(&self, readings: Arc<dyn Readings>) {
        *self.readings.lock() = Some(readings);
    }

    /// No more of them but the last one, of what is recorded: who could count the rest is gone. Blocks.
    pub fn end(self, timeout: Duration) {
        self.task.abort();
        self.gauges.set(Vec::new());
        let _told = self.provider.shutdown_with_timeout(timeout);
    }
}

/// In a task of its own: one that fails costs its readings, and no export.
async fn read(source: Option<Arc<dyn Readings>>) -> Vec<Reading> {
    let Some(source) = source else { return Vec::new() };
    tokio::spawn(async move { source.read().await }).await.unwrap_or_else(|error| {
        tracing::warn!(target: TARGET, %error, "what is counted for an export of metrics couldn't be");
        Vec::new()
    })
}

fn of_environment() -> Option<Duration> {
    let text = std::env::var("OTEL_METRIC_EXPORT_INTERVAL").ok()?;
    text.parse().ok().filter(|milliseconds| *milliseconds > 0).map(Duration::from_millis)
}

/// Series of one gauge, as the SDK reads them.
type Series = Arc<Mutex<Vec<(Vec<KeyValue>, f64)>>>;

struct Gauges {
    meter: Meter,
    by_name: Mutex<HashMap<&'static str, Series>>,
}

impl Gauges {
    fn new(meter: Meter) -> Self {
        Self { meter, by_name: Mutex::default() }
    }

    /// Puts these readings in the place of all earlier ones: a series that isn't among them is gone.
    fn set(&self, readings: Vec<Reading>) {
        let mut by_name = self.by_name.lock();
        by_name.values().for_each(|series| series.lock().clear());
        for Reading { name, help, series } in readings {
            let place = by_name.entry(name).or_insert_with(|| self.instrument(name, help));
            let attribute = |(label, text): (&'static str, String)| KeyValue::new(label, text);
            let series = series
                .into_iter()
                .map(|(labels, value)| (labels.into_iter().map(attribute).collect::<Vec<KeyValue>>(), value));
            *place.lock() = series.collect();
        }
    }

    fn instrument(&self, name: &'static str, help: &'static str) -> Series {
        let series = Series::default();
        let read = Arc::clone(&series);
        let builder = self.meter.f64_observable_gauge(name).with_description(help).with_unit(unit(name));
        let _kept_by_the_meter = builder
            .with_callback(move |observer| {
                for (attributes, value) in read.lock().iter() {
                    observer.observe(*value, attributes);
                }
            })
            .build();
        series
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::atomic::{AtomicU64, Ordering};

    use opentelemetry_sdk::metrics::PeriodicReader;

    use super::*;
    use crate::metric_bridge::tests::Kept;

    /// Counts one thing more each time, of a tenant of its own.
    #[derive(Default)]
    struct Depths(AtomicU64);

    #[async_trait]
    impl Readings for Depths {
        async fn read(&self) -> Vec<Reading> {
            let count = self.0.fetch_add(1, Ordering::AcqRel) + 1;
            assert_ne!(count, 3, "the third count fails");
            let series = vec![(vec![("tenant", format!("t{count}"))], count as f64)];
            vec![Reading { name: "waybill_outbox_depth", help: "Messages.", series }]
        }
    }

    fn exports(kept: &Kept) -> Exports {
        let reader = PeriodicReader::builder(kept.clone()).with_interval(NEVER).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        Exports::begin(provider, Some(Duration::from_secs(10)))
    }

    async fn pass(seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn gauges_are_counted_once_before_each_export_and_a_series_that_is_gone_is_not_exported() {
        let (kept, depths) = (Kept::default(), Arc::new(Depths::default()));
        let exports = exports(&kept);
        exports.read_from(Arc::clone(&depths) as Arc<dyn Readings>);
        // Something is always exported, so that an export without depths is one, too.
        exports.provider.meter("t").u64_counter("tx_replay_total").build().add(2, &[]);
        let counts = || depths.0.load(Ordering::Acquire);
        let exported = || -> Vec<String> {
            kept.lines().into_iter().filter(|line| line.starts_with("waybill_outbox_depth")).collect()
        };
        pass(9).await;
        assert_eq!((counts(), exported().len()), (0, 0), "nothing is counted before it is exported");
        pass(2).await;
        assert_eq!((counts(), exported()), (1, vec!["waybill_outbox_depth 1 tenant=t1".to_owned()]));
        pass(10).await;
        assert_eq!((counts(), exported()), (2, vec!["waybill_outbox_depth 2 tenant=t2".to_owned()]));
        // One that fails costs its readings only.
        pass(10).await;
        assert_eq!((counts(), exported().len()), (3, 0));
        pass(10).await;
        assert_eq!((counts(), exported()), (4, vec!["waybill_outbox_depth 4 tenant=t4".to_owned()]));
        tokio::task::spawn_blocking(move || exports.end(Duration::from_secs(1))).await.unwrap();
        pass(60).await;
        assert_eq!((counts(), exported().len()), (4, 0), "the last export has what is recorded");
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_recorded_is_exported_although_nobody_counts() {
        let kept = Kept::default();
        let exports = exports(&kept);
        let counter = exports.provider.meter("t").u64_counter("tx_replay_total").build();
        counter.add(2, &[]);
        pass(11).await;
        assert_eq!(kept.lines(), ["tx_replay_total 2 "]);
    }
}
