//! The command line as a whole, and the arguments that several commands take. Each command's own stand in its file
//! ([`crate::commands`]).

use std::fmt::Display;
use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};

use crate::commands::Command;
use crate::exit::CliError;
use crate::output::Format;

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
        waybill dead replay --filter 'code=HTTP.503' --dry-run\n  \
        waybill dead groups                               what died, by error\n\n\
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
    /// Certificates (PEM) to trust besides the platform's [env: WAYBILL_CA]
    #[arg(long, global = true, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// How results are written: table, wide, json, jsonl or ids
    // Their own words would make every help long: they stand in completions, and in the page of operations.
    #[arg(
        short,
        long,
        global = true,
        value_enum,
        default_value_t = Output::Table,
        value_name = "FORMAT",
        hide_possible_values = true
    )]
    pub output: Output,
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

/// How results are written, as it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// A table that fits the terminal
    Table,
    /// A table with every column, whole texts and instants, however wide; pipes get it anyway
    Wide,
    /// One JSON document
    Json,
    /// One JSON object a line
    Jsonl,
    /// Ids only, one a line, for pipes
    Ids,
}

impl Global {
    /// How results are written; how wide they may be is the terminal's affair.
    pub fn format(&self) -> Format {
        match self.output {
            Output::Table | Output::Wide => Format::Table,
            Output::Json => Format::Json,
            Output::Jsonl => Format::Jsonl,
            Output::Ids => Format::Ids,
        }
    }
}

/// How much of a list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Most listed
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = within(1_usize..))]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
    /// Exit with 3 when nothing is listed, for scripts
    #[arg(long)]
    pub exit_code: bool,
}

impl ListArgs {
    /// How many there may be.
    pub fn bound(&self) -> usize {
        if self.all { usize::MAX } else { self.limit }
    }

    /// Ends a list as it was asked to end where nothing is in it.
    pub fn ended(&self, is_empty: bool) -> Result<(), CliError> {
        CliError::for_nothing(is_empty, self.exit_code)
    }
}

/// One message, dead letter or saga.
#[derive(Debug, Args)]
pub struct IdArgs {
    /// Its id
    pub id: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Reads `30s`, `1h30m`, ...
pub fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "write a number with ms, s, m, h or d, e.g. 90s or 1h30m".to_owned())
}

/// Reads a whole number of this range, and says which ones are taken where it is none.
pub fn within<N, R>(range: R) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + 'static,
    R: RangeBounds<N> + Clone + Send + Sync + 'static,
{
    move |text: &str| match text.parse::<N>() {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => Err(taken(&range)),
    }
}

/// Which numbers are taken, in words.
fn taken<N: Display>(range: &impl RangeBounds<N>) -> String {
    let least = match range.start_bound() {
        Bound::Included(least) => least.to_string(),
        _ => "0".to_owned(),
    };
    match range.end_bound() {
        Bound::Included(most) => format!("write a whole number from {least} to {most}"),
        _ => format!("write a whole number, {least} or more"),
    }
}

pub fn pair(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => Ok((name.trim().to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_answered_with_those_that_are_taken() {
        let rate = within(1_u32..=10_000);
        assert_eq!((rate("1"), rate("10000")), (Ok(1), Ok(10_000)));
        for text in ["abc", "1.5", "0", "10001", "-1", "", "1,000"] {
            assert_eq!(rate(text), Err("write a whole number from 1 to 10000".to_owned()), "{text}");
        }
        assert_eq!(within(0_u64..)("x"), Err("write a whole number, 0 or more".to_owned()));
        assert_eq!(within(0_u64..)("0"), Ok(0));
    }
}
