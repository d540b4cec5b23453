//! Batches through transports: fills each lane's free calls with messages that may be sent now.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};
use waybill_core::code::Code;
use waybill_core::message::{Delivery, Message, Payload};
use waybill_core::outbox::decide::{Fate, Next, classify};
use waybill_core::outbox::lanes::LaneLimits;
use waybill_core::outbox::owner::{HoldKey, Sending, TransportId};
use waybill_core::port::backoff::FailureKind;
use waybill_core::port::store::StoreError;
use waybill_core::port::trace;
use waybill_core::port::transport::{
    CallError, ErrorKind, Fault, Outcome, OutcomeSink, PluginIdentity, SendCall, Transport,
};
use waybill_core::time::Now;

use super::Context;
use super::actor::Actor;
use super::dedup::Reserved;
use super::fate;
use super::mail::{CallEnd, Mail, SettlementReport};
use super::spans::SendSpans;
use crate::live::{Live, TransportEntry};
use crate::{spans, supervisor};

/// A transport keeps its own time; one that is this much late has broken its contract and is given up.
const GIVE_UP_AFTER: Duration = Duration::from_secs(5);
/// Steps of a delivery that ask the store: reserving, reading payloads, writing what became of it. Each has the time of one call.
const STORE_STEPS: u32 = 3;

/// A message of which nothing was told yet.
const UNTOLD: u8 = 0;
/// Somebody has a word on it and decides what follows.
const DECIDING: u8 = 1;
/// What follows is on its way to the owner, or a policy component is asked, whose answer comes for sure.
const ON_ITS_WAY: u8 = 2;

/// The hold that stands for a whole transport.
pub(super) fn whole(transport: TransportId) -> HoldKey {
    HoldKey { tenant: None, transport: Some(transport), scope: Arc::from("") }
}

impl Actor {
    pub(super) fn dispatch(&mut self) {
        let now = self.now();
        let context = Arc::clone(&self.context);
        let live = context.live();
        let mut lanes = Vec::new();
        for (id, entry) in live.iter().filter(|(id, _)| live.routing.external != Some(*id)) {
            let limits = entry.transport.limits();
            // Keys are spread over as many lanes as the owner knows of, also while a plugin with fewer serves.
            let count = limits.lanes.max(live.routing.lanes_of(id));
            lanes.extend((0..count).map(|lane| ((id, lane), entry, limits)));
        }
        // Behind the one that sent last: of what a rate lets go, which may be little, each has its turn.
        let from = lanes.iter().position(|(lane, ..)| Some(*lane) > self.served).unwrap_or(0);
        lanes.rotate_left(from);
        for ((id, lane), entry, limits) in lanes {
            let batch = entry.batch.min(limits.max_batch).max(1) as usize;
            let bytes = live.config.batch_bytes.min(limits.max_batch_bytes) as usize;
            let most = LaneLimits { calls: limits.calls_per_lane.max(1), messages: batch, bytes };
            while let Some(sending) = self.lanes.begin(&mut self.owner, (id, lane), &most, now) {
                self.served = Some((id, lane));
                entry.state.in_flight.fetch_add(sending.len() as u64, Ordering::Relaxed);
                let call = Call {
                    serving: entry.transport.serving().unwrap_or_else(|| Arc::clone(&entry.transport)),
                    context: Arc::clone(&context),
                    live: Arc::clone(&live),
                    entry: Arc::clone(entry),
                    mail: self.sender.clone(),
                    transport: id,
                    lane,
                    epoch: self.owner.token(),
                    name: Arc::clone(&entry.name),
                    identity: OnceLock::new(),
                    progress: sending.iter().map(|_| AtomicU8::new(UNTOLD)).collect(),
                    began: Instant::now(),
                    largest: limits.max_payload_bytes,
                    spans: SendSpans::default(),
                    sending,
                };
                tokio::spawn(Arc::new(call).run());
            }
        }
    }

    pub(super) fn hold_transport(&mut self, transport: TransportId, fault: &Fault, now: Now) {
        if !self.context.live().is_paused(transport) {
            self.owner.hold(whole(transport), &fault.code, &fault.reason, fault.after, now);
            self.await_opening(transport, fault);
        }
    }
}

/// One call under way.
pub(super) struct Call {
    pub context: Arc<Context>,
    /// What was in force when it began.
    pub live: Arc<Live>,
    pub entry: Arc<TransportEntry>,
    pub mail: mpsc::UnboundedSender<Mail>,
    pub transport: TransportId,
    pub lane: u32,
    pub epoch: u64,
    /// Name of the transport.
    pub name: Arc<str>,
    /// What serves this call, held fast: it isn't swapped while the call is under way.
    serving: Arc<dyn Transport>,
    identity: OnceLock<Option<Arc<PluginIdentity>>>,
    pub sending: Vec<Sending>,
    /// How far each message is, by index; the first word counts.
    pub progress: Vec<AtomicU8>,
    pub began: Instant,
    /// Largest payload that the peer takes.
    pub largest: Option<u32>,
    pub spans: SendSpans,
}

impl Call {
    /// Who serves: told with every attempt. None when a transport can't even say that: its messages are settled all the same.
    pub fn identity(&self) -> Option<Arc<PluginIdentity>> {
        let ask = || catch_unwind(AssertUnwindSafe(|| Arc::new(self.serving.identity()))).ok();
        self.identity.get_or_init(ask).clone()
    }

    /// Delivers, and tells the owner of the end whatever happens: the work is a task of its own, and one that panics, or that
    /// takes longer than all of its parts may, leaves its messages with an unknown fate instead of leaving them in flight.
    async fn run(self: Arc<Self>) {
        let mut work = tokio::spawn({
            let call = Arc::clone(&self);
            async move { call.deliver().await }
        });
        let stop = self.context.stop.clone();
        let ended = stop.run_until_cancelled(timeout(self.longest(), &mut work)).await;
        self.entry.state.in_flight.fetch_sub(self.sending.len() as u64, Ordering::Release);
        let (reports, down) = match ended {
            None => return work.abort(),
            Some(Ok(Ok(delivered))) => delivered,
            Some(Ok(Err(panic))) => (self.give_up("panicked", &panic.to_string()), None),
            Some(Err(_late)) => {
                work.abort();
                (self.give_up("didn't end in time", &format!("{:?}", self.longest())), None)
            }
        };
        let end = CallEnd { epoch: self.epoch, transport: self.transport, lane: self.lane, reports, down };
        // An owner that is gone needs no word: what was claimed is sent again by the next one.
        let _ended = self.mail.send(Mail::CallEnded(end));
    }

    /// The time of the call and of all that is asked of the store beside it, and a while longer.
    pub(super) fn longest(&self) -> Duration {
        let store = self.context.config.store_timeout.saturating_mul(STORE_STEPS);
        self.entry.send_timeout.saturating_add(store).saturating_add(GIVE_UP_AFTER * 2)
    }

    /// What follows for every message whose fate isn't on its way: nobody knows whether it was delivered.
    fn give_up(self: &Arc<Self>, what: &str, detail: &str) -> Vec<SettlementReport> {
        tracing::error!(transport = &*self.name, lane = self.lane, detail, "the task of a delivery {what}");
        // Nobody watches this task: whatever panics here, the lane and its messages must be told of.
        if catch_unwind(|| supervisor::count_failure("delivery")).is_err() {
            tracing::error!("a failed delivery could not be counted");
        }
        let reason = format!("the host's task that delivers it {what}; the log tells more");
        let fault = Fault { maybe_delivered: true, ..Fault::new(Code::UNKNOWN_INTERNAL, reason) };
        let failed = Fate::CallFailed(CallError { kind: ErrorKind::Internal, fault: fault.clone() });
        let open = self
            .progress
            .iter()
            .enumerate()
            .filter(|(_, progress)| progress.swap(ON_ITS_WAY, Ordering::AcqRel) != ON_ITS_WAY);
        open.filter_map(|(index, _)| {
            let decide = AssertUnwindSafe(|| fate::decide(self, index, failed.clone()));
            catch_unwind(decide)
                .unwrap_or_else(|_| fate::undecided(self, index, FailureKind::Trapped, fault.clone(), true))
        })
        .collect()
    }

    async fn deliver(self: &Arc<Self>) -> (Vec<SettlementReport>, Option<Fault>) {
        let (reserved, mut words) = self.reserve().await;
        // All payloads of a call have the time of one read: a store that is that slow shouldn't hold the lane as well.
        let read_until = Instant::now() + self.context.config.store_timeout;
        let mut indices = Vec::with_capacity(self.sending.len());
        let mut batch = Vec::with_capacity(self.sending.len());
        for (index, sending) in self.sending.iter().enumerate() {
            if words.iter().any(|(answered, _)| *answered == index) {
                continue;
            }
            match self.delivery(sending, read_until).await {
                Ok(delivery) => {
                    indices.push(index);
                    batch.push(delivery);
                }
                Err(outcome) => words.push((index, Fate::Answered(outcome))),
            }
        }
        let down =
            if batch.is_empty() { None } else { self.call(batch, indices, Arc::clone(&reserved), &mut words).await };
        self.conclude(&reserved, &mut words).await;
        let reports: Vec<SettlementReport> =
            words.into_iter().filter_map(|(index, word)| self.first_word(index, word)).collect();
        fate::meter(self, &reports);
        (reports, down)
    }

    async fn call(
        self: &Arc<Self>,
        batch: Vec<Delivery>,
        indices: Vec<usize>,
        reserved: Arc<Reserved>,
        words: &mut Vec<(usize, Fate)>,
    ) -> Option<Fault> {
        let entry = &self.entry;
        let count = batch.len();
        let span = self.spans.call(&self.context.config.tracer, &self.name, count);
        let sink = Arc::new(Sink { call: Arc::clone(self), indices: indices.clone(), reserved });
        let traceparent = span.as_ref().map(|span| span.traceparent());
        let how = SendCall { lane: self.lane, timeout: entry.send_timeout, traceparent };
        let sent = self.serving.send_batch(how, batch, sink);
        let error = match timeout(entry.send_timeout.saturating_add(GIVE_UP_AFTER), sent).await {
            Ok(Ok(outcomes)) if outcomes.len() == count => {
                trace::finish(span, None);
                words.extend(indices.into_iter().zip(outcomes.into_iter().map(Fate::Answered)));
                return None;
            }
            Ok(Ok(outcomes)) => {
                let reason = format!("it answered {} outcomes for {count} messages", outcomes.len());
                CallError { kind: ErrorKind::Contract, fault: Fault::new(Code::PLUGIN_CONTRACT, reason) }
            }
            Ok(Err(error)) => error,
            Err(_) => {
                let reason = format!("the call was given up: it took far longer than its {:?}", entry.send_timeout);
                CallError { kind: ErrorKind::TimedOut, fault: Fault::new(Code::PLUGIN_TIMEOUT, reason) }
            }
        };
        trace::finish(span, Some(&error.fault.code));
        let first = indices.first().and_then(|index| self.sending.get(*index));
        let trace_id = first.and_then(|sending| spans::trace_id(&sending.message));
        tracing::warn!(transport = entry.transport.name(), kind = ?error.kind, code = error.fault.code, reason = error.fault.reason, trace_id, "a call to a transport failed");
        let failed = Fate::CallFailed(error);
        words.extend(indices.into_iter().map(|index| (index, failed.clone())));
        let retry_after_max = self.live.config.retries.retry_after_max;
        match classify(failed, retry_after_max, self.context.clock.now().wall) {
            Next::TransportDown(fault) => Some(fault),
            _ => None,
        }
    }

    async fn delivery(&self, sending: &Sending, until: Instant) -> Result<Delivery, Outcome> {
        if let Some(largest) = self.largest.filter(|largest| sending.message.payload.len() > *largest as usize) {
            let reason =
                format!("the payload has {} bytes, the receiver takes {largest}", sending.message.payload.len());
            return Err(Outcome::Permanent(Fault::new(Code::OUTBOX_PAYLOAD_TOO_LARGE, reason)));
        }
        let payload = match &sending.message.payload {
            Payload::Inline(bytes) => bytes.clone(),
            Payload::Blob { blob, .. } => match self.blob(blob, until).await {
                Ok(Some(bytes)) => bytes,
                Ok(None) => {
                    let reason = format!("its payload (blob {blob}) isn't in the store any more");
                    return Err(Outcome::Permanent(Fault::new(Code::STORAGE_CORRUPT, reason)));
                }
                Err(error) => return Err(Outcome::Release(Fault::new(error.code(), error.to_string()))),
            },
        };
        Ok(Delivery {
            destination: sending.message.topic.subject().to_owned(),
            message: self.message(sending),
            payload,
            attempt: sending.attempt,
            lease_epoch: sending.epoch,
            seq: sending.seq,
            attributes: Vec::new(),
        })
    }

    /// A message as it goes out: where its span is recorded, with that as its trace context.
    fn message(&self, sending: &Sending) -> Arc<Message> {
        let tracer = self.context.config.tracer.as_ref();
        match tracer.and_then(|tracer| self.spans.begin(tracer, sending, &self.name)) {
            Some(context) => spans::with_context(&sending.message, context),
            None => Arc::clone(&sending.message),
        }
    }

    /// A large payload, read before `until`.
    async fn blob(&self, blob: &str, until: Instant) -> Result<Option<bytes::Bytes>, StoreError> {
        let late = || StoreError::Unavailable("it didn't give the payloads of a batch in time".to_owned());
        timeout_at(until, self.context.stores.owner.blob(blob)).await.unwrap_or_else(|_| Err(late()))
    }

    /// What follows from a word on a message, unless one came before. None also when a policy component is asked: its
    /// decision goes to the owner by itself.
    fn first_word(self: &Arc<Self>, index: usize, word: Fate) -> Option<SettlementReport> {
        let open = self.progress.get(index)?;
        open.compare_exchange(UNTOLD, DECIDING, Ordering::AcqRel, Ordering::Acquire).ok()?;
        let report = fate::decide(self, index, word);
        if report.is_none() {
            open.store(ON_ITS_WAY, Ordering::Release);
        }
        report
    }

    /// Tells the owner early of a message that was decided on.
    fn tell(&self, index: usize, report: SettlementReport) {
        fate::meter(self, std::slice::from_ref(&report));
        if let Some(open) = self.progress.get(index) {
            open.store(ON_ITS_WAY, Ordering::Release);
        }
        let _ended = self.mail.send(Mail::Settlement(Box::new(report)));
    }
}

/// Early results of a call.
struct Sink {
    call: Arc<Call>,
    /// Index in the batch to index in the call.
    indices: Vec<usize>,
    reserved: Arc<Reserved>,
}

impl OutcomeSink for Sink {
    fn settled(&self, index: usize, outcome: Outcome) {
        let Some(index) = self.indices.get(index).copied() else { return };
        let Some(outcome) = self.reserved.keep_early(index, outcome) else { return };
        if let Some(report) = self.call.first_word(index, Fate::Answered(outcome)) {
            self.call.tell(index, report);
        }
    }
}
