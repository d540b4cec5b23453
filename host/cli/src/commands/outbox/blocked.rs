//! `waybill outbox blocked`.

use clap::Args;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, plain, text, words};

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
        column("TENANT", |item| item.get("tenant").filter(|tenant| !tenant.is_null()).map_or("all".into(), plain)),
        column("TRANSPORT", |item| text(item, "transport")),
        column("SUBJECT", |item| text(item, "subject")),
        column("WAITING", |item| words(item, "waiting")),
        column("SINCE", |item| instant(item, "since")),
        column("NEXT TRY", |item| instant(item, "until")),
        column("WHY", |item| text(item, "reason")),
    ],
    id: |item| text(item, "subject"),
    none: "nothing is held back",
};

pub(super) async fn run(args: &Blocked, context: &mut Context<'_>) -> Result<(), CliError> {
    let items =
        lists::whole(context, &["v1", "outbox", "blocked"], &lists::tenant_query(args.tenant.as_deref())).await?;
    output::list(context.term, context.format, &items, &VIEW)
}
