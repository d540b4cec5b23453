//! `waybill dead replay`.

use clap::Args;

use super::acts::{self, DeadLetterAct, Letters};
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::commands::saga::Mode;
use crate::exit::CliError;

/// Put back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead replay 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
    waybill dead replay --filter 'code=HTTP.503' --dry-run\n  \
    waybill dead replay --filter 'code=HTTP.503 age>1h' --rate 20 --reason 'shop is back' --yes\n  \
    waybill dead list -o ids | waybill dead replay -\n  \
    waybill dead replay --filter 'kind=saga code=HTTP.503' --yes\n  \
    waybill dead replay order-17 --kind saga --mode retry\n\n\
    Quarantined ones are left alone, unless one is named by its id.\n\
    Of stuck sagas the failed compensation is tried again; `waybill saga retry --filter` takes many of them forward.")]
pub struct Replay {
    /// Which.
    #[command(flatten)]
    pub letters: Letters,
    /// Which way a stuck saga goes on [default: compensate]
    #[arg(long, value_enum, value_name = "MODE", conflicts_with = "filter")]
    pub mode: Option<Mode>,
    /// With `-`: those that are quarantined too
    #[arg(long, conflicts_with = "filter")]
    pub quarantined: bool,
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Puts them back in order.
pub(super) async fn run(args: &Replay, context: &mut Context<'_>) -> Result<(), CliError> {
    let act = DeadLetterAct {
        kind: "replay",
        verb: "replay",
        done: "replayed",
        text: args.bulk.reason.clone().unwrap_or_default(),
        mode: args.mode,
        spares_quarantined: !args.quarantined,
    };
    acts::run(&act, &args.letters, &args.bulk, context).await
}
