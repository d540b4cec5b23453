//! `cargo xtask demo`: real orders through a real host, on a fresh clone, in one command.
//!
//! It starts a receiver that fails one attempt in ten and rejects one order in two hundred,
//! starts `waybill serve` on a temporary store on disk, commits every order in one transaction with its business row,
//! waits until the outbox is empty, and checks every order itself. Progress goes to stderr, the result to stdout.

mod commit;
mod evidence;
mod insistent;
mod judge;
mod nats;
mod orders;
mod outcome;
mod relay;
mod result;
mod saga;
mod streams;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use waybill_testkit::api::{Api, Depth};
use waybill_testkit::process::{Host, Launch};
use waybill_testkit::receiver::Receiver;
use xtask::cargo::Repository;

use evidence::Evidence;
use orders::Order;
use result::Outcome;

/// The orders that come with the repository.
const ORDERS: &str = "examples/orders/orders.jsonl";
/// What the host gets to end in good order.
const TERMINATE_WITHIN: Duration = Duration::from_secs(40);
/// Between two looks at the outbox.
const POLL: Duration = Duration::from_millis(100);
/// When nothing has moved for this long, something is wrong.
const STALLED_AFTER: Duration = Duration::from_secs(60);

/// What to show.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    other: Option<Other>,
    /// JSON-lines file with one order a line; the key is its `customer`, `customer_id` or `key`
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Leave host and store up afterwards, until Ctrl-C, to look closer
    #[arg(long)]
    keep: bool,
}

/// Demos beside the first one.
#[derive(Debug, Subcommand)]
enum Other {
    /// Deliver to NATS JetStream while its server is killed and started again, and check every message in the stream
    Nats(nats::Arguments),
    /// Orders as sagas against a shop that makes trouble: what fails is undone, and stock, money and parcels add up
    Saga(saga::Arguments),
    /// A shop's own outbox in PostgreSQL, relayed to NATS and a webhook and billed behind an inbox, while all of them are
    /// killed in turn
    Relay(relay::Arguments),
    /// A fleet of nodes appends events, subscribers replay, lag and resume, and a relay feeds NATS, while host and broker are killed
    Streams(streams::Arguments),
}

pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    match &arguments.other {
        Some(Other::Nats(arguments)) => return nats::run(&repository, arguments).await,
        Some(Other::Saga(arguments)) => return saga::run(&repository, arguments).await,
        Some(Other::Relay(arguments)) => return relay::run(&repository, arguments).await,
        Some(Other::Streams(arguments)) => return streams::run(&repository, arguments).await,
        None => {}
    }
    let file = arguments.file.clone().unwrap_or_else(|| repository.root.join(ORDERS));
    let orders = orders::read(&file)?;
    let binary = repository.built_binary()?;
    let dir = tempfile::Builder::new().prefix("waybill-demo-").tempdir().context("making a temporary folder")?;
    let launch = Launch::prepare(binary.clone(), dir.path(), &config(&dir.path().join("data")))?;
    let shown = tokio::select! {
        shown = show(&launch, &orders, dir.path()) => shown?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; the host and its temporary store are gone"),
    };
    if arguments.keep {
        result::closer(&binary, &shown.api, &shown.evidence);
        wait_for_the_end(shown.host).await?;
        println!("\nThe store stays; this opens it again:");
        println!("  {} serve --config {}", binary.display(), dir.keep().join("waybill.toml").display());
    } else {
        println!("Look closer with `cargo xtask demo --keep`, which leaves the host up.");
        let status = shown.host.terminate(TERMINATE_WITHIN).await?;
        if !status.success() {
            bail!("the host was asked to end and ended with {status}");
        }
    }
    Ok(if shown.passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is left when all orders are through.
struct Shown {
    host: Host,
    api: Api,
    /// Destinations are dead when it is gone.
    _receiver: Receiver,
    evidence: Evidence,
    passed: bool,
}

async fn show(launch: &Launch, orders: &[Order], dir: &Path) -> Result<Shown> {
    let receiver = Receiver::start(judge::judge).await.context("starting the receiver")?;
    let (host, api) = Host::ready(launch).await?;
    eprintln!("host      {} with its store on disk in {}", api.base(), dir.display());
    eprintln!("receiver  {} fails one attempt in ten, rejects one order in two hundred", receiver.url("orders"));

    let bars = result::Bars::new(orders.len())?;
    let topic = receiver.url("orders");
    let work = async {
        let committed = commit::all(&api, orders, &topic, &bars).await?;
        drain(&api, &receiver).await?;
        anyhow::Ok(committed)
    };
    let worked = tokio::select! {
        worked = work => worked,
        () = bars.follow(&receiver) => bail!("the receiver ended first"),
    };
    bars.finish();
    let committed = worked?;

    let evidence = Evidence {
        arrivals: receiver.arrivals(),
        faults: receiver.faults(),
        dead: api.dead_letters().await?,
        rows: api.row_ids(commit::TABLE).await?,
        left: api.depths().await?.iter().map(Depth::on_the_way).sum(),
    };
    let outcome = Outcome::of(orders, &committed, &evidence, receiver.started());
    print!("{outcome}");
    Ok(Shown { host, api, _receiver: receiver, evidence, passed: outcome.passed() })
}

/// Retries come soon, as one watches; everything else is the default.
fn config(data: &Path) -> String {
    let mut store = toml::Table::new();
    store.insert("url".into(), toml::Value::String(format!("surrealkv://{}", data.display())));
    let mut config = toml::Table::new();
    config.insert("store".into(), toml::Value::Table(store));
    format!("{config}\n[outbox]\nbackoff = {{ base_ms = 100, factor = 2.0, jitter = 0.3, cap_ms = 2000 }}\n")
}

/// Waits until the host says that nothing is on its way.
async fn drain(api: &Api, receiver: &Receiver) -> Result<()> {
    let (mut seen, mut moved) = (None, Instant::now());
    loop {
        let depths = api.depths().await?;
        let left: u64 = depths.iter().map(Depth::on_the_way).sum();
        if left == 0 {
            return Ok(());
        }
        let now = (left, receiver.gauges());
        if seen != Some(now) {
            (seen, moved) = (Some(now), Instant::now());
        } else if moved.elapsed() > STALLED_AFTER {
            bail!("{left} messages wait and nothing has moved for {} s: {depths:?}", STALLED_AFTER.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}

/// Until Ctrl-C, which the host, being in the same group, gets too; or until the host ends by itself.
async fn wait_for_the_end(mut host: Host) -> Result<()> {
    loop {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => break,
            () = tokio::time::sleep(POLL) => {
                if let Some(status) = host.ended_by_itself() {
                    bail!("the host ended by itself with {status}; its last words are in {}", host.log().display());
                }
            }
        }
    }
    host.terminate(TERMINATE_WITHIN).await?;
    Ok(())
}

#[cfg(test)]
mod tests;
