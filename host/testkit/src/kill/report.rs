//! The table at the end of a run.

use std::fmt;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::{Law, Verdict};
use super::cycle::Tally;
use super::plan::{Options, Proof};
use crate::receiver::Arrival;

/// Violations of one law that are spelled out.
const SHOWN_A_LAW: usize = 5;

/// What a run found.
#[derive(Clone, Debug)]
pub struct Report {
    seed: u64,
    cycles: u32,
    evidence: std::path::PathBuf,
    verdict: Verdict,
    tally: Tally,
    unproven: Vec<String>,
}

impl Report {
    pub(super) fn new(options: &Options, verdict: Verdict, tally: Tally) -> Self {
        let shown = Proof {
            acknowledged: verdict.acknowledged,
            kills_with_requests: tally.with_requests,
            kills_with_deliveries: tally.with_deliveries,
            redelivered: verdict.redelivered,
            transactions: verdict.transactions,
            dead: verdict.dead,
        };
        let unproven = Proof::needed(options.cycles).missing(shown);
        Self {
            seed: options.seed,
            cycles: options.cycles,
            evidence: options.evidence.clone(),
            verdict,
            tally,
            unproven,
        }
    }

    /// No law broken, and enough seen to say so.
    pub fn passed(&self) -> bool {
        self.verdict.violations.is_empty() && self.unproven.is_empty()
    }

    pub fn verdict(&self) -> &Verdict {
        &self.verdict
    }
}

/// An arrival as a line of the kept ledger; the payload by its size.
pub(super) fn arrival_json(arrival: &Arrival) -> Value {
    let delivered = &arrival.delivered;
    json!({
        "order": arrival.order,
        "at_ms": arrival.at.as_secs_f64() * 1_000.0,
        "id": delivered.id,
        "tag": super::check::tag_of(arrival),
        "tenant": delivered.tenant,
        "key": delivered.key,
        "attempt": delivered.attempt,
        "epoch": delivered.epoch,
        "seq": delivered.seq,
        "path": delivered.path,
        "bytes": delivered.body.len(),
        "status": arrival.status,
        "answered": arrival.answered,
    })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, tally, .. } = self;
        writeln!(f, "kill -9: seed {}, {} cycles in {:.0} s", self.seed, self.cycles, tally.took.as_secs_f64())?;
        let mut row = |name: &str, value: String| writeln!(f, "  {name:<58} {value:>10}");
        row("kills", tally.kills.to_string())?;
        row("  while a client waited for an answer", tally.with_requests.to_string())?;
        row("  while the receiver held a delivery", tally.with_deliveries.to_string())?;
        row("  before the host was ready", tally.early.to_string())?;
        row("messages acknowledged", verdict.acknowledged.to_string())?;
        row("  in transactions with a business row (operations)", verdict.transactions.to_string())?;
        row("  delivered", verdict.delivered.to_string())?;
        row("  dead letters", verdict.dead.to_string())?;
        row("messages of unknown outcome: committed", verdict.unknown_committed.to_string())?;
        row("messages of unknown outcome: not committed", verdict.unknown_absent.to_string())?;
        row("messages that came again after a kill", verdict.redelivered.to_string())?;
        row("arrivals at the receiver", verdict.arrivals.to_string())?;
        row("ready again, median / 99th percentile (ms)", percentiles(&tally.ready))?;
        for law in Law::ALL {
            row(law.title(), verdict.count(law).to_string())?;
        }
        for law in Law::ALL {
            let broken: Vec<_> = verdict.violations.iter().filter(|violation| violation.law == law).collect();
            for violation in broken.iter().take(SHOWN_A_LAW) {
                writeln!(f, "  {}: {}", law.title(), violation.detail)?;
            }
            if broken.len() > SHOWN_A_LAW {
                writeln!(f, "  {}: and {} more", law.title(), broken.len() - SHOWN_A_LAW)?;
            }
        }
        for missing in &self.unproven {
            writeln!(f, "  this run proves nothing: {missing}")?;
        }
        if self.passed() {
            write!(f, "kill -9: nothing lost, nothing doubled without a cause, no key out of order")
        } else {
            writeln!(f, "kill -9: FAILED; ledgers, log and store are in {}", self.evidence.display())?;
            write!(f, "again with: cargo xtask chaos kill --cycles {} --seed {}", self.cycles, self.seed)
        }
    }
}

fn percentiles(times: &[Duration]) -> String {
    let mut times = times.to_vec();
    times.sort_unstable();
    let at = |percent: usize| {
        let index = (times.len() * percent).div_ceil(100).saturating_sub(1);
        times.get(index).map_or_else(|| "-".to_owned(), |time| time.as_millis().to_string())
    };
    format!("{} / {}", at(50), at(99))
}
