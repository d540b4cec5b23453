//! `cargo xtask demo nats`: messages through a real host to a real nats-server that is killed and started again meanwhile.
//!
//! The stream is read as a consumer reads it, and compared with what was enqueued (`waybill_testkit::outage`).

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use tokio::sync::watch;
use waybill_testkit::nats::Server;
use waybill_testkit::outage::{self, Plan, Progress, Report};
use xtask::cargo::Repository;

use crate::setup;

/// Breaches that are spelled out.
const SHOWN_BREACHES: usize = 5;

/// How much to show.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Messages
    #[arg(long, default_value_t = 2_000)]
    messages: usize,
    /// Keys that they have
    #[arg(long, default_value_t = 100)]
    keys: usize,
    /// Times the server is killed
    #[arg(long, default_value_t = 1)]
    kills: usize,
}

pub async fn run(repository: &Repository, arguments: &Arguments) -> Result<ExitCode> {
    setup::program("nats-server", "nats-server")?;
    let binary = repository.built_binary()?;
    let dir = tempfile::Builder::new().prefix("waybill-demo-").tempdir().context("making a temporary folder")?;
    let Arguments { messages, keys, kills } = *arguments;
    let (progress, seen) = watch::channel(Progress::default());
    eprintln!("host      waybill serve with its store on disk in {}", dir.path().display());
    eprintln!("server    nats-server with JetStream, killed {kills} times while messages come in");
    let mut server = Server::start().await.context("starting nats-server")?;
    let report = tokio::select! {
        report = outage::run(Plan { messages, keys, kills }, &mut server, &binary, dir.path(), &progress) => report?,
        shown = follow(seen, messages) => { shown?; bail!("the run ended first") }
        _ = tokio::signal::ctrl_c() => bail!("interrupted; host, server and their files are gone"),
    };
    print!("{}", shown(&report));
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A bar on stderr, and a line for each kill; ends with the run.
async fn follow(mut seen: watch::Receiver<Progress>, messages: usize) -> Result<()> {
    let style =
        ProgressStyle::with_template("{prefix:>10} {bar:40} {pos:>6} of {len}  {per_sec}").context("progress bars")?;
    let bar = ProgressBar::new(messages as u64).with_style(style).with_prefix("enqueued");
    let mut kills = 0;
    while seen.changed().await.is_ok() {
        let now = *seen.borrow_and_update();
        bar.set_position(now.enqueued as u64);
        if now.kills > kills {
            kills = now.kills;
            bar.suspend(|| eprintln!("nats-server killed, with {} messages enqueued", now.enqueued));
        }
    }
    bar.abandon();
    Ok(())
}

fn shown(report: &Report) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let rate = report.stored as f64 / report.took.as_secs_f64().max(0.001);
    for (name, value) in [
        ("enqueued", report.plan.messages.to_string()),
        ("in the stream", report.stored.to_string()),
        ("by a later attempt", report.repeated.to_string()),
        ("twice, under one id", report.doubled.to_string()),
        ("dead letters", report.dead.to_string()),
        ("nats-server killed", report.plan.kills.to_string()),
        ("rate, outages included", format!("{rate:.0} a second")),
    ] {
        table.add_row([name.to_owned(), value]);
    }
    if let Some(column) = table.column_mut(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let mut text = format!("{table}\n");
    let dead: Vec<String> = (report.dead > 0).then(|| format!("{} of them", report.dead)).into_iter().collect();
    for (rule, breaches) in [
        ("every message is in the stream", &report.missing),
        ("every key is in order", &report.disorder),
        ("every message there was enqueued, and is what it was then", &report.foreign),
        ("no message became a dead letter", &dead),
    ] {
        let verdict = if breaches.is_empty() { "ok" } else { "FAILED" };
        text.push_str(&format!("  {verdict:<6}  {rule}\n"));
        for breach in breaches.iter().take(SHOWN_BREACHES) {
            text.push_str(&format!("          {breach}\n"));
        }
    }
    text
}
