//! `waybill quarantine drop`.

use clap::Args;
use serde_json::Value;

use super::rows::{self, Rows};
use crate::commands::{Context, bulk};
use crate::exit::CliError;
use crate::output::text;

/// Rows to delete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill quarantine drop 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --yes --reason 'its message was sent by hand'\n  \
    waybill quarantine list --table outbox_done --all -o ids | waybill quarantine drop - --yes\n\n\
    What stood for a row is free again: an idempotency key executes again, a message's id may be used again. The audit\n\
    trail keeps rows below 16 KiB.")]
pub struct Drop {
    /// Which.
    #[command(flatten)]
    pub rows: Rows,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
}

/// Deletes rows for good.
pub(super) async fn run(args: &Drop, context: &mut Context<'_>) -> Result<(), CliError> {
    bulk::confirm(context, "delete rows in quarantine for good", &args.rows.ids.join(" "), args.yes)?;
    rows::each(&args.rows, "drop", report, context).await
}

fn report(id: &str, item: &Value) -> String {
    format!("dropped {id}: a row of {}", text(item, "table"))
}
