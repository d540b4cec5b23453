//! `cargo xtask test`: everything that proves Waybill, in one command; CI runs exactly this.
//!
//! | stage | why there |
//! |---|---|
//! | formatting, tidiness, features, advisories | seconds; features save an hour |
//! | the binary, then all tests | release profile, so that the heavy dependencies are compiled once |
//! | every suite | one after the other; each uses all cores itself |
//! | doc tests, plugins' native tests | |
//! | clippy | last: a check build of all dependencies, five minutes when it is cold |
//!
//! With a filter only the tests run, and only those whose names contain it. The last line is `N passed, N failed`.
//!
//! `--repeat N --busy` is how a test is found that fails because the machine is busy: all test programs run N times beside threads
//! that keep every core busy.

mod busy;
mod count;
mod suites;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;

use crate::cargo::Repository;
use crate::stage::Stages;
use crate::{features, lint, setup, tidy};
use busy::Load;
use count::Counts;
use suites::Workspace;

/// What to test.
#[derive(Debug, Args)]
pub struct Arguments {
    /// Run only tests whose names contain this, and none of the other checks
    filter: Option<String>,
    /// Run the test programs so many times, and none of the other checks; every run goes to its end
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    repeat: u32,
    /// Keep every core busy beside the tests: none may fail because the machine is slow
    #[arg(long)]
    busy: bool,
}

/// Stages before the test programs run, and all of a run without a filter.
const STAGES: [usize; 2] = [3, 11];

/// Runs it.
pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    let filter = arguments.filter.as_deref();
    let whole = filter.is_none() && arguments.repeat == 1 && !arguments.busy;
    let runs = usize::try_from(arguments.repeat)?;
    let mut stages = Stages::of(if whole { STAGES[1] } else { STAGES[0] + runs });
    let mut counts = Counts::default();

    if stages.run("setting up", async { set_up(&repository) }).await.is_none() {
        return Ok(finish(&stages, &counts));
    }
    if whole {
        stages.run("formatting", async { lint::formatting(&repository) }).await;
        stages.run("tidiness of the sources", async { tidy::check(&repository) }).await;
        stages.run("features of shared dependencies", async { features::check(&repository) }).await;
        stages.run("advisories about dependencies", async { lint::advisories(&repository) }).await;
    }
    let built = stages.run("building the binary", async { repository.build_binary() }).await;
    let host = Workspace::host(&repository);
    let suites = match built {
        Some(_) => stages.run("building the tests", async { host.build() }).await,
        None => None,
    };
    if let Some(suites) = suites {
        let load = arguments.busy.then(Load::on_every_core);
        for _ in 0..runs {
            stages.run("tests", suites::run(&repository, &suites, filter, &mut counts)).await;
        }
        drop(load);
        if whole {
            stages.run("tests in documentation", suites::documentation(&repository, &mut counts)).await;
            let guests = Workspace::plugins(&repository);
            let plugins = async {
                let suites = guests.build()?;
                suites::run(&repository, &suites, None, &mut counts).await
            };
            stages.run("native tests of the plugins", plugins).await;
            stages.run("clippy", async { lint::clippy(&repository) }).await;
        } else if counts.passed + counts.failed == 0 {
            bail!("no test's name contains {:?}", filter.unwrap_or_default());
        }
    }
    Ok(finish(&stages, &counts))
}

fn set_up(repository: &Repository) -> Result<()> {
    setup::guest_target()?;
    // Real brokers, not stand-ins.
    setup::program("nats-server", "nats-server")?;
    setup::program("rabbitmq-server", "rabbitmq-server")?;
    setup::program("redis-server", "redis-server")?;
    // The worker of examples/worker-python.
    setup::program("python3", "python3")?;
    if cfg!(target_os = "linux") {
        // Holds up the syncs of a host.
        setup::program("strace", "strace")?;
    }
    // Makes components of JavaScript and Python.
    setup::python_venv()?;
    waybill_testkit::toolchains::install(&repository.target)?;
    Ok(())
}

fn finish(stages: &Stages, counts: &Counts) -> ExitCode {
    let passed = stages.passed() && counts.failed == 0 && counts.passed > 0;
    print!("\n{}", stages.summary());
    for suite in &counts.failed_suites {
        println!("failed: {suite}");
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
