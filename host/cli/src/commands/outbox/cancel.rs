//! `waybill outbox cancel`.

use clap::Args;
use serde_json::Map;

use super::acts::{self, MessageAct};
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::commands::selection::Selection;
use crate::exit::CliError;

/// Take back what hasn't been sent.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox cancel 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
    waybill outbox cancel order-17 order-18 --tenant acme --reason 'sent by mistake'\n  \
    waybill outbox cancel --filter 'topic=bus:mails.* since=2026-12-01T14:00:00Z' --dry-run\n  \
    waybill outbox list --filter 'waits=schedule' --all -o ids | waybill outbox cancel -\n\n\
    What is being sent can't be taken back; conditions as of `waybill outbox list`.")]
pub struct Cancel {
    /// Which messages are meant.
    #[command(flatten)]
    pub which: Selection,
    /// How it is done to many.
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Takes back what was selected.
pub(super) async fn run(args: &Cancel, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = MessageAct {
        one: "cancel",
        many: "cancel_messages",
        verb: "cancel",
        done: "is cancelled".to_owned(),
        body: Map::new(),
    };
    acts::run(&act, &args.which, &args.bulk, context).await
}
