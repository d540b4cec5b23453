//! `cargo xtask demo relay`: the shop of `examples/postgres-relay` with its own outbox in PostgreSQL. Its rows go to NATS and to a
//! webhook, and behind an inbox each order is billed once, while PostgreSQL, broker, handler and host are killed in turn.
//!
//! - `programs`: the shop and the handler as processes
//! - `stage`: everything that runs, and what is killed of it
//! - `evidence`: what tables, stream and handler hold at the end, read from outside
//! - `checks`: the comparison
//! - `result`: what one sees

mod checks;
mod evidence;
mod programs;
mod result;
mod stage;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use waybill_testkit::process::Launch;
use waybill_testkit::{nats, postgres, toolchains};
use xtask::cargo::Repository;

use super::TERMINATE_WITHIN;
use super::outcome::Outcome;
use crate::setup;
use programs::{Billing, Shop};
use result::{Bars, outcome};
use stage::Stage;

const EXAMPLE: &str = "examples/postgres-relay";
/// Where the example's configuration looks for PostgreSQL, NATS and the handler.
const POSTGRES: &str = "127.0.0.1:5432";
const NATS: &str = "127.0.0.1:4222";
const BILLING: &str = "127.0.0.1:9200";

/// How much to show.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Orders that the shop places
    #[arg(long, default_value_t = 1_500, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    orders: u32,
    /// Customers; the orders of each stay in order
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    customers: u32,
    /// How many of them a second
    #[arg(long, default_value_t = 25, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rate: u32,
    /// Times that each of PostgreSQL, broker, handler and host is killed meanwhile
    #[arg(long, default_value_t = 1)]
    kills: usize,
}

pub async fn run(repository: &Repository, arguments: &Arguments) -> Result<ExitCode> {
    setup::program("nats-server", "nats-server")?;
    setup::postgres()?;
    setup::program("python3", "python3")?;
    setup::python_venv()?;
    let example = repository.root.join(EXAMPLE);
    let python = toolchains::environment(
        &repository.target.join("examples").join("postgres-relay"),
        &example.join("requirements.txt"),
        None,
    )?
    .join("python3");
    let binary = repository.built_binary()?;
    let dir = tempfile::Builder::new().prefix("waybill-demo-").tempdir().context("making a temporary folder")?;
    let outcome = tokio::select! {
        outcome = show(arguments, &example, &python, &binary, dir.path()) => outcome,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; host, servers and their files are gone"),
    };
    let passed = outcome.as_ref().is_ok_and(Outcome::passed);
    if !passed {
        eprintln!("configuration, log, store and the handler's database stay in {}", dir.keep().display());
    }
    print!("{}", outcome?);
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn show(arguments: &Arguments, example: &Path, python: &Path, binary: &Path, dir: &Path) -> Result<Outcome> {
    let postgres = postgres::Server::start().await.context("starting PostgreSQL")?;
    let nats = nats::Server::start().await.context("starting nats-server")?;
    let billing = Billing::start(python, &example.join("billing.py"), &dir.join("billing.db")).await?;
    let text = std::fs::read_to_string(example.join("waybill.toml")).context("reading the example's waybill.toml")?;
    let config =
        config(&text, dir, &Addresses { postgres: postgres.port(), nats: nats.port(), billing: billing.port() })?;
    let launch = Launch::prepare(binary.to_owned(), dir, &config)?;
    let shop = Shop::new(python, &example.join("shop.py"), &postgres.url());
    shop.create().await?;

    let mut stage = Stage::start(postgres, nats, billing, launch).await?;
    eprintln!("host      {} relays two tables and has an inbox in front of the handler", stage.api().base());
    eprintln!("handler   {} fails now and then, before and after it wrote a bill", stage.billing_url());
    let bars = Bars::new(arguments.orders)?;
    let began = Instant::now();
    let mut placing = shop.place(arguments.orders, arguments.customers, arguments.rate)?;
    let kills = stage.kill_in_turn(&mut placing, arguments.orders, arguments.kills, &bars).await?;
    placing.ended().await?;
    stage.drain(arguments.orders, &bars).await?;
    let took = began.elapsed();
    bars.finish();

    let evidence = stage.evidence(kills).await?;
    let outcome = outcome(arguments.orders, &evidence, took);
    stage.end(TERMINATE_WITHIN).await?;
    Ok(outcome)
}

/// Ports of this run's servers on loopback.
struct Addresses {
    postgres: u16,
    nats: u16,
    billing: u16,
}

/// The example's configuration with this run's folder and servers.
fn config(text: &str, dir: &Path, addresses: &Addresses) -> Result<String> {
    let mut text = text.to_owned();
    for (known, port) in [(POSTGRES, addresses.postgres), (NATS, addresses.nats), (BILLING, addresses.billing)] {
        if !text.contains(known) {
            bail!("the example's waybill.toml doesn't name {known}");
        }
        text = text.replace(known, &format!("127.0.0.1:{port}"));
    }
    let mut config: toml::Table = text.parse().context("the example's waybill.toml")?;
    let store = config.get_mut("store").and_then(toml::Value::as_table_mut);
    let store = store.context("the example's waybill.toml has no section store")?;
    store.insert("url".into(), format!("surrealkv://{}", dir.join("data").display()).into());
    Ok(config.to_string())
}

#[cfg(test)]
mod tests;
