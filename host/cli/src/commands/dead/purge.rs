//! `waybill dead purge`.

use clap::Args;

use super::acts::{self, DeadLetterAct, Set};
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::exit::CliError;

/// Delete.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead purge --filter 'age>30d' --plan\n  \
    waybill dead purge --filter 'tenant=test' --reason 'test data' --yes\n\n\
    Received messages are purged with kind=inbox, events with kind=event, apart from others. Stuck sagas stay: `waybill saga accept` ends them, with a \
    reason.")]
pub struct Purge {
    /// All that match; '' for all there are
    #[arg(long)]
    pub filter: String,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Deletes them for good.
pub(super) async fn run(args: &Purge, context: &mut Context<'_>) -> Result<(), CliError> {
    let text = args.bulk.reason.clone().unwrap_or_default();
    let act = DeadLetterAct {
        kind: "purge",
        verb: "delete for good",
        done: "deleted",
        text,
        mode: None,
        spares_quarantined: false,
        set: args.set.clone(),
        trial: None,
    };
    acts::by_filter(context, &act, &args.filter, None, &args.bulk).await
}
