//! `waybill outbox reschedule`.

use std::time::Duration;

use clap::{ArgGroup, Args};
use jiff::Timestamp;
use serde_json::json;

use crate::args::{IdArgs, duration};
use crate::commands::{Context, message, requests};
use crate::exit::CliError;

/// Another time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox reschedule order-17 --in 10m\n  \
    waybill outbox reschedule order-17 --at 2026-12-01T08:00:00Z\n  \
    waybill outbox reschedule order-17 --in 0s         try again now")]
#[command(group(ArgGroup::new("when").args(["at", "in_"]).required(true)))]
pub struct Reschedule {
    /// Which.
    #[command(flatten)]
    pub message: IdArgs,
    /// Instant, RFC 3339
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Time from now, e.g. 10m
    #[arg(long = "in", value_name = "TIME", value_parser = duration)]
    pub in_: Option<Duration>,
}

/// Has it wait until another time.
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
    let IdArgs { id, tenant } = &args.message;
    let body = json!({ "not_before": format!("{at:.3}") });
    let answer = requests::act(context, "messages", id, tenant.as_deref(), "reschedule", &body).await?;
    context.term.say(&format!("{id} waits until {at:.0}"));
    message::show_after(context, &answer)
}
