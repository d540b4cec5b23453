//! The host's own measurements of one endpoint, labelled (transport, plugin, generation).
//!
//! The handles are taken from the recorder when the endpoint starts, so install the recorder first.

use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use waybill_core::port::transport::ErrorKind;

/// Handles of one endpoint.
pub(crate) struct Meters {
    labels: [(&'static str, String); 3],
    call_ok: Counter,
    call_seconds: Histogram,
    pub(crate) restarts: Counter,
    /// CPU time, in microseconds.
    pub(crate) cpu: Counter,
    pub(crate) memory: Gauge,
    pub(crate) instances_open: Gauge,
    /// Instances whose breaker is open.
    pub(crate) breaker: Gauge,
    pub(crate) denied: Counter,
    pub(crate) log_dropped: Counter,
    pub(crate) metrics_dropped: Counter,
    pub(crate) late_progress: Counter,
}

impl Meters {
    pub(crate) fn new(transport: &str, plugin: &str, generation: u32) -> Self {
        let labels = [
            ("transport", transport.to_owned()),
            ("plugin", plugin.to_owned()),
            ("generation", generation.to_string()),
        ];
        let ok: Vec<(&'static str, String)> = labels.iter().cloned().chain([("result", "ok".to_owned())]).collect();
        Self {
            call_ok: counter!("waybill_plugin_calls_total", &ok),
            call_seconds: histogram!("waybill_plugin_call_seconds", &labels),
            restarts: counter!("waybill_plugin_restarts_total", &labels),
            cpu: counter!("waybill_plugin_cpu_microseconds_total", &labels),
            memory: gauge!("waybill_plugin_memory_bytes", &labels),
            instances_open: gauge!("waybill_plugin_instances_open", &labels),
            breaker: gauge!("waybill_plugin_breaker_state", &labels),
            denied: counter!("waybill_plugin_denied_total", &labels),
            log_dropped: counter!("waybill_plugin_log_dropped_total", &labels),
            metrics_dropped: counter!("waybill_plugin_metrics_dropped_total", &labels),
            late_progress: counter!("waybill_plugin_late_progress_total", &labels),
            labels,
        }
    }

    /// Counts a call that the guest answered or that failed.
    pub(crate) fn call(&self, took: Duration, failed: Option<ErrorKind>) {
        self.call_seconds.record(took.as_secs_f64());
        match failed {
            None => self.call_ok.increment(1),
            Some(kind) => self.labelled("waybill_plugin_calls_total", "result", kind_name(kind)).increment(1),
        }
    }

    /// Counts an instance that was lost.
    pub(crate) fn trap(&self, kind: ErrorKind) {
        self.labelled("waybill_plugin_traps_total", "kind", kind_name(kind)).increment(1);
    }

    fn labelled(&self, name: &'static str, label: &'static str, value: &'static str) -> Counter {
        let labels: Vec<(&'static str, String)> =
            self.labels.iter().cloned().chain([(label, value.to_owned())]).collect();
        counter!(name, &labels)
    }
}

fn kind_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::InvalidConfig => "invalid-config",
        ErrorKind::Denied => "denied",
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::Throttled => "throttled",
        ErrorKind::Fenced => "fenced",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::Cancelled => "cancelled",
        ErrorKind::Internal => "internal",
        ErrorKind::Trapped => "trapped",
        ErrorKind::TimedOut => "timed-out",
        ErrorKind::Contract => "contract",
    }
}
