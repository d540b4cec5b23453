//! `waybill operation ...`: bulk acts that the host carries out.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::{Context, bulk, lists};
use crate::args::within;
use crate::exit::CliError;
use crate::output::{self, View, column, instant, less, moment, text, whole, words};

/// Bulk acts of the host.
#[derive(Debug, Subcommand)]
pub enum Operation {
    /// Latest bulk acts, the newest first
    List(List),
    /// One bulk act: how far it is, and what was refused and why
    #[command(
        after_help = "Examples:\n  waybill operation show 01JD8Q6H3ZK7W5V0N2T4R6Y8BC\n\nOf a replay it tells what became of what was put back: delivered since, died again, still on the way."
    )]
    Show(Which),
    /// Stop a bulk act; what is done stays done
    #[command(after_help = "Examples:\n  waybill operation cancel 01JD8Q6H3ZK7W5V0N2T4R6Y8BC")]
    Cancel(Which),
}

/// Which bulk acts.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  waybill operation list\n  waybill operation list --tenant acme -o jsonl")]
pub struct List {
    /// Most of them, up to 1,000
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = within(1_u16..=1_000))]
    pub limit: u16,
    /// Only this tenant's
    #[arg(long)]
    pub tenant: Option<String>,
}

/// One bulk act.
#[derive(Debug, Args)]
pub struct Which {
    /// Its id, as `waybill dead replay --filter` and its like tell it
    pub id: String,
}

const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        column("KIND", |item| text(item, "kind")),
        column("STATE", |item| text(item, "state")),
        less(1, column("MATCHED", |item| words(item, "matched"))),
        column("DONE", |item| words(item, "done")),
        less(2, column("FAILED", |item| words(item, "failed"))),
        less(3, column("TENANT", |item| text(item, "tenant"))),
        less(4, column("BY", |item| text(item, "actor"))),
        moment("BEGAN", |item| instant(item, "created_at")),
        column("FILTER", |item| text(item, "filter")),
    ],
    id: |item| text(item, "id"),
    none: "no bulk act was begun",
};

pub(super) async fn run(command: &Operation, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = match command {
        Operation::List(args) => return list(args, context).await,
        Operation::Show(args) => context.client.get(&["v1", "operations", &args.id], &[]).await?,
        Operation::Cancel(args) => {
            context.client.post(&["v1", "operations", &args.id, "cancel"], &[], &json!({})).await?
        }
    };
    let id = answer.need("id", Value::as_str)?;
    output::one(context.term, context.format, &answer.text, id, rows(&answer.body))
}

async fn list(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = args.limit.to_string();
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.push(("limit", &limit));
    let items = lists::whole(context, &["v1", "operations"], &query).await?;
    output::list(context.term, context.format, &items, &VIEW)
}

/// Of a replay: what it took and tried, and what became of what it put back.
fn fate(operation: &Value) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    if operation.get("before").is_some() {
        rows.push(("died until".to_owned(), text(operation, "before")));
    }
    if let Some(trial) = operation.get("trial") {
        rows.push(("trial".to_owned(), format!("{}, {}", words(trial, "size"), text(trial, "state"))));
    }
    let Some(fate) = operation.get("fate") else { return rows };
    for name in ["put_back", "delivered", "died_again", "ended_otherwise", "on_the_way", "not_followed"] {
        rows.push((name.replace('_', " "), words(fate, name)));
    }
    if let Some(death) = fate.get("first_death") {
        rows.push(("first death".to_owned(), format!("{}: {}", text(death, "id"), text(death, "code"))));
    }
    rows
}

fn rows(operation: &Value) -> Vec<(String, String)> {
    let mut rows = bulk::rows(operation);
    rows.push(("unchanged".to_owned(), words(operation, "unchanged")));
    for name in ["tenant", "rate", "reason"] {
        rows.push((name.to_owned(), text(operation, name)));
    }
    rows.extend(fate(operation));
    rows.push(("by".to_owned(), text(operation, "actor")));
    rows.push(("began".to_owned(), instant(operation, "created_at")));
    for refusal in operation.get("refusals").and_then(Value::as_array).into_iter().flatten() {
        let [code, count, example, detail] = ["code", "count", "example", "detail"].map(|name| text(refusal, name));
        rows.push(("refused".to_owned(), format!("{code}: {count}, e.g. {example}: {detail}")));
    }
    rows
}
