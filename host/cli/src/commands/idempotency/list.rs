//! `waybill idempotency list`.

use clap::Args;

use super::PATH;
use crate::args::ListArgs;
use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{View, column, instant, less, moment, text, whole, words};

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill idempotency list\n  \
    waybill idempotency list --filter 'tenant=acme key=order-* age>1h'\n  \
    waybill idempotency list --filter 'state=in_flight' --all -o ids\n  \
    waybill idempotency list --filter 'key=order-*' --cursor 5pXq8hYwMC8z     go on where it ended\n\n\
    Conditions: tenant, key, state (in_flight, succeeded, failed), with = and * as a wildcard; age with > or <.\n\
    All have to hold.")]
#[command(mut_arg("limit", |arg| arg.help("Most keys listed")))]
pub struct List {
    /// Conditions, e.g. 'tenant=acme state=in_flight age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    #[command(flatten)]
    pub list: ListArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("KEY", |item| text(item, "key")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("STATE", |item| text(item, "state")),
        less(2, column("BEGUN", |item| words(item, "begun"))),
        moment("CREATED", |item| instant(item, "created_at")),
        less(3, moment("LEASE UNTIL", |item| instant(item, "lease_until"))),
        moment("UNTIL", |item| instant(item, "until")),
    ],
    id: |item| lists::piped(item, "key"),
    none: "no idempotency key matches",
};

pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    lists::show(context, PATH, &[("filter", &args.filter)], &args.list, &VIEW).await
}
