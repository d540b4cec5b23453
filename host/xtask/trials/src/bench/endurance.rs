//! Ten million messages through one data directory: what enqueue, claim and settle cost at each million, and the disk's use.

use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use comfy_table::{CellAlignment, Table, presets};
use serde::Serialize;
use waybill_testkit::load::{Client, Plan, batches};

use super::Bench;
use super::backlog::claim_and_settle;
use super::delivery::send;
use super::figure::{Figure, Side};
use super::host::Measured;

/// Messages between two looks.
const STEP: u64 = 1_000_000;
const BATCH: u64 = 100;
const CLIENTS: usize = 4;
/// Claims timed at each look.
const CLAIMS: u64 = 200;
/// How long finished messages are kept: short enough that retention is seen at work.
const KEEP_SECONDS: u64 = 20;
/// Looks at the disk after the last message, one a second, until it stops shrinking.
const SETTLING: usize = 120;

/// The state of things after so many messages.
#[derive(Clone, Debug, Serialize)]
pub struct Look {
    pub messages: u64,
    /// Of the messages since the last look.
    #[serde(flatten)]
    pub figure: Figure,
    /// Claims of one message by an external worker: half took at most this, milliseconds.
    pub claim_p50_ms: Option<f64>,
    /// All but one in a hundred, milliseconds.
    pub claim_p99_ms: Option<f64>,
    /// The data directory, MiB.
    pub disk_mib: f64,
}

pub struct Endurance(Vec<Look>, f64);

pub async fn run(bench: &Bench, messages: u64) -> Result<Endurance> {
    let config = format!(
        "[outbox]\nkeep_done = \"{KEEP_SECONDS}s\"\n[transport.sink]\nplugin = \"noop\"\n\
         [[route]]\nmatch = \"bus:orders\"\ntransport = \"sink\"\n\
         [[route]]\nmatch = \"bus:work.**\"\ntransport = \"external\"\n"
    );
    let mut host = Measured::start(bench, &config).await?;
    let mut looks = Vec::new();
    for from in (0..messages).step_by(usize::try_from(STEP)?) {
        let to = messages.min(from + STEP);
        host.mark()?;
        let (began, mut times) = (Instant::now(), Vec::new());
        for part in (from..to).step_by(100_000) {
            let bodies = batches(&Plan::new("bus:orders"), part, to.min(part + 100_000), BATCH);
            times.extend(send(host.api.base(), "/v1/messages", bodies, CLIENTS, None).await?);
        }
        host.drained().await?;
        let figure = host.used(Figure::of_rate(to - from, began.elapsed()).with_times(times))?;
        let claims = Figure::default().with_times(claims(&host).await?);
        let look = Look {
            messages: to,
            figure,
            claim_p50_ms: claims.p50_ms,
            claim_p99_ms: claims.p99_ms,
            disk_mib: size(&host.data())?,
        };
        eprintln!("  {to} messages: {}, {:.0} MiB on disk", look.figure, look.disk_mib);
        looks.push(look);
    }
    let disk = after_retention(&host).await?;
    host.end().await?;
    Ok(Endurance(looks, disk))
}

/// An external worker's view: some messages of its own topic, claimed one at a time and settled.
async fn claims(host: &Measured) -> Result<Vec<Duration>> {
    let bodies = batches(&Plan::new("bus:work.item"), 0, CLAIMS, 1_000);
    send(host.api.base(), "/v1/messages", bodies, 1, None).await?;
    let mut client = Client::connect(host.api.base()).await?;
    let (mut times, mut left) = (Vec::new(), CLAIMS);
    while left > 0 {
        let (time, count) = claim_and_settle(&mut client).await?;
        times.push(time);
        left = left.saturating_sub(count);
    }
    Ok(times)
}

/// The disk's use when everything has passed its retention.
async fn after_retention(host: &Measured) -> Result<f64> {
    tokio::time::sleep(Duration::from_secs(KEEP_SECONDS)).await;
    let mut least = f64::MAX;
    let mut unchanged = 0;
    for _ in 0..SETTLING {
        let now = size(&host.data())?;
        unchanged = if now < least { 0 } else { unchanged + 1 };
        least = least.min(now);
        if unchanged > 20 {
            break;
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    size(&host.data())
}

/// All files below a folder, MiB.
pub fn size(folder: &Path) -> Result<f64> {
    let mut bytes = 0;
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| format!("listing {}", folder.display()))? {
            let entry = entry?;
            // A file may go while we look: that is what retention does.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() { folders.push(entry.path()) } else { bytes += about.len() }
        }
    }
    Ok(bytes as f64 / 1_048_576.0)
}

impl Endurance {
    /// A JSON line a look.
    pub fn lines(&self) -> Result<Vec<String>> {
        #[derive(Serialize)]
        struct JsonRecord<'a> {
            workload: &'static str,
            side: Side,
            #[serde(flatten)]
            look: &'a Look,
        }
        let line = |look| serde_json::to_string(&JsonRecord { workload: "endurance", side: Side::Waybill, look });
        self.0.iter().map(|look| Ok(line(look)?)).collect()
    }
}

impl fmt::Display for Endurance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header([
            "messages so far",
            "msg/s",
            "CPU s / 10k",
            "enqueue p50 ms",
            "p99 ms",
            "claim p50 ms",
            "p99 ms",
            "peak MiB",
            "disk MiB",
        ]);
        for column in table.column_iter_mut() {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let cell =
            |value: Option<f64>, places: usize| value.map(|value| format!("{value:.places$}")).unwrap_or_default();
        for look in &self.0 {
            table.add_row([
                look.messages.to_string(),
                cell(look.figure.rate, 0),
                cell(look.figure.cpu_s_per_10k, 3),
                cell(look.figure.p50_ms, 2),
                cell(look.figure.p99_ms, 2),
                cell(look.claim_p50_ms, 2),
                cell(look.claim_p99_ms, 2),
                cell(look.figure.resident_peak_mib, 0),
                cell(Some(look.disk_mib), 0),
            ]);
        }
        writeln!(f, "{table}")?;
        writeln!(f, "disk after retention ({KEEP_SECONDS} s): {:.0} MiB", self.1)
    }
}
