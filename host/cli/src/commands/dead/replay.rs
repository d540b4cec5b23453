//! `waybill dead replay`.

use clap::Args;

use super::acts::{self, DeadLetterAct, Letters, Set};
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::commands::saga::Mode;
use crate::exit::CliError;

/// Put back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead replay 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n  \
    waybill dead replay --filter 'code=HTTP.503' --plan\n  \
    waybill dead replay --filter 'code=HTTP.503' --trial 5 --reason 'shop is back'\n  \
    waybill dead replay --filter 'code=HTTP.503' --before 2026-12-01T14:00:00Z --expect-count 240 --yes\n  \
    waybill dead replay --filter 'code=HTTP.503 age>1h' --rate 20 --reason 'shop is back' --yes\n  \
    waybill dead list -o ids | waybill dead replay -\n  \
    waybill dead replay --filter 'kind=saga code=HTTP.503' --yes\n  \
    waybill dead replay order-17 --kind saga --mode retry\n\n\
    By filter it counts first, asks, and does exactly what it counted: what dies meanwhile isn't taken, and if more match \
    nothing is done (OPERATION.SET_GREW). `waybill operation show` tells what became of what was put back.\n\
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
    /// With --filter: put so many messages back first, and the rest only when all of these are delivered
    #[arg(long, value_name = "N", requires = "filter", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub trial: Option<u32>,
    #[command(flatten)]
    pub set: Set,
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
        set: args.set.clone(),
        trial: args.trial,
    };
    acts::run(&act, &args.letters, &args.bulk, context).await
}
