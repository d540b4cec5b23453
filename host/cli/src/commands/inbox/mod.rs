//! `waybill inbox ...`.

mod list;
mod replay;
mod rows;
mod show;
mod stats;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

/// Received messages.
#[derive(Debug, Subcommand)]
pub enum Inbox {
    /// Messages that are stored because they wait; or the failed rows of a table
    List(list::List),
    /// Whether a consumer has seen a message id, and where the message is
    Show(show::Show),
    /// What waits, by context and by consumer
    Stats(stats::Stats),
    /// Put dead letters of the inbox back; or the failed rows of a table, in the table
    Replay(Box<replay::Replay>),
}

/// Runs one of them.
pub(super) async fn run(command: &Inbox, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Inbox::List(args) => list::run(args, context).await,
        Inbox::Show(args) => show::run(args, context).await,
        Inbox::Stats(args) => stats::run(args, context).await,
        Inbox::Replay(args) => replay::run(args, context).await,
    }
}
