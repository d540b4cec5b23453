//! `waybill saga skip`.

use clap::Args;
use serde_json::Value;

use super::acts::{self, SagaAct};
use crate::commands::Context;
use crate::commands::selection::Ids;
use crate::exit::CliError;

/// Leaves a step out.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga skip order-17 --step notify --reason 'the customer was called'\n  \
    waybill saga skip order-17 --step charge --reason 'refunded by hand'        a stuck compensation: the others are undone\n\n\
    One that isn't begun or waits counts as done, with no output; a stuck compensation as undone.")]
pub struct Skip {
    /// Which.
    #[command(flatten)]
    pub which: Ids,
    /// Which step
    #[arg(long)]
    pub step: String,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

pub(super) async fn run(args: Skip, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = SagaAct::new("skip", "skipped the step of", args.which, args.reason);
    acts::run(&act.with("step", Some(Value::String(args.step))), context).await
}
