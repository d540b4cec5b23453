//! A wave of rows through the transports: one call for each transport and lane, or several where a call takes fewer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use waybill_core::code::Code;
use waybill_core::inbox::direct::{Place, RowFate, RowId, Scope, WorkerId};
use waybill_core::message::Delivery;
use waybill_core::outbox::decide::{Next, classify};
use waybill_core::outbox::owner::{TransportId, Verdict};
use waybill_core::port::backoff::FailureKind;
use waybill_core::port::trace::{self, Span};
use waybill_core::port::transport::Fault;
use waybill_core::time::Monotonic;

use super::row::{self, Outgoing};
use super::table::PublishedTable;
use super::worker::Rows;
use crate::live::TransportEntry;
use crate::{spans, transport_call};

/// What a call told of a row.
enum Answered {
    Fate(RowFate),
    /// The call ended by a trap, and nothing was told of the row.
    Trapped(Fault),
}

impl Answered {
    /// In the words of spans, with why it failed.
    fn outcome(&self) -> (&'static str, Option<&Fault>) {
        match self {
            Self::Fate(RowFate::Acknowledged) => ("delivered", None),
            Self::Fate(RowFate::Later(_) | RowFate::Untold) => ("released", None),
            Self::Fate(RowFate::Blocked { fault, .. }) => ("blocked", Some(fault)),
            Self::Fate(RowFate::Permanent(fault)) => ("dead", Some(fault)),
            Self::Fate(RowFate::Retry(fault)) | Self::Trapped(fault) => ("retry", Some(fault)),
        }
    }
}

/// Rows that go to one transport in one call.
struct Call {
    entry: Arc<TransportEntry>,
    lane: u32,
    rows: Vec<RowId>,
    /// Where each goes.
    places: Vec<Place>,
    batch: Vec<Delivery>,
}

/// Sends rows, and tells the lanes what became of them. It returns when everything was answered, or `until` is over.
pub(super) async fn wave(table: &PublishedTable, worker: WorkerId, rows: &Rows, wave: Vec<RowId>, until: Monotonic) {
    let live = table.context.live();
    let now = table.context.clock.now();
    let mut lanes: BTreeMap<(TransportId, u32), Vec<(RowId, Outgoing)>> = BTreeMap::new();
    for id in wave {
        let Some((aggregate, row)) = rows.get(&id) else { continue };
        match row::outgoing(&live, &table.config, row, aggregate, now.wall) {
            Ok(outgoing) => lanes.entry((outgoing.transport, outgoing.lane)).or_default().push((id, outgoing)),
            Err(fate) => {
                table.with(|lane| lane.row_answered(worker, &id, fate));
            }
        }
    }
    let bytes_max = live.config.batch_bytes as usize;
    let calls: Vec<Call> = lanes.into_values().flat_map(|lane| calls(lane, bytes_max)).collect();
    table.with(|lane| {
        for (row, place) in calls.iter().flat_map(|call| call.rows.iter().zip(&call.places)) {
            lane.goes_to(worker, row, place.clone());
        }
    });
    let after_max = live.config.retries.retry_after_max;
    let left = until - now.mono;
    let told = join_all(calls.into_iter().map(|call| call.run(table, left, after_max))).await;
    let mut trap = None;
    table.with(|lane| {
        for (row, told) in told.into_iter().flatten() {
            match told {
                Answered::Fate(fate) => lane.row_answered(worker, &row, fate),
                Answered::Trapped(fault) => trap = Some(fault),
            }
        }
        match trap {
            Some(fault) => lane.trapped(worker, fault),
            None if !lane.is_answered(worker) => lane.timed_out(worker),
            None => {}
        }
    });
}

/// Parts of what goes through one lane, each as large as a call may be.
fn calls(rows: Vec<(RowId, Outgoing)>, bytes_max: usize) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    let mut bytes = 0_usize;
    for (id, outgoing) in rows {
        let Outgoing { entry, lane, delivery, .. } = outgoing;
        let limits = entry.transport.limits();
        let place = Place { transport: Arc::clone(&entry.name), destination: Arc::from(delivery.destination.as_str()) };
        let count_max = entry.batch.min(limits.max_batch).max(1) as usize;
        let most = bytes_max.min(limits.max_batch_bytes as usize);
        bytes = bytes.saturating_add(delivery.payload.len());
        match calls.last_mut().filter(|call| call.rows.len() < count_max && bytes <= most) {
            Some(call) => {
                call.rows.push(id);
                call.places.push(place);
                call.batch.push(delivery);
            }
            None => {
                bytes = delivery.payload.len();
                calls.push(Call { entry, lane, rows: vec![id], places: vec![place], batch: vec![delivery] });
            }
        }
    }
    calls
}

impl Call {
    async fn run(self, table: &PublishedTable, left: Duration, after_max: Duration) -> Vec<(RowId, Answered)> {
        let Self { entry, lane, rows, places, mut batch } = self;
        let tracer = table.context.config.tracer.as_ref();
        let spans: Vec<Option<Box<dyn Span>>> = match tracer {
            Some(tracer) => batch.iter_mut().map(|row| spans::send_row(tracer, row, &entry.name)).collect(),
            None => Vec::new(),
        };
        let contexts: Vec<String> = spans.iter().flatten().map(|span| span.traceparent()).collect();
        let call = tracer.and_then(|tracer| spans::call(tracer, &entry.name, &contexts, rows.len()));
        let context = call.as_ref().map(|span| span.traceparent());
        let called = transport_call::call(&entry, lane, batch, entry.send_timeout.min(left), context).await;
        trace::finish(call, called.error.as_ref().map(|error| error.fault.code.as_str()));
        if let Some(error) = &called.error {
            tracing::warn!(transport = &*entry.name, source = %table.config.source, kind = ?error.kind, code = error.fault.code, reason = error.fault.reason, "a call to a transport failed");
        }
        let now = table.context.clock.now().wall;
        let told = called.fates.into_iter().zip(&places).map(|(word, place)| match classify(word, after_max, now) {
            Next::Verdict(Verdict::Ack(_)) => Answered::Fate(RowFate::Acknowledged),
            Next::Verdict(Verdict::Release { due }) => {
                Answered::Fate(RowFate::Later(due.map_or(Duration::ZERO, |due| due.since(now))))
            }
            Next::Verdict(Verdict::Blocked { scope, fault }) => {
                Answered::Fate(RowFate::Blocked { scope: Some(Scope::named(place, &scope)), fault })
            }
            Next::TransportDown(fault) => {
                Answered::Fate(RowFate::Blocked { scope: Some(Scope::of_transport(place)), fault })
            }
            Next::Failed { kind: FailureKind::Permanent, fault, .. } => Answered::Fate(RowFate::Permanent(fault)),
            Next::Failed { kind: FailureKind::Trapped, fault, .. } => Answered::Trapped(fault),
            Next::Failed { fault, unknown, .. } => {
                let maybe_delivered = fault.maybe_delivered || unknown;
                Answered::Fate(RowFate::Retry(Fault { maybe_delivered, ..fault }))
            }
            Next::Verdict(other) => {
                let reason = format!("a verdict that no row has: {other:?}");
                Answered::Fate(RowFate::Retry(Fault::new(Code::UNKNOWN_INTERNAL, reason)))
            }
        });
        let told: Vec<Answered> = told.collect();
        for (span, told) in spans.into_iter().zip(&told) {
            if let Some(span) = span {
                let (outcome, failed) = told.outcome();
                spans::ended(span, outcome, failed);
            }
        }
        rows.into_iter().zip(told).collect()
    }
}
