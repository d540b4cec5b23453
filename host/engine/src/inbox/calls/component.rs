//! Handlers that are components: messages in batches, those of a key always through one lane, early verdicts, and what follows when a
//! whole call fails.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Semaphore;
use waybill_core::inbox::owner::Call;
use waybill_core::inbox::settings::ConsumerId;
use waybill_core::inbox::verdict::Verdict;
use waybill_core::port::handler::{self, Handler, HandlerLimits, Inbound, VerdictSink};
use waybill_core::port::transport::{Blame, CallError, ErrorKind, Fault};

use super::{Answers, Caller, leavings};
use crate::inbox::config::ConsumerTarget;

/// Most calls of a lane at once, whatever its plugin says.
const CALLS_MAX: u32 = 1 << 16;

/// A lane of a handler, with as many calls at once as it takes.
#[derive(Clone)]
pub(in crate::inbox) struct Lane {
    number: u32,
    /// Calls at once.
    most: u32,
    calls: Arc<Semaphore>,
}

/// The lanes of one plugin. Another one that takes its place has lanes of its own: nothing waits for calls of the one before.
struct LanesOf {
    generation: u32,
    lanes: Vec<Lane>,
}

impl LanesOf {
    fn new(generation: u32, limits: HandlerLimits) -> Self {
        Self { generation, lanes: lanes(limits) }
    }
}

/// The lanes of the handlers of a shard, made when they are called first.
#[derive(Default)]
pub(in crate::inbox) struct Components {
    handlers: HashMap<ConsumerId, LanesOf>,
    /// Lane of the next message without a key.
    next: usize,
}

impl Components {
    /// Another handler may be a consumer's from now on.
    pub fn forget(&mut self, id: ConsumerId) {
        self.handlers.remove(&id);
    }

    /// Messages by lane, in batches as large as the handler takes. No two of a key are among them: only the first of a key is called.
    pub fn batches(&mut self, id: ConsumerId, handler: &dyn Handler, calls: Vec<Call>) -> Vec<(Lane, Vec<Call>)> {
        let (generation, limits) = (handler.generation(), handler.limits());
        let of = self.handlers.entry(id).or_insert_with(|| LanesOf::new(generation, limits));
        if of.generation != generation {
            *of = LanesOf::new(generation, limits);
        }
        let lanes = &of.lanes;
        let mut by_lane: Vec<Vec<Call>> = lanes.iter().map(|_| Vec::new()).collect();
        for call in calls {
            let at = match &call.message.key {
                Some(key) => place(&(&call.message.tenant, key), lanes.len()),
                None => {
                    self.next = self.next.wrapping_add(1);
                    self.next % lanes.len().max(1)
                }
            };
            if let Some(of) = by_lane.get_mut(at) {
                of.push(call);
            }
        }
        let cut = lanes
            .iter()
            .zip(by_lane)
            .flat_map(|(lane, calls)| cut(calls, &limits).into_iter().map(move |batch| (lane.clone(), batch)));
        cut.collect()
    }
}

fn lanes(limits: HandlerLimits) -> Vec<Lane> {
    let most = limits.calls_per_lane.clamp(1, CALLS_MAX);
    let calls = usize::try_from(most).unwrap_or(1);
    (0..limits.lanes.max(1)).map(|number| Lane { number, most, calls: Arc::new(Semaphore::new(calls)) }).collect()
}

fn place(what: &impl Hash, count: usize) -> usize {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    usize::try_from(hasher.finish() % count.max(1) as u64).unwrap_or(0)
}

/// Batches within the handler's bounds; a single larger message goes alone.
fn cut(calls: Vec<Call>, limits: &HandlerLimits) -> Vec<Vec<Call>> {
    let most = usize::try_from(limits.max_batch.max(1)).unwrap_or(usize::MAX);
    let bytes_max = usize::try_from(limits.max_batch_bytes).unwrap_or(usize::MAX);
    let mut batches: Vec<Vec<Call>> = Vec::new();
    let mut bytes = 0;
    for call in calls {
        let size = call.message.payload.len();
        let fits = batches.last().is_some_and(|batch| batch.len() < most && bytes + size <= bytes_max);
        match batches.last_mut().filter(|_| fits) {
            Some(batch) => {
                bytes += size;
                batch.push(call);
            }
            None => {
                bytes = size;
                batches.push(vec![call]);
            }
        }
    }
    batches
}

/// Keeps what a handler told early; the first told of each message counts.
struct Early(Mutex<Vec<Option<handler::Verdict>>>);

impl VerdictSink for Early {
    fn settled(&self, index: usize, verdict: handler::Verdict) {
        if let Some(slot) = self.0.lock().get_mut(index).filter(|slot| slot.is_none()) {
            *slot = Some(verdict);
        }
    }
}

/// Calls a handler with a batch; each message is answered as soon as its verdict is known. When a call with several fails as a whole, or
/// one beside others of which any may be to blame, what wasn't told is repeated one by one: by halves it would be fewer calls, and
/// messages whose effects a handler leaves outside its answer would be handled several times more.
pub(super) async fn call(caller: &Caller, handler: Arc<dyn Handler>, lane: Lane, batch: Vec<Call>, answers: &Answers) {
    let Ok(turn) = lane.calls.acquire().await else {
        return answers.tell((0..batch.len()).map(|place| (place, Verdict::NotCalled)));
    };
    // Another plugin serves since it was made: the one before ends what it has begun, and has no time for what only waits.
    if let ConsumerTarget::Component(slot) = &caller.consumer.target
        && slot.generation() != handler.generation()
    {
        return answers.tell((0..batch.len()).map(|place| (place, Verdict::NotCalled)));
    }
    let told = once(caller, handler.as_ref(), lane.number, &batch, false).await;
    drop(turn);
    let is_several = batch.len() > 1;
    let (mut known, mut again) = (Vec::new(), Vec::new());
    for (place, (call, told)) in batch.iter().zip(told).enumerate() {
        match told {
            Ok(verdict) => known.push((place, judged(caller, call, verdict))),
            Err(error) if may_be_anothers(&error, is_several) => again.push((place, call, error)),
            Err(error) => known.push((place, Verdict::of_call_error(error))),
        }
    }
    answers.tell(known);
    let (handler, lane) = (handler.as_ref(), &lane);
    let repeats = again.into_iter().map(|(place, call, error)| async move {
        let verdict = match is_several {
            true => apart(caller, handler, lane, call, error).await,
            false => alone(caller, handler, lane, call, error).await,
        };
        answers.tell([(place, verdict)]);
    });
    futures::future::join_all(repeats).await;
}

/// Whether a message has to be called by itself to find out whether it is to blame.
fn may_be_anothers(error: &CallError, is_several: bool) -> bool {
    match error.blame() {
        Blame::Another => false,
        Blame::Unknown => true,
        Blame::Own => is_several && error.kind != ErrorKind::Cancelled,
    }
}

/// Repeats one message of a call with several that failed, beside as many other calls as the lane takes: mostly its instance tells whose
/// fault it is, and where it doesn't the message is called alone.
async fn apart(caller: &Caller, handler: &dyn Handler, lane: &Lane, call: &Call, before: CallError) -> Verdict {
    let Ok(turn) = lane.calls.acquire().await else { return Verdict::of_call_error(before) };
    let told = repeated(caller, handler, lane, call, before).await;
    drop(turn);
    match told {
        Ok(verdict) => verdict,
        Err(error) if may_be_anothers(&error, false) => alone(caller, handler, lane, call, error).await,
        Err(error) => Verdict::of_call_error(error),
    }
}

/// Repeats one message with no other call in its instance: what fails then is its own fault.
async fn alone(caller: &Caller, handler: &dyn Handler, lane: &Lane, call: &Call, before: CallError) -> Verdict {
    let Ok(_turns) = lane.calls.acquire_many(lane.most).await else { return Verdict::of_call_error(before) };
    repeated(caller, handler, lane, call, before).await.unwrap_or_else(Verdict::of_call_error)
}

/// One message once more; the error that counts of one that failed.
async fn repeated(
    caller: &Caller,
    handler: &dyn Handler,
    lane: &Lane,
    call: &Call,
    before: CallError,
) -> Result<Verdict, CallError> {
    match once(caller, handler, lane.number, std::slice::from_ref(call), true).await.into_iter().next() {
        Some(Ok(verdict)) => Ok(judged(caller, call, verdict)),
        Some(Err(error)) if error.kind != ErrorKind::Cancelled => Err(error),
        // It can't be repeated any more, but it was called: as uncalled, its next call wouldn't say so.
        Some(Err(_)) | None => Err(before),
    }
}

/// One call of the port; of each message what was told, or why nothing is known. `again`: it was part of a call that failed.
async fn once(
    caller: &Caller,
    handler: &dyn Handler,
    lane: u32,
    batch: &[Call],
    again: bool,
) -> Vec<Result<handler::Verdict, CallError>> {
    let nothing = |error: CallError| batch.iter().map(|_| Err(error.clone())).collect();
    if !caller.may_begin() {
        return nothing(not_called());
    }
    let time = caller.consumer.handler_timeout;
    let early = Arc::new(Early(Mutex::new(vec![None; batch.len()])));
    let inbound = batch.iter().map(|call| inbound(caller, call, again)).collect();
    let sink = Arc::clone(&early) as Arc<dyn VerdictSink>;
    let called = tokio::time::timeout(time + super::GIVE_UP_AFTER, handler.handle(lane, inbound, time, sink)).await;
    let early = std::mem::take(&mut *early.0.lock());
    let (verdicts, error): (Vec<Option<handler::Verdict>>, Option<CallError>) = match called {
        Ok(Ok(verdicts)) if verdicts.len() == batch.len() => (verdicts.into_iter().map(Some).collect(), None),
        Ok(Ok(_)) => (Vec::new(), Some(failed(ErrorKind::Contract, "it told another number of verdicts"))),
        Ok(Err(error)) => (Vec::new(), Some(error)),
        Err(_late) => {
            (Vec::new(), Some(failed(ErrorKind::TimedOut, "no answer came in its time, and the call was given up")))
        }
    };
    let mut verdicts = verdicts.into_iter();
    let each = early.into_iter().map(|early| {
        let last: Option<handler::Verdict> = verdicts.next().flatten();
        let unknown = || error.clone().unwrap_or_else(|| failed(ErrorKind::Contract, "it told no verdict"));
        early.or(last).ok_or_else(unknown)
    });
    each.collect()
}

fn not_called() -> CallError {
    failed(ErrorKind::Cancelled, "this host's lease is over")
}

fn failed(kind: ErrorKind, reason: &str) -> CallError {
    use waybill_core::code::Code;
    let code = match kind {
        ErrorKind::TimedOut => Code::PLUGIN_TIMEOUT,
        ErrorKind::Cancelled => Code::PROVIDER_UNAVAILABLE,
        _ => Code::PLUGIN_CONTRACT,
    };
    CallError { kind, fault: Fault::new(code, reason) }
}

/// A handler's verdict as the owner takes it.
fn judged(caller: &Caller, call: &Call, verdict: handler::Verdict) -> Verdict {
    match verdict {
        handler::Verdict::Processed(handled) => match leavings::of_component(handled) {
            Ok(left) => leavings::processed(caller, call, left),
            Err(reason) => Verdict::bad_output(reason),
        },
        handler::Verdict::Duplicate => Verdict::Duplicate,
        handler::Verdict::Poison(fault) => Verdict::Poison(fault),
        handler::Verdict::Retry(fault) => Verdict::Failed(fault),
        handler::Verdict::Busy(fault) => Verdict::Busy(fault),
        handler::Verdict::Blocked { fault, .. } => Verdict::Blocked(fault),
    }
}

fn inbound(caller: &Caller, call: &Call, again: bool) -> Inbound {
    let message = &call.message;
    let mut attributes = message.attributes.clone();
    if let Some(position) = &message.position {
        attributes.push(("position".to_owned(), position.clone()));
    }
    Inbound {
        id: message.id.to_string(),
        consumer: caller.consumer.name.to_string(),
        source: message.source.to_string(),
        tenant: message.tenant.to_string(),
        topic: message.subject.clone(),
        key: message.key.as_ref().map(ToString::to_string),
        headers: message.headers.clone(),
        content_type: message.content_type.clone(),
        payload: message.payload.clone(),
        event_type: message.event_type.clone(),
        event_version: message.event_version,
        envelope_id: None,
        correlation_id: message.correlation_id.clone(),
        causation_id: message.causation_id.clone(),
        reply_to: message.reply_to.clone(),
        occurred_at: message.occurred_at,
        received_at: message.received_at,
        attempt: call.attempt,
        maybe_handled: call.maybe_handled || again,
        attributes,
    }
}
