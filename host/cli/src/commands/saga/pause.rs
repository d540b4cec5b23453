//! `waybill saga pause`, `resume` and `cancel`: acts that take nothing but a reason.

use clap::Args;

use super::acts::{self, SagaAct, Which};
use crate::commands::Context;
use crate::exit::CliError;

/// An act that takes nothing but a reason.
#[derive(Debug, Args)]
pub struct Reasoned {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Has it begin nothing new.
pub(super) async fn pause(args: Reasoned, context: &mut Context<'_>) -> Result<(), CliError> {
    acts::run(&SagaAct::new("pause", "paused", args.which, args.reason), context).await
}

/// Has it go on.
pub(super) async fn resume(args: Reasoned, context: &mut Context<'_>) -> Result<(), CliError> {
    acts::run(&SagaAct::new("resume", "resumed", args.which, args.reason), context).await
}

/// Has it compensated, and ended.
pub(super) async fn cancel(args: Reasoned, context: &mut Context<'_>) -> Result<(), CliError> {
    acts::run(&SagaAct::new("cancel", "cancelled", args.which, args.reason), context).await
}
