//! What a good transport notices of a hostile one on the same host, behaviour by behaviour.

use std::fmt;
use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use comfy_table::{CellAlignment, Table, presets};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use xtask::cargo::{Repository, run as run_command};

/// Steps of 10 ms that one run takes.
const STEPS: u64 = 200;
/// Runs of each, alone and beside, in turn.
const ROUNDS: u64 = 5;

/// One behaviour beside a good transport, and that transport alone just before.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Comparison {
    behaviour: String,
    sent: u64,
    acknowledged: u64,
    p99_ms: f64,
    p99_alone_ms: f64,
    p99_ratio: f64,
    rate: f64,
    rate_alone: f64,
    rate_ratio: f64,
}

pub struct Hostile(Vec<Comparison>);

/// Builds the program and runs it.
pub async fn run(repository: &Repository) -> Result<Hostile> {
    let example = "beside_hostile";
    run_command(&mut repository.cargo(["build", "--release", "--locked", "--workspace", "--example", example]))?;
    let name = format!("{example}{}", std::env::consts::EXE_SUFFIX);
    let program: PathBuf = repository.target.join("release").join("examples").join(name);
    let output = Command::new(&program)
        .args([STEPS, ROUNDS].map(|number| number.to_string()))
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .with_context(|| format!("running {}", program.display()))?;
    if !output.status.success() {
        bail!("{example} ended with {}", output.status);
    }
    let text = String::from_utf8(output.stdout).context("its output")?;
    let lines = text.lines().map(serde_json::from_str).collect::<Result<Vec<Comparison>, _>>().context("its lines")?;
    if lines.is_empty() {
        bail!("{example} told nothing");
    }
    Ok(Hostile(lines))
}

impl Hostile {
    /// One line of JSON for each behaviour.
    pub fn lines(&self) -> Result<Vec<String>> {
        self.0.iter().map(|line| serde_json::to_string(line).context("a JSON line")).collect()
    }
}

impl fmt::Display for Hostile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new();
        table.load_style(presets::UTF8_BORDERS_ONLY);
        table.set_header(["beside", "sent", "lost", "p99 ms", "alone", "ratio", "msg/s", "alone", "ratio"]);
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for line in &self.0 {
            table.add_row([
                line.behaviour.clone(),
                line.sent.to_string(),
                line.sent.saturating_sub(line.acknowledged).to_string(),
                format!("{:.2}", line.p99_ms),
                format!("{:.2}", line.p99_alone_ms),
                format!("{:.2}", line.p99_ratio),
                format!("{:.0}", line.rate),
                format!("{:.0}", line.rate_alone),
                format!("{:.2}", line.rate_ratio),
            ]);
        }
        writeln!(f, "{table}")
    }
}
