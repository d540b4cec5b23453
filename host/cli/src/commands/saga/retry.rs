//! `waybill saga retry`.

use clap::{Args, ValueEnum};
use serde_json::{Value, json};

use super::acts::{self, SagaAct, Which};
use crate::commands::Context;
use crate::exit::CliError;

/// Tries again.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga retry order-17                     what waits for its next attempt, or a stuck compensation, now\n  \
    waybill saga retry order-17 --mode retry        of a stuck one: forward again, if nothing was compensated yet\n  \
    waybill saga retry order-17 --step charge       of a paused one: that step and all behind it anew\n  \
    waybill saga retry --filter 'code=HTTP.* waiting_for=retry' --yes\n\n\
    Idempotency keys stay the same.")]
pub struct Retry {
    /// Which.
    #[command(flatten)]
    pub which: Which,
    /// From this step on
    #[arg(long)]
    pub step: Option<String>,
    /// Which way a stuck one goes on
    #[arg(long, value_enum, default_value_t = Mode::Compensate, value_name = "MODE")]
    pub mode: Mode,
    /// Why, for history and audit
    #[arg(long, alias = "note", value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Which way a stuck saga goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// The failed compensation again
    Compensate,
    /// Forward again from the step that failed
    Retry,
}

/// Tries again what waits or is stuck.
pub(super) async fn run(args: Retry, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = SagaAct::new("retry", "retried", args.which, args.reason)
        .with("step", args.step.map(Value::String))
        .with("mode", (args.mode == Mode::Retry).then(|| json!("retry")));
    acts::run(&act, context).await
}
