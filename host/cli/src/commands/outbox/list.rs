//! `waybill outbox list`.

use clap::Args;

use crate::args::ListArgs;
use crate::commands::{Context, facets, lists};
use crate::exit::CliError;
use crate::output::{View, column, instant, less, moment, plain, text, topic, whole};

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill outbox list --filter 'tenant=acme state=pending age>10m'\n  \
    waybill outbox list --filter 'topic=bus:orders.*' --all -o jsonl\n  \
    waybill outbox list --newest --limit 5                           what was sent last\n  \
    waybill outbox list --filter 'waits=schedule'\n  \
    waybill outbox list --filter 'age<1h' --facets           states, codes, ..., and how often\n  \
    waybill outbox list --filter 'payload.order.id=4711'\n  \
    waybill outbox list --filter 'key=order-17' --cursor 5pXq8hYwMC8z    go on where it ended\n\n\
    Conditions: tenant, topic, key, id, state, waits (schedule, retry, key, destination, ...), code, error, generation (of the plugin, by number or digest), and the texts of a \
    message by their names (correlation_id, aggregate_id, ..., header.NAME, payload.PATH of JSON), with = and * as a wildcard; replayed (how often it was put back) \
    with =, > or <; since and until with an instant; age with > or <. All have to hold. A value with spaces stands in quotes.")]
#[command(mut_arg("limit", |arg| arg.help("Most messages listed")))]
pub struct List {
    /// Conditions, e.g. 'tenant=acme state=pending age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Newest first: scheduled ones, the last due first, then the latest in the order; else what waits comes first, finished ones last
    #[arg(long)]
    pub newest: bool,
    /// What the list can be narrowed by: how often each state, code, topic, ... stands in what matches
    #[arg(long, conflicts_with_all = ["newest", "limit", "all", "cursor"])]
    pub facets: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

/// How messages are listed.
pub(super) const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("STATE", |item| text(item, "state")),
        column("TOPIC", |item| topic(item, "topic")),
        less(2, column("KEY", |item| text(item, "key"))),
        less(3, column("ATTEMPTS", |item| text(item, "attempts"))),
        moment("CREATED", |item| instant(item, "created_at")),
        column("WAITS FOR", |item| item.pointer("/waiting/on").map_or("-".into(), plain)),
    ],
    id: lists::piped_id,
    none: "no message matches",
};

/// Lists messages on their way.
pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    if args.facets {
        let is_empty = facets::run("messages", &args.filter, context).await?;
        return args.list.ended(is_empty);
    }
    let mut query = vec![("filter", args.filter.as_str())];
    query.extend(args.newest.then_some(("newest", "true")));
    lists::show(context, &["v1", "messages"], &query, &args.list, &VIEW).await
}
