//! `waybill dead list`.

use clap::Args;
use serde_json::Value;

use crate::args::ListArgs;
use crate::commands::{Context, facets, lists};
use crate::exit::CliError;
use crate::output::{View, column, instant, less, moment, text, topic, whole};

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill dead list\n  \
    waybill dead list --filter 'tenant=acme code=HTTP.* age>1h'\n  \
    waybill dead list --filter 'error=\"*answered 422*\" since=2026-12-01T14:00:00Z'\n  \
    waybill dead list --filter 'replayed>0'            what died again after a replay\n  \
    waybill dead list --filter 'age<1h' --facets           codes, topics, ..., and how often\n  \
    waybill dead list --filter 'kind=saga definition=order'\n  \
    waybill dead list --filter 'kind=inbox consumer=ship'\n  \
    waybill dead list --filter 'kind=event relay=bus'\n  \
    waybill dead list --filter 'code=HTTP.400' --all -o ids | waybill dead replay -\n  \
    waybill dead list --filter 'code=HTTP.400' --cursor 5pXq8hYwMC8z     go on where it ended\n\n\
    Conditions: tenant, topic, key, id, code, error (as it is shown, or as it is grouped), state, kind (message, saga, inbox or event), \
    of messages generation (of the plugin, by number or digest), replayed (how often it was put back; with =, > or <) and their texts by name (correlation_id, aggregate_id, ..., header.NAME, payload.PATH of JSON), of sagas definition and step, of received messages consumer, \
    source and context, of events relay, with = and * as a wildcard; since and until with an instant; age with > or <. A value with \
    spaces stands in quotes.")]
#[command(mut_arg("limit", |arg| arg.help("Most dead letters listed")))]
pub struct List {
    /// Conditions, e.g. 'tenant=acme code=HTTP.* age>1h'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// What the list can be narrowed by: how often each code, topic, kind, ... stands in what matches
    #[arg(long, conflicts_with_all = ["limit", "all", "cursor"])]
    pub facets: bool,
    #[command(flatten)]
    pub list: ListArgs,
}

/// How dead letters are listed.
pub(in crate::commands) const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("STATE", |item| text(item, "state")),
        // What stands for the topic of a stuck saga, a received message or an event is what its filter takes.
        column("TOPIC", |item| match item.get("kind").and_then(Value::as_str) {
            Some("saga") => format!("saga:{}/{}", text(item, "definition"), text(item, "step")),
            Some("inbox") => text(item, "subject"),
            Some("event") => text(item, "stream"),
            _ => topic(item, "topic"),
        }),
        less(2, column("KEY", |item| text(item, "key"))),
        less(3, column("ATTEMPTS", |item| text(item, "attempts"))),
        moment("DIED", |item| instant(item, "ended_at")),
        column("ERROR", |item| text(item, "last_error")),
    ],
    id: lists::piped_id,
    none: "no dead letter matches",
};

pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    if args.facets {
        let is_empty = facets::run("dead-letters", &args.filter, context).await?;
        return args.list.ended(is_empty);
    }
    lists::show(context, &["v1", "dead-letters"], &[("filter", &args.filter)], &args.list, &VIEW).await
}
