//! `waybill saga ...`.

mod acts;
mod bulk;
mod define;
mod definitions;
mod follow;
mod input;
mod link;
mod list;
mod paint;
mod reply;
mod show;
mod start;
mod step;
mod tree;

use super::Context;
use crate::args::saga::Saga;
use crate::exit::CliError;

/// Runs one of them.
pub(super) async fn run(command: Saga, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Saga::Define(args) => define::run(&args, context).await,
        Saga::Definitions(args) => definitions::run(&args, context).await,
        Saga::Start(args) => start::run(&args, context).await,
        Saga::List(args) => list::run(&args, context).await,
        Saga::Show(args) => show::run(&args, context).await,
        Saga::Link(args) => link::run(&args, context).await,
        Saga::Signal(args) => reply::signal(&args, context).await,
        Saga::Reply(args) => reply::reply(&args, context).await,
        act => acts::run(act, context).await,
    }
}
