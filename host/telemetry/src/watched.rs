//! What became of exports. The library tells of each failure in words of its own and as often as there are batches; here they are counted,
//! and the log hears of the first, of the latest once in a while, and of the end of the trouble.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogBatch, LogExporter};
use opentelemetry_sdk::metrics::Temporality;
use opentelemetry_sdk::metrics::data::ResourceMetrics;
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::trace::{SpanData, SpanExporter};
use parking_lot::Mutex;

/// The log hears of failures this often.
const TOLD_EVERY: Duration = Duration::from_secs(60);
/// Target of what this says in the log. None of it is exported: it would fail the same way.
pub(crate) const TARGET: &str = "waybill::otel";

/// Counts of one signal.
#[derive(Debug)]
pub(crate) struct Tally {
    signal: &'static str,
    /// What was handed over for export.
    made: AtomicU64,
    exported: AtomicU64,
    trouble: Mutex<Trouble>,
}

#[derive(Debug, Default)]
struct Trouble {
    /// Exports that failed since one succeeded.
    failures: u64,
    told_at: Option<Instant>,
}

impl Tally {
    pub fn new(signal: &'static str) -> Self {
        Self { signal, made: AtomicU64::new(0), exported: AtomicU64::new(0), trouble: Mutex::default() }
    }

    /// One more is handed over.
    pub fn count(&self) {
        self.made.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were handed over so far.
    pub fn made(&self) -> u64 {
        self.made.load(Ordering::Relaxed)
    }

    /// How many of the first so many weren't exported, so far.
    pub fn lost_of(&self, made: u64) -> u64 {
        made.saturating_sub(self.exported.load(Ordering::Relaxed))
    }

    fn take(&self, count: usize, result: &OTelSdkResult) {
        match result {
            Ok(()) => {
                self.exported.fetch_add(count as u64, Ordering::Relaxed);
                let failures = std::mem::take(&mut *self.trouble.lock()).failures;
                if failures > 0 {
                    tracing::info!(target: TARGET, signal = self.signal, failures, "the collector takes exports again");
                }
            }
            Err(error) => {
                if let Some(failures) = self.failed(Instant::now()) {
                    tracing::warn!(target: TARGET, signal = self.signal, failures, %error, "the collector takes no exports: what can't be sent is dropped");
                }
            }
        }
    }

    /// Counts a failure. How many there are by now, when the log is to hear of it.
    fn failed(&self, now: Instant) -> Option<u64> {
        let mut trouble = self.trouble.lock();
        trouble.failures += 1;
        if trouble.told_at.is_some_and(|told| now.saturating_duration_since(told) < TOLD_EVERY) {
            return None;
        }
        trouble.told_at = Some(now);
        Some(trouble.failures)
    }
}

/// An exporter whose results are counted.
#[derive(Debug)]
pub(crate) struct Watched<E> {
    exporter: E,
    tally: Arc<Tally>,
}

impl<E> Watched<E> {
    pub fn new(exporter: E, tally: Arc<Tally>) -> Self {
        Self { exporter, tally }
    }
}

impl<E: SpanExporter> SpanExporter for Watched<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let count = batch.len();
        let result = self.exporter.export(batch).await;
        self.tally.take(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: LogExporter> LogExporter for Watched<E> {
    async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
        let count = batch.iter().count();
        let result = self.exporter.export(batch).await;
        self.tally.take(count, &result);
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

impl<E: PushMetricExporter> PushMetricExporter for Watched<E> {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let result = self.exporter.export(metrics).await;
        self.tally.take(0, &result);
        result
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn temporality(&self) -> Temporality {
        self.exporter.temporality()
    }
}

#[cfg(test)]
mod tests {
    use opentelemetry_sdk::error::OTelSdkError;

    use super::*;

    #[test]
    fn the_log_hears_of_failures_once_in_a_while() {
        let tally = Tally::new("traces");
        let now = Instant::now();
        assert_eq!(tally.failed(now), Some(1));
        assert_eq!(tally.failed(now + Duration::from_secs(59)), None);
        assert_eq!(tally.failed(now + Duration::from_secs(60)), Some(3));
        tally.take(0, &Ok(()));
        assert_eq!(tally.failed(now + Duration::from_secs(61)), Some(1), "another trouble is told at once");
    }

    #[test]
    fn what_was_not_exported_is_lost() {
        let tally = Tally::new("logs");
        (0..5).for_each(|_| tally.count());
        tally.take(3, &Ok(()));
        tally.take(2, &Err(OTelSdkError::InternalFailure("refused".to_owned())));
        assert_eq!(tally.lost_of(tally.made()), 2);
    }
}
