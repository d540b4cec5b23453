//! Log entries for export, with the trace that they speak of.

use std::sync::Arc;
use std::time::Duration;

use opentelemetry::logs::{AnyValue, LogRecord as _};
use opentelemetry::{InstrumentationScope, SpanId, TraceId};
use opentelemetry_appender_tracing::layer::OpenTelemetryTracingBridge;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::logs::{LogProcessor, SdkLogRecord, SdkLogger, SdkLoggerProvider};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

use crate::watched::{TARGET, Tally};

/// Field of entries that concern one trace.
const TRACE_ID: &str = "trace_id";
const TRACE_ID_DIGITS: usize = 32;
/// What the export itself uses: each entry of it that was exported would make others.
const OF_THE_EXPORT: [&str; 8] = [TARGET, "opentelemetry", "h2", "hyper", "reqwest", "rustls", "tonic", "tower"];

/// Hands entries over for export, but for those of the export itself.
pub(crate) struct ExportedLogs(OpenTelemetryTracingBridge<SdkLoggerProvider, SdkLogger>);

impl ExportedLogs {
    pub fn new(provider: &SdkLoggerProvider) -> Self {
        Self(OpenTelemetryTracingBridge::new(provider))
    }
}

impl<S> Layer<S> for ExportedLogs
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if is_exported(event.metadata()) {
            self.0.on_event(event, context);
        }
    }
}

fn is_exported(metadata: &Metadata<'_>) -> bool {
    let target = metadata.target();
    !OF_THE_EXPORT
        .iter()
        .any(|name| target.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '_', '-'])))
}

/// Makes the trace that an entry names in a field the one that it belongs to, and counts entries.
#[derive(Debug)]
pub(crate) struct TraceOfEntry(Arc<Tally>);

impl TraceOfEntry {
    pub fn new(tally: Arc<Tally>) -> Self {
        Self(tally)
    }
}

impl LogProcessor for TraceOfEntry {
    fn emit(&self, record: &mut SdkLogRecord, _: &InstrumentationScope) {
        self.0.count();
        let named = record.attributes_iter().find_map(|(key, value)| match value {
            AnyValue::String(text) if key.as_str() == TRACE_ID && text.as_str().len() == TRACE_ID_DIGITS => {
                TraceId::from_hex(text.as_str()).ok()
            }
            _ => None,
        });
        if let Some(trace) = named.filter(|trace| *trace != TraceId::INVALID) {
            record.set_trace_context(trace, SpanId::INVALID, None);
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use opentelemetry_sdk::logs::{LogBatch, LogExporter};
    use parking_lot::Mutex;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    #[derive(Clone, Debug, Default)]
    struct Kept(Arc<Mutex<Vec<SdkLogRecord>>>);

    impl LogExporter for Kept {
        async fn export(&self, batch: LogBatch<'_>) -> OTelSdkResult {
            self.0.lock().extend(batch.iter().map(|(record, _)| record.clone()));
            Ok(())
        }
    }

    #[test]
    fn an_entry_belongs_to_the_trace_that_it_names_and_the_exports_own_are_left_out() {
        let (kept, tally) = (Kept::default(), Arc::new(Tally::new("logs")));
        let provider = SdkLoggerProvider::builder()
            .with_log_processor(TraceOfEntry::new(Arc::clone(&tally)))
            .with_simple_exporter(kept.clone())
            .build();
        let subscriber = tracing_subscriber::registry().with(ExportedLogs::new(&provider));
        tracing::subscriber::with_default(subscriber, || {
            let trace_id = Some("0af7651916cd43dd8448eb211c80319c");
            tracing::warn!(target: "waybill_engine::shard", trace_id, seq = 7, "a call to a transport failed");
            tracing::info!(target: "waybill", trace_id = None::<&str>, "ready");
            tracing::info!(target: "waybill", trace_id = "none of this kind", "odd");
            tracing::warn!(target: TARGET, "the collector takes no exports");
            tracing::warn!(target: "opentelemetry_sdk", "a batch failed");
            tracing::info!(target: "hyper::client", "connected");
        });
        let records = kept.0.lock().clone();
        let [failed, ready, odd] = records.as_slice() else { panic!("{records:?}") };
        let trace = failed.trace_context().unwrap().trace_id;
        assert_eq!(trace.to_string(), "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(failed.body(), Some(&AnyValue::from("a call to a transport failed")));
        assert!(ready.trace_context().is_none() && odd.trace_context().is_none());
        assert_eq!(tally.made(), 3);
    }
}
