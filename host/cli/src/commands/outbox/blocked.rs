//! `waybill outbox blocked`.

use clap::Args;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, less, moment, plain, prose, text, whole, words};

/// What holds messages back.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill outbox blocked\n  waybill outbox blocked --tenant acme")]
pub struct Blocked {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

/// What holds messages back.
pub(in crate::commands) const VIEW: View<'_> = View {
    columns: &[
        column("KIND", |item| text(item, "kind")),
        less(
            2,
            column("TENANT", |item| item.get("tenant").filter(|tenant| !tenant.is_null()).map_or("all".into(), plain)),
        ),
        less(3, column("TRANSPORT", |item| text(item, "transport"))),
        whole("SUBJECT", |item| text(item, "subject")),
        column("WAITING", |item| words(item, "waiting")),
        moment("SINCE", |item| instant(item, "since")),
        less(1, moment("NEXT TRY", |item| instant(item, "until"))),
        prose("WHY", |item| text(item, "reason")),
    ],
    id: |item| text(item, "subject"),
    none: "nothing is held back",
};

pub(super) async fn run(args: &Blocked, context: &mut Context<'_>) -> Result<(), CliError> {
    let items =
        lists::whole(context, &["v1", "outbox", "blocked"], &lists::tenant_query(args.tenant.as_deref())).await?;
    output::list(context.term, context.format, &items, &VIEW)
}
