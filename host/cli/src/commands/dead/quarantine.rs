//! `waybill dead quarantine`.

use clap::Args;

use super::acts::{self, DeadLetterAct, Letters, Set};
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::exit::CliError;

/// Fence off.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead quarantine 01JD8Q6H3ZK7W5V0N2T4R6Y8BC --note 'broken payload, see ticket 4711'\n  \
    waybill dead quarantine --filter 'topic=bus:legacy.*' --note 'receiver is gone' --yes")]
pub struct Quarantine {
    /// Which.
    #[command(flatten)]
    pub letters: Letters,
    /// Why; kept with each
    #[arg(long, value_name = "TEXT")]
    pub note: String,
    #[command(flatten)]
    pub set: Set,
    #[command(flatten)]
    pub bulk: Bulk,
}

pub(super) async fn run(args: &Quarantine, context: &mut Context<'_>) -> Result<(), CliError> {
    let text = args.note.clone();
    let act = DeadLetterAct {
        kind: "quarantine",
        verb: "quarantine",
        done: "quarantined",
        text,
        mode: None,
        spares_quarantined: false,
        set: args.set.clone(),
        trial: None,
    };
    acts::run(&act, &args.letters, &args.bulk, context).await
}
