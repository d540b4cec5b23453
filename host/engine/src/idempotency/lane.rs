//! Acts that wait for a commit, and the commits: what comes while one is out joins the next one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;
use waybill_core::idempotency::{Act, Applied, Begun, Op, Reply};
use waybill_core::port::service::ServiceError;
use waybill_core::port::store::StoreError;

use super::Shared;

/// Acts that may wait in one lane; past it callers are told to come back.
const WAITING_MAX: usize = 8_192;
/// Acts of one commit.
const BATCH_MAX: usize = 256;
/// A commit takes no further act past this many bytes.
const BATCH_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Pauses between tries of a commit whose outcome isn't known or that met another writer.
const TRY_PAUSES: [Duration; 3] = [Duration::from_millis(5), Duration::from_millis(50), Duration::from_millis(500)];

type Answered = Result<Applied, ServiceError>;

/// An act, and who waits for it; nobody does for one of the lane's own.
struct Ask {
    op: Op,
    caller: Option<oneshot::Sender<Answered>>,
}

/// The way to a lane.
pub(super) struct Lane {
    asks: mpsc::Sender<Ask>,
}

impl Lane {
    /// Starts a lane. It ends with the engine; what waits in it outlives a failure of its task.
    pub fn start(shared: Arc<Shared>) -> Self {
        let (asks, waiting) = mpsc::channel(WAITING_MAX);
        let waiting = Arc::new(Mutex::new(waiting));
        let (supervisor, stop) = (Arc::clone(&shared.context.supervisor), shared.context.stop.clone());
        // It needs no watching: it ends when the last caller is gone, or with the engine.
        let _running = supervisor.run("idempotency keys", stop, move || {
            let (shared, waiting) = (Arc::clone(&shared), Arc::clone(&waiting));
            async move {
                // After a failure memory may not know of the last commit.
                shared.cache.clear();
                run(&shared, &mut *waiting.lock().await).await;
            }
        });
        Self { asks }
    }

    /// Has an act done, durably.
    pub async fn act(&self, op: Op) -> Answered {
        let (caller, answer) = oneshot::channel();
        let gone = || ServiceError::Unavailable("it is shutting down".to_owned());
        match self.asks.try_send(Ask { op, caller: Some(caller) }) {
            Ok(()) => answer.await.unwrap_or_else(|_| Err(ServiceError::Unsure(unheard()))),
            Err(mpsc::error::TrySendError::Full(_)) => Err(ServiceError::Busy {
                what: "the queue of idempotency keys waiting for a commit",
                count: WAITING_MAX,
                count_max: WAITING_MAX,
            }),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(gone()),
        }
    }
}

/// What a caller hears whose act was taken and not answered.
fn unheard() -> StoreError {
    StoreError::Unavailable("the task that writes idempotency keys ended before it could say".to_owned())
}

async fn run(shared: &Shared, waiting: &mut mpsc::Receiver<Ask>) {
    let mut own: Vec<Ask> = Vec::new();
    loop {
        let mut batch = std::mem::take(&mut own);
        if batch.is_empty() {
            let Some(ask) = waiting.recv().await else { return };
            batch.push(ask);
        }
        let mut bytes = 0;
        while batch.len() < BATCH_MAX && bytes < BATCH_BYTES_MAX {
            let Ok(ask) = waiting.try_recv() else { break };
            bytes += weight(&ask.op.act);
            batch.push(ask);
        }
        let began = Instant::now();
        let count = batch.len();
        own = work(shared, batch).await;
        shared.meter.commit(began.elapsed(), count);
        shared.meter.memory(waiting.len(), shared.cache.len());
    }
}

fn weight(act: &Act) -> usize {
    match act {
        Act::Finish { answer, .. } => answer.weight(),
        Act::Fail { error, .. } => error.len(),
        _ => 64,
    }
}

/// Commits a batch and tells its callers. Answers what has to be done because of callers who went away.
async fn work(shared: &Shared, batch: Vec<Ask>) -> Vec<Ask> {
    let (ops, callers): (Vec<Op>, Vec<_>) = batch.into_iter().map(|ask| (ask.op, ask.caller)).unzip();
    let ops = Arc::new(ops);
    let done = match apply(shared, &ops).await {
        Ok(done) => done,
        Err(error) => {
            for (op, caller) in ops.iter().zip(callers) {
                shared.cache.remove(&op.of);
                if let Some(caller) = caller {
                    // Who went away misses nothing.
                    let _gone = caller.send(Err(ServiceError::Unsure(error.clone())));
                }
            }
            return Vec::new();
        }
    };
    let (settings, now) = (shared.settings(), shared.context.clock.now());
    let mut own = Vec::new();
    for ((op, caller), done) in ops.iter().zip(callers).zip(done) {
        match &done {
            Ok(Applied { entry: Some(entry), .. }) => shared.cache.put(&op.of, entry.clone(), &settings, now),
            _ => shared.cache.remove(&op.of),
        }
        let Some(caller) = caller else { continue };
        if let Err(Ok(unheard)) = caller.send(done.map_err(ServiceError::Store)) {
            own.extend(undo(op, unheard));
        }
    }
    own
}

/// Nobody heard that they had begun a key: it is released, or it would be in flight until its lease ends.
fn undo(op: &Op, unheard: Applied) -> Option<Ask> {
    let Reply::Begin(Begun::New(grant)) = unheard.reply else { return None };
    let act = match grant.begun {
        1 => Act::Release { token: grant.token },
        // A holder before may have done something.
        _ => Act::Yield { token: grant.token },
    };
    Some(Ask { op: Op { of: op.of.clone(), act }, caller: None })
}

/// Commits acts. Tries again when the outcome isn't known: done twice, they are the same.
async fn apply(shared: &Shared, ops: &Arc<Vec<Op>>) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
    let mut pauses = TRY_PAUSES.iter();
    loop {
        let (context, now, ops) = (Arc::clone(&shared.context), shared.now(), Arc::clone(ops));
        // In a task of its own, so that a panic in the store ends that and not the lane.
        let work = tokio::spawn(async move { context.stores.idempotency.act(&ops, now).await });
        let done = work.await.unwrap_or_else(|ended| Err(StoreError::Other(ended.to_string())));
        let Err(error) = done else { return done };
        shared.meter.commit_failed(error.code());
        let is_worth_it = error.retryable() && !matches!(error, StoreError::DiskFull(_));
        match pauses.next().filter(|_| is_worth_it) {
            Some(pause) => tokio::time::sleep(*pause).await,
            None => {
                tracing::warn!(code = error.code().as_str(), %error, "idempotency keys can't be written now");
                return Err(error);
            }
        }
    }
}
