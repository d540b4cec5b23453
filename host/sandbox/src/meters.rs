//! The host's own measurements of one endpoint, labelled (transport, plugin, generation).
//!
//! The handles are taken from the recorder when the endpoint starts, so install the recorder first.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};
use waybill_core::port::transport::ErrorKind;

use crate::tally::Tally;

/// Something that is there, counted as long as it is.
pub(crate) struct Counted(Gauge);

impl Counted {
    pub(crate) fn new(gauge: &Gauge) -> Self {
        gauge.increment(1.0);
        Self(gauge.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.decrement(1.0);
    }
}

/// A bound that a guest can meet; each time is counted in `waybill_plugin_limit_hits_total`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    Memory,
    Tables,
    Handles,
    HostcallBytes,
    Stack,
    Cpu,
    CallTime,
    Connections,
    HttpRequests,
    HttpHeaders,
    HttpResponse,
    HttpAnswers,
    HttpBodies,
    Log,
    Metrics,
    Outcome,
    Kv,
}

impl Bound {
    /// All of them, in the order of their numbers.
    pub(crate) const ALL: [Self; 17] = [
        Self::Memory,
        Self::Tables,
        Self::Handles,
        Self::HostcallBytes,
        Self::Stack,
        Self::Cpu,
        Self::CallTime,
        Self::Connections,
        Self::HttpRequests,
        Self::HttpHeaders,
        Self::HttpResponse,
        Self::HttpAnswers,
        Self::HttpBodies,
        Self::Log,
        Self::Metrics,
        Self::Outcome,
        Self::Kv,
    ];

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Tables => "tables",
            Self::Handles => "handles",
            Self::HostcallBytes => "hostcall-bytes",
            Self::Stack => "stack",
            Self::Cpu => "cpu",
            Self::CallTime => "call-time",
            Self::Connections => "connections",
            Self::HttpRequests => "http-requests",
            Self::HttpHeaders => "http-headers",
            Self::HttpResponse => "http-response",
            Self::HttpAnswers => "http-answers",
            Self::HttpBodies => "http-bodies",
            Self::Log => "log",
            Self::Metrics => "metrics",
            Self::Outcome => "outcome",
            Self::Kv => "kv",
        }
    }
}

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
    /// The same for people who hold generations against each other.
    pub(crate) tally: Arc<Tally>,
    /// Made when a bound is met first, so that what is never met makes no series.
    hits: [OnceLock<Counter>; Bound::ALL.len()],
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
            tally: Arc::default(),
            hits: std::array::from_fn(|_| OnceLock::new()),
            labels,
        }
    }

    /// Counts that a guest met a bound.
    pub(crate) fn hit(&self, bound: Bound) {
        if let Some(counter) = self.hits.get(bound as usize) {
            let made = || self.labelled("waybill_plugin_limit_hits_total", "limit", bound.as_str());
            counter.get_or_init(made).increment(1);
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

    /// The same of a call that gave it work.
    pub(crate) fn work(&self, took: Duration, failed: Option<ErrorKind>) {
        self.call(took, failed);
        self.tally.called(took, failed.is_some());
    }

    /// Counts an instance that was lost.
    pub(crate) fn trap(&self, kind: ErrorKind) {
        self.tally.lost();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_numbered_in_order() {
        for (place, bound) in Bound::ALL.into_iter().enumerate() {
            assert_eq!(bound as usize, place, "{}", bound.as_str());
        }
    }
}
