//! Calls of steps: bounded, held back from what is at fault, each in a task of its own, each answered.
//!
//! | file | holds |
//! |---|---|
//! | `queue` | calls that wait for room, tenants in turn |
//! | `holds` | what was said to be at fault, and who tries whether it is back |
//! | `make` | one call, from its holds to its answer |
//! | `http` | `http:` steps: headers and body |
//! | `outgoing` | messages that an answer leaves behind |
//! | `policy` | retry plugins |
//! | `spans` | the span of a call |

mod holds;
mod http;
mod make;
mod outgoing;
mod policy;
mod queue;
mod spans;

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::mpsc;
use tokio::time::Instant;
use waybill_core::code::Code;
use waybill_core::ids::{ShardId, Tenant};
use waybill_core::port::participant::StepError;
use waybill_core::port::transport::Fault;
use waybill_core::saga::call::{Answer, Call, CallRef};

use super::mail::{CallDone, Mail};
use crate::shard::{Context, Lease};
use holds::Holds;
use queue::Queue;

/// A step's own policy and messages, beside its call, get this much longer than the step's timeout.
const GIVE_UP_AFTER: Duration = Duration::from_millis(400);
/// A call that waits for room is given back after this share of its timeout.
const WAIT_SHARE: u32 = 2;
/// It is given back after this at the latest.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Delay before a call is tried again that found no room.
const BUSY_PAUSE: Duration = Duration::from_millis(500);
/// Waiting calls are looked through this often.
const EXPIRE_EVERY: Duration = Duration::from_millis(200);

/// The ownership that a call belongs to.
#[derive(Clone)]
pub(super) struct Origin {
    pub shard: ShardId,
    /// Number of the ownership.
    pub epoch: u64,
    pub lease: Arc<Lease>,
    pub answers: mpsc::UnboundedSender<Mail>,
}

/// A call that is to be made.
struct Job {
    call: Box<Call>,
    tenant: Tenant,
    origin: Origin,
    since: Instant,
}

impl Job {
    fn answer(self, answer: Answer) {
        let Self { call, origin, .. } = self;
        origin.answer(call.reference, answer);
    }

    fn waits_too_long(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) > (self.call.timeout / WAIT_SHARE).min(WAIT_MAX)
    }
}

impl Origin {
    fn answer(&self, call: CallRef, answer: Answer) {
        // When nobody listens any more, the next owner finds the call without an answer.
        let _gone = self.answers.send(Mail::Answered(Box::new(CallDone { epoch: self.epoch, call, answer })));
    }
}

/// The calls of all shards of this host.
pub(crate) struct Calls {
    context: Arc<Context>,
    queue: Mutex<Waiting>,
    holds: Holds,
}

struct Waiting {
    queue: Queue<Job>,
    expired_at: Instant,
}

impl Calls {
    pub fn new(context: Arc<Context>) -> Arc<Self> {
        let sagas = &context.config.sagas;
        let queue = Queue::new(sagas.calls_max, sagas.calls_per_tenant_max);
        let queue = Mutex::new(Waiting { queue, expired_at: Instant::now() });
        Arc::new(Self { context, queue, holds: Holds::default() })
    }

    /// Goes by the bounds that are in force now. Calls under way past lower ones end first.
    pub(super) fn reconfigured(self: &Arc<Self>) {
        let live = self.context.live();
        let sagas = &live.config.sagas;
        self.queue.lock().queue.bound(sagas.calls_max, sagas.calls_per_tenant_max);
        self.start();
    }

    /// Makes these calls as soon as there is room. Each is answered once, by mail.
    pub(super) fn submit(self: &Arc<Self>, calls: impl IntoIterator<Item = Box<Call>>, origin: &Origin) {
        let since = Instant::now();
        let mut waiting = self.queue.lock();
        for call in calls {
            let tenant = call.reference.key.tenant.clone();
            waiting.queue.push(&tenant, Job { call, tenant: tenant.clone(), origin: origin.clone(), since });
        }
        drop(waiting);
        self.start();
    }

    /// Gives back what has waited for room for too long.
    pub(super) fn expire(&self) {
        let now = Instant::now();
        let mut waiting = self.queue.lock();
        if waiting.queue.waiting() == 0 || now < waiting.expired_at + EXPIRE_EVERY {
            return;
        }
        waiting.expired_at = now;
        let expired = waiting.queue.take(|job| job.waits_too_long(now));
        drop(waiting);
        let (running, max) = (self.running(), self.context.live().config.sagas.calls_max);
        for job in expired {
            let reason = format!("{running} calls of sagas are under way, {max} may be, and there was no room in time");
            let fault = Fault { after: Some(BUSY_PAUSE), ..Fault::new(Code::SAGA_BUSY, reason) };
            job.answer(Answer::failed(StepError::Release(fault)));
        }
    }

    /// Gives back what waits of one ownership: it ends.
    pub(super) fn recall(&self, origin: &Origin) {
        let is_mine = |job: &Job| job.origin.shard == origin.shard && job.origin.epoch == origin.epoch;
        let recalled = self.queue.lock().queue.take(is_mine);
        recalled.into_iter().for_each(|job| job.answer(ending()));
    }

    pub(super) fn running(&self) -> usize {
        self.queue.lock().queue.running()
    }

    /// Calls under way and waiting, and what is held.
    pub(super) fn counts(&self) -> (usize, usize, usize) {
        let waiting = self.queue.lock();
        (waiting.queue.running(), waiting.queue.waiting(), self.holds.len())
    }

    /// Starts what there is room for.
    fn start(self: &Arc<Self>) {
        loop {
            let Some(job) = self.queue.lock().queue.next() else { return };
            let calls = Arc::clone(self);
            tokio::spawn(Box::pin(async move { calls.run(job).await }));
        }
    }

    async fn run(self: Arc<Self>, job: Job) {
        let time = job.call.timeout.saturating_sub(job.since.elapsed()).max(Duration::from_millis(1));
        let answer = self.answer(&job, time).await;
        let tenant = job.tenant.clone();
        job.answer(answer);
        self.queue.lock().queue.ended(&tenant);
        self.start();
    }

    /// What comes of a call, whatever happens to it.
    async fn answer(&self, job: &Job, time: Duration) -> Answer {
        // Pinned where it is made: it is large, and each wrapper would move it.
        let work = pin!(make::make(self, &job.call, &job.origin, time));
        let work = AssertUnwindSafe(work).catch_unwind();
        match tokio::time::timeout(time + GIVE_UP_AFTER, work).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_panic)) => unknown(Code::UNKNOWN_INTERNAL, "the call's task failed; the log tells more"),
            Err(_late) => unknown(Code::SAGA_TIMEOUT, "no answer came in the step's time, and the call was given up"),
        }
    }
}

/// An attempt that may have had its effect.
fn unknown(code: Code, reason: &str) -> Answer {
    Answer::failed(StepError::Retryable(Fault { maybe_delivered: true, ..Fault::new(code, reason) }))
}

/// Not called, because the host or its ownership ends.
pub(super) fn ending() -> Answer {
    let reason = "this host gives its sagas back; whoever has them next makes the call";
    let fault = Fault { after: Some(Duration::from_millis(1)), ..Fault::new(Code::PROVIDER_UNAVAILABLE, reason) };
    Answer::failed(StepError::Release(fault))
}
