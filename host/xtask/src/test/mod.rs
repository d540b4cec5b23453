//! `cargo xtask test`: everything that proves Waybill, in one command; CI runs exactly this.
//!
//! | stage | why there |
//! |---|---|
//! | formatting, tidiness, features, advisories | seconds; features save an hour |
//! | the binary, then all tests | release profile, so that the heavy dependencies are compiled once |
//! | every suite | a few more at a time than there are cores, the longest first; what one writes is shown when it has ended |
//! | doc tests, plugins' native tests | |
//! | clippy | last: a check build of all dependencies, five minutes when it is cold |
//!
//! With a filter only the tests run, and only those whose names contain it. At the end it names the slowest suites; the last line is
//! `N passed, N failed`.
//!
//! Where all combinations of what a test could try take longer than a run may, it takes a choice of them and says what it left out,
//! which is told again at the end. `--full` has them tried all; it adds to what is run, and leaves nothing away.
//!
//! `--standing` runs the standing checks only (`standing.rs` lists them); the line of that stage is what they took together.
//!
//! `--repeat N --busy` is how a test is found that fails because the machine is busy: the workspace's test programs run N times
//! beside threads that keep every core busy; doc tests and plugins' native tests, which wait for nothing, aren't repeated. A line
//! tells what each run came to, and the list at the end which suite failed in which run.

mod busy;
mod count;
mod documentation;
mod job;
mod output;
mod program;
mod side_by_side;
mod standing;
mod suites;
mod times;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;

use crate::cargo::{Repository, run as run_command};
use crate::stage::{Stages, seconds};
use crate::{features, lint, setup, tidy};
use busy::Load;
use count::Counts;
use job::Job;
use suites::{Suite, Workspace};
use times::Times;

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
    /// Run the standing checks only: random statements, faults, power losses, clock steps, the model, sweeps, bounds
    #[arg(long, conflicts_with = "filter")]
    standing: bool,
    /// Try all that a plain run takes a choice of: each view of the page at each width, in each theme, with and without script, and each act
    #[arg(long, conflicts_with = "standing")]
    full: bool,
}

impl Arguments {
    /// Everything there is, and not only test programs.
    fn whole(&self) -> bool {
        self.filter.is_none() && self.repeat == 1 && !self.busy && !self.standing
    }

    /// The stage in which test programs run.
    fn stage(&self) -> &'static str {
        if self.standing { "standing checks (warm, 3 minutes at most)" } else { "tests" }
    }

    fn jobs(&self, suites: &[Suite]) -> Result<Vec<Job>> {
        if self.standing {
            return standing::jobs(suites);
        }
        let asked = |suite| Job::asked(suite, self.filter.as_deref()).in_full(self.full);
        Ok(suites.iter().map(asked).collect())
    }
}

/// Stages before the test programs run, and all of a run without a filter.
const STAGES: [usize; 2] = [4, 12];
/// Suites that are named at the end.
const SLOWEST: usize = 10;

pub async fn run(arguments: &Arguments) -> Result<ExitCode> {
    let repository = Repository::find()?;
    let whole = arguments.whole();
    let runs = usize::try_from(arguments.repeat)?;
    let mut stages = Stages::of(if whole { STAGES[1] } else { STAGES[0] + runs });
    let mut counts = Counts::default();
    let mut times = Times::read(&repository.target);

    if stages.run("setting up", async { setup::guest_target() }).await.is_none() {
        return Ok(finish(&stages, &counts, &times));
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
        Some(_) if stages.run("installing brokers and tools", async { set_up(&repository) }).await.is_some() => {
            stages.run("building the tests", async { host.build(&repository) }).await
        }
        _ => None,
    };
    if let Some(suites) = suites {
        let (binary, at_once) = (repository.binary(), job::more_than_cores());
        let load = arguments.busy.then(Load::on_every_core);
        for number in 1..=runs {
            let began = Instant::now();
            let mut run = Counts::default();
            let tests =
                async { side_by_side::run(&binary, at_once, arguments.jobs(&suites)?, &mut run, &mut times).await };
            stages.run(arguments.stage(), tests).await;
            if runs > 1 {
                let (passed, failed, took) = (run.passed, run.failed, seconds(began.elapsed()));
                println!("run {number} of {runs}: {passed} passed, {failed} failed, took {took}");
                run.failed_suites.iter_mut().for_each(|suite| suite.insert_str(0, &format!("run {number}: ")));
            }
            counts.add(run);
        }
        drop(load);
        if whole {
            stages.run("tests in documentation", documentation::run(&repository, &mut counts)).await;
            let guests = Workspace::plugins(&repository);
            let plugins = async {
                let jobs = arguments.jobs(&guests.build(&repository)?)?;
                side_by_side::run(&binary, at_once, jobs, &mut counts, &mut times).await
            };
            stages.run("native tests of the plugins", plugins).await;
            stages.run("clippy", async { lint::clippy(&repository) }).await;
        } else if counts.passed + counts.failed == 0 {
            bail!("no test's name contains {:?}", arguments.filter.as_deref().unwrap_or_default());
        }
        // Of a filter's run they would be those of a few tests.
        if arguments.filter.is_none()
            && let Err(error) = times.keep()
        {
            eprintln!("{error:#}: the next run begins in another order");
        }
    }
    Ok(finish(&stages, &counts, &times))
}

/// Installs the servers and tools that the tests need.
fn set_up(repository: &Repository) -> Result<()> {
    run_command(&mut repository.trials("setup"))
}

fn finish(stages: &Stages, counts: &Counts, times: &Times) -> ExitCode {
    let passed = stages.passed() && counts.failed == 0 && counts.passed > 0;
    print!("\n{}", stages.summary());
    let slowest = times.slowest(SLOWEST);
    if !slowest.is_empty() {
        println!("the slowest suites:");
    }
    for (suite, took) in slowest {
        println!("  {suite:<52} {:>10}", seconds(took));
    }
    for what in &counts.left_out {
        println!("{}{what}", program::LEFT_OUT);
    }
    for suite in &counts.failed_suites {
        println!("failed: {suite}");
    }
    println!("{} passed, {} failed", counts.passed, counts.failed);
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
