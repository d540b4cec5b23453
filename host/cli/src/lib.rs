//! The `waybill` command: configuration, commands about a host, and `serve`, which puts a host together.
//!
//! This is the only crate that knows all others. It holds no logic of the outbox: commands talk to a host through its HTTP
//! API, and `serve` connects adapters to the engine's ports. `src/main.rs` is a shell over [`main`], so that tests can call
//! [`run`] with streams of their own.

// The types of the embedded database nest deeper than the compiler looks by default.
#![recursion_limit = "512"]

pub mod args;
mod author;
pub mod client;
pub mod commands;
mod compile;
pub mod config;
mod data;
pub mod exit;
mod logging;
pub mod output;
pub mod plugins;
pub mod saga_definitions;
mod serve;
pub mod setup;
pub mod term;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind as ParseErrorKind;
use tokio::runtime::Builder;

use crate::args::{Cli, Output};
use crate::commands::Command;
use crate::exit::{CliError, Exit};
use crate::term::Term;

/// Threads of a command that runs plugins itself.
const PLUGIN_WORKERS: usize = 4;

/// The program: this process's arguments and streams.
pub fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|word| word == compile::COMPILE) {
        // Untrusted input is read next: nothing else of the program is started.
        return waybill_sandbox::compile_component(arguments);
    }
    take_no_backtraces_of_errors();
    let mut term = Term::of_process();
    run(std::env::args_os(), &mut term).into()
}

/// SurrealDB makes an error for each row that isn't there yet, and where `RUST_BACKTRACE` is set, as in many container images, each
/// would take a backtrace: an INSERT of 2,000 rows then costs twenty times its CPU time. Panics keep theirs; `RUST_LIB_BACKTRACE=1`
/// asks for those of errors.
#[expect(unsafe_code, reason = "setting a variable of the environment")]
fn take_no_backtraces_of_errors() {
    const VARIABLE: &str = "RUST_LIB_BACKTRACE";
    if std::env::var_os(VARIABLE).is_none() {
        // SAFETY: no other thread runs that could read the environment: nothing was started yet.
        unsafe { std::env::set_var(VARIABLE, "0") };
    }
}

/// Runs one command line and answers its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>, term: &mut Term) -> Exit {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, term),
    };
    term.configure(cli.global.quiet, cli.global.no_color, cli.global.output == Output::Wide);
    let result = match cli.command {
        Command::Serve(args) => commands::serve::run(&args, term),
        // A guest that blocks mustn't block the peer that it talks to.
        Command::Plugin(_) => {
            block_on(Builder::new_multi_thread().worker_threads(PLUGIN_WORKERS), commands::run(cli, term))
        }
        // One thread is enough for a command that waits for a host.
        _ => block_on(&mut Builder::new_current_thread(), commands::run(cli, term)),
    };
    if term.left_out {
        term.say("something is left out to fit the terminal: -o wide shows all of it");
    }
    let flushed = term.out.flush().map_err(CliError::io("writing the result"));
    match result.and(flushed) {
        Ok(()) => Exit::Done,
        // `waybill ... | head` has seen enough.
        Err(CliError::Io { cause, .. }) if cause.kind() == ErrorKind::BrokenPipe => Exit::Done,
        Err(error) => {
            term.complain(&format!("error: {error}"));
            error.exit()
        }
    }
}

fn block_on<T>(runtime: &mut Builder, work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    runtime.enable_all().build().map_err(CliError::io("starting the runtime"))?.block_on(work)
}

/// Help and version are results; everything else is a usage error.
fn usage(error: &clap::Error, term: &mut Term) -> Exit {
    let text = if term.color { error.render().ansi().to_string() } else { error.render().to_string() };
    match error.kind() {
        ParseErrorKind::DisplayHelp | ParseErrorKind::DisplayVersion => {
            // A closed pipe has seen enough of the help.
            let _ = write!(term.out, "{text}");
            Exit::Done
        }
        _ => {
            let _ = write!(term.err, "{text}");
            Exit::Usage
        }
    }
}
