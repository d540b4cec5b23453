//! `waybill stream ...`.

mod append;
mod cut;
pub(super) mod health;
mod import;
mod list;
mod read;
mod rows;
mod show;
mod tail;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

/// Event streams.
#[derive(Debug, Subcommand)]
pub enum Stream {
    /// Streams by name: what is kept of each, and who reads
    List(list::List),
    /// One stream: what is kept, its settings, how far relays are
    Show(show::Show),
    /// Append an event, or many from a file
    Append(Box<append::Append>),
    /// Events that are stored, of one stream, of many, or of a resource
    Read(read::Read),
    /// Events that are stored and then those that come
    Tail(tail::Tail),
    /// Take away events from the front of a stream
    Purge(cut::Purge),
    /// Take away all events of a stream; its numbers go on
    Delete(cut::Delete),
    /// Bring in events that were kept elsewhere, with their numbers
    Import(import::Import),
}

/// Runs one of them.
pub(super) async fn run(command: &Stream, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Stream::List(args) => list::run(args, context).await,
        Stream::Show(args) => show::run(args, context).await,
        Stream::Append(args) => append::run(args, context).await,
        Stream::Read(args) => read::run(args, context).await,
        Stream::Tail(args) => tail::run(args, context).await,
        Stream::Purge(args) => cut::purge(args, context).await,
        Stream::Delete(args) => cut::delete(args, context).await,
        Stream::Import(args) => import::run(args, context).await,
    }
}
