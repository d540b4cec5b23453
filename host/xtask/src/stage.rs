//! Stages of a long command: announced, timed, and listed at the end, so that one failure doesn't hide the next.

use std::time::{Duration, Instant};

use anyhow::Result;

/// A time in whole seconds, for people.
pub fn seconds(took: Duration) -> String {
    humantime::format_duration(Duration::from_secs(took.as_secs())).to_string()
}

/// What ran so far.
pub struct Stages {
    total: usize,
    done: Vec<Stage>,
}

struct Stage {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

impl Stages {
    /// Of a command with so many stages.
    pub fn of(total: usize) -> Self {
        Self { total, done: Vec::new() }
    }

    /// Runs one. Its error is shown at once and again at the end.
    pub async fn run<T>(&mut self, name: &'static str, work: impl Future<Output = Result<T>>) -> Option<T> {
        eprintln!("\n[{}/{}] {name}", self.done.len() + 1, self.total);
        let began = Instant::now();
        let outcome = work.await;
        let failure = outcome.as_ref().err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            eprintln!("failed: {failure}");
        }
        self.done.push(Stage { name, took: began.elapsed(), failure });
        outcome.ok()
    }

    /// Whether all that ran were well.
    pub fn passed(&self) -> bool {
        self.done.iter().all(|stage| stage.failure.is_none())
    }

    /// One line a stage.
    pub fn summary(&self) -> String {
        let mut text = String::new();
        for stage in &self.done {
            let verdict = if stage.failure.is_some() { "FAILED" } else { "ok" };
            text.push_str(&format!("  {:<52} {:>10}  {verdict}\n", stage.name, seconds(stage.took)));
        }
        if self.done.len() < self.total {
            text.push_str(&format!("  {} of {} stages didn't run\n", self.total - self.done.len(), self.total));
        }
        for stage in &self.done {
            if let Some(failure) = &stage.failure {
                text.push_str(&format!("failed: {}: {failure}\n", stage.name));
            }
        }
        text
    }
}
