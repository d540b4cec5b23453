//! `waybill outbox show`.

use crate::args::IdArgs;
use crate::commands::{Context, message, requests};
use crate::exit::CliError;

pub(super) async fn run(args: &IdArgs, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = requests::get(context, "messages", &args.id, args.tenant.as_deref()).await?;
    message::show(context, &answer)
}
