//! `waybill idempotency ...`.

mod key;
mod list;
mod release;

use clap::Subcommand;

use super::Context;
use crate::exit::CliError;

/// Where keys are asked for.
const PATH: &[&str] = &["v1", "idempotency"];

/// Idempotency keys.
#[derive(Debug, Subcommand)]
pub enum Idempotency {
    /// Keys, by filter
    List(list::List),
    /// One key: who has it, or what came of it
    #[command(
        after_help = "Examples:\n  waybill idempotency show order-17\n  waybill idempotency show order-17 --tenant acme -o json"
    )]
    Show(key::Key),
    /// Free a key whose holder is gone, before its lease ends
    Release(release::Release),
}

/// Runs one of them.
pub(super) async fn run(command: &Idempotency, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Idempotency::List(args) => list::run(args, context).await,
        Idempotency::Show(args) => key::run(args, context).await,
        Idempotency::Release(args) => release::run(args, context).await,
    }
}
