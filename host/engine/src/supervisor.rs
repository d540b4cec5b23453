//! Background tasks that don't end silently: one that panics is begun again after a pause, counted, and named in readiness.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use waybill_core::port::tasks::Tasks;

/// Pause after a task's first failure; it doubles with every further one.
const PAUSE_MIN: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A task that failed is well again after this long without another failure.
const WELL_AFTER: Duration = Duration::from_secs(60);

/// Counts a task that failed. `task` is one of few names: it is a label.
pub(crate) fn count_failure(task: &'static str) {
    metrics::counter!("waybill_task_failures_total", "task" => task).increment(1);
}

/// How a task failed lately.
#[derive(Clone, Debug)]
struct Failed {
    reason: String,
    at: Instant,
    /// Failures since it was last well.
    count: u32,
}

impl Failed {
    fn is_over(&self) -> bool {
        self.at.elapsed() > WELL_AFTER
    }
    fn pause(&self) -> Duration {
        let doubled = PAUSE_MIN.saturating_mul(1 << self.count.saturating_sub(1).min(16));
        doubled.min(PAUSE_MAX)
    }
}

/// Watches the background tasks of one host: the engine's, and those of parts beside it, which share it through
/// [`EngineConfig::supervisor`](crate::EngineConfig).
#[derive(Debug, Default)]
pub struct Supervisor {
    failed: Mutex<BTreeMap<&'static str, Failed>>,
}

impl Supervisor {
    /// Runs a task until it ends by itself, or where it is when `stop` says so. After a panic it is begun anew. `task` is one of
    /// few names: it is a metric's label, and readiness says it.
    pub fn run<F>(
        self: &Arc<Self>,
        task: &'static str,
        stop: CancellationToken,
        mut begin: impl FnMut() -> F + Send + 'static,
    ) -> JoinHandle<()>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let supervisor = Arc::clone(self);
        tokio::spawn(async move {
            loop {
                let mut work = tokio::spawn(begin());
                let Some(ended) = stop.run_until_cancelled(&mut work).await else { return work.abort() };
                let Err(panic) = ended else { return };
                let pause = supervisor.failed(task, panic.to_string());
                if stop.run_until_cancelled(sleep(pause)).await.is_none() {
                    return;
                }
            }
        })
    }

    /// Tasks that failed lately, with what is known of it.
    pub(crate) fn ill(&self) -> Vec<(&'static str, String)> {
        let mut failed = self.failed.lock();
        failed.retain(|_, failed| !failed.is_over());
        let say =
            |failed: &Failed| format!("it failed {} times lately and was begun again: {}", failed.count, failed.reason);
        failed.iter().map(|(task, failed)| (*task, say(failed))).collect()
    }
}

impl Tasks for Supervisor {
    fn failed(&self, task: &'static str, reason: String) -> Duration {
        count_failure(task);
        tracing::error!(task, reason, "a background task failed and is begun again");
        let mut failed = self.failed.lock();
        let before = failed.get(task).filter(|failed| !failed.is_over()).map_or(0, |failed| failed.count);
        let now = Failed { reason, at: Instant::now(), count: before.saturating_add(1) };
        let pause = now.pause();
        failed.insert(task, now);
        pause
    }
}
