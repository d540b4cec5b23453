//! The task that works on all operations.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use waybill_core::code::Code;
use waybill_core::fates::Fate;
use waybill_core::port::service::ServiceError;
use waybill_core::port::tasks::Tasks;
use waybill_core::port::transact::{Operation, OperationState};

use super::task::{Outcome, Task, Work};
use super::trial::{self, Waited};
use super::{Outbox, REPLAY};

/// Pause while a shard has no room or the store makes trouble.
pub(super) const PAUSE: Duration = Duration::from_millis(250);
/// Progress is noted in the store this often, and at the end.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// The same trouble is told this often.
const TELL_EVERY: Duration = Duration::from_secs(60);
/// Acts that may follow faster than the rate after a delay.
const CATCH_UP_ACTS: u32 = 10;

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
                tracing::warn!(code = error.code().as_str(), %error, "can't read interrupted operations yet");
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
    // What was last told of what it waits for, and when.
    let mut trouble: Option<(Code, Instant)> = None;
    loop {
        // In a task of its own: what panics there is tried again from the last note, and can be cancelled like anything else.
        let work = tokio::spawn({
            let (outbox, id, stop) = (Arc::clone(&outbox), id.clone(), Arc::clone(&stop));
            async move { work(&outbox, &id, &stop).await }
        });
        let pause = match work.await {
            Ok(Ok(())) => break,
            Ok(Err(error)) => {
                let code = error.code();
                if trouble.is_none_or(|(last, at)| last != code || at.elapsed() >= TELL_EVERY) {
                    trouble = Some((code, Instant::now()));
                    tracing::warn!(operation = id, code = error.code().as_str(), %error, "a bulk operation waits and goes on");
                }
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

/// Goes through what the operation is about, from its cursor to the end. An error means that the rest has to wait; what was
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
            "kind": operation.kind, "state": state, "done": operation.done, "unchanged": operation.unchanged,
            "failed": operation.failed,
        });
        let event = outbox.event("OperationEnded", "host", operation.tenant.as_deref(), id, detail);
        outbox.audit_event(event).await;
    }
    ended.map(|_| ())
}

/// The end state; none when the host drains and the next start goes on.
async fn go_through(progress: &mut Progress<'_>, stop: &AtomicBool) -> Result<Option<OperationState>, ServiceError> {
    if stop.load(Ordering::Acquire) {
        return Ok(Some(OperationState::Cancelled));
    }
    match Work::of(progress.outbox, &progress.operation) {
        Ok(None) => Ok(Some(OperationState::Done)),
        Ok(Some(Work::DeadLetters(task))) => each(&task, progress, stop).await,
        Ok(Some(Work::Sagas(task))) => each(&task, progress, stop).await,
        Ok(Some(Work::Messages(task))) => each(&task, progress, stop).await,
        // Another build wrote it, or one that ran sagas: waiting would change nothing.
        Err(error) => {
            progress.operation.error = Some(error.to_string());
            Ok(Some(OperationState::Failed))
        }
    }
}

/// Acts on one after the other, at the operation's rate.
async fn each<T: Task>(
    task: &T,
    progress: &mut Progress<'_>,
    stop: &AtomicBool,
) -> Result<Option<OperationState>, ServiceError> {
    let outbox = progress.outbox;
    let pace = Duration::from_secs_f64(1.0 / f64::from(progress.operation.rate));
    let mut next_at = Instant::now();
    // It may have been interrupted while it waited for its trial.
    if let ControlFlow::Break(end) = trial::checkpoint(progress, stop, false).await? {
        return Ok(end);
    }
    // Those of this page that can't be acted on: quarantined letters stay in it, and are counted once when it is read again.
    let mut refused = BTreeSet::<String>::new();
    'pages: loop {
        let read_from = progress.operation.cursor.clone();
        let page = task.page(outbox, read_from.as_deref()).await?;
        for item in &page.items {
            if refused.contains(&T::identity(item)) {
                continue;
            }
            // What comes to match while the operation runs isn't taken: what dies again, for instance. What is later than it is
            // now is from before the clock was set back, and is taken.
            if T::since(item) > progress.operation.created_at && T::since(item) <= outbox.now() {
                continue;
            }
            if outbox.context.closing.run_until_cancelled(sleep_until(next_at)).await.is_none() {
                return Ok(None);
            }
            if stop.load(Ordering::Acquire) {
                return Ok(Some(OperationState::Cancelled));
            }
            next_at = next_at.max(Instant::now().checked_sub(pace * CATCH_UP_ACTS).unwrap_or(next_at)) + pace;
            let Some(outcome) = act(task, progress, item, stop).await? else {
                return Ok(Some(OperationState::Cancelled));
            };
            if matches!(outcome, Outcome::Refused { .. }) {
                refused.insert(T::identity(item));
            }
            let is_put_back = progress.operation.kind == REPLAY && outcome.is_done();
            count(&mut progress.operation, T::id(item), outcome);
            if is_put_back && let Some(cause) = T::cause(item) {
                progress.operation.put_back_of(cause);
            }
            if let Some(behind) = T::cursor_behind(read_from.as_deref(), item)? {
                progress.operation.cursor = Some(behind);
            }
            progress.note_now_and_then().await?;
            match trial::checkpoint(progress, stop, false).await? {
                ControlFlow::Break(end) => return Ok(end),
                // Others may have acted on the rest of the page meanwhile.
                ControlFlow::Continue(Waited(true)) => continue 'pages,
                ControlFlow::Continue(Waited(false)) => {}
            }
        }
        refused.clear();
        progress.operation.cursor = page.next_cursor;
        if progress.operation.cursor.is_none() {
            return match trial::checkpoint(progress, stop, true).await? {
                ControlFlow::Break(end) => Ok(end),
                ControlFlow::Continue(_) => Ok(Some(OperationState::Done)),
            };
        }
    }
}

/// Counts what became of one.
fn count(operation: &mut Operation, id: &str, outcome: Outcome) {
    match outcome {
        Outcome::Done => operation.done += 1,
        Outcome::Delivered => {
            operation.done += 1;
            operation.fates.count(Fate::PutBack);
            operation.fates.count(Fate::Delivered);
        }
        Outcome::NotFollowed => {
            operation.done += 1;
            operation.not_followed += 1;
        }
        Outcome::Unchanged => operation.unchanged += 1,
        Outcome::Refused { code, detail } => {
            let code = code.as_str();
            if operation.refuse(code, id, detail.clone()) {
                tracing::info!(
                    operation = operation.id,
                    id,
                    code,
                    detail,
                    "left as it is; others with this code are only counted"
                );
            }
        }
        Outcome::MatchesNoMore => {}
    }
}

/// Acts on one. None = the operation was cancelled while the act had to wait.
async fn act<T: Task>(
    task: &T,
    progress: &mut Progress<'_>,
    item: &T::Item,
    stop: &AtomicBool,
) -> Result<Option<Outcome>, ServiceError> {
    let outbox = progress.outbox;
    let mut tries = 0;
    loop {
        let error = match task.act(outbox, item).await {
            Ok(outcome) => return Ok(Some(outcome)),
            Err(error) => error,
        };
        tries += 1;
        if tries == 1 && T::TRIES > 1 {
            // A crash while it waits costs none of the numbers.
            progress.note().await?;
        }
        if tries >= T::TRIES || outbox.context.closing.run_until_cancelled(sleep(PAUSE)).await.is_none() {
            return Err(error);
        }
        if stop.load(Ordering::Acquire) {
            return Ok(None);
        }
    }
}

/// An operation under way, noted in the store now and then.
pub(super) struct Progress<'a> {
    pub outbox: &'a Outbox,
    pub operation: Operation,
    noted_at: Instant,
}

impl Progress<'_> {
    async fn note_now_and_then(&mut self) -> Result<(), ServiceError> {
        if self.noted_at.elapsed() < NOTE_EVERY { Ok(()) } else { self.note().await }
    }
    pub async fn note(&mut self) -> Result<(), ServiceError> {
        self.noted_at = Instant::now();
        self.operation.updated_at = self.outbox.now();
        Ok(self.outbox.context.stores.transact.put_operation(&self.operation).await?)
    }
}
