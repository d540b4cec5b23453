//! `waybill outbox reschedule`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use jiff::Timestamp;
use serde_json::Map;

use super::acts::{self, MessageAct};
use crate::args::duration;
use crate::commands::Context;
use crate::commands::bulk::Bulk;
use crate::commands::selection::Selection;
use crate::exit::CliError;

/// Another time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox reschedule order-17 --in 10m\n  \
    waybill outbox reschedule order-17 --at 2026-12-01T08:00:00Z\n  \
    waybill outbox reschedule order-17 --in 0s         try again now\n  \
    waybill outbox reschedule --filter 'waits=retry topic=http://shop.example/*' --in 0s --rate 20 --reason 'shop is back'\n\n\
    Of what a filter takes, messages that wait for a retry or for their time are moved; conditions as of `waybill outbox list`.")]
#[command(group(ArgGroup::new("when").args(["at", "in_"]).required(true)))]
pub struct Reschedule {
    /// Which messages are meant.
    #[command(flatten)]
    pub which: Selection,
    /// Instant, RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Time from now, e.g. 10m
    #[arg(long = "in", value_name = "TIME", value_parser = duration)]
    pub in_: Option<Duration>,
    /// How it is done to many.
    #[command(flatten)]
    pub bulk: Bulk,
}

/// Has them wait until another time.
pub(super) async fn run(args: &Reschedule, context: &mut Context<'_>) -> Result<(), CliError> {
    let at = match (&args.at, args.in_) {
        (Some(text), _) => text.parse::<Timestamp>().map_err(|_| {
            CliError::usage(
                format!("--at {text:?} isn't an instant"),
                "write it like 2026-12-01T08:00:00Z, or give --in with a time from now, e.g. 10m",
            )
        })?,
        (None, after) => Timestamp::now()
            .checked_add(after.unwrap_or_default())
            .map_err(|_| CliError::usage("--in is too far away", "give a time from now, e.g. 10m"))?,
    };
    let act = MessageAct {
        one: "reschedule",
        many: "reschedule_messages",
        verb: "reschedule",
        done: format!("waits until {at:.0}"),
        body: Map::from_iter([("not_before".to_owned(), format!("{at:.3}").into())]),
    };
    acts::run(&act, &args.which, &args.bulk, context).await
}
