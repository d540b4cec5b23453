//! Traces, metrics and logs to an OpenTelemetry collector, over OTLP.
//!
//! | file | holds |
//! |---|---|
//! | `settings` | what is exported and where to, and what the environment says |
//! | `exporters` | the exporters of the three signals, over HTTP or gRPC |
//! | `http_client` | requests of those over HTTP, by the client that the host has anyway |
//! | `watched` | what became of each export: counted, and told in the log once in a while |
//! | `tracer` | the port of spans |
//! | `metric_bridge` | what is recorded of metrics, as instruments |
//! | `periodic` | when metrics are exported, and the gauges that are counted for it |
//! | `log_bridge` | log entries, with the trace that they speak of |
//!
//! The host builds a [`Telemetry`] before anything is logged, hands its parts out, and ends it last. What the library reads of the
//! environment by itself (endpoint, headers, timeouts, batches, sampler, resource) is left to it.

mod exporters;
mod http_client;
mod log_bridge;
mod metric_bridge;
mod periodic;
mod settings;
mod tracer;
mod watched;

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry_sdk::logs::SdkLoggerProvider;
use opentelemetry_sdk::metrics::{PeriodicReader, SdkMeterProvider};
use opentelemetry_sdk::trace::{Sampler, SdkTracerProvider};
use thiserror::Error;
use tracing::Subscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::registry::LookupSpan;
use waybill_core::port::trace::Tracer;

use metric_bridge::MetricBridge;
use periodic::Exports;
pub use periodic::{Reading, Readings};
pub use settings::{Protocol, Settings, Signal};
use watched::{Tally, Watched};

/// Name of the instrumentation, in all that is exported.
const SCOPE: &str = "waybill";

/// An exporter that can't be built.
#[derive(Debug, Error)]
#[error("OpenTelemetry: {signal} can't be exported: {cause}")]
pub struct BuildError {
    pub signal: &'static str,
    /// What is wrong with which setting.
    pub cause: String,
}

/// What wasn't exported, as far as is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lost {
    pub spans: u64,
    pub logs: u64,
    /// The time was over before everything had ended.
    pub is_cut: bool,
}

/// All that is exported by this process.
pub struct Telemetry {
    traces: Option<(SdkTracerProvider, Arc<Tally>)>,
    metrics: Option<(Exports, Arc<MetricBridge>)>,
    logs: Option<(SdkLoggerProvider, Arc<Tally>)>,
}

impl Telemetry {
    /// Builds what the settings ask for. Within a runtime, which makes the connections; nothing is connected yet.
    pub fn build(settings: &Settings) -> Result<Self, BuildError> {
        let resource = settings.resource();
        let client = http_client::Client::new()?;
        let traces = settings.wants(Signal::Traces).then(|| -> Result<_, BuildError> {
            let tally = Arc::new(Tally::new("traces"));
            let exporter = Watched::new(exporters::spans(settings, &client)?, Arc::clone(&tally));
            let mut builder =
                SdkTracerProvider::builder().with_batch_exporter(exporter).with_resource(resource.clone());
            if let Some(ratio) = settings.sample_ratio {
                let sampler = Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(ratio)));
                builder = builder.with_sampler(sampler);
            }
            Ok((builder.build(), tally))
        });
        let metrics = settings.wants(Signal::Metrics).then(|| -> Result<_, BuildError> {
            let tally = Arc::new(Tally::new("metrics"));
            let exporter = Watched::new(exporters::metrics(settings, &client)?, tally);
            let reader = PeriodicReader::builder(exporter).with_interval(periodic::NEVER).build();
            let provider = SdkMeterProvider::builder().with_reader(reader).with_resource(resource.clone()).build();
            let bridge = Arc::new(MetricBridge::new(&provider, settings.bounds));
            Ok((Exports::begin(provider, settings.metrics_interval), bridge))
        });
        let logs = settings.wants(Signal::Logs).then(|| -> Result<_, BuildError> {
            let tally = Arc::new(Tally::new("logs"));
            let exporter = Watched::new(exporters::logs(settings, &client)?, Arc::clone(&tally));
            let provider = SdkLoggerProvider::builder()
                .with_log_processor(log_bridge::TraceOfEntry::new(Arc::clone(&tally)))
                .with_batch_exporter(exporter)
                .with_resource(resource.clone())
                .build();
            Ok((provider, tally))
        });
        Ok(Self { traces: traces.transpose()?, metrics: metrics.transpose()?, logs: logs.transpose()? })
    }

    /// What makes spans; none = traces aren't exported.
    pub fn tracer(&self) -> Option<Arc<dyn Tracer>> {
        let (provider, tally) = self.traces.as_ref()?;
        Some(Arc::new(tracer::OtelTracer::new(provider.tracer(SCOPE), Arc::clone(tally))))
    }

    /// What records metrics for export; none = they aren't exported.
    pub fn recorder(&self) -> Option<Box<dyn metrics::Recorder + Send + Sync>> {
        let (_, bridge) = self.metrics.as_ref()?;
        Some(Box::new(Arc::clone(bridge)))
    }

    /// What counts the gauges that nobody records: asked before each export of metrics, and never otherwise.
    pub fn read_from(&self, readings: Arc<dyn Readings>) {
        if let Some((exports, _)) = &self.metrics {
            exports.read_from(readings);
        }
    }

    /// What takes log entries for export; none = they aren't exported.
    pub fn log_layer<S>(&self) -> Option<impl Layer<S> + use<S>>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let (provider, _) = self.logs.as_ref()?;
        Some(log_bridge::ExportedLogs::new(provider))
    }

    /// Exports what waits, within `timeout`, and says what could not be. Blocks nobody but its caller's task.
    pub async fn shutdown(self, timeout: Duration) -> Lost {
        let Self { traces, metrics, logs } = self;
        // What comes from here on is nobody's loss: it tells of the end itself.
        let so_far = |tally: &Arc<Tally>| (Arc::clone(tally), tally.made());
        let (spans, entries) = (traces.as_ref().map(|of| so_far(&of.1)), logs.as_ref().map(|of| so_far(&of.1)));
        // One thread each: none of them waits for a collector that doesn't answer another.
        let traces = tokio::task::spawn_blocking(move || {
            let _told = traces.map(|(provider, _)| provider.shutdown_with_timeout(timeout));
        });
        let metrics = tokio::task::spawn_blocking(move || {
            metrics.into_iter().for_each(|(exports, _)| exports.end(timeout));
        });
        let logs = tokio::task::spawn_blocking(move || {
            let _told = logs.map(|(provider, _)| provider.shutdown_with_timeout(timeout));
        });
        let ended = tokio::time::timeout(timeout, async { tokio::join!(traces, metrics, logs) }).await;
        let lost = |(tally, made): (Arc<Tally>, u64)| tally.lost_of(made);
        Lost { spans: spans.map_or(0, lost), logs: entries.map_or(0, lost), is_cut: ended.is_err() }
    }
}
