//! `waybill plugin rollback`.

use clap::Args;
use serde_json::json;

use super::served;
use crate::commands::Context;
use crate::exit::CliError;

/// Go back.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin rollback orders --reason \"loses headers\"\n  waybill plugin rollback participant.shop"
)]
pub struct Rollback {
    /// Transport, participant.NAME, handler.CONSUMER or outbox.backoff
    pub transport: String,
    /// Why, for the history and the audit trail
    #[arg(long, default_value = "", hide_default_value = true)]
    pub reason: String,
}

/// Has the host go back.
pub(super) async fn run(args: &Rollback, context: &mut Context<'_>) -> Result<(), CliError> {
    let body = json!({ "reason": args.reason });
    let answer = context.client.post(&["v1", "plugins", &args.transport, "rollback"], &[], &body).await?;
    served::changed(&args.transport, &answer, context)
}
