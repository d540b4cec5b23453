//! The port through which parts that know no engine tell of their background tasks: one place counts what fails, and readiness
//! names it.

use std::time::Duration;

/// Who is told of background tasks that fail.
pub trait Tasks: Send + Sync + 'static {
    /// Notes that a task failed: it is logged, counted, and named in readiness for a minute. Answers how long to wait before the
    /// task is begun again; longer with every failure. `task` is one of few names: it is a metric's label.
    fn failed(&self, task: &'static str, reason: String) -> Duration;
}
