//! Bulk acts on dead letters: kept in the store, resumed after a crash, at a bounded rate, cancellable. An act goes
//! through the dead letters in key order, so each key keeps its order, then through stuck sagas, and remembers a cursor
//! behind what it did.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::TaskTracker;
use waybill_core::glob::Glob;
use waybill_core::outbox::filter::Filter;
use waybill_core::outbox::records::{DeadLetter, DeadState};
use waybill_core::port::dead::DeadKind;
use waybill_core::port::saga::{ActedBy, RetryMode};
use waybill_core::port::service::{OperationRequest, ServiceError};
use waybill_core::port::tasks::Tasks;
use waybill_core::port::transact::{Operation, OperationState};
use waybill_core::saga::records::SagaDead;

use super::Outbox;
use super::dead_list::Dead;
use crate::shard::Wish;

/// Dead letters read in one page.
const PAGE: usize = 100;
/// Acts a second when the caller names no rate.
const RATE_DEFAULT: u32 = 100;
/// Acts a second at most.
const RATE_MAX: u32 = 10_000;
/// Pause while the owner has no room or the store makes trouble.
const PAUSE: Duration = Duration::from_millis(250);

/// Progress is noted in the store this often, and at the end.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// Acts that may follow faster than the rate after a delay.
const CATCH_UP_ACTS: u32 = 10;

/// Operations at work in this process.
#[derive(Default)]
pub(crate) struct Operations {
    running: Mutex<BTreeMap<String, Running>>,
    /// Their tasks.
    tasks: TaskTracker,
    /// Rung when one was added.
    added: Notify,
}

#[derive(Default)]
struct Running {
    /// Stops it.
    stop: Arc<AtomicBool>,
    /// It has its task.
    begun: bool,
}

impl Outbox {
    pub(super) async fn begin_operation(self: &Outbox, request: OperationRequest) -> Result<Operation, ServiceError> {
        if !matches!(request.kind.as_str(), "replay" | "quarantine" | "purge") {
            return Err(ServiceError::NotFound {
                what: "kind of operation (replay, quarantine, purge)",
                id: request.kind,
            });
        }
        let now = self.now();
        let mut operation = Operation {
            id: ulid::Ulid::new().to_string(),
            kind: request.kind,
            filter: request.filter,
            tenant: request.tenant.map(|tenant| tenant.to_string()),
            rate: request.rate.unwrap_or(RATE_DEFAULT).clamp(1, RATE_MAX),
            reason: request.reason,
            state: OperationState::Running,
            matched: 0,
            counted_since: None,
            done: 0,
            failed: 0,
            cursor: None,
            error: None,
            created_at: now,
            updated_at: now,
        };
        if let Some(filter) = operation_filter(&operation)? {
            let counted = self.number_of_dead(&filter).await?;
            (operation.matched, operation.counted_since) = (counted.value, counted.since);
        }
        let detail = serde_json::json!({
            "kind": operation.kind, "filter": operation.filter, "matched": operation.matched, "rate": operation.rate,
            "reason": operation.reason,
        });
        let kind = if operation.kind == "replay" { "TxReplayRequested" } else { "OperationStarted" };
        let event = self.event(kind, &request.actor, operation.tenant.as_deref(), &operation.id, detail);
        let (context, operations, noted) = (Arc::clone(&self.context), Arc::clone(&self.operations), operation.clone());
        // In a task of its own: an operation that is in the store is worked on, whether or not its caller waits.
        let begin = tokio::spawn(async move {
            context.stores.transact.put_operation(&noted).await?;
            operations.started(&noted.id);
            super::audit(&context, &event).await;
            Ok(())
        });
        begin.await.unwrap_or_else(|ended| Err(ServiceError::Unavailable(ended.to_string())))?;
        Ok(operation)
    }

    pub(super) async fn find_operation(&self, id: &str) -> Result<Operation, ServiceError> {
        let found = self.context.stores.transact.operation(id).await?;
        found.ok_or(ServiceError::NotFound { what: "operation", id: id.to_owned() })
    }

    pub(super) async fn stop_operation(&self, id: &str, actor: &str) -> Result<Operation, ServiceError> {
        let mut operation = self.find_operation(id).await?;
        if operation.state != OperationState::Running {
            let state = format!("{:?}", operation.state).to_lowercase();
            return Err(ServiceError::State {
                what: "operation",
                id: id.to_owned(),
                state,
                fix: "only running operations can be cancelled",
            });
        }
        let event = self.event("OperationCancelled", actor, operation.tenant.as_deref(), id, serde_json::Value::Null);
        self.audit_event(event).await;
        let stop = self.operations.running.lock().get(id).map(|running| Arc::clone(&running.stop));
        match stop {
            Some(stop) => stop.store(true, Ordering::Release),
            None => {
                // Nobody is at it here: it doesn't go on.
                operation.state = OperationState::Cancelled;
                operation.updated_at = self.now();
                self.context.stores.transact.put_operation(&operation).await?;
                return Ok(operation);
            }
        }
        // The worker writes the state when it stops; wait for that a moment, so that the answer is true.
        for _ in 0..40 {
            operation = self.find_operation(id).await?;
            if operation.state != OperationState::Running {
                break;
            }
            sleep(Duration::from_millis(25)).await;
        }
        Ok(operation)
    }
}

impl Operations {
    fn started(&self, id: &str) {
        self.running.lock().entry(id.to_owned()).or_default();
        self.added.notify_one();
    }
    /// Those that have no task yet; they have from now on.
    fn take_new(&self) -> Vec<(String, Arc<AtomicBool>)> {
        let mut running = self.running.lock();
        let new = running.iter_mut().filter_map(|(id, running)| {
            let begun = std::mem::replace(&mut running.begun, true);
            (!begun).then(|| (id.clone(), Arc::clone(&running.stop)))
        });
        new.collect()
    }
}

/// Starts the task that runs every operation: those that a crash interrupted, and new ones as they come. It ends when the host
/// drains and all have noted how far they are.
pub(crate) fn start(outbox: &Arc<Outbox>) -> JoinHandle<()> {
    let begin = {
        let outbox = Arc::clone(outbox);
        move || run_all(Arc::clone(&outbox))
    };
    outbox.context.supervisor.run("bulk operations", outbox.context.stop.clone(), begin)
}

async fn run_all(outbox: Arc<Outbox>) {
    let closing = outbox.context.closing.clone();
    closing.run_until_cancelled(start_all(&outbox)).await;
    outbox.operations.tasks.close();
    outbox.operations.tasks.wait().await;
}

async fn start_all(outbox: &Arc<Outbox>) {
    loop {
        match outbox.context.stores.transact.running_operations().await {
            Ok(interrupted) => {
                for operation in interrupted {
                    outbox.operations.started(&operation.id);
                }
                break;
            }
            Err(error) => {
                tracing::warn!(code = error.code(), %error, "can't read interrupted operations yet");
                sleep(PAUSE).await;
            }
        }
    }
    loop {
        for (id, stop) in outbox.operations.take_new() {
            outbox.operations.tasks.spawn(run(Arc::clone(outbox), id, stop));
        }
        outbox.operations.added.notified().await;
    }
}

/// Works on an operation until it is over or the host drains.
async fn run(outbox: Arc<Outbox>, id: String, stop: Arc<AtomicBool>) {
    loop {
        // In a task of its own: what panics there is tried again from the last note, and can be cancelled like anything else.
        let work = tokio::spawn({
            let (outbox, id, stop) = (Arc::clone(&outbox), id.clone(), Arc::clone(&stop));
            async move { work(&outbox, &id, &stop).await }
        });
        let pause = match work.await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => {
                tracing::warn!(operation = id, code = error.code(), %error, "a bulk operation waits and goes on");
                PAUSE
            }
            Err(panic) => {
                tracing::error!(operation = id, %panic, "a bulk operation failed and goes on from its last note");
                outbox.context.supervisor.failed("bulk operation", panic.to_string())
            }
        };
        let until = Instant::now() + pause;
        while Instant::now() < until && !stop.load(Ordering::Acquire) {
            let step = sleep_until(until.min(Instant::now() + PAUSE));
            if outbox.context.closing.run_until_cancelled(step).await.is_none() {
                return;
            }
        }
        if outbox.context.closing.is_cancelled() {
            return;
        }
    }
    outbox.operations.running.lock().remove(&id);
}

/// Goes through the dead letters from the operation's cursor to the end. An error means that the rest has to wait; what was
/// done is noted before.
async fn work(outbox: &Outbox, id: &str, stop: &AtomicBool) -> Result<(), ServiceError> {
    let Some(operation) = outbox.context.stores.transact.operation(id).await? else { return Ok(()) };
    if operation.state != OperationState::Running {
        return Ok(());
    }
    let mut progress = Progress { outbox, operation, noted_at: Instant::now() };
    let ended = go_through(&mut progress, stop).await;
    if let Ok(Some(state)) = &ended {
        progress.operation.state = *state;
    }
    progress.note().await?;
    if let Ok(Some(state)) = &ended {
        let operation = &progress.operation;
        let detail = serde_json::json!({
            "kind": operation.kind, "state": state, "done": operation.done, "failed": operation.failed,
        });
        let event = outbox.event("OperationEnded", "host", operation.tenant.as_deref(), id, detail);
        outbox.audit_event(event).await;
    }
    ended.map(|_| ())
}

/// The end state; none when the host drains and the next start goes on.
async fn go_through(progress: &mut Progress<'_>, stop: &AtomicBool) -> Result<Option<OperationState>, ServiceError> {
    let outbox = progress.outbox;
    if stop.load(Ordering::Acquire) {
        return Ok(Some(OperationState::Cancelled));
    }
    let Some(filter) = operation_filter(&progress.operation)? else { return Ok(Some(OperationState::Done)) };
    let pace = Duration::from_secs_f64(1.0 / f64::from(progress.operation.rate));
    let mut next_at = Instant::now();
    loop {
        let page = outbox.dead_page(&filter, progress.operation.cursor.as_deref(), PAGE, false).await?;
        for dead in &page.items {
            // What dies again while the operation runs isn't taken a second time.
            if dead.died_at() > progress.operation.created_at {
                continue;
            }
            if outbox.context.closing.run_until_cancelled(sleep_until(next_at)).await.is_none() {
                return Ok(None);
            }
            if stop.load(Ordering::Acquire) {
                return Ok(Some(OperationState::Cancelled));
            }
            next_at = next_at.max(Instant::now().checked_sub(pace * CATCH_UP_ACTS).unwrap_or(next_at)) + pace;
            match act(outbox, &progress.operation, dead).await? {
                true => progress.operation.done += 1,
                false => progress.operation.failed += 1,
            }
            progress.note_now_and_then().await?;
        }
        progress.operation.cursor = page.next_cursor;
        if progress.operation.cursor.is_none() {
            return Ok(Some(OperationState::Done));
        }
    }
}

/// An operation under way, noted in the store now and then.
struct Progress<'a> {
    outbox: &'a Outbox,
    operation: Operation,
    noted_at: Instant,
}

impl Progress<'_> {
    async fn note_now_and_then(&mut self) -> Result<(), ServiceError> {
        if self.noted_at.elapsed() < NOTE_EVERY { Ok(()) } else { self.note().await }
    }
    async fn note(&mut self) -> Result<(), ServiceError> {
        self.noted_at = Instant::now();
        self.operation.updated_at = self.outbox.now();
        Ok(self.outbox.context.stores.transact.put_operation(&self.operation).await?)
    }
}

/// The dead letters that an operation is about; none = it can be about none.
fn operation_filter(operation: &Operation) -> Result<Option<Filter>, ServiceError> {
    let mut filter = Filter::parse(&operation.filter, operation.created_at)?;
    if operation.kind == "replay" && filter.state.is_none() {
        // Quarantined ones are replayed only by their id.
        filter.state = Some(Glob::new("dead"));
    }
    if operation.kind == "purge" {
        if !filter.may_take(DeadKind::Message) {
            return Ok(None);
        }
        // A stuck saga isn't deleted: it is ended, one by one, with a reason.
        filter.kind = Some(Glob::new(DeadKind::Message.word()));
    }
    let possible = operation.tenant.as_deref().is_none_or(|tenant| filter.confine(tenant));
    Ok(possible.then_some(filter))
}

/// One act. False when the dead letter isn't to be had any more; an error when the whole operation has to wait.
async fn act(outbox: &Outbox, operation: &Operation, dead: &Dead) -> Result<bool, ServiceError> {
    if operation.kind == "replay" && *dead.state() != DeadState::Dead {
        return Ok(false);
    }
    match dead {
        Dead::Message(message) => act_on_message(outbox, operation, message).await,
        Dead::Saga(saga) => act_on_saga(outbox, operation, saga).await,
    }
}

async fn act_on_message(outbox: &Outbox, operation: &Operation, dead: &DeadLetter) -> Result<bool, ServiceError> {
    let wish = match operation.kind.as_str() {
        "replay" => Wish::Replay { place: dead.place, quarantined_too: false },
        "quarantine" => Wish::Quarantine { place: dead.place, note: operation.reason.clone() },
        _ => Wish::Purge { place: dead.place },
    };
    match outbox.shard(dead.place.shard)?.command(wish).await {
        Ok(()) => {
            if operation.kind == "replay" {
                metrics::counter!("tx_replay_total", "kind" => "outbox").increment(1);
            }
            Ok(true)
        }
        Err(ServiceError::State { .. } | ServiceError::NotFound { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

async fn act_on_saga(outbox: &Outbox, operation: &Operation, dead: &SagaDead) -> Result<bool, ServiceError> {
    let Some(sagas) = &outbox.sagas else { return Ok(false) };
    let done = match operation.kind.as_str() {
        "replay" => {
            let note = Some(operation.reason.clone()).filter(|reason| !reason.trim().is_empty());
            let by = ActedBy { actor: format!("operation {}", operation.id), note };
            sagas.replay_dead(dead, RetryMode::Compensate, by).await.map(|_| true)
        }
        "quarantine" => sagas.quarantine_dead(dead, &operation.reason).await,
        _ => return Ok(false),
    };
    match done {
        Err(error) if sagas.is_passing(&error) => Err(error.into()),
        Err(error) => {
            tracing::info!(saga = %dead.key, code = error.code(), %error, operation = operation.id, "left as it is");
            Ok(false)
        }
        Ok(is_done) => Ok(is_done),
    }
}
