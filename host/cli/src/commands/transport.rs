//! `waybill transport ...`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::provision::{self, Provision};
use super::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, less, plugin, prose, text, whole, words};

/// Transports.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill transport list\n  waybill transport pause orders-nats --reason 'broker is being moved'\n  waybill transport resume orders-nats\n  waybill transport provision orders-nats --dry-run"
)]
pub enum Transport {
    /// All, with plugin, breaker and health
    #[command(after_help = "Examples:\n  waybill transport list\n  waybill transport list -o json")]
    List,
    /// Stop sending through it; messages wait
    #[command(after_help = "Examples:\n  waybill transport pause orders-nats --reason 'broker is being moved'")]
    Pause(Act),
    /// Go on sending
    #[command(after_help = "Examples:\n  waybill transport resume orders-nats")]
    Resume(Act),
    /// Ask it how it is, and try its held destinations again now
    #[command(after_help = "Examples:\n  waybill transport probe orders-nats")]
    Probe(Name),
    /// Create what is missing at its peer: streams, queues, topics
    #[command(
        after_help = "Examples:\n  waybill transport provision orders-nats --dry-run\n  waybill transport provision orders-nats --yes -o json\n\nWhat would lose data is never changed; if there is any of it, the exit code is 4."
    )]
    Provision(Provision),
}

/// Which transport.
#[derive(Debug, Args)]
pub struct Name {
    /// Its name in the configuration
    pub name: String,
}

/// Which transport, and why.
#[derive(Debug, Args)]
pub struct Act {
    #[command(flatten)]
    pub name: Name,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// How transports are listed.
pub(super) const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("STATE", |item| {
            let paused = item.get("paused") == Some(&Value::Bool(true));
            if paused { "paused".into() } else { text(item, "health") }
        }),
        column("BREAKER", |item| text(item, "breaker")),
        less(2, column("IN FLIGHT", |item| words(item, "in_flight"))),
        less(3, column("INSTANCES", |item| text(item, "lanes"))),
        less(1, column("PLUGIN", |item| plugin(item.get("plugin").unwrap_or(&Value::Null)))),
        prose("DETAIL", |item| text(item, "health_detail")),
    ],
    id: |item| text(item, "name"),
    none: "no transport is configured",
};

/// Runs one of them.
pub(super) async fn run(command: &Transport, context: &mut Context<'_>) -> Result<(), CliError> {
    let (name, act, report, reason) = match command {
        Transport::List => {
            let items = lists::whole(context, &["v1", "transports"], &[]).await?;
            return output::list(context.term, context.format, &items, &VIEW);
        }
        Transport::Pause(act) => (&act.name.name, "pause", "is paused: its messages wait", &act.reason),
        Transport::Resume(act) => (&act.name.name, "resume", "goes on sending", &act.reason),
        Transport::Probe(name) => (&name.name, "probe", "was asked, and held destinations are tried again", &None),
        Transport::Provision(args) => return provision::run("transports", args, context).await,
    };
    let body = reason.as_deref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let answer = context.client.post(&["v1", "transports", name, act], &[], &body).await?;
    answer.need("name", Value::as_str)?;
    context.term.say(&format!("{name} {report}"));
    output::listed(context.term, context.format, &answer.text, &answer.body, &VIEW)
}
