//! What one sees: two bars while it runs, a table and the checks at the end.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use waybill_testkit::api::Api;
use waybill_testkit::receiver::Receiver;

use super::commit::Committed;
use super::evidence::{Check, Evidence, check, order_of};
use super::orders::Order;

/// Between two lines of progress where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(1);
/// Dead letters that are spelled out.
const SHOWN_DEAD: usize = 3;

/// Progress on stderr: two bars in a terminal, else a line now and then.
#[derive(Clone, Debug)]
pub struct Bars {
    commits: ProgressBar,
    deliveries: ProgressBar,
}

impl Bars {
    /// For so many orders.
    pub fn new(orders: usize) -> Result<Self> {
        let style = ProgressStyle::with_template("{prefix:>10} {bar:40} {pos:>6} of {len}  {per_sec}")
            .context("progress bars")?;
        let both = MultiProgress::new();
        let bar = |prefix| {
            let bar = both.add(ProgressBar::new(orders as u64)).with_style(style.clone());
            bar.with_prefix(prefix)
        };
        Ok(Self { commits: bar("committed"), deliveries: bar("settled") })
    }
    /// One more was committed.
    pub fn committed(&self) {
        self.commits.inc(1);
    }
    /// Shows what the receiver has; ends when the receiver does.
    pub async fn follow(&self, receiver: &Receiver) {
        let mut gauges = receiver.watch();
        let mut told = Instant::now();
        while gauges.changed().await.is_ok() {
            let settled = gauges.borrow_and_update().settled;
            self.deliveries.set_position(settled as u64);
            if self.deliveries.is_hidden() && told.elapsed() > TOLD_EVERY {
                eprintln!("{} committed, {settled} settled", self.commits.position());
                told = Instant::now();
            }
        }
    }
    /// Leaves them as they are.
    pub fn finish(&self) {
        self.commits.abandon();
        self.deliveries.abandon();
    }
}

/// What the demo found.
#[derive(Clone, Debug)]
pub struct Outcome {
    committed: usize,
    delivered: usize,
    retried: usize,
    attempts: usize,
    dead: usize,
    latencies: Vec<Duration>,
    took: Duration,
    checks: Vec<Check>,
}

impl Outcome {
    /// Compares. `epoch` is the instant that the receiver counts from.
    pub fn of(orders: &[Order], committed: &HashMap<String, Committed>, evidence: &Evidence, epoch: Instant) -> Self {
        let accepted: HashMap<String, Instant> = evidence
            .arrivals
            .iter()
            .filter(|arrival| arrival.accepted())
            .filter_map(|arrival| Some((order_of(arrival)?, epoch + arrival.at)))
            .collect();
        let retried: HashSet<&str> = evidence
            .arrivals
            .iter()
            .filter(|arrival| arrival.delivered.attempt > 1)
            .map(|arrival| arrival.delivered.id.as_str())
            .collect();
        let mut latencies: Vec<Duration> = accepted
            .iter()
            .filter_map(|(order, at)| Some(at.saturating_duration_since(committed.get(order)?.begun)))
            .collect();
        latencies.sort_unstable();
        let first = committed.values().map(|done| done.begun).min().unwrap_or(epoch);
        let last = evidence.arrivals.last().map_or(first, |arrival| epoch + arrival.at);
        Self {
            committed: committed.len(),
            delivered: accepted.len(),
            retried: retried.len(),
            attempts: evidence.arrivals.len(),
            dead: evidence.dead.len(),
            latencies,
            took: last.saturating_duration_since(first),
            checks: check(orders, committed, evidence),
        }
    }

    pub fn passed(&self) -> bool {
        self.checks.iter().all(|check| check.breaches.is_empty())
    }

    fn latency(&self, percent: usize) -> String {
        let index = (self.latencies.len() * percent).div_ceil(100).saturating_sub(1);
        self.latencies
            .get(index)
            .map_or_else(|| "-".to_owned(), |time| format!("{:.1} ms", time.as_secs_f64() * 1_000.0))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        let rate = self.delivered as f64 / self.took.as_secs_f64().max(0.001);
        for (name, value) in [
            ("committed, each with its row", self.committed.to_string()),
            ("delivered", self.delivered.to_string()),
            ("retried", format!("{} ({} attempts in all)", self.retried, self.attempts)),
            ("dead letters", self.dead.to_string()),
            ("enqueue to delivered, p50", self.latency(50)),
            ("enqueue to delivered, p99", self.latency(99)),
            ("rate", format!("{rate:.0} a second")),
        ] {
            table.add_row([name.to_owned(), value]);
        }
        if let Some(column) = table.column_mut(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        writeln!(f, "{table}")?;
        for check in &self.checks {
            write!(f, "{check}")?;
        }
        Ok(())
    }
}

/// Commands for a closer look at the running host.
pub fn closer(binary: &Path, api: &Api, evidence: &Evidence) {
    let waybill = format!("{} --url {}", binary.display(), api.base());
    println!("\nThe host still runs; Ctrl-C ends it. Look closer:");
    println!("  {waybill} status");
    println!("  {waybill} dead list");
    for dead in evidence.dead.iter().take(SHOWN_DEAD) {
        let why = dead.last_error.as_deref().unwrap_or_default();
        println!("  {waybill} dead show {}    # {why}", dead.id);
    }
    if let Some(retried) = evidence.arrivals.iter().find(|arrival| arrival.delivered.attempt > 1 && arrival.accepted())
    {
        println!(
            "  {waybill} outbox show {}    # delivered at attempt {}",
            retried.delivered.id, retried.delivered.attempt
        );
    }
    println!("  curl {}/v1/outbox/stats", api.base());
    println!("  curl {}/metrics", api.base());
    println!("  curl {}/openapi.json", api.base());
}
