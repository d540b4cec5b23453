//! `waybill saga ...`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};

use super::outbox::One;
use super::saga_acts::{Accept, Act, Approval, Kill, Link, Retry, Skip};

/// Sagas.
#[derive(Debug, Subcommand)]
pub enum Saga {
    /// Store a definition, or check one
    Define(Define),
    /// Definitions, or one with its document
    Definitions(Definitions),
    /// Start a saga
    Start(Box<Start>),
    /// Sagas, by filter
    List(List),
    /// One saga: its steps as a tree, with errors, inputs, outputs and what it waits for
    Show(Show),
    /// Begin nothing new until resumed; calls under way end
    Pause(Act),
    /// Go on
    Resume(Act),
    /// Compensate what was done, and end
    Cancel(Act),
    /// End as it is, with nothing compensated
    Kill(Kill),
    /// Try again: what waits, a stuck compensation, or from a step on
    Retry(Retry),
    /// Leave a step out
    Skip(Skip),
    /// Approve the step that waits for a person
    Approve(Approval),
    /// Reject it: the saga compensates
    Reject(Approval),
    /// Make links by which a person without a token approves or rejects
    Link(Link),
    /// Accept a stuck compensation as it is
    Accept(Accept),
    /// Send a signal
    Signal(Signal),
    /// Answer the message of a `bus:` step
    Reply(Box<Reply>),
}

/// Which definitions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga define order.toml --dry-run      what is wrong with it, and which running sagas stay on an older version\n  \
    waybill saga define order.toml\n  \
    waybill saga define payment.toml order.toml   sub-sagas first\n  \
    cat order.json | waybill saga define - --format json\n\n\
    A version never changes: give a changed definition a higher one. Running sagas go on with theirs.")]
pub struct Define {
    /// Files, .toml or .json; `-` reads one from stdin
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Only check, and say what would happen
    #[arg(long)]
    pub dry_run: bool,
    /// Language of the files [default: by the file's name]
    #[arg(long, value_enum, value_name = "LANGUAGE")]
    pub format: Option<Language>,
}

/// How a definition is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Language {
    /// TOML
    Toml,
    /// JSON
    Json,
}

/// Which definitions.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga definitions\n  \
    waybill saga definitions order                its versions, and the latest as it is stored\n  \
    waybill saga definitions order --version 2 -o json\n  \
    waybill saga definitions --cursor 5pXq8hYwMC8z      go on where it ended")]
pub struct Definitions {
    /// Show this one
    pub name: Option<String>,
    /// In this version [default: the latest]
    #[arg(long, value_name = "N", requires = "name")]
    pub version: Option<u32>,
    /// Most listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true)]
    pub cursor: Option<String>,
}

/// A saga to start.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga start order --input '{\"order\":17,\"total\":\"10.00\"}'\n  \
    waybill saga start order --id order-17 --input @order.json --deadline 1h\n  \
    produce | waybill saga start order --input -\n  \
    waybill saga start order --input '{}' --follow     until it ends or stops; exit code 0 if it completed, else 1\n\n\
    With an id of your own, starting the same saga again changes nothing.")]
pub struct Start {
    /// Name of the definition
    pub definition: String,
    /// Its version [default: the latest]
    #[arg(long, value_name = "N")]
    pub version: Option<u32>,
    /// What the steps work on: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub input: Option<String>,
    /// Id of your own, by which a repeated start is recognised
    #[arg(long)]
    pub id: Option<String>,
    /// Started once under this key: the same start again is answered as the first was
    #[arg(long, value_name = "KEY")]
    pub idempotency_key: Option<String>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Time for the whole saga; then it is compensated
    #[arg(long, value_name = "TIME", value_parser = super::duration)]
    pub deadline: Option<Duration>,
    /// Header handed to every step, may be repeated
    #[arg(long = "header", value_name = "NAME=VALUE", value_parser = super::send::pair)]
    pub headers: Vec<(String, String)>,
    /// Ties replies to the saga [default: its id]
    #[arg(long, value_name = "ID")]
    pub correlation_id: Option<String>,
    /// Show what happens until it ends, or needs an operator
    #[arg(short, long)]
    pub follow: bool,
}

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga list --filter 'state=failed'\n  \
    waybill saga list --filter 'tenant=acme definition=order waiting_for=approval age>1h'\n  \
    waybill saga list --filter 'state=paused code=SAGA.*' --follow\n  \
    waybill saga list --filter 'state=failed' --cursor 5pXq8hYwMC8z      go on where it ended\n  \
    waybill saga list --filter 'step=charge waiting_for=retry' -o ids | waybill saga retry -\n\n\
    Conditions: tenant, id, definition, version, state, waiting_for, step, code, reason, with = and * as a wildcard; age \
    (since the start) with > or <. All have to hold. States: running, compensating, completed, cancelled, failed, paused.")]
pub struct List {
    /// Conditions, e.g. 'definition=order state=failed age<1d'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Only this tenant's
    #[arg(long)]
    pub tenant: Option<String>,
    /// Most sagas listed
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub limit: usize,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    pub all: bool,
    /// Go on where an earlier list of the same kind and filter ended; it told this
    #[arg(long, value_name = "CURSOR", allow_hyphen_values = true, conflicts_with = "follow")]
    pub cursor: Option<String>,
    /// Go on with those that move, newest 1,000
    #[arg(short, long)]
    pub follow: bool,
}

/// Which saga, and how much of it.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga show order-17\n  \
    waybill saga show order-17 --history              every attempt, decision and signal, oldest first\n  \
    waybill saga show order-17 --follow               until it ends or stops; exit code 0 if it completed, else 1\n  \
    waybill saga show order-17 --tenant acme -o json")]
pub struct Show {
    /// Which.
    #[command(flatten)]
    pub one: One,
    /// What happened, oldest first
    #[arg(long)]
    pub history: bool,
    /// Go on with what happens until it ends, or needs an operator
    #[arg(short, long)]
    pub follow: bool,
}

/// A signal.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga signal order-17 paid --data '{\"payment\":\"p-1\"}'\n  \
    waybill saga signal order-17~shipment delivered    of a sub-saga\n\n\
    One that comes before a step waits for it is kept.")]
pub struct Signal {
    /// Saga, root or sub-saga
    pub id: String,
    /// Name of the signal
    pub name: String,
    /// Its data: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, alias = "input", value_name = "JSON")]
    pub data: Option<String>,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// A reply.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga reply order-17 --step reserve --result '{\"reservation\":\"r-1\"}'\n  \
    waybill saga reply order-17 --step reserve --error 'none left' --code stock.none\n  \
    waybill saga reply order-17 --step reserve --direction compensate")]
#[command(group(ArgGroup::new("outcome").args(["result", "error"])))]
pub struct Reply {
    /// Saga, root or sub-saga
    pub id: String,
    /// Which step
    #[arg(long)]
    pub step: String,
    /// Whether it was done or undone
    #[arg(long, value_enum, default_value_t = Direction::Execute, value_name = "DIRECTION")]
    pub direction: Direction,
    /// The attempt it answers [default: whichever waits]
    #[arg(long, value_name = "N")]
    pub attempt: Option<u32>,
    /// Output: JSON, @FILE, or - for stdin [default: null]
    #[arg(long, value_name = "JSON")]
    pub result: Option<String>,
    /// Why it failed
    #[arg(long, value_name = "TEXT")]
    pub error: Option<String>,
    /// Code of the failure
    #[arg(long, requires = "error")]
    pub code: Option<String>,
    /// It makes sense to try again
    #[arg(long, requires = "error")]
    pub retryable: bool,
    /// It may have had its effect all the same, so it is compensated
    #[arg(long, requires = "error")]
    pub maybe_done: bool,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

/// Done or undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Its action
    Execute,
    /// Its compensation
    Compensate,
}
