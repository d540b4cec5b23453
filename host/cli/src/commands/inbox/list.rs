//! `waybill inbox list`.

use clap::Args;

use super::rows;
use crate::args::ListArgs;
use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{View, column, instant, less, moment, plain, text, whole};

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill inbox list\n  \
    waybill inbox list --filter 'consumer=ship code=HTTP.* age>10m'\n  \
    waybill inbox list --filter 'context=sales' --all -o jsonl\n  \
    waybill inbox list --filter 'waits=retry code=HTTP.5*'\n  \
    waybill inbox list --newest --limit 5              what was stored last\n  \
    waybill inbox list --table shop                    rows that stand failed in the table of source shop\n\n\
    Conditions: consumer, source, context, subject, tenant, key, id, code, error, waits (key, retry, destination, turn, trial, no_route), correlation_id and the \
    like, header.NAME, payload.PATH, with = and * as a wildcard; since and until with an instant or a day; age with > or <. All have to hold. What flows is never stored, and what died is in `waybill dead list --filter kind=inbox`.")]
#[command(mut_arg("limit", |arg| arg.help("Most messages listed")))]
pub struct List {
    /// Conditions, e.g. 'consumer=ship age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Latest received first; else by place, each shard's oldest first
    #[arg(long, conflicts_with = "table")]
    pub newest: bool,
    /// Instead the failed rows of this source's table
    #[arg(long, value_name = "SOURCE", conflicts_with = "filter")]
    pub table: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("PLACE", |item| text(item, "place")),
        column("CONSUMER", |item| text(item, "consumer")),
        whole("ID", |item| text(item, "id")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        less(4, column("SUBJECT", |item| text(item, "subject"))),
        less(3, column("KEY", |item| text(item, "key"))),
        less(5, column("ATTEMPTS", |item| text(item, "attempts"))),
        moment("RECEIVED", |item| instant(item, "received_at")),
        less(2, column("WAITS FOR", |item| item.pointer("/waiting/on").map_or("-".into(), plain))),
        column("ERROR", |item| text(item, "last_error")),
    ],
    id: |item| text(item, "place"),
    none: "nothing is stored: what comes in is handled as it comes",
};

/// Lists what waits.
pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    match &args.table {
        Some(source) => lists::show(context, &rows::path(source, "failed"), &[], &args.list, &rows::VIEW).await,
        None => {
            let mut query = vec![("filter", args.filter.as_str())];
            query.extend(args.newest.then_some(("newest", "true")));
            lists::show(context, &["v1", "inbox"], &query, &args.list, &VIEW).await
        }
    }
}
