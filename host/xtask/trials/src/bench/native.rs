//! References, each in a process of its own so that its CPU time is told apart from the sink's.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::process::Command;
use waybill_testkit::load::{Posted, Sink, post_all, usage};
use xtask::cargo::{Repository, run};

use super::Bench;
use super::figure::Figure;
use super::replay;
use crate::setup;

/// Requests at once, as many as the host has under way to one peer.
const AT_ONCE: u64 = 64;
const PAYLOAD: usize = 300;

/// What a reference measured, as JSON on its standard output.
#[derive(Serialize, Deserialize)]
struct Measurement {
    delivered: u64,
    failed: u64,
    took_ms: f64,
    cpu_ms: f64,
    resident_peak: u64,
    /// Times of single messages, where they are what is measured.
    #[serde(default)]
    times_us: Vec<u64>,
}

/// A plain pooled HTTP client that posts to the same kind of sink.
pub async fn post(messages: u64) -> Result<Figure> {
    let sink = Sink::start(false).await.context("starting the sink")?;
    apart("http", &sink.url("orders"), messages).await
}

/// Builds the program that runs parts of Waybill by themselves.
pub fn alone(repository: &Repository) -> Result<PathBuf> {
    run(&mut repository.cargo(["build", "--release", "--locked", "--workspace", "--example", "alone"]))?;
    Ok(repository.target.join("release").join("examples").join(format!("alone{}", std::env::consts::EXE_SUFFIX)))
}

/// Builds the native clients of brokers.
pub fn clients(repository: &Repository) -> Result<PathBuf> {
    // Compiles the messages of Pulsar for its client.
    setup::program("protoc", "protobuf-compiler")?;
    let target = repository.target.join("natives");
    let mut build = repository.cargo(["build", "--release", "--locked", "--manifest-path", "tests/natives/Cargo.toml"]);
    run(build.arg("--target-dir").arg(&target))?;
    Ok(target.join("release").join(format!("waybill-natives{}", std::env::consts::EXE_SUFFIX)))
}

/// A part of Waybill by itself.
pub async fn part(bench: &Bench, part: &str, messages: u64) -> Result<Figure> {
    run_reference(Command::new(&bench.alone).args([part, &messages.to_string()]), part, messages).await
}

/// The store's writes alone, on a disk: `segments` of messages, those of `sagas`, or of idempotency `keys`.
pub async fn on_disk(bench: &Bench, part: &str, count: u64) -> Result<Figure> {
    let folder = bench.folder()?;
    let mut command = Command::new(&bench.alone);
    run_reference(command.args([part, &count.to_string()]).arg(folder.path().join("data")), part, count).await
}

/// Runs a reference in a process of its own.
pub async fn apart(kind: &str, target: &str, messages: u64) -> Result<Figure> {
    let program = std::env::current_exe().context("finding this program")?;
    let mut command = Command::new(program);
    run_reference(command.args(["bench", "--reference", kind, target, &messages.to_string()]), kind, messages).await
}

/// Runs a reference and reads its measurement from its standard output.
pub async fn run_reference(command: &mut Command, kind: &str, messages: u64) -> Result<Figure> {
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await
        .context("starting the reference")?;
    if !output.status.success() {
        bail!("the reference {kind} ended with {}", output.status);
    }
    let measured: Measurement = serde_json::from_slice(&output.stdout).context("reading what the reference told")?;
    if measured.failed > 0 || measured.delivered != messages {
        bail!("the reference delivered {} of {messages} messages, {} failed", measured.delivered, measured.failed);
    }
    let took = Duration::from_secs_f64(measured.took_ms / 1e3);
    let times = measured.times_us.into_iter().map(Duration::from_micros).collect();
    let figure = Figure::of_rate(messages, took).with_cpu(Duration::from_secs_f64(measured.cpu_ms / 1e3));
    let figure = figure.with_times(times);
    Ok(Figure { resident_peak_mib: Some(measured.resident_peak as f64 / 1_048_576.0), ..figure })
}

fn all_read(events: u64, took: Duration) -> Posted {
    Posted { delivered: events, failed: 0, took }
}

/// Runs a reference in this process and tells about it.
pub async fn here(kind: &str, target: &str, messages: u64) -> Result<()> {
    let Posted { delivered, failed, took } = match kind {
        "http" => post_all(target, messages, PAYLOAD, AT_ONCE).await.context("making the client")?,
        replay::BY_GRPC => all_read(messages, replay::read(target, messages).await?),
        replay::BY_SSE => all_read(messages, replay::read_sse(target, messages).await?),
        other => bail!("there is no reference `{other}`"),
    };
    let used = usage(std::process::id()).context("reading what this process used")?;
    let measured = Measurement {
        delivered,
        failed,
        took_ms: took.as_secs_f64() * 1e3,
        cpu_ms: used.cpu.as_secs_f64() * 1e3,
        resident_peak: used.resident_peak,
        times_us: Vec::new(),
    };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}
