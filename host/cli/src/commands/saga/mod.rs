//! `waybill saga ...`.

mod accept;
mod acts;
mod approve;
mod bulk;
mod define;
mod definitions;
mod follow;
mod kill;
mod link;
mod list;
mod paint;
mod pause;
mod reply;
mod retry;
mod show;
mod signal;
mod skip;
mod start;
mod step;
mod tree;
mod ways;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

pub use retry::Mode;

/// Sagas.
#[derive(Debug, Subcommand)]
pub enum Saga {
    /// Store a definition, or check one
    Define(define::Define),
    /// Definitions, or one with its document
    Definitions(definitions::Definitions),
    /// Start a saga
    Start(Box<start::Start>),
    /// Sagas, by filter
    List(list::List),
    /// One saga: its steps as a tree, with errors, inputs, outputs and what it waits for
    Show(show::Show),
    /// Begin nothing new until resumed; calls under way end
    #[command(after_help = "Examples:\n  \
        waybill saga pause order-17 --reason 'the warehouse is closed'\n  \
        waybill saga pause --filter 'definition=order' --dry-run\n\n\
        A saga is paused with all its sub-sagas.")]
    Pause(pause::Reasoned),
    /// Go on
    #[command(after_help = "Examples:\n  \
        waybill saga resume order-17 order-18\n  \
        waybill saga resume --filter 'definition=order state=paused' --yes\n\n\
        A saga is resumed with all its sub-sagas.")]
    Resume(pause::Reasoned),
    /// Compensate what was done, and end
    #[command(after_help = "Examples:\n  \
        waybill saga cancel order-17 --reason 'the customer withdrew'\n  \
        waybill saga cancel --filter 'definition=order state=running' --dry-run\n  \
        waybill saga cancel --filter 'definition=order state=running' --yes\n\n\
        A saga is cancelled with all its sub-sagas.")]
    Cancel(pause::Reasoned),
    /// End as it is, with nothing compensated
    Kill(kill::Kill),
    /// Try again: what waits, a stuck compensation, or from a step on
    Retry(retry::Retry),
    /// Leave a step out
    Skip(skip::Skip),
    /// Approve the step that waits for a person
    Approve(approve::Approval),
    /// Reject it: the saga compensates
    Reject(approve::Approval),
    /// Make links by which a person without a token approves or rejects
    Link(link::Link),
    /// End a stuck saga as it is: what its other steps did stays done
    Accept(accept::Accept),
    /// Send a signal
    Signal(signal::Signal),
    /// Answer the message of a `bus:` step
    Reply(Box<reply::Reply>),
}

/// Runs one of them.
pub(super) async fn run(command: Saga, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Saga::Define(args) => define::run(&args, context).await,
        Saga::Definitions(args) => definitions::run(&args, context).await,
        Saga::Start(args) => start::run(&args, context).await,
        Saga::List(args) => list::run(&args, context).await,
        Saga::Show(args) => show::run(&args, context).await,
        Saga::Pause(args) => pause::pause(args, context).await,
        Saga::Resume(args) => pause::resume(args, context).await,
        Saga::Cancel(args) => pause::cancel(args, context).await,
        Saga::Kill(args) => kill::run(args, context).await,
        Saga::Retry(args) => retry::run(args, context).await,
        Saga::Skip(args) => skip::run(args, context).await,
        Saga::Approve(args) => approve::approve(args, context).await,
        Saga::Reject(args) => approve::reject(args, context).await,
        Saga::Link(args) => link::run(&args, context).await,
        Saga::Accept(args) => accept::run(args, context).await,
        Saga::Signal(args) => signal::run(&args, context).await,
        Saga::Reply(args) => reply::run(&args, context).await,
    }
}
