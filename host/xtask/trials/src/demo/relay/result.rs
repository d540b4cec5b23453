//! What one sees: three bars while it runs, a table and the checks at the end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::checks::check;
use super::evidence::Evidence;
use super::programs::Counts;
use crate::demo::outcome::Outcome;

/// Between two lines of progress where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Progress on stderr: three bars in a terminal, else a line now and then.
#[derive(Clone, Debug)]
pub struct Bars {
    placed: ProgressBar,
    posted: ProgressBar,
    billed: ProgressBar,
    told: Arc<Mutex<Option<Instant>>>,
}

impl Bars {
    /// For so many orders.
    pub fn new(orders: u32) -> Result<Self> {
        let style = ProgressStyle::with_template("{prefix:>10} {bar:40} {pos:>6} of {len}").context("progress bars")?;
        let all = MultiProgress::new();
        let bar = |prefix| all.add(ProgressBar::new(u64::from(orders))).with_style(style.clone()).with_prefix(prefix);
        Ok(Self { placed: bar("placed"), posted: bar("webhooks"), billed: bar("billed"), told: Arc::default() })
    }

    /// How far it is.
    pub fn show(&self, placed: u32, counts: Counts) {
        let mut told = self.told.lock();
        if self.billed.is_hidden() && told.is_none_or(|told| told.elapsed() > TOLD_EVERY) {
            eprintln!("{placed} placed, {} at the webhook, {} billed", counts.webhooks, counts.bills);
            *told = Some(Instant::now());
        }
        self.placed.set_position(u64::from(placed));
        self.posted.set_position(u64::from(counts.webhooks));
        self.billed.set_position(u64::from(counts.bills));
    }

    /// A line above the bars.
    pub fn tell(&self, line: &str) {
        self.billed.suspend(|| eprintln!("{line}"));
    }

    /// Leaves them as they are.
    pub fn finish(&self) {
        for bar in [&self.placed, &self.posted, &self.billed] {
            bar.abandon();
        }
    }
}

/// What the demo found.
pub fn outcome(orders: u32, evidence: &Evidence, took: Duration) -> Outcome {
    let repeated = |path: &str| {
        let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
        for call in evidence.report.calls.iter().filter(|call| call.path == path) {
            *calls.entry(&call.key).or_default() += 1;
        }
        calls.values().filter(|count| **count > 1).count()
    };
    let kills: Vec<String> = evidence.kills.iter().map(|kill| kill.victim.to_string()).collect();
    let rows = vec![
        ("orders placed", orders.to_string()),
        ("in the stream", evidence.stream.len().to_string()),
        ("webhooks that came more than once", repeated("/webhook").to_string()),
        ("messages handled by more than one call", repeated("/handle").to_string()),
        ("bills", evidence.report.bills.len().to_string()),
        ("killed", if kills.is_empty() { "nobody".to_owned() } else { kills.join(", ") }),
        ("time", format!("{:.0} s", took.as_secs_f64())),
    ];
    Outcome { rows, checks: check(orders, evidence) }
}
