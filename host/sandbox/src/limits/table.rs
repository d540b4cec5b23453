//! The bounds of one endpoint as a table, for people: `waybill plugin inspect`.

use std::time::Duration;

use waybill_core::port::kv::KvQuota;

use super::{
    ATTRIBUTES_MAX, COMPILE_CPU, COMPILE_MEMORY_BYTES, COMPONENT_BYTES_MAX, CPU_OPEN, FAULT_REASON_BYTES_MAX,
    HANDLES_MAX, METRIC_SERIES_MAX, PluginLimits, REQUEST_HEADER_BYTES_MAX, SECRET_BYTES_MAX, TABLE_ELEMENTS_MAX,
};
use crate::meters::Bound;

/// What a bound is measured in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitUnit {
    /// Bytes.
    Bytes,
    /// Milliseconds.
    Milliseconds,
    /// A number of things.
    Count,
    /// A number a second.
    PerSecond,
}

impl LimitUnit {
    /// For machines.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Milliseconds => "ms",
            Self::Count => "count",
            Self::PerSecond => "per-second",
        }
    }
}

/// One bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// Name; label `limit` of `waybill_plugin_limit_hits_total` where `counted`.
    pub name: &'static str,
    /// Value in `unit`.
    pub value: u64,
    /// Unit.
    pub unit: LimitUnit,
    /// Key of the transport's section that changes it.
    pub setting: Option<&'static str>,
    /// Whether meeting it is counted.
    pub counted: bool,
    /// What is bounded, and what follows.
    pub what: &'static str,
}

fn row(name: &'static str, value: usize, unit: LimitUnit, what: &'static str) -> LimitRow {
    LimitRow { name, value: value as u64, unit, setting: None, counted: false, what }
}

fn time(name: &'static str, value: Duration, what: &'static str) -> LimitRow {
    row(name, usize::try_from(value.as_millis()).unwrap_or(usize::MAX), LimitUnit::Milliseconds, what)
}

impl LimitRow {
    fn set_by(self, setting: &'static str) -> Self {
        Self { setting: Some(setting), ..self }
    }

    fn counted(self) -> Self {
        Self { counted: true, ..self }
    }
}

fn bounded(bound: Bound, limits: &PluginLimits) -> LimitRow {
    use LimitUnit::{Bytes, Count, PerSecond};
    let name = bound.as_str();
    match bound {
        Bound::Memory => {
            row(name, limits.memory_bytes, Bytes, "linear memory of one instance, summed; refused, mostly fatal")
                .set_by("memory")
        }
        Bound::Tables => row(name, TABLE_ELEMENTS_MAX, Count, "table elements of one instance, summed; refused"),
        Bound::Handles => row(name, HANDLES_MAX, Count, "handles and host resources of one instance; fatal"),
        Bound::HostcallBytes => {
            row(name, limits.hostcall_bytes(), Bytes, "what one call from the guest may hand over; fatal")
        }
        Bound::Stack => row(name, super::STACK_BYTES_MAX, Bytes, "stack of one call; fatal"),
        Bound::Cpu => time(name, limits.cpu_per_call, "CPU time of one call; fatal").set_by("cpu_per_call"),
        Bound::CallTime => time(name, limits.call_time, "time of one batch, and no more than send_timeout; fatal")
            .set_by("send_timeout"),
        Bound::Connections => {
            row(name, limits.connections, Count, "net connections of one instance; refused").set_by("connections")
        }
        Bound::HttpRequests => {
            row(name, limits.http_in_flight, Count, "HTTP requests under way, all instances; waited for")
                .set_by("http_in_flight")
        }
        Bound::HttpHeaders => row(name, REQUEST_HEADER_BYTES_MAX, Bytes, "headers of one HTTP request; refused"),
        Bound::HttpResponse => row(name, limits.http_response_bytes, Bytes, "body of one HTTP answer; cut"),
        Bound::HttpAnswers => row(
            name,
            limits.http_answers_bytes,
            Bytes,
            "HTTP answers on their way, all instances; cut, or not asked for",
        ),
        Bound::HttpBodies => {
            row(name, limits.http_bodies_bytes, Bytes, "HTTP requests under way or waiting, all instances; refused")
        }
        Bound::Log => row(name, limits.log_per_second as usize, PerSecond, "log entries, all instances; dropped")
            .set_by("log_per_second"),
        Bound::Metrics => row(name, METRIC_SERIES_MAX, Count, "metric series of its own; dropped"),
        Bound::Outcome => {
            row(name, FAULT_REASON_BYTES_MAX, Bytes, "reason of a fault; texts and lists of outcomes are cut")
        }
        Bound::Kv => row(name, KvQuota::default().total_bytes_max, Bytes, "durable state, where granted; refused")
            .set_by("allow.kv"),
    }
    .counted()
}

/// Every bound of an endpoint with these limits.
pub fn limits_table(limits: &PluginLimits) -> Vec<LimitRow> {
    let mut rows: Vec<LimitRow> = Bound::ALL.into_iter().map(|bound| bounded(bound, limits)).collect();
    rows.extend([
        row("http-per-peer", limits.http_per_peer, LimitUnit::Count, "HTTP requests under way to one peer; waited for")
            .set_by("http_per_peer"),
        row("batch", limits.max_batch as usize, LimitUnit::Count, "messages of one call").set_by("max_batch"),
        row(
            "batch-bytes",
            limits.max_batch_bytes as usize,
            LimitUnit::Bytes,
            "payloads of one call; a larger one goes alone",
        ),
        row("attributes", ATTRIBUTES_MAX, LimitUnit::Count, "attributes of a receipt or fault; cut"),
        row("secret", SECRET_BYTES_MAX, LimitUnit::Bytes, "one secret; refused"),
        time("open-time", limits.open_timeout, "instantiation and open; fatal"),
        time("open-cpu", CPU_OPEN, "CPU time of instantiation and open; fatal"),
        row("component", COMPONENT_BYTES_MAX, LimitUnit::Bytes, "the file; refused"),
        time("compile-cpu", COMPILE_CPU, "CPU time of compiling it ([plugins] compile_cpu); refused"),
        LimitRow {
            value: COMPILE_MEMORY_BYTES,
            ..row(
                "compile-memory",
                0,
                LimitUnit::Bytes,
                "address space of compiling it ([plugins] compile_memory); refused",
            )
        },
    ]);
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_once() {
        let rows = limits_table(&PluginLimits::default());
        let mut names: Vec<&str> = rows.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rows.len());
        assert!(rows.iter().all(|row| row.value > 0));
    }
}
