//! `waybill quarantine ...`.

mod drop;
mod list;
mod restore;
mod rows;
mod show;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

/// Rows that could not be read.
#[derive(Debug, Subcommand)]
pub enum Quarantine {
    /// Rows in quarantine, oldest first
    List(list::List),
    /// One row with its columns and bytes, and why it can't be read
    Show(show::Show),
    /// Put rows back that can be read by now
    #[command(after_help = "Examples:\n  \
        waybill quarantine restore 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --reason 'read by the new version'\n  \
        waybill quarantine list --table parked --all -o ids | waybill quarantine restore -\n\n\
        A row is read again first: one that still can't be read stays. Messages that were in the order enter it anew, behind\n\
        what is there, and may be delivered twice.")]
    Restore(rows::Rows),
    /// Delete rows for good
    Drop(drop::Drop),
}

/// Runs one of them.
pub(super) async fn run(command: &Quarantine, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Quarantine::List(args) => list::run(args, context).await,
        Quarantine::Show(args) => show::run(args, context).await,
        Quarantine::Restore(args) => restore::run(args, context).await,
        Quarantine::Drop(args) => drop::run(args, context).await,
    }
}
