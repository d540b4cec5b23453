//! `waybill quarantine list`.

use clap::Args;

use crate::args::ListArgs;
use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{View, column, instant, less, moment, prose, text, whole};

/// Which rows.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill quarantine list\n  \
    waybill quarantine list --table dead_letters --all -o ids\n  \
    waybill quarantine list --table parked --cursor 5pXq8hYwMC8z     go on where it ended")]
#[command(mut_arg("limit", |arg| arg.help("Most rows listed")))]
pub struct List {
    /// Only rows of this table
    #[arg(long, value_name = "TABLE")]
    pub table: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        column("TABLE", |item| text(item, "table")),
        less(2, column("KEY", |item| text(item, "key"))),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        moment("SINCE", |item| instant(item, "since")),
        prose("WHY", |item| text(item, "reason")),
    ],
    id: |item| text(item, "id"),
    none: "nothing is in quarantine",
};

pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let query: Vec<(&str, &str)> = args.table.iter().map(|table| ("table", table.as_str())).collect();
    lists::show(context, &["v1", "quarantine"], &query, &args.list, &VIEW).await
}
