//! `waybill source ...`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::provision::{self, Provision};
use super::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, View, column, less, plugin, text, whole, words};

/// Sources of messages.
#[derive(Debug, Subcommand)]
#[command(
    after_help = "Examples:\n  waybill source list\n  waybill source pause shop --reason 'broker is being moved'\n  waybill source resume shop\n  waybill source provision shop --dry-run"
)]
pub enum Source {
    /// All, with health, home, consumers and what isn't settled
    #[command(after_help = "Examples:\n  waybill source list\n  waybill source list -o json")]
    List,
    /// Pull no more from it; what is in hand is finished, and it stays paused over a restart
    #[command(after_help = "Examples:\n  waybill source pause shop --reason 'broker is being moved'")]
    Pause(Act),
    /// Pull again; where it stands still because it was overtaken, go on at the earliest that is kept
    #[command(after_help = "Examples:\n  waybill source resume shop")]
    Resume(Act),
    /// Create what is missing at its peer: consumers, queues, groups, columns and indexes
    #[command(
        after_help = "Examples:\n  waybill source provision shop --dry-run\n  waybill source provision shop --yes -o json\n\nWhat would lose data is never changed; if there is any of it, the exit code is 4."
    )]
    Provision(Provision),
}

/// Which source, and why.
#[derive(Debug, Args)]
pub struct Act {
    /// Its name in the configuration
    pub name: String,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("NAME", |item| text(item, "name")),
        column("STATE", |item| {
            let paused = item.get("paused") == Some(&Value::Bool(true));
            if paused { "paused".into() } else { text(item, "health") }
        }),
        less(1, column("PUBLISH", |item| text(item, "publish"))),
        less(2, column("HOME", |item| text(item, "home"))),
        less(3, column("OWNER", |item| text(item, "owner"))),
        column("CONSUMERS", |item| {
            let names = item.get("consumers").and_then(Value::as_array);
            let names: Vec<&str> = names.into_iter().flatten().filter_map(Value::as_str).collect();
            if names.is_empty() { "-".into() } else { output::safe(&names.join(", ")) }
        }),
        column("UNSETTLED", |item| format!("{}/{}", words(item, "unsettled"), words(item, "window"))),
        column("LAG", |item| words(item, "lag")),
        column("FAILED", |item| words(item, "failed")),
        column("PLUGIN", |item| plugin(item.get("plugin").unwrap_or(&Value::Null))),
        column("DETAIL", |item| text(item, "health_detail")),
    ],
    id: |item| text(item, "name"),
    none: "no source is configured",
};

/// Runs one of them.
pub(super) async fn run(command: &Source, context: &mut Context<'_>) -> Result<(), CliError> {
    let (Act { name, reason }, act, report) = match command {
        Source::List => {
            let items = lists::whole(context, &["v1", "sources"], &[]).await?;
            return output::list(context.term, context.format, &items, &VIEW);
        }
        Source::Pause(which) => (which, "pause", "is paused: nothing more is pulled"),
        Source::Resume(which) => (which, "resume", "is pulled from again"),
        Source::Provision(args) => return provision::run("sources", args, context).await,
    };
    let body = reason.as_deref().map_or_else(|| json!({}), |reason| json!({ "reason": reason }));
    let answer = context.client.post(&["v1", "sources", name, act], &[], &body).await?;
    answer.need("name", Value::as_str)?;
    context.term.say(&format!("{name} {report}"));
    output::listed(context.term, context.format, &answer.text, &answer.body, &VIEW)
}
