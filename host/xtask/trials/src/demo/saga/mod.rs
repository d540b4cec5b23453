//! `cargo xtask demo saga`: orders as sagas, through the example's participant, against a shop that refuses, is busy, loses
//! answers and gets stuck; optionally with a host that is killed meanwhile.
//!
//! - `plan`: the orders and what has to become of each
//! - `shop`: `examples/order-saga/shop.py` as a process
//! - `drive`: starting sagas, following them, the operator's part
//! - `evidence`: the checks
//! - `result`: what one sees

mod drive;
mod evidence;
mod plan;
mod result;
mod shop;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::Value;
use waybill_testkit::process::Launch;
use xtask::cargo::{Repository, run as run_command};
use xtask::setup::GUEST_TARGET;

use super::TERMINATE_WITHIN;
use crate::setup;
use drive::Driver;
use evidence::Evidence;
use result::{Bars, outcome};
use shop::Shop;

const EXAMPLE: &str = "examples/order-saga";
/// Where the example's files look for the shop.
const SHOP_URL: &str = "http://127.0.0.1:7500";

/// How much to show.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Orders
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..=900))]
    orders: u16,
    /// Times the host is killed and started again meanwhile
    #[arg(long, default_value_t = 0)]
    kills: usize,
    /// Leave host and shop up afterwards, until Ctrl-C, to look closer
    #[arg(long)]
    keep: bool,
}

pub async fn run(repository: &Repository, arguments: &Arguments) -> Result<ExitCode> {
    setup::program("python3", "python3")?;
    let component = component(repository)?;
    let binary = repository.built_binary()?;
    let example = repository.root.join(EXAMPLE);
    let shop = Shop::start(&example.join("shop.py")).await?;
    let dir = tempfile::Builder::new().prefix("waybill-demo-").tempdir().context("making a temporary folder")?;
    let config = config(&read(&example.join("waybill.toml"))?, dir.path(), &component, shop.url())?;
    let launch = Launch::prepare(binary.clone(), dir.path(), &config)?;
    let shown = tokio::select! {
        shown = show(&launch, &example, &shop, arguments) => shown?,
        _ = tokio::signal::ctrl_c() => bail!("interrupted; host, shop and their files are gone"),
    };
    let Shown { driver, passed } = shown;
    if arguments.keep {
        closer(&binary, &driver, &shop);
        super::wait_for_the_end(driver.into_host()?).await?;
    } else {
        println!("Look closer with `cargo xtask demo saga --keep`, which leaves the host up.");
        let status = driver.into_host()?.terminate(TERMINATE_WITHIN).await?;
        if !status.success() {
            bail!("the host was asked to end and ended with {status}");
        }
    }
    Ok(if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is left when all orders are through.
struct Shown {
    driver: Driver,
    passed: bool,
}

async fn show(launch: &Launch, example: &Path, shop: &Shop, arguments: &Arguments) -> Result<Shown> {
    let orders = plan::orders(usize::from(arguments.orders));
    let before = shop.accounts().await?;
    let mut driver = Driver::start(launch).await?;
    eprintln!("host      {} with the participant fn:orders", driver.api().base());
    eprintln!("shop      {} refuses, is busy, loses answers and gets stuck, as the orders say", shop.url());
    driver.define(&definition(&read(&example.join("order.toml"))?, shop.url())?).await?;

    let bars = Bars::new(orders.len())?;
    let began = Instant::now();
    driver.run(&orders, arguments.kills, &bars).await?;
    let stuck = driver.stuck().await?;
    bars.tell(&format!("{} sagas are stuck: the shop is mended, and they are told to try again", stuck.len()));
    shop.repair().await?;
    driver.retry(&stuck).await?;
    driver.all_ended(orders.len(), &bars).await?;
    let took = began.elapsed();
    bars.finish();

    let sagas = driver.sagas(&orders).await?;
    let (after, log) = (shop.accounts().await?, shop.log().await?);
    let evidence = Evidence { sagas, stuck, before, after, log, killed: arguments.kills > 0 };
    let outcome = outcome(&orders, &evidence, arguments.kills, took);
    print!("{outcome}");
    Ok(Shown { driver, passed: outcome.passed() })
}

fn component(repository: &Repository) -> Result<PathBuf> {
    let manifest = Path::new(EXAMPLE).join("Cargo.toml");
    let target = repository.target.join("examples");
    let mut build = repository.cargo(["build", "--release", "--locked", "--target", GUEST_TARGET]);
    run_command(build.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(&target))?;
    let component = target.join(GUEST_TARGET).join("release").join("orders.wasm");
    if !component.is_file() {
        bail!("the build ended well, but there is no {}", component.display());
    }
    Ok(component)
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))
}

/// The example's configuration with this run's folder, component and shop.
fn config(text: &str, dir: &Path, component: &Path, shop: &str) -> Result<String> {
    let mut config: toml::Table = text.replace(SHOP_URL, shop).parse().context("the example's waybill.toml")?;
    for (section, key, value) in [
        ("store", "url", format!("surrealkv://{}", dir.join("data").display())),
        ("participant", "plugin", component.display().to_string()),
    ] {
        let table = config.get_mut(section).and_then(toml::Value::as_table_mut);
        let table = match section {
            "participant" => table.and_then(|table| table.get_mut("orders")).and_then(toml::Value::as_table_mut),
            _ => table,
        };
        let table = table.with_context(|| format!("the example's waybill.toml has no section {section}"))?;
        table.insert(key.to_owned(), toml::Value::String(value));
    }
    Ok(config.to_string())
}

/// The example's definition with this run's shop.
fn definition(text: &str, shop: &str) -> Result<Value> {
    toml::from_str(&text.replace(SHOP_URL, shop)).context("the example's order.toml")
}

/// Commands for a closer look at the running host.
fn closer(binary: &Path, driver: &Driver, shop: &Shop) {
    let waybill = format!("{} --url {}", binary.display(), driver.api().base());
    println!("\nHost and shop still run; Ctrl-C ends them. Look closer:");
    println!("  {waybill} saga list --filter 'state=cancelled'");
    for (order, what) in [(0, "completed"), (9, "everything but the last step, and back"), (19, "was stuck")] {
        println!("  {waybill} saga show order-{order:04}    # {what}");
    }
    println!("  curl {}/accounts", shop.url());
    println!("  curl {}/log", shop.url());
    println!("  curl {}/metrics", driver.api().base());
}

#[cfg(test)]
mod tests;
