//! What one sees: three bars while it runs, a table and the checks at the end.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;

use super::checks::check;
use super::evidence::Evidence;
use crate::demo::outcome::Outcome;

/// Between two lines of progress where there is no terminal.
const TOLD_EVERY: Duration = Duration::from_secs(1);

/// Progress on stderr: three bars in a terminal, else a line now and then.
#[derive(Clone, Debug)]
pub struct Bars {
    appended: ProgressBar,
    read: ProgressBar,
    relayed: ProgressBar,
    told: Arc<Mutex<Option<Instant>>>,
}

impl Bars {
    /// For so many events.
    pub fn new(events: u64) -> Result<Self> {
        let style = ProgressStyle::with_template("{prefix:>10} {bar:40} {pos:>6} of {len}").context("progress bars")?;
        let all = MultiProgress::new();
        let bar = |prefix| all.add(ProgressBar::new(events)).with_style(style.clone()).with_prefix(prefix);
        Ok(Self { appended: bar("appended"), read: bar("read"), relayed: bar("in NATS"), told: Arc::default() })
    }

    /// How far nodes, the slowest subscriber and the broker are, which may be away.
    pub fn show(&self, appended: u64, read: u64, relayed: Option<u64>) {
        let mut told = self.told.lock();
        let relayed = relayed.unwrap_or_else(|| self.relayed.position());
        if self.relayed.is_hidden() && told.is_none_or(|told| told.elapsed() > TOLD_EVERY) {
            eprintln!("{appended} appended, {read} read by the slowest subscriber, {relayed} in NATS");
            *told = Some(Instant::now());
        }
        self.appended.set_position(appended);
        self.read.set_position(read);
        self.relayed.set_position(relayed);
    }

    /// A line above the bars.
    pub fn tell(&self, line: &str) {
        self.relayed.suspend(|| eprintln!("{line}"));
    }

    /// Leaves them as they are.
    pub fn finish(&self) {
        for bar in [&self.appended, &self.read, &self.relayed] {
            bar.abandon();
        }
    }
}

/// What the demo found.
pub fn outcome(events: u64, evidence: &Evidence, took: Duration) -> Outcome {
    let read: usize = evidence.subscribed.iter().map(|reader| reader.account.read.len()).sum();
    let resumed: usize = evidence.subscribed.iter().map(|reader| reader.account.resumed).sum();
    let lagged: usize = evidence.subscribed.iter().map(|reader| reader.account.lagged.len()).sum();
    let ids = evidence.stored.iter().filter_map(|message| message.header("event_id"));
    let repeated = evidence.stored.len() - ids.collect::<BTreeSet<_>>().len();
    let kills: Vec<String> = evidence.kills.iter().map(ToString::to_string).collect();
    let rows = vec![
        ("events appended", format!("{} to {} streams", evidence.events(), evidence.appended.len())),
        ("read by subscribers", format!("{read}, by {} of them", evidence.subscribed.len())),
        ("subscriptions that lagged", lagged.to_string()),
        ("subscriptions that were resumed", resumed.to_string()),
        ("in NATS", format!("{}, of which {repeated} repeats", evidence.stored.len())),
        ("killed", kills.join(", ")),
        ("time", format!("{:.0} s", took.as_secs_f64())),
    ];
    Outcome { rows, checks: check(events, evidence) }
}
