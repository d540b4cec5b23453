//! `waybill plugin reload`.

use clap::Args;
use serde_json::json;

use super::served::{self, Change};
use crate::commands::Context;
use crate::exit::CliError;

/// Read a component again.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill plugin reload orders\n  waybill plugin reload orders --force\n  waybill plugin reload participant.shop\n  waybill plugin reload handler.ship\n  waybill plugin reload source.shop\n  waybill plugin reload outbox.backoff"
)]
pub struct Reload {
    /// Transport, participant.NAME, handler.CONSUMER, source.NAME or outbox.backoff
    pub transport: String,
    /// How strictly.
    #[command(flatten)]
    pub change: Change,
}

/// Has the host read it.
pub(super) async fn run(args: &Reload, context: &mut Context<'_>) -> Result<(), CliError> {
    let body = json!({ "sha256": args.change.sha256, "force": args.change.force });
    let answer = context.client.post(&["v1", "plugins", &args.transport, "reload"], &[], &body).await?;
    served::changed(&args.transport, &answer, context)
}
