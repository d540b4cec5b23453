//! The command line: what may be written. What it does is in [`crate::commands`].

pub mod author;
pub mod bulk;
pub mod call;
pub mod dead;
pub mod generations;
pub mod idempotency;
pub mod outbox;
pub mod quarantine;
pub mod rest;
pub mod saga;
pub mod saga_acts;
pub mod send;
pub mod serve;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

/// Commits a message with your data, and delivers it.
#[derive(Debug, Parser)]
#[command(
    name = "waybill",
    version,
    about = "A durable outbox whose transports are sandboxed WebAssembly plugins",
    long_about = None,
    propagate_version = false,
    disable_help_subcommand = true,
    subcommand_required = true,
    arg_required_else_help = true,
    after_help = "Examples:\n  \
        waybill serve                                     start a host; needs no configuration\n  \
        waybill send --topic http://127.0.0.1:9000/hook --payload '{\"order\":1}'\n  \
        waybill status                                    is it well, what waits, what died\n  \
        waybill dead list -o ids | waybill dead replay -  put every dead letter back\n\n\
        Exit codes: 0 done, 1 failed, 2 usage or configuration, 3 not found, 4 conflict, 5 not allowed,\n\
        6 unreachable, 7 partly done, 8 timed out."
)]
pub struct Cli {
    /// Flags of every command.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Flags of every command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub struct Global {
    /// Address of the host [env: WAYBILL_URL] [default: http://127.0.0.1:7070]
    // The environment is read by the client: a usage line would show a flag set by it as one that has to be given.
    #[arg(long, global = true, value_name = "URL")]
    pub url: Option<String>,
    /// File that holds the token; without it WAYBILL_TOKEN is used
    #[arg(long, global = true, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Certificates (PEM) to trust on https:// besides the platform's [env: WAYBILL_CA]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How results are written
    #[arg(short, long, global = true, value_enum, default_value_t = Format::Table, value_name = "FORMAT")]
    pub output: Format,
    /// Write results and errors only
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Longest wait for one answer of the host
    #[arg(long, global = true, value_parser = duration, default_value = "30s", value_name = "TIME")]
    pub timeout: Duration,
    /// No colours (also NO_COLOR)
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A table that fits the terminal
    Table,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Ids only, one a line, for pipes
    Ids,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a host in the foreground
    Serve(serve::Serve),
    /// One screen: ready or not and why, what waits, what died
    Status(rest::Status),
    /// Enqueue messages
    Send(Box<send::Send>),
    /// Messages on their way: list, show, stats, blocked, cancel, reschedule
    #[command(subcommand)]
    Outbox(outbox::Outbox),
    /// Dead letters: list, show, groups, replay, quarantine, edit, purge
    #[command(subcommand)]
    Dead(dead::Dead),
    /// Sagas: define, start, list, show, pause, resume, cancel, kill, retry, skip, approve, reject, link, accept, signal, reply
    #[command(subcommand)]
    Saga(saga::Saga),
    /// Idempotency keys: list, show, release
    #[command(subcommand)]
    Idempotency(idempotency::Idempotency),
    /// Rows that could not be read: list, show, restore, drop
    #[command(subcommand)]
    Quarantine(quarantine::Quarantine),
    /// Transports: list, pause, resume, probe, provision
    #[command(subcommand)]
    Transport(rest::Transport),
    /// Plugins: new, build, test, check, dev, list, load, reload, rollback, inspect, verify, sign, keygen, call
    #[command(subcommand)]
    Plugin(rest::Plugin),
    /// Configuration: check, show, path, diff, reload
    #[command(subcommand)]
    Config(rest::Config),
    /// The audit trail
    #[command(subcommand)]
    Audit(rest::Audit),
    /// Check this machine and the configuration, without a running host
    Doctor(rest::Doctor),
    /// Write a completion script for a shell
    Completions(rest::Completions),
    /// Version of this binary, its plugin contract and its parts
    Version,
}

/// Reads `30s`, `1h30m`, ...
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a number with ms, s, m, h or d, e.g. 90s or 1h30m".to_owned())
}
