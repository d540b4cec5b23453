//! The bounds of one endpoint as a table, for people: `waybill plugin inspect`.

use waybill_core::endpoint::{LimitRow, LimitUnit, PluginLimits};
use waybill_core::port::kv::KvQuota;

use super::{
    ATTRIBUTES_MAX, COMPILE_CPU, COMPILE_MEMORY_BYTES, COMPONENT_BYTES_MAX, CPU_OPEN, FAULT_REASON_BYTES_MAX,
    HANDLES_MAX, METRIC_SERIES_MAX, REQUEST_HEADER_BYTES_MAX, SECRET_BYTES_MAX, STACK_BYTES_MAX, TABLE_ELEMENTS_MAX,
};
use crate::meters::Bound;

/// The row of a bound that no setting changes, but for durable state, which is granted as a whole.
fn fixed(bound: Bound, limits: &PluginLimits) -> Option<LimitRow> {
    use LimitUnit::{Bytes, Count};
    let row = |value, unit, what| Some(LimitRow::new(bound.as_str(), value, unit, what));
    match bound {
        Bound::Memory | Bound::Cpu | Bound::CallTime | Bound::Connections | Bound::HttpRequests | Bound::Log => None,
        Bound::Tables => row(TABLE_ELEMENTS_MAX, Count, "table elements of one instance, summed; refused"),
        Bound::Handles => row(HANDLES_MAX, Count, "handles and host resources of one instance; fatal"),
        Bound::HostcallBytes => {
            row(limits.hostcall_bytes(), Bytes, "what one call from the guest may hand over; fatal")
        }
        Bound::Stack => row(STACK_BYTES_MAX, Bytes, "stack of one call; fatal"),
        Bound::HttpHeaders => row(REQUEST_HEADER_BYTES_MAX, Bytes, "headers of one HTTP request; refused"),
        Bound::HttpResponse => row(limits.http_response_bytes, Bytes, "body of one HTTP answer; cut"),
        Bound::HttpAnswers => {
            row(limits.http_answers_bytes, Bytes, "HTTP answers on their way, all instances; cut, or not asked for")
        }
        Bound::HttpBodies => {
            row(limits.http_bodies_bytes, Bytes, "HTTP requests under way or waiting, all instances; refused")
        }
        Bound::Metrics => row(METRIC_SERIES_MAX, Count, "metric series of its own; dropped"),
        Bound::Outcome => row(FAULT_REASON_BYTES_MAX, Bytes, "reason of a fault; texts and lists of outcomes are cut"),
        Bound::Kv => row(KvQuota::default().total_bytes_max, Bytes, "durable state, where granted; refused")
            .map(|row| row.set_by("allow.kv")),
    }
}

/// Every bound of an endpoint with these limits: those that are counted when they are met, then the others.
pub fn limits_table(limits: &PluginLimits) -> Vec<LimitRow> {
    use LimitUnit::{Bytes, Count};
    let (counted, others): (Vec<LimitRow>, Vec<LimitRow>) =
        limits.settable().into_iter().partition(|row| Bound::ALL.iter().any(|bound| bound.as_str() == row.name));
    let settable = |bound: Bound| counted.iter().find(|row| row.name == bound.as_str()).copied();
    let mut rows: Vec<LimitRow> = Bound::ALL
        .into_iter()
        .filter_map(|bound| settable(bound).or_else(|| fixed(bound, limits)))
        .map(LimitRow::counted)
        .collect();
    rows.extend(others);
    rows.extend([
        LimitRow::new(
            "batch-bytes",
            limits.max_batch_bytes as usize,
            Bytes,
            "payloads of one call; a larger one goes alone",
        ),
        LimitRow::new("attributes", ATTRIBUTES_MAX, Count, "attributes of a receipt or fault; cut"),
        LimitRow::new("secret", SECRET_BYTES_MAX, Bytes, "one secret; refused"),
        LimitRow::time("open-time", limits.open_timeout, "instantiation and open; fatal"),
        LimitRow::time("open-cpu", CPU_OPEN, "CPU time of instantiation and open; fatal"),
        LimitRow::new("component", COMPONENT_BYTES_MAX, Bytes, "the file; refused"),
        LimitRow::time("compile-cpu", COMPILE_CPU, "CPU time of compiling it ([plugins] compile_cpu); refused"),
        LimitRow {
            value: COMPILE_MEMORY_BYTES,
            ..LimitRow::new(
                "compile-memory",
                0,
                Bytes,
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
        assert!(Bound::ALL.iter().all(|bound| names.contains(&bound.as_str())), "a bound has no row: {names:?}");
    }
}
