//! What each command does: ask the host's API or look at this machine, and write the result.

mod audit;
mod bulk;
pub mod completions;
pub mod configuration;
mod dead;
mod edit;
mod idempotency;
mod lists;
mod messages;
mod one;
mod outbox;
mod plugin;
mod provision;
mod quarantine;
mod reload;
mod saga;
mod send;
mod status;
mod transport;
mod version;

use crate::args::rest::Config as ConfigCommand;
use crate::args::{Cli, Command, Format};
use crate::client::Client;
use crate::exit::CliError;
use crate::term::Term;

/// What a command about a host works with.
pub(crate) struct Context<'t> {
    pub(crate) client: Client,
    pub(crate) format: Format,
    pub(crate) term: &'t mut Term,
}

/// Runs a command that doesn't serve.
pub async fn run(cli: Cli, term: &mut Term) -> Result<(), CliError> {
    let format = cli.global.output;
    match cli.command {
        Command::Completions(args) => return completions::run(&args, term),
        Command::Version => return version::run(format, term),
        Command::Config(command) if !command.asks_a_host() => {
            return configuration::run(&command, format, term).await;
        }
        Command::Plugin(command) if !command.asks_a_host() => {
            return crate::plugins::command::run(&command, &cli.global, term).await;
        }
        Command::Doctor(args) => return crate::doctor::run(&args, format, term).await,
        _ => {}
    }
    let client = Client::new(&cli.global, term)?;
    let mut context = Context { client, format, term };
    let context = &mut context;
    match cli.command {
        Command::Status(_) => status::run(context).await,
        Command::Send(args) => send::run(*args, context).await,
        Command::Outbox(command) => outbox::run(&command, context).await,
        Command::Dead(command) => dead::run(command, context).await,
        Command::Saga(command) => saga::run(command, context).await,
        Command::Idempotency(command) => idempotency::run(&command, context).await,
        Command::Quarantine(command) => quarantine::run(&command, context).await,
        Command::Transport(command) => transport::run(&command, context).await,
        Command::Plugin(command) => plugin::run(&command, context).await,
        Command::Audit(command) => audit::run(&command, context).await,
        Command::Config(ConfigCommand::Diff(_)) => reload::run(false, context).await,
        Command::Config(ConfigCommand::Reload(args)) => reload::run(!args.dry_run, context).await,
        // Handled above, or by the program before this.
        Command::Serve(_) | Command::Config(_) | Command::Doctor(_) | Command::Completions(_) | Command::Version => {
            Ok(())
        }
    }
}
