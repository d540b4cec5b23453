//! A wave of rows through the transports: one call for each transport and lane, or several where a call takes fewer.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use futures::future::join_all;
use parking_lot::Mutex;
use tokio::time::timeout;
use waybill_core::code::Code;
use waybill_core::inbox::direct::{Place, RowFate, RowId, Scope, WorkerId};
use waybill_core::message::Delivery;
use waybill_core::outbox::decide::{Fate, Next, classify};
use waybill_core::outbox::owner::{TransportId, Verdict};
use waybill_core::port::backoff::FailureKind;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Outcome, OutcomeSink};
use waybill_core::time::Monotonic;

use super::row::{self, Outgoing};
use super::table::PublishedTable;
use super::worker::Rows;
use crate::live::TransportEntry;

/// A transport keeps its own time; one that is this much late has broken its contract, and its rows have no answer.
const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// What a call told of a row.
enum Answered {
    Fate(RowFate),
    /// The call ended by a trap, and nothing was told of the row.
    Trapped(Fault),
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
        let Self { entry, lane, rows, places, batch } = self;
        let count = rows.len();
        let early = Arc::new(Early(Mutex::new(vec![None; count])));
        let serving = entry.transport.serving().unwrap_or_else(|| Arc::clone(&entry.transport));
        let _out = Out::begin(&entry, count as u64);
        let time = entry.send_timeout.min(left);
        let sent = serving.send_batch(lane, batch, time, Arc::clone(&early) as _);
        let answer = timeout(time.saturating_add(GIVE_UP_AFTER), AssertUnwindSafe(sent).catch_unwind()).await;
        let outcomes = match answer {
            Ok(Ok(Ok(outcomes))) if outcomes.len() == count => Ok(outcomes),
            Ok(Ok(Ok(outcomes))) => {
                let reason = format!("it answered {} outcomes for {count} messages", outcomes.len());
                Err(failed(ErrorKind::Contract, Code::PLUGIN_CONTRACT, reason))
            }
            Ok(Ok(Err(error))) => Err(error),
            Ok(Err(_panic)) => {
                crate::supervisor::count_failure("delivery");
                Err(failed(ErrorKind::Internal, Code::UNKNOWN_INTERNAL, "the host failed while it sent".to_owned()))
            }
            Err(_late) => {
                let reason = format!("the call was given up: it took far longer than its {time:?}");
                Err(failed(ErrorKind::TimedOut, Code::PLUGIN_TIMEOUT, reason))
            }
        };
        if let Err(error) = &outcomes {
            tracing::warn!(transport = &*entry.name, source = %table.config.source, kind = ?error.kind, code = error.fault.code, reason = error.fault.reason, "a call to a transport failed");
        }
        let early = std::mem::take(&mut *early.0.lock());
        let late: Vec<Fate> = match outcomes {
            Ok(outcomes) => outcomes.into_iter().map(Fate::Answered).collect(),
            Err(error) => vec![Fate::CallFailed(error); count],
        };
        let now = table.context.clock.now().wall;
        let words = early.into_iter().zip(late).map(|(early, late)| early.map_or(late, Fate::Answered));
        let told = words.zip(&places).map(|(word, place)| match classify(word, after_max, now) {
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
        rows.into_iter().zip(told).collect()
    }
}

fn failed(kind: ErrorKind, code: Code, reason: String) -> CallError {
    CallError { kind, fault: Fault::new(code, reason) }
}

/// Early results of a call; the first word counts.
struct Early(Mutex<Vec<Option<Outcome>>>);

impl OutcomeSink for Early {
    fn settled(&self, index: usize, outcome: Outcome) {
        if let Some(word) = self.0.lock().get_mut(index) {
            word.get_or_insert(outcome);
        }
    }
}

/// Messages that are out: a removed transport is closed when there are none.
struct Out<'a> {
    entry: &'a TransportEntry,
    count: u64,
}

impl<'a> Out<'a> {
    fn begin(entry: &'a TransportEntry, count: u64) -> Self {
        entry.state.in_flight.fetch_add(count, Ordering::Relaxed);
        Self { entry, count }
    }
}

impl Drop for Out<'_> {
    fn drop(&mut self) {
        self.entry.state.in_flight.fetch_sub(self.count, Ordering::Release);
    }
}
