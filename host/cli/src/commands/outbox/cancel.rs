//! `waybill outbox cancel`.

use serde_json::json;

use crate::args::IdArgs;
use crate::commands::{Context, message, requests};
use crate::exit::CliError;

/// Takes one message back.
pub(super) async fn run(args: &IdArgs, context: &mut Context<'_>) -> Result<(), CliError> {
    let IdArgs { id, tenant } = args;
    let answer = requests::act(context, "messages", id, tenant.as_deref(), "cancel", &json!({})).await?;
    context.term.say(&format!("cancelled {id}"));
    message::show_after(context, &answer)
}
