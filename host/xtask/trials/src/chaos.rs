//! `cargo xtask chaos`: the harnesses of the suite, for as long as you like and with a seed of your choice.

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Subcommand;
use indicatif::{ProgressBar, ProgressStyle};
use waybill_testkit::{kill, model, storm};
use xtask::cargo::Repository;

/// Schedules between two looks at the progress.
const SEEDS_AT_ONCE: u64 = 500;

/// Harnesses.
#[derive(Debug, Subcommand)]
pub enum Chaos {
    /// Kill the release binary at random moments under load, and compare what clients, receiver and store say
    Kill {
        /// Kills
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..))]
        cycles: u32,
        /// Seed; without one a new one is drawn and shown
        #[arg(long)]
        seed: Option<u64>,
        /// Set the host's wall clock an hour back and ahead, while it runs and between two starts
        #[arg(long)]
        clock_steps: bool,
    },
    /// Kill the release binary six times within three seconds, and again with a message that really kills it: what does it
    /// cost, and is that message found
    Storm {
        /// Messages of the backlog
        #[arg(long, default_value_t = 2_100, value_parser = clap::value_parser!(u32).range(100..))]
        messages: u32,
    },
    /// Let calls to the disk fail below a store at work (EIO, ENOSPC, EMFILE), and look for what was acknowledged
    Faults {
        /// Runs, with a fault each
        #[arg(long, default_value_t = 500, value_parser = clap::value_parser!(u32).range(1..))]
        runs: u32,
        /// Seed; without one a new one is drawn and shown
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Lose the power at syncs of a store at work, with what wasn't synced dropped, torn or reordered, and look for what was acknowledged
    Power {
        /// Times that the power is lost
        #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u32).range(1..))]
        images: u32,
        /// Seed; without one a new one is drawn and shown
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Try random statements of callers on a store with canaries in every table of Waybill's: behind the guard, behind the wall
    /// below it, and behind both
    Statements {
        /// Statements, of which each is tried behind each of the walls
        #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Seed; without one a new one is drawn and shown
        #[arg(long)]
        seed: Option<u64>,
    },
    /// Drive the protocol's real code through random schedules of crashes, pauses, late and unknown commits
    Model {
        /// Schedules, each with a seed of its own
        #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
        seeds: u64,
        /// First seed
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Leave one rule of the protocol out (1, 2, ...): the run has to notice
        #[arg(long, value_name = "NUMBER")]
        mutation: Option<usize>,
        /// Show every event of the first seed instead of running many
        #[arg(long)]
        trace: bool,
    },
}

pub async fn run(chaos: &Chaos) -> Result<ExitCode> {
    match *chaos {
        Chaos::Kill { cycles, seed, clock_steps } => {
            let repository = Repository::find()?;
            kill(&repository, cycles, seed.unwrap_or_else(rand::random), clock_steps).await
        }
        Chaos::Storm { messages } => {
            let repository = Repository::find()?;
            storm(&repository, messages as usize).await
        }
        Chaos::Faults { runs, seed } => DISK.run("call_that_failed", "WAYBILL_DISK_FAULTS", runs, seed),
        Chaos::Power { images, seed } => DISK.run("power_loss", "WAYBILL_DISK_IMAGES", images, seed),
        Chaos::Statements { count, seed } => {
            WALLS.run("tests::walls::differential::", "WAYBILL_STATEMENTS", count, seed)
        }
        Chaos::Model { seeds, seed, mutation, trace } => {
            let mutation = mutation.map(numbered).transpose()?;
            let options = model::Options { mutation, trace };
            if trace { Ok(model_traced(seed, &options)) } else { model_many(seed, seeds, &options) }
        }
    }
}

fn numbered(number: usize) -> Result<model::Mutation> {
    model::Mutation::numbered(number).with_context(|| {
        let all: Vec<_> =
            (1..).zip(model::Mutation::all()).map(|(number, which)| format!("\n  {number:>2}  {which:?}")).collect();
        format!("there is no mutation {number}; there are{}", all.concat())
    })
}

async fn kill(repository: &Repository, cycles: u32, seed: u64, clock_steps: bool) -> Result<ExitCode> {
    let binary = repository.built_binary()?;
    eprintln!("kill -9: seed {seed}, {cycles} cycles");
    let evidence = repository.target.join("chaos").join(format!("kill-{seed}"));
    let bar = ProgressBar::new(u64::from(cycles));
    bar.set_style(
        ProgressStyle::with_template("{bar:30} {pos} of {len} kills, {msg}, {eta} left").context("progress bar")?,
    );
    let options = kill::Options { cycles, seed, clock_steps, binary, evidence };
    let report = kill::run(&options, |done, acknowledged, arrived| {
        bar.set_position(u64::from(done));
        bar.set_message(format!("{acknowledged} acknowledged, {arrived} arrived"));
    })
    .await;
    bar.finish_and_clear();
    let report = report?;
    println!("{report}");
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn storm(repository: &Repository, messages: usize) -> Result<ExitCode> {
    let binary = repository.built_binary()?;
    let report = storm::run(&storm::Options { binary, messages }, |what| eprintln!("storm: {what}")).await?;
    println!("{report}");
    println!("storm: {}", if report.passed() { "passed" } else { "FAILED" });
    Ok(if report.passed() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Tests of the suite that run for longer here.
struct Longer {
    name: &'static str,
    /// Which test programs have them, for cargo.
    programs: &'static [&'static str],
    /// Variable with their seed.
    seed: &'static str,
}

/// A disk that fails.
const DISK: Longer = Longer { name: "failing disk", programs: &["--test", "disk"], seed: "WAYBILL_DISK_SEED" };
const WALLS: Longer = Longer { name: "statements", programs: &["--lib"], seed: "WAYBILL_STATEMENTS_SEED" };

impl Longer {
    /// Runs those whose names contain `filter`, so many times as `variable` tells them.
    fn run(&self, filter: &str, variable: &str, times: u32, seed: Option<u64>) -> Result<ExitCode> {
        // Seeds of tests fit into the numbers of any machine.
        let seed = seed.unwrap_or_else(|| u64::from(rand::random::<u32>()));
        eprintln!("{}: seed {seed}, {times} times", self.name);
        // All of it: for one package alone, features of dependencies would differ and be compiled again.
        let before = ["test", "--release", "--locked", "--workspace"];
        let mut command = Repository::find()?.cargo(before);
        command.args(self.programs).args(["--", filter, "--nocapture"]);
        command.env(variable, times.to_string()).env(self.seed, seed.to_string());
        let status = command.status().with_context(|| format!("starting {}", xtask::cargo::shown(&command)))?;
        Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

fn model_traced(seed: u64, options: &model::Options) -> ExitCode {
    let outcome = model::run(seed, options);
    for event in &outcome.trace {
        println!("{event}");
    }
    for violation in &outcome.violations {
        println!("violation: {violation}");
    }
    verdict(!outcome.violations.is_empty(), options)
}

fn model_many(first: u64, count: u64, options: &model::Options) -> Result<ExitCode> {
    let bar = ProgressBar::new(count);
    bar.set_style(ProgressStyle::with_template("{bar:30} {pos} of {len} seeds, {eta} left").context("progress bar")?);
    let (mut failed, mut from) = (0, first);
    while from < first + count {
        let chunk = SEEDS_AT_ONCE.min(first + count - from);
        let report = model::run_many(from, chunk, options);
        bar.inc(chunk);
        failed += report.failed.len();
        // One report a chunk would be many; what is wrong is worth each of them.
        if !report.failed.is_empty() || from + chunk == first + count {
            bar.suspend(|| println!("from seed {from}: {report}"));
        }
        if let Some((seed, _)) = report.failed.first_key_value() {
            let mutation =
                options.mutation.and_then(|which| model::Mutation::all().iter().position(|other| *other == which));
            let flag = mutation.map(|place| format!(" --mutation {}", place + 1)).unwrap_or_default();
            bar.suspend(|| println!("step by step: cargo xtask chaos model --seed {seed} --trace{flag}"));
        }
        // A mutation noticed once is noticed.
        if options.mutation.is_some() && failed > 0 {
            break;
        }
        from += chunk;
    }
    bar.finish_and_clear();
    Ok(verdict(failed > 0, options))
}

fn verdict(violated: bool, options: &model::Options) -> ExitCode {
    let (good, text) = match (options.mutation, violated) {
        (None, false) => (true, "model: no violation".to_owned()),
        (None, true) => (false, "model: FAILED".to_owned()),
        (Some(which), true) => (true, format!("model: {which:?} is noticed")),
        (Some(which), false) => (false, format!("model: FAILED: {which:?} isn't noticed")),
    };
    println!("{text}");
    if good { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
