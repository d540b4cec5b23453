//! Runs the calls of one participant: a permit, an instance, the call, and what follows for both.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;
use waybill_bindings::api::types::OpenPurpose;
use waybill_core::code::Code;
use waybill_core::port::participant::StepError;
use waybill_core::port::transport::Fault;

use super::ParticipantLimits;
use super::gate::{Admitted, Gate};
use super::pool::{Bounds, Held, Pool, Taken};
use crate::error::SandboxError;
use crate::host::Reported;
use crate::instance::{Answer, Crash, Endpoint, Live, OpenFailure, Work, call_once, close_once, open};
use crate::limits::{PARTICIPANT_BUSY_AFTER, PARTICIPANT_WAITERS_MAX};
use crate::meters::Counted;

/// An open instance, counted as long as it is there.
struct Kept {
    live: Live,
    counted: Counted,
}

/// What the calls of one participant share.
pub(super) struct Calls {
    pub(super) endpoint: Endpoint,
    pub(super) gate: Mutex<Gate>,
    /// What the instances said last of their condition.
    pub(super) reported: Reported,
    limits: ParticipantLimits,
    pool: Mutex<Pool<Kept>>,
    /// One a call; as many as there may be instances.
    permits: Arc<Semaphore>,
    waiting: AtomicUsize,
    /// Ends all calls at once.
    abort: CancellationToken,
}

impl Calls {
    /// With no instance yet.
    pub(super) fn start(endpoint: Endpoint, limits: ParticipantLimits) -> Arc<Self> {
        let instances = endpoint.instances;
        let bounds =
            Bounds { instances, idle: limits.idle_instances, idle_time: limits.idle_time, uses: limits.uses.max(1) };
        let calls = Arc::new(Self {
            endpoint,
            gate: Mutex::default(),
            reported: Reported::default(),
            limits,
            pool: Mutex::new(Pool::new(bounds)),
            permits: Arc::new(Semaphore::new(instances as usize)),
            waiting: AtomicUsize::new(0),
            abort: CancellationToken::new(),
        });
        tokio::spawn(retire(Arc::downgrade(&calls), calls.endpoint.context.closing.clone(), limits.idle_time));
        calls
    }

    /// Opens an instance to be kept warm.
    pub(super) async fn open_first(&self) -> Result<(), SandboxError> {
        let Taken::Fresh(number) = self.pool.lock().take("") else { return Ok(()) };
        match self.open(number).await {
            Ok(kept) => {
                let now = Instant::now();
                let back = self.pool.lock().give_back(Pool::fresh(kept, number, now), None, now);
                self.end(back).await;
                Ok(())
            }
            Err(failure) => {
                self.pool.lock().gone(number);
                Err(self.endpoint.open_error(failure.into_call_error()))
            }
        }
    }

    /// One call. When its caller goes away halfway, its instance goes too.
    pub(super) async fn call(&self, tenant: &str, work: Work, timeout: Duration) -> Result<Answer, StepError> {
        if let Some(fault) = self.gate.lock().closed(Instant::now()) {
            return Err(self.blocked(fault));
        }
        let deadline = Instant::now() + timeout.min(self.limits.call_time).min(self.endpoint.context.limits.call_time);
        let _permit = self.permit(deadline).await?;
        let admitted = self.gate.lock().admit(Instant::now()).map_err(|fault| self.blocked(fault))?;
        let _trial = Trial { calls: self, admitted };
        // Pinned where it is made: it is large, and each wrapper would move it.
        let run = pin!(self.run(tenant, work, deadline));
        tokio::select! {
            biased;
            result = AssertUnwindSafe(run).catch_unwind() => result.unwrap_or_else(|_panic| {
                Err(unknown(Code::PLUGIN_HOST_PANIC, "the call failed in the host: see its log and report it"))
            }),
            () = self.abort.cancelled() => Err(unknown(Code::PLUGIN_CLOSED, "it ended before the call did")),
        }
    }

    /// Waits a while for a place.
    async fn permit(&self, deadline: Instant) -> Result<OwnedSemaphorePermit, StepError> {
        let closing = &self.endpoint.context.closing;
        if closing.is_cancelled() {
            return Err(ended());
        }
        if let Ok(permit) = Arc::clone(&self.permits).try_acquire_owned() {
            return Ok(permit);
        }
        let _waiter = Waiter::new(&self.waiting).ok_or_else(|| busy("too many calls wait for an instance"))?;
        let until = deadline.min(Instant::now() + self.limits.wait);
        tokio::select! {
            biased;
            () = closing.cancelled() => Err(ended()),
            permit = timeout_at(until, Arc::clone(&self.permits).acquire_owned()) => match permit {
                Ok(permit) => permit.map_err(|_closed| ended()),
                Err(_) => Err(busy("no instance was free in the time given")),
            },
        }
    }

    /// Runs a call that has its place. When this is dropped halfway, so is the instance.
    async fn run(&self, tenant: &str, work: Work, deadline: Instant) -> Result<Answer, StepError> {
        let taken = self.pool.lock().take(tenant);
        let Held { instance, number, uses, .. } = match taken {
            Taken::Warm(held) => held,
            other => Box::pin(self.opened(other, deadline)).await?,
        };
        let mut slot = Slot { calls: self, number: Some(number) };
        let Kept { live, counted } = instance;
        match call_once(live, &self.endpoint.context, work, deadline).await {
            Ok((live, answer)) => {
                self.gate.lock().proved();
                slot.number = None;
                let now = Instant::now();
                let held = Held { uses, ..Pool::fresh(Kept { live, counted }, number, now) };
                let back = if self.endpoint.context.closing.is_cancelled() {
                    Some(held)
                } else {
                    self.pool.lock().give_back(held, Some(tenant), now)
                };
                if back.is_some() {
                    Box::pin(self.end(back)).await;
                }
                answer.map_err(|error| StepError::Retryable(error.fault))
            }
            Err(crash) => Err(StepError::Retryable(self.lost(crash))),
        }
    }

    /// An instance for a call, opened within its deadline unless it is warm.
    async fn opened(&self, taken: Taken<Kept>, deadline: Instant) -> Result<Held<Kept>, StepError> {
        let (number, other) = match taken {
            Taken::Warm(held) => return Ok(held),
            Taken::Fresh(number) => (number, None),
            Taken::Replace(other) => (other.number, Some(other.instance)),
            Taken::None => return Err(busy("all instances are at work")),
        };
        let mut slot = Slot { calls: self, number: Some(number) };
        if let Some(other) = other {
            close_once(other.live, &self.endpoint.context).await;
        }
        let opened = tokio::select! {
            biased;
            () = self.endpoint.context.closing.cancelled() => return Err(ended()),
            opened = timeout_at(deadline, self.open(number)) => opened,
        };
        match opened {
            Ok(Ok(kept)) => {
                slot.number = None;
                Ok(Pool::fresh(kept, number, Instant::now()))
            }
            Ok(Err(failure)) => Err(self.blocked(failure.into_call_error().fault)),
            // The step's code wasn't entered.
            Err(_) => Err(busy("no instance was open in the time given")),
        }
    }

    /// Opens an instance and notes how it went.
    async fn open(&self, number: u32) -> Result<Kept, OpenFailure> {
        let context = &self.endpoint.context;
        match open(&self.endpoint, number, OpenPurpose::Serve, self.reported.clone()).await {
            Ok(live) => Ok(Kept { live, counted: Counted::new(&context.meters.instances_open) }),
            Err(OpenFailure::Told(error)) => {
                tracing::warn!(
                    target: "waybill::plugin", participant = %self.endpoint.name, plugin = %context.plugin,
                    kind = ?error.kind, code = %error.fault.code, reason = %error.fault.reason, "open failed"
                );
                context.note(Some(number), format!("open failed: {}: {}", error.fault.code, error.fault.reason));
                self.gate.lock().refused(Instant::now(), error.kind, &error.fault);
                Err(OpenFailure::Told(error))
            }
            Err(OpenFailure::Crashed(crash)) => {
                self.lost(crash.clone());
                Err(OpenFailure::Crashed(crash))
            }
        }
    }

    /// Logs and counts a lost instance; answers why.
    fn lost(&self, crash: Crash) -> Fault {
        let context = &self.endpoint.context;
        crash.count(context);
        context.lost(&crash.fault);
        context.meters.restarts.increment(1);
        tracing::warn!(
            target: "waybill::plugin", participant = %self.endpoint.name, plugin = %context.plugin,
            generation = context.generation, code = %crash.fault.code, reason = %crash.fault.reason, "an instance was lost"
        );
        context.note(None, format!("an instance was lost: {}: {}", crash.fault.code, crash.fault.reason));
        self.gate.lock().lost(Instant::now(), &crash.fault);
        crash.fault
    }

    /// Closes an instance that left the pool, and frees its number.
    async fn end(&self, held: Option<Held<Kept>>) {
        let Some(held) = held else { return };
        let _slot = Slot { calls: self, number: Some(held.number) };
        close_once(held.instance.live, &self.endpoint.context).await;
    }

    /// What the host itself holds back.
    fn blocked(&self, fault: Fault) -> StepError {
        StepError::Blocked {
            scope: format!("fn:{}", self.endpoint.name),
            fault: Fault { maybe_delivered: false, ..fault },
        }
    }

    /// Takes no more calls: those that wait for an instance are given back, and none is opened any more. Calls under way go on.
    pub(super) fn retire(&self) {
        self.endpoint.context.closing.cancel();
    }

    /// Ends warm instances, waits for calls under way, then ends those too.
    pub(super) async fn close(&self, timeout: Duration) {
        let deadline = Instant::now() + timeout;
        self.retire();
        let idle = self.pool.lock().drain();
        let closing = futures::future::join_all(idle.into_iter().map(|held| self.end(Some(held))));
        let _ = timeout_at(deadline, closing).await;
        if timeout_at(deadline, self.permits.acquire_many(self.endpoint.instances)).await.is_err() {
            self.abort.cancel();
        }
    }
}

impl Drop for Calls {
    fn drop(&mut self) {
        self.endpoint.context.closing.cancel();
    }
}

/// Closes warm instances that nobody has used for long.
async fn retire(calls: Weak<Calls>, closing: CancellationToken, idle_time: Duration) {
    loop {
        let ended = AssertUnwindSafe(retire_idle(&calls, &closing, idle_time)).catch_unwind().await;
        let Err(panic) = ended else { return };
        let Some(calls) = calls.upgrade() else { return };
        let pause = calls.endpoint.context.task_failed("idle instances", &*panic);
        drop(calls);
        if closing.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
    }
}

async fn retire_idle(calls: &Weak<Calls>, closing: &CancellationToken, idle_time: Duration) {
    let pause = (idle_time / 4).max(Duration::from_millis(50));
    loop {
        tokio::select! {
            () = closing.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
        let Some(calls) = calls.upgrade() else { return };
        let expired = calls.pool.lock().expired(Instant::now());
        for held in expired {
            calls.end(Some(held)).await;
        }
    }
}

/// Frees an instance's number when the instance is gone, also when its call is dropped.
struct Slot<'a> {
    calls: &'a Calls,
    number: Option<u32>,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.calls.pool.lock().gone(number);
        }
    }
}

/// Makes room for another trial when a call has ended.
struct Trial<'a> {
    calls: &'a Calls,
    admitted: Admitted,
}

impl Drop for Trial<'_> {
    fn drop(&mut self) {
        self.calls.gate.lock().ended(self.admitted);
    }
}

/// One of those that wait.
struct Waiter<'a>(&'a AtomicUsize);

impl<'a> Waiter<'a> {
    fn new(count: &'a AtomicUsize) -> Option<Self> {
        let waiter = Self(count);
        (count.fetch_add(1, Ordering::Relaxed) < PARTICIPANT_WAITERS_MAX).then_some(waiter)
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// No guest was asked, and none of these instances will be.
fn ended() -> StepError {
    StepError::Release(Fault::new(Code::PLUGIN_CLOSED, "the participant has ended"))
}

/// No guest was asked: come back.
fn busy(why: &str) -> StepError {
    let reason = format!("{why}: allow more instances, or call less at once");
    StepError::Release(Fault { after: Some(PARTICIPANT_BUSY_AFTER), ..Fault::new(Code::PLUGIN_BUSY, reason) })
}

/// The guest was asked, and nobody knows what came of it.
fn unknown(code: Code, why: &str) -> StepError {
    StepError::Retryable(Fault { maybe_delivered: true, ..Fault::new(code, why) })
}
