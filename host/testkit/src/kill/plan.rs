//! What a run does, and what it must have shown to count as proof.

use std::path::PathBuf;
use std::time::Duration;

/// Producers. Each has keys of its own, so that the order of a key is the order in which one client was answered.
pub const PRODUCERS: usize = 4;
/// Tenants; producers take turns among them.
pub const TENANTS: [&str; 2] = ["acme", "globex"];
/// Keys of one producer.
pub const KEYS: usize = 16;
/// Messages in a batch, at most.
pub const BATCH_MAX: usize = 10;
/// Messages in a transaction, at most.
pub const TRANSACTION_MAX: usize = 3;
/// Earliest and latest kill after the load began (or, in some cycles, after the start), in milliseconds.
pub const KILL_AFTER_MS: std::ops::RangeInclusive<u64> = 5..=300;
/// One cycle in so many is killed while it starts, load or not.
pub const EARLY_ONE_IN: u32 = 8;
/// When the receiver is this many messages behind, the next host may catch up before the load goes on: a host that is
/// killed several times a second falls behind, and the last drain has to end.
pub const BACKLOG_MAX: usize = 5_000;
/// How far it catches up.
pub const BACKLOG_LOW: usize = 1_000;
/// A producer's pause between two requests. Faster, and most of the run would be the delivery of a backlog.
pub const PRODUCER_PAUSE: Duration = Duration::from_millis(2);
/// By how much the wall clock is set, in seconds.
pub const CLOCK_STEP: i64 = 3_600;
pub const TABLE: &str = "kill_rows";

#[derive(Clone, Debug)]
pub struct Options {
    pub cycles: u32,
    pub seed: u64,
    /// The hosts' wall clock is set back and forward, while they run and between two of them, and the last one has to bring
    /// everything to its end although it is set back under it. Nothing is scheduled then: that goes by the wall clock.
    pub clock_steps: bool,
    pub binary: PathBuf,
    /// Where ledgers, log and store go when something is wrong; otherwise nothing is left.
    pub evidence: PathBuf,
}

/// The host's configuration: retries come fast so that many fit between two kills, and the store's write buffer is as small
/// as it may be, so that its log is rotated, flushed and compacted under kills too. Everything else is the default.
pub(super) fn host_config(data: &std::path::Path) -> String {
    let url = toml_text(&format!("surrealkv://{}", data.display()));
    format!(
        "[store]\nurl = {url}\nmemtable = \"8MiB\"\n\n\
         [outbox]\nbackoff = {{ base_ms = 20, factor = 2.0, jitter = 0.3, cap_ms = 200 }}\n"
    )
}

/// A TOML basic string.
fn toml_text(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// What a run of so many cycles must have shown. A run that shows less proves nothing and fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    pub acknowledged: usize,
    /// Kills while a client waited for an answer.
    pub kills_with_requests: usize,
    /// Kills while the receiver held a delivery.
    pub kills_with_deliveries: usize,
    /// Messages that came again after a kill.
    pub redelivered: usize,
    /// Acknowledged transactions with a business row.
    pub transactions: usize,
    pub dead: usize,
}

impl Proof {
    /// For a run of this many cycles: far below what a slow machine shows, and far above nothing.
    pub fn needed(cycles: u32) -> Self {
        let cycles = cycles as usize;
        Self {
            acknowledged: cycles * 10,
            kills_with_requests: cycles.div_ceil(4),
            kills_with_deliveries: cycles.div_ceil(10),
            redelivered: cycles / 10,
            transactions: cycles,
            dead: cycles / 10,
        }
    }

    /// What is missing, one sentence each.
    pub fn missing(self, shown: Self) -> Vec<String> {
        [
            ("acknowledged messages", self.acknowledged, shown.acknowledged),
            ("kills while a client waited for an answer", self.kills_with_requests, shown.kills_with_requests),
            ("kills while the receiver held a delivery", self.kills_with_deliveries, shown.kills_with_deliveries),
            ("messages that came again after a kill", self.redelivered, shown.redelivered),
            ("acknowledged transactions", self.transactions, shown.transactions),
            ("dead letters", self.dead, shown.dead),
        ]
        .into_iter()
        .filter(|(_, needed, shown)| shown < needed)
        .map(|(what, needed, shown)| format!("{what}: {shown}, at least {needed} needed"))
        .collect()
    }
}
