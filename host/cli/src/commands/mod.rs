//! What each command takes, does and writes: a file a command, a folder a group of them.
//!
//! | file | holds |
//! |---|---|
//! | `lists`, `requests` | asking a host's API for many things, and for one |
//! | `selection` | which things an act is about, and acting on each |
//! | `bulk` | acts on all that match, done by the host |
//! | `message` | one message, shown |
//! | `provision` | what is missing at the peer of a transport or a source |
//! | `json` | JSON given on the command line |

mod audit;
mod backup;
mod bulk;
mod changes;
mod completions;
mod config;
mod dead;
mod doctor;
mod facets;
mod health;
mod history;
mod idempotency;
mod inbox;
mod json;
mod lists;
mod man;
mod message;
mod nothing;
mod operation;
mod outbox;
mod plugin;
mod provision;
mod quarantine;
mod relay;
mod requests;
mod restore;
mod saga;
mod selection;
mod send;
pub mod serve;
mod source;
mod status;
mod stream;
mod token;
mod transport;
mod version;

use clap::Subcommand;

use crate::args::{Cli, Global};
use crate::client::Client;
use crate::exit::CliError;
use crate::output::Format;
use crate::term::Term;

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a host in the foreground
    Serve(serve::Serve),
    /// One screen: ready or not and why, what waits, what died
    Status(status::Status),
    /// Exit 0 if the host answers, else 1: for containers and supervisors
    Health(health::Health),
    /// Enqueue messages
    Send(Box<send::Send>),
    /// Messages on their way: list, show, stats, blocked, cancel, reschedule
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill outbox list --filter 'age>10m'\n  waybill outbox show order-17\n  waybill outbox blocked"
    )]
    Outbox(outbox::Outbox),
    /// Dead letters: list, show, groups, replay, quarantine, edit, purge
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill dead groups\n  waybill dead list --filter 'code=HTTP.* age<1d'\n  waybill dead replay --filter 'code=HTTP.503' --dry-run"
    )]
    Dead(dead::Dead),
    /// Sagas: define, definitions, start, list, show, pause, resume, cancel, kill, retry, skip, approve, reject, link, accept, signal, reply
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill saga define order.toml\n  waybill saga start order --input @order.json --id order-17\n  waybill saga list --filter 'waiting_for=operator'\n  waybill saga show order-17"
    )]
    Saga(saga::Saga),
    /// Bulk acts under way and over: list, show, cancel
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill operation list\n  waybill operation show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC"
    )]
    Operation(operation::Operation),
    /// Received messages: list, show, stats, replay
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill inbox stats\n  waybill inbox list --filter 'consumer=ship'\n  waybill inbox replay --filter 'consumer=ship code=HTTP.422' --dry-run"
    )]
    Inbox(inbox::Inbox),
    /// Sources of messages: list, pause, resume, provision
    #[command(subcommand)]
    Source(source::Source),
    /// Event streams: list, show, append, read, tail, purge, delete, import
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill stream list\n  waybill stream read task.node.7 --limit 10\n  waybill stream tail --prefix task."
    )]
    Stream(stream::Stream),
    /// Relays of event streams to brokers: list, show, pause, resume, seek, dead, overtaken
    #[command(subcommand)]
    Relay(relay::Relay),
    /// Idempotency keys: list, show, release
    #[command(subcommand, after_help = "Examples:\n  waybill idempotency list\n  waybill idempotency show order-17")]
    Idempotency(idempotency::Idempotency),
    /// Rows that could not be read: list, show, restore, drop
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill quarantine list\n  waybill quarantine list -o ids | waybill quarantine restore -"
    )]
    Quarantine(quarantine::Quarantine),
    /// Transports: list, pause, resume, probe, provision
    #[command(subcommand)]
    Transport(transport::Transport),
    /// Plugins: new, build, test, check, dev, list, show, load, reload, logs, rollback, verify, sign, keygen, inspect, call
    #[command(subcommand)]
    Plugin(plugin::Plugin),
    /// Tokens that callers show: create, list, revoke
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill token create orders --role sender --tenant acme > orders.token\n  waybill token list\n  waybill token revoke orders"
    )]
    Token(token::Token),
    /// Configuration: check, show, path, diff, reload
    #[command(
        subcommand,
        after_help = "Examples:\n  waybill config check\n  waybill config show --origin\n  waybill config diff\n  waybill config reload"
    )]
    Config(config::Config),
    /// The audit trail
    #[command(subcommand, after_help = "Examples:\n  waybill audit list\n  waybill audit tail -f")]
    Audit(audit::Audit),
    /// The last hour: enqueued, delivered, what waits, lags, as lines
    History(history::History),
    /// What changed: plugins, configuration, operations, pauses, breakers
    Changes(changes::Changes),
    /// Back up a host's store while it runs
    Backup(backup::Backup),
    /// Make a data folder of a backup, while no host runs
    Restore(restore::Restore),
    /// Check this machine and the configuration, without a running host
    Doctor(doctor::Doctor),
    /// Write a completion script for a shell
    Completions(completions::Completions),
    /// Write the manual pages into a folder
    Man(man::Man),
    /// Version of this binary, its plugin contract and its parts
    #[command(after_help = "Examples:\n  waybill version\n  waybill version -o json")]
    Version,
}

/// What a command about a host works with.
pub(crate) struct Context<'t> {
    pub(crate) client: Client,
    pub(crate) format: Format,
    pub(crate) term: &'t mut Term,
}

impl<'t> Context<'t> {
    fn new(global: &Global, term: &'t mut Term) -> Result<Self, CliError> {
        Ok(Self { client: Client::new(global, term)?, format: global.format(), term })
    }
}

/// Runs a command that doesn't serve.
pub async fn run(cli: Cli, term: &mut Term) -> Result<(), CliError> {
    let global = &cli.global;
    match cli.command {
        // It has a runtime of its own: [`serve::run`].
        Command::Serve(_) => Ok(()),
        Command::Status(_) => status::run(&mut Context::new(global, term)?).await,
        Command::Health(args) => health::run(&args, global, term).await,
        Command::Send(args) => send::run(&args, &mut Context::new(global, term)?).await,
        Command::Outbox(command) => outbox::run(&command, &mut Context::new(global, term)?).await,
        Command::Dead(command) => dead::run(&command, &mut Context::new(global, term)?).await,
        Command::Saga(command) => saga::run(command, &mut Context::new(global, term)?).await,
        Command::Operation(command) => operation::run(&command, &mut Context::new(global, term)?).await,
        Command::Inbox(command) => inbox::run(&command, &mut Context::new(global, term)?).await,
        Command::Source(command) => source::run(&command, &mut Context::new(global, term)?).await,
        Command::Stream(command) => stream::run(&command, &mut Context::new(global, term)?).await,
        Command::Relay(command) => relay::run(&command, &mut Context::new(global, term)?).await,
        Command::Idempotency(command) => idempotency::run(&command, &mut Context::new(global, term)?).await,
        Command::Quarantine(command) => quarantine::run(&command, &mut Context::new(global, term)?).await,
        Command::Transport(command) => transport::run(&command, &mut Context::new(global, term)?).await,
        Command::Plugin(command) => plugin::run(&command, global, term).await,
        Command::Token(command) => token::run(&command, global, term).await,
        Command::Config(command) => config::run(&command, global, term).await,
        Command::Audit(command) => audit::run(&command, &mut Context::new(global, term)?).await,
        Command::History(args) => history::run(&args, &mut Context::new(global, term)?).await,
        Command::Changes(args) => changes::run(&args, &mut Context::new(global, term)?).await,
        Command::Backup(args) => backup::run(&args, &mut Context::new(global, term)?).await,
        Command::Restore(args) => restore::run(&args, global, term).await,
        Command::Doctor(args) => doctor::run(&args, global.format(), term).await,
        Command::Completions(args) => completions::run(&args, term),
        Command::Man(args) => man::run(&args, term),
        Command::Version => version::run(global.format(), term),
    }
}
