//! `waybill saga accept`.

use clap::Args;

use super::acts::{self, SagaAct, Which};
use crate::commands::Context;
use crate::exit::CliError;

/// Accepts a stuck compensation.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga accept order-17 --reason 'refunded by hand, ticket 4711'\n  \
    waybill saga accept --filter 'state=failed code=BANK.CLOSED' --reason 'refunded by hand' --yes\n\n\
    The saga ends as failed (accepted), and its dead letter goes away.")]
pub struct Accept {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why it is all right as it is
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: String,
}

/// Ends them as they are.
pub(super) async fn run(args: Accept, context: &mut Context<'_>) -> Result<(), CliError> {
    acts::run(&SagaAct::new("accept", "accepted", args.which, Some(args.reason)), context).await
}
