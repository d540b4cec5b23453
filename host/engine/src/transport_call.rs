//! One call of a transport whose messages have no shard's window behind them: it ends, and tells exactly one fate a message.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::time::timeout;
use waybill_core::code::Code;
use waybill_core::message::Delivery;
use waybill_core::outbox::decide::Fate;
use waybill_core::port::transport::{CallError, ErrorKind, Fault, Outcome, OutcomeSink, SendCall, Transport};

use crate::live::TransportEntry;

/// A transport keeps its own time; one that is this much late has broken its contract, and its messages have no answer.
const GIVE_UP_AFTER: Duration = Duration::from_secs(1);

/// What came of a call.
pub(crate) struct Called {
    /// Of each message, in order. The first word on it counts.
    pub fates: Vec<Fate>,
    /// The call itself failed.
    pub error: Option<CallError>,
}

/// What a transport serves with now: it stays the same though another version takes its place.
pub(crate) fn serving(entry: &TransportEntry) -> Arc<dyn Transport> {
    entry.transport.serving().unwrap_or_else(|| Arc::clone(&entry.transport))
}

/// Sends a batch through a lane, and waits at most `time` and a moment more. `context` is that of the call's span, if it has one.
pub(crate) async fn call(
    entry: &TransportEntry,
    lane: u32,
    batch: Vec<Delivery>,
    time: Duration,
    context: Option<String>,
) -> Called {
    call_through(&serving(entry), entry, lane, batch, (time, context)).await
}

/// The same through what was serving when the batch was made.
pub(crate) async fn call_through(
    serving: &Arc<dyn Transport>,
    entry: &TransportEntry,
    lane: u32,
    batch: Vec<Delivery>,
    (time, context): (Duration, Option<String>),
) -> Called {
    let count = batch.len();
    let early = Arc::new(Early(Mutex::new(vec![None; count])));
    let _out = Out::begin(entry, count as u64);
    let sink: Arc<dyn OutcomeSink> = early.clone();
    let sent = serving.send_batch(SendCall { lane, timeout: time, traceparent: context }, batch, sink);
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
    let early = std::mem::take(&mut *early.0.lock());
    let (late, error): (Vec<Fate>, _) = match outcomes {
        Ok(outcomes) => (outcomes.into_iter().map(Fate::Answered).collect(), None),
        Err(error) => (vec![Fate::CallFailed(error.clone()); count], Some(error)),
    };
    let words = early.into_iter().zip(late);
    Called { fates: words.map(|(early, late)| early.map_or(late, Fate::Answered)).collect(), error }
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
