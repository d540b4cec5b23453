//! `waybill saga approve` and `reject`.

use clap::Args;
use serde_json::Value;

use super::acts::{self, SagaAct};
use crate::commands::Context;
use crate::commands::selection::Ids;
use crate::exit::CliError;

/// A person's decision.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga approve order-17 --reason 'checked with Ann'\n  \
    waybill saga reject order-17 --step release --reason 'over the limit'\n  \
    waybill saga list --filter 'waiting_for=approval'")]
pub struct Approval {
    /// Which.
    #[command(flatten)]
    pub which: Ids,
    /// Which step, where several wait
    #[arg(long)]
    pub step: Option<String>,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

pub(super) async fn approve(args: Approval, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = SagaAct::new("approve", "approved", args.which, args.reason);
    acts::run(&act.with("step", args.step.map(Value::String)), context).await
}

pub(super) async fn reject(args: Approval, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = SagaAct::new("reject", "rejected", args.which, args.reason);
    acts::run(&act.with("step", args.step.map(Value::String)), context).await
}
