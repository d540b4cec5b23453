//! `waybill inbox stats`.

use clap::Args;
use serde_json::Value;

use crate::commands::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, prose, text, whole, words};

/// What waits.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill inbox stats\n  waybill inbox stats --tenant acme -o json")]
pub struct Stats {
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
}

fn waiters<'v>(item: &'v Value, name: &str) -> &'v Value {
    item.get(name).unwrap_or(&Value::Null)
}

/// By context: received and not processed, and of tables not published.
const CONTEXTS: View<'_> = View {
    columns: &[
        whole("CONTEXT", |item| text(item, "context")),
        column("UNPROCESSED", |item| words(waiters(item, "unprocessed"), "count")),
        moment("OLDEST", |item| instant(waiters(item, "unprocessed"), "oldest_at")),
        column("UNPUBLISHED", |item| words(waiters(item, "unpublished"), "count")),
        moment("OLDEST ROW", |item| instant(waiters(item, "unpublished"), "oldest_at")),
        column("FAILED ROWS", |item| words(item, "failed")),
    ],
    id: |item| text(item, "context"),
    none: "nothing waits in any context",
};

const CONSUMERS: View<'_> = View {
    columns: &[
        whole("CONSUMER", |item| text(item, "consumer")),
        less(1, column("HOME", |item| text(item, "home"))),
        column("IN HAND", |item| words(item, "in_hand")),
        column("STORED", |item| format!("{}/{}", words(item, "stored"), words(item, "stored_max"))),
        less(2, column("ORPHANS", |item| words(item, "orphans"))),
        less(3, column("SUSPECTS", |item| words(item, "suspects"))),
        column("DEAD", |item| words(item, "dead")),
        less(
            4,
            column("READS", |item| {
                let percent = item.get("seen_reads_percent").and_then(Value::as_u64).unwrap_or(0);
                format!("{}.{:02}", percent / 100, percent % 100)
            }),
        ),
        prose("HELD", |item| match item.get("held").filter(|held| held.is_object()) {
            Some(held) => format!("{}: {}", text(held, "on"), text(held, "reason")),
            None if item.get("configured") == Some(&Value::Bool(false)) => "not configured any more".into(),
            None => "-".into(),
        }),
    ],
    id: |item| text(item, "consumer"),
    none: "there is no consumer",
};

/// Shows them by context, then by consumer.
pub(super) async fn run(args: &Stats, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "inbox", "stats"], &lists::tenant_query(args.tenant.as_deref())).await?;
    let contexts = answer.need("contexts", Value::as_array)?;
    let consumers = answer.need("consumers", Value::as_array)?;
    match context.format {
        Format::Json | Format::Jsonl => context.term.line(answer.text.trim_end()),
        Format::Ids => output::list(context.term, Format::Ids, consumers, &CONSUMERS),
        Format::Table => {
            output::list(context.term, Format::Table, contexts, &CONTEXTS)?;
            if !contexts.is_empty() && !consumers.is_empty() {
                context.term.line("")?;
            }
            output::list(context.term, Format::Table, consumers, &CONSUMERS)
        }
    }
}
