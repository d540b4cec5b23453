//! `cargo xtask demo streams`: a fleet of nodes appends events of its tasks, subscribers replay them, lag and resume, and a relay feeds NATS,
//! while the host is killed several times and the broker once.
//!
//! - `fleet`: the nodes
//! - `readers`: the subscribers
//! - `stage`: everything that runs, and what is done to it
//! - `evidence`: what streams, subscribers and broker hold at the end, read from outside
//! - `checks`: the comparison
//! - `result`: what one sees

mod checks;
mod evidence;
mod fleet;
mod readers;
mod result;
mod stage;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use waybill_testkit::nats;
use waybill_testkit::process::Launch;
use xtask::cargo::Repository;

use super::TERMINATE_WITHIN;
use super::outcome::Outcome;
use crate::setup;
use fleet::{Fleet, Node};
use readers::Readers;
use result::{Bars, outcome};
use stage::{RELAY, Stage};

/// How much to show.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Events that the nodes append, all together
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(20_000..=200_000))]
    events: u32,
    /// Nodes; each has a stream of its own
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u32).range(4..=500))]
    nodes: u32,
    /// Events a second, of all nodes together
    #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(10..=5_000))]
    rate: u32,
    /// Times that the host is killed meanwhile; the broker is killed once
    #[arg(long, default_value_t = 3)]
    kills: usize,
}

pub async fn run(repository: &Repository, arguments: &Arguments) -> Result<ExitCode> {
    setup::program("nats-server", "nats-server")?;
    let binary = repository.built_binary()?;
    let dir = tempfile::Builder::new().prefix("waybill-demo-").tempdir().context("making a temporary folder")?;
    let outcome = tokio::select! {
        outcome = show(arguments, &binary, dir.path()) => outcome,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; host, broker and their files are gone"),
    };
    let passed = outcome.as_ref().is_ok_and(Outcome::passed);
    if !passed {
        eprintln!("configuration, log and store stay in {}", dir.keep().display());
    }
    print!("{}", outcome?);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(arguments: &Arguments, binary: &Path, dir: &Path) -> Result<Outcome> {
    let events = u64::from(arguments.events);
    let nats = nats::Server::start().await.context("starting nats-server")?;
    let launch = Launch::prepare(binary.to_owned(), dir, &config(dir, &nats.url()))?;
    let mut stage = Stage::start(nats, launch).await?;
    eprintln!("host      {} with a relay to NATS, killed {} times", stage.api().lock().base(), arguments.kills);
    eprintln!("fleet     {} nodes, {} events a second", arguments.nodes, arguments.rate);

    let nodes = Node::all(arguments.nodes);
    let bars = Bars::new(events)?;
    let began = Instant::now();
    let mut readers = Readers::start(stage.api(), &nodes);
    let mut fleet = Fleet::start(stage.api(), &nodes, events, arguments.rate)?;
    let kills = stage.act_in_turn(&mut fleet, &mut readers, events, arguments.kills, &bars).await?;
    stage.drain(&fleet, &mut readers, &bars).await?;
    let took = began.elapsed();
    bars.finish();

    let evidence = stage.evidence(&nodes, fleet, &readers, kills).await?;
    // Before the host ends: it would wait for those who read.
    drop(readers);
    let outcome = outcome(events, &evidence, took);
    stage.end(TERMINATE_WITHIN).await?;
    Ok(outcome)
}

/// Few commits are held for live readers, so that one that doesn't read lags; a broker that is away is tried again soon.
fn config(dir: &Path, nats: &str) -> String {
    let store = toml::Value::String(format!("surrealkv://{}", dir.join("data").display()));
    format!(
        "[store]\nurl = {store}\n\
         [outbox]\nbackoff = {{ base_ms = 100, factor = 2.0, jitter = 0.3, cap_ms = 2000 }}\n\
         [events]\nlive_buffer_size = 64\n\
         [transport.nats]\nplugin = \"nats\"\nconfig = {{ servers = [\"{nats}\"] }}\n\
         allow = {{ net = [\"{}\"] }}\n\
         [relay.{RELAY}]\nmatch = \"task.**\"\ntransport = \"nats\"\nbody = \"json\"\n",
        nats.replace("nats://", "tcp://")
    )
}

#[cfg(test)]
mod tests;
