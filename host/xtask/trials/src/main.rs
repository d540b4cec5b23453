//! What shows, measures and breaks Waybill with real processes, behind `cargo xtask demo`, `bench` and `chaos`.
//!
//! It is a program of its own because it needs clients, servers and models that the other tasks don't: `xtask` builds it together
//! with the binary, so that both share one build of their dependencies, and hands its arguments on.
//!
//! | module | what |
//! |---|---|
//! | `demo` | orders on their way through a real host: over HTTP, to NATS, as sagas, from a table of one's own; a fleet's event streams |
//! | `bench` | the workloads of outbox, sagas, inbox and event streams beside native references |
//! | `chaos` | kill -9, a crash loop, the protocol's model, failing disks, power losses, random statements |
//! | `setup` | the servers and tools that tests and demos run against |
//!
//! Exit status: 0 done, 1 failed, 2 wrong usage.

mod bench;
mod chaos;
mod demo;
mod setup;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Tasks of the Waybill repository that run a real host.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    trial: Trial,
}

#[derive(Debug, Subcommand)]
enum Trial {
    /// Commit orders with their messages, deliver them to a receiver that fails now and then, and check every one
    Demo(demo::Arguments),
    /// Measure the workloads of outbox, sagas, inbox and event streams, each beside a native reference in the same run
    Bench(bench::Arguments),
    /// Break things on purpose, again and again
    #[command(subcommand)]
    Chaos(chaos::Chaos),
    /// Install the servers and tools that the test programs need
    #[command(hide = true)]
    Setup,
}

fn main() -> ExitCode {
    let trial = Cli::parse().trial;
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: starting the runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let done = runtime.block_on(async {
        match trial {
            Trial::Demo(arguments) => demo::run(&arguments).await,
            Trial::Bench(arguments) => bench::run(&arguments).await,
            Trial::Chaos(chaos) => chaos::run(&chaos).await,
            Trial::Setup => setup::for_tests().await.map(|()| ExitCode::SUCCESS),
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
