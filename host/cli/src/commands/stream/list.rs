//! `waybill stream list`.

use clap::Args;
use serde_json::Value;

use crate::args::ListArgs;
use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{View, column, less, size, text, whole, words};

/// Which streams, and how many.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill stream list\n  \
    waybill stream list --prefix task.node. --all -o ids\n  \
    waybill stream list --tenant acme -o json\n\n\
    BYTES are those of all events that a stream ever had, READERS the subscriptions at this host that name it.")]
#[command(mut_arg("limit", |arg| arg.help("Most streams listed")))]
pub struct List {
    /// Only streams whose names begin so
    #[arg(long, default_value = "", hide_default_value = true)]
    pub prefix: String,
    /// Their tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("STREAM", |item| text(item, "name")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("FIRST", |item| words(item, "first_seq")),
        column("LAST", |item| words(item, "last_seq")),
        column("BYTES", |item| item.get("bytes").and_then(Value::as_u64).map_or_else(|| "-".into(), size)),
        column("READERS", |item| words(item, "readers")),
    ],
    id: |item| text(item, "name"),
    none: "there is no stream: one begins with its first event",
};

/// Lists them by name.
pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.push(("prefix", &args.prefix));
    lists::show(context, &["v1", "streams"], &query, &args.list, &VIEW).await
}
