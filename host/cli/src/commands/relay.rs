//! `waybill relay ...`.

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use waybill_core::seq_json::SeqJson;

use super::{Context, dead, lists};
use crate::args::{ListArgs, within};
use crate::exit::CliError;
use crate::output::{self, View, ago, column, instant, less, moment, prose, text, whole, words};

/// What brings events of streams to brokers.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill relay list\n  waybill relay show bus\n  waybill relay pause bus --reason 'the broker moves'\n  waybill relay resume bus\n  waybill relay seek bus task.node.7 --after 1200\n  waybill relay dead bus\n  waybill relay overtaken bus"
)]
pub enum Relay {
    /// All, with what each is behind by
    #[command(after_help = "Examples:\n  waybill relay list\n  waybill relay list -o json")]
    List,
    /// One, with the streams in which it is behind
    #[command(after_help = "Examples:\n  waybill relay show bus\n  waybill relay show bus -o json")]
    Show(Name),
    /// Send nothing more; what is under way ends, and it stays paused over a restart
    #[command(
        after_help = "Examples:\n  waybill relay pause bus\n  waybill relay pause bus --reason 'the broker moves'"
    )]
    Pause(Act),
    /// Go on, also where a refusal or an overtaken range stopped it
    #[command(after_help = "Examples:\n  waybill relay resume bus --reason 'the queue is back'")]
    Resume(Act),
    /// Go on elsewhere in a stream: backward to send again, forward to skip
    Seek(Seek),
    /// Events that its broker refused for good
    #[command(
        after_help = "Examples:\n  waybill relay dead bus\n  waybill relay dead bus -o ids | waybill dead replay -\n\nThey are dead letters of kind event: `waybill dead` shows, replays, quarantines and purges them."
    )]
    Dead(Listed),
    /// Events that retention took before it had them
    #[command(after_help = "Examples:\n  waybill relay overtaken bus\n  waybill relay overtaken bus --all -o jsonl")]
    Overtaken(Listed),
}

/// What is listed of a relay.
#[derive(Debug, Args)]
pub struct Listed {
    /// Its name in the configuration
    pub name: String,
    /// Only this tenant's; a token of several has to name one
    #[arg(long)]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
}

impl Listed {
    fn tenant(&self) -> Vec<(&str, &str)> {
        self.tenant.as_deref().map(|tenant| ("tenant", tenant)).into_iter().collect()
    }
}

/// A relay by its name in the configuration.
#[derive(Debug, Args)]
pub struct Name {
    /// Its name in the configuration
    pub name: String,
}

/// Which relay, and why.
#[derive(Debug, Args)]
pub struct Act {
    /// Its name in the configuration
    pub name: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Where a relay goes on.
#[derive(Debug, Args)]
#[command(group(ArgGroup::new("where").args(["after", "to"]).required(true)))]
#[command(after_help = "Examples:\n  \
    waybill relay seek bus task.node.7 --after 1200 --reason 'lost at the broker'\n  \
    waybill relay seek bus task.node.7 --to earliest\n  \
    waybill relay seek bus task.node.7 --to latest --tenant acme\n\n\
    What is under way ends first. What a seek forward skips is audited; below what is kept of the stream a relay can't go.")]
pub struct Seek {
    /// Name of the relay in the configuration
    pub name: String,
    /// Name of the stream
    pub stream: String,
    /// Behind the event of this number
    #[arg(long, value_name = "SEQ", value_parser = within(0_u64..))]
    pub after: Option<u64>,
    /// With the earliest event that is kept, or behind the latest
    #[arg(long, value_enum)]
    pub to: Option<End>,
    /// Tenant of the stream [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// An end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum End {
    /// The earliest event that is kept
    Earliest,
    /// Behind what is there now
    Latest,
}

impl End {
    fn word(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Latest => "latest",
        }
    }
}

const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("STATE", |item| text(item, "state")),
        less(1, column("STREAMS", |item| text(item, "streams"))),
        less(2, column("TRANSPORT", |item| text(item, "transport"))),
        column("BEHIND", |item| words(item, "streams_behind")),
        column("LAG", |item| words(item, "lag_events")),
        column("OLDEST", |item| ago(item, "lag_ms")),
        less(4, column("IN FLIGHT", |item| words(item, "in_flight"))),
        less(5, column("DELIVERED", |item| words(item, "delivered"))),
        column("REFUSED", |item| words(item, "refused")),
        less(3, column("OVERTAKEN", |item| words(item, "overtaken"))),
        prose("REASON", |item| text(item, "reason")),
    ],
    id: |item| text(item, "name"),
    none: "no relay is configured",
};

const PLACES: View<'_> = View {
    columns: &[
        whole("STREAM", |item| text(item, "stream")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("UP TO", |item| words(item, "upto")),
        column("LAST", |item| words(item, "named_to")),
        column("SEEKS", |item| words(item, "generation")),
    ],
    id: |item| text(item, "stream"),
    none: "it is behind in no stream",
};

const RANGES: View<'_> = View {
    columns: &[
        whole("STREAM", |item| text(item, "stream")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("FROM", |item| words(item, "from")),
        column("TO", |item| words(item, "to")),
        moment("NOTICED", |item| instant(item, "at")),
    ],
    id: |item| text(item, "stream"),
    none: "it had everything",
};

/// Runs one of them.
pub(super) async fn run(command: &Relay, context: &mut Context<'_>) -> Result<(), CliError> {
    let (act, name, report) = match command {
        Relay::List => {
            let items = lists::whole(context, &["v1", "relays"], &[]).await?;
            return output::list(context.term, context.format, &items, &VIEW);
        }
        Relay::Show(name) => return show(&name.name, context).await,
        Relay::Seek(args) => return seek(args, context).await,
        Relay::Dead(args) => {
            let filter = format!("kind=event relay={}", args.name);
            let mut asked = args.tenant();
            asked.push(("filter", &filter));
            return lists::show(context, &["v1", "dead-letters"], &asked, &args.list, &dead::list::VIEW).await;
        }
        Relay::Overtaken(args) => {
            let path = ["v1", "relays", &args.name, "overtaken"];
            return lists::show(context, &path, &args.tenant(), &args.list, &RANGES).await;
        }
        Relay::Pause(args) => (args, "pause", "is paused: nothing more is sent"),
        Relay::Resume(args) => (args, "resume", "goes on"),
    };
    let body = json!({ "reason": act.reason.as_deref().unwrap_or_default() });
    let answer = context.client.post(&["v1", "relays", &act.name, name], &[], &body).await?;
    answer.need("name", Value::as_str)?;
    context.term.say(&format!("{} {report}", act.name));
    output::listed(context.term, context.format, &answer.text, &answer.body, &VIEW)
}

async fn show(name: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "relays", name], &[]).await?;
    answer.need("name", Value::as_str)?;
    output::answer(context.term, context.format, &answer.text, name, |term| {
        output::list(term, output::Format::Table, std::slice::from_ref(&answer.body), &VIEW)?;
        term.line("")?;
        let behind = answer.body.get("behind").and_then(Value::as_array).map_or(&[] as &[Value], Vec::as_slice);
        output::list(term, output::Format::Table, behind, &PLACES)
    })
}

async fn seek(args: &Seek, context: &mut Context<'_>) -> Result<(), CliError> {
    let mut body = json!({ "stream": args.stream, "reason": args.reason.as_deref().unwrap_or_default() });
    if let Some(members) = body.as_object_mut() {
        members.extend(args.after.map(|after| ("after".to_owned(), after.to_string().into())));
        members.extend(args.to.map(|to| ("to".to_owned(), to.word().into())));
        members.extend(args.tenant.as_deref().map(|tenant| ("tenant".to_owned(), tenant.into())));
    }
    let answer = context.client.post(&["v1", "relays", &args.name, "seek"], &[], &body).await?;
    let upto = answer.need("upto", SeqJson::in_value)?;
    context.term.say(&format!("{} goes on in {} behind {upto}", args.name, args.stream));
    output::listed(context.term, context.format, &answer.text, &answer.body, &PLACES)
}
