//! `cargo xtask`: one command each for what people do with this repository.
//!
//! | command | what |
//! |---|---|
//! | `demo` | sets up, builds, and shows orders on their way through a real host |
//! | `demo nats` | the same to NATS JetStream, whose server is killed meanwhile |
//! | `demo saga` | orders as sagas against a shop that makes trouble: what fails is undone |
//! | `demo streams` | a fleet's events: subscribers lag and resume, a relay feeds NATS, host and broker are killed |
//! | `test` | everything that proves Waybill; what CI runs |
//! | `bench` | the workloads of outbox, sagas, inbox and event streams beside native references |
//! | `chaos ...` | kill -9, a crash loop, the protocol's model, failing disks, power losses, random statements, as long as you like |
//! | `fuzz` | lets libFuzzer look for bytes that break a parser or a codec |
//! | `golden` | makes a data directory of today's version for later ones to read |
//! | `lint` | clippy, formatting, licences |
//! | `tidy` | rules about the sources that no compiler checks |
//! | `dist` | what is given away: the binary without its symbols, they beside it, a container image, a Debian package, a list of parts, checksums |
//! | `plugins` | builds the plugins and shows their sizes |
//!
//! Exit status: 0 done, 1 failed, 2 wrong usage.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use xtask::{dist, fuzz, golden, lint, plugins, test, tidy, trials};

/// Tasks of the Waybill repository.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Commit orders with their messages, deliver them to a receiver that fails now and then, and check every one
    #[command(disable_help_flag = true)]
    Demo(trials::Arguments),
    /// Run all tests and checks, or the tests whose names contain FILTER
    Test(test::Arguments),
    /// Measure the workloads of outbox, sagas, inbox and event streams, each beside a native reference in the same run
    #[command(disable_help_flag = true)]
    Bench(trials::Arguments),
    /// Break things on purpose, again and again
    #[command(disable_help_flag = true)]
    Chaos(trials::Arguments),
    /// Look for bytes that break a parser or a codec: a minute for each of them
    Fuzz(fuzz::Arguments),
    /// Make the data directory of this version that later versions have to read
    Golden(golden::Arguments),
    /// Clippy with warnings as errors, formatting, and `cargo deny` where it is installed
    Lint(lint::Arguments),
    /// Check the rules about the sources that no compiler checks
    Tidy,
    /// Make what is given away: the binary, its symbols in a file beside it, a container image, a Debian package, checksums
    Dist,
    /// Build the plugins and show their sizes
    Plugins,
}

fn main() -> ExitCode {
    if let Some(code) = fuzz::as_compiler() {
        return code;
    }
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: starting the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match Cli::parse().task {
            Task::Demo(arguments) => trials::run("demo", &arguments),
            Task::Test(arguments) => test::run(&arguments).await,
            Task::Bench(arguments) => trials::run("bench", &arguments),
            Task::Chaos(arguments) => trials::run("chaos", &arguments),
            Task::Fuzz(arguments) => fuzz::run(&arguments),
            Task::Golden(arguments) => golden::run(&arguments),
            Task::Lint(arguments) => lint::run(&arguments).await,
            Task::Tidy => tidy::run(),
            Task::Dist => dist::run(),
            Task::Plugins => plugins::run(),
        }
    });
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("\nerror: {error:#}");
            ExitCode::FAILURE
        }
    }
}
