//! `waybill outbox ...`.

mod acts;
pub(super) mod blocked;
mod cancel;
mod list;
mod reschedule;
mod show;
mod stats;

use clap::Subcommand;

use super::Context;
use crate::args::IdArgs;
use crate::exit::CliError;

/// Messages on their way.
#[derive(Debug, Subcommand)]
pub enum Outbox {
    /// Messages, by filter
    List(list::List),
    /// One message: state, attempts, payload, what it waits for, and who goes before and behind it of its key
    #[command(
        after_help = "Examples:\n  waybill outbox show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  waybill outbox show order-17 --tenant acme -o json"
    )]
    Show(IdArgs),
    /// Depths and ages per tenant and transport
    Stats(stats::Stats),
    /// What holds messages back, since when and why
    Blocked(blocked::Blocked),
    /// Take messages back before they are sent
    Cancel(cancel::Cancel),
    /// Move waiting messages to another time
    Reschedule(reschedule::Reschedule),
}

/// Runs one of them.
pub(super) async fn run(command: &Outbox, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Outbox::List(args) => list::run(args, context).await,
        Outbox::Show(args) => show::run(args, context).await,
        Outbox::Stats(args) => stats::run(args, context).await,
        Outbox::Blocked(args) => blocked::run(args, context).await,
        Outbox::Cancel(args) => cancel::run(args, context).await,
        Outbox::Reschedule(args) => reschedule::run(args, context).await,
    }
}
