//! `waybill dead ...`.

pub(super) mod acts;
mod edit;
mod groups;
pub(super) mod list;
mod purge;
mod quarantine;
mod replay;
mod show;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

/// Dead letters: messages that can't be delivered, sagas whose compensation is stuck, received messages that can't be handled.
#[derive(Debug, Subcommand)]
pub enum Dead {
    /// Dead letters, by filter
    List(list::List),
    /// One dead letter: why it died; of a message every attempt and payload
    #[command(
        after_help = "Examples:\n  waybill dead show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  waybill dead show order-17 --tenant acme -o json\n  waybill dead show order-17 --kind saga"
    )]
    Show(show::Show),
    /// Dead letters by error
    Groups(groups::Groups),
    /// Put dead letters back in order; of stuck sagas try the failed compensation again
    Replay(replay::Replay),
    /// Fence dead letters off with a note; only `replay ID` brings them back
    Quarantine(quarantine::Quarantine),
    /// Send an edited copy as a new message that names the original, and quarantine the original
    Edit(Box<edit::Edit>),
    /// Delete dead letters for good; not stuck sagas
    Purge(purge::Purge),
}

/// Runs one of them.
pub(super) async fn run(command: &Dead, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Dead::List(args) => list::run(args, context).await,
        Dead::Show(args) => show::run(args, context).await,
        Dead::Groups(args) => groups::run(args, context).await,
        Dead::Replay(args) => replay::run(args, context).await,
        Dead::Quarantine(args) => quarantine::run(args, context).await,
        Dead::Edit(args) => edit::run(args, context).await,
        Dead::Purge(args) => purge::run(args, context).await,
    }
}
