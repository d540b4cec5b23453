//! What one sees: two bars while it runs, a table and the checks at the end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::evidence::{Evidence, check};
use super::plan::{Order, STEPS};
use crate::demo::outcome::Outcome;

/// Between two lines of progress where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub struct Bars {
    started: ProgressBar,
    ended: ProgressBar,
    told: Arc<Mutex<Option<Instant>>>,
}

impl Bars {
    /// For so many orders.
    pub fn new(orders: usize) -> Result<Self> {
        let style = ProgressStyle::with_template("{prefix:>10} {bar:40} {pos:>6} of {len}").context("progress bars")?;
        let both = MultiProgress::new();
        let bar = |prefix| both.add(ProgressBar::new(orders as u64)).with_style(style.clone()).with_prefix(prefix);
        Ok(Self { started: bar("started"), ended: bar("ended"), told: Arc::default() })
    }

    /// One more was started.
    pub fn started(&self) {
        self.started.inc(1);
    }

    /// So many have ended by now.
    pub fn ended(&self, count: usize) {
        let mut told = self.told.lock();
        if self.ended.is_hidden() && told.is_none_or(|told| told.elapsed() > TOLD_EVERY) {
            eprintln!("{} started, {count} ended", self.started.position());
            *told = Some(Instant::now());
        }
        self.ended.set_position(count as u64);
    }

    /// A line above the bars.
    pub fn tell(&self, line: &str) {
        self.ended.suspend(|| eprintln!("{line}"));
    }

    /// Leaves them as they are.
    pub fn finish(&self) {
        self.started.abandon();
        self.ended.abandon();
    }
}

/// What the demo found.
pub fn outcome(orders: &[Order], evidence: &Evidence, kills: usize, took: Duration) -> Outcome {
    let in_state = |state: &str| evidence.sagas.values().filter(|saga| saga.state == state).count().to_string();
    let failed = STEPS.iter().enumerate().map(|(place, (name, _))| {
        let count = orders.iter().filter(|order| order.fails() == Some(place)).count();
        format!("{count} at {name}")
    });
    let asked = evidence.log.len();
    let changed = evidence.log.iter().filter(|asked| asked.changed > 0).count();
    let undone = evidence.log.iter().filter(|asked| asked.undo && asked.changed > 0).count();
    let sold: i64 = evidence.before.shelf.values().sum::<i64>() - evidence.after.shelf.values().sum::<i64>();
    let rows = vec![
        ("orders", orders.len().to_string()),
        ("completed", in_state("completed")),
        ("cancelled, with what was done undone", in_state("cancelled")),
        ("  which step failed for good", failed.collect::<Vec<_>>().join(", ")),
        ("stuck, until an operator retried", evidence.stuck.len().to_string()),
        ("requests to the shop", format!("{asked}, of which {changed} changed something")),
        ("  of them undone", undone.to_string()),
        ("goods sold, parcels, cents", format!("{sold}, {}, {}", evidence.after.parcels, evidence.after.cents)),
        ("host killed", format!("{kills} times")),
        ("took", format!("{:.1} s", took.as_secs_f64())),
    ];
    Outcome { rows, checks: check(orders, evidence) }
}
