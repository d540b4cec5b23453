//! `waybill idempotency ...`.

use serde_json::{Value, json};

use super::{Context, lists, messages, one};
use crate::args::Format;
use crate::args::idempotency::{Idempotency, Key, List, Release};
use crate::client::{Answer, ClientError};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, plain, text, words};

/// Where keys are asked for.
const PATH: &[&str] = &["v1", "idempotency"];
/// Bytes of a result shown in a table; more is left to `-o json`.
const RESULT_SHOWN_MAX: usize = 2_000;

/// How keys are listed.
const VIEW: View<'_> = View {
    columns: &[
        column("KEY", |item| text(item, "key")),
        column("TENANT", |item| text(item, "tenant")),
        column("STATE", |item| text(item, "state")),
        column("BEGUN", |item| words(item, "begun")),
        column("CREATED", |item| instant(item, "created_at")),
        column("LEASE UNTIL", |item| instant(item, "lease_until")),
        column("UNTIL", |item| instant(item, "until")),
    ],
    id: piped,
    none: "no idempotency key matches",
};

/// A key for a pipe: alone in the tenant that is assumed, else behind its tenant and a tab.
fn piped(item: &Value) -> String {
    let key = item.get("key").and_then(Value::as_str).unwrap_or_default();
    match item.get("tenant").and_then(Value::as_str) {
        None | Some("default") => key.to_owned(),
        Some(tenant) => format!("{tenant}\t{key}"),
    }
}

/// Runs one of them.
pub(super) async fn run(command: &Idempotency, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Idempotency::List(args) => list(args, context).await,
        Idempotency::Show(one) => {
            let answer = look(context, one).await?;
            show(context, &answer)
        }
        Idempotency::Release(args) => release(args, context).await,
    }
}

async fn list(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = lists::bound(args.limit, args.all);
    let (items, more) = lists::fetch(context, PATH, &[("filter", &args.filter)], limit, args.cursor.as_deref()).await?;
    output::list(context.term, context.format, &items, &VIEW)?;
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn look(context: &Context<'_>, one: &Key) -> Result<Answer, CliError> {
    let mut query = vec![("key", one.key.as_str())];
    query.extend(lists::tenant_query(one.tenant.as_deref()));
    checked(context.client.get(PATH, &query).await, one)
}

fn checked(answer: Result<Answer, ClientError>, one: &Key) -> Result<Answer, CliError> {
    let answer = answer.map_err(|error| one::missed(error, one.tenant.as_deref()))?;
    answer.need("state", Value::as_str)?;
    Ok(answer)
}

/// Writes one key with what came of it.
fn show(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let mut rows: Vec<(String, String)> = Vec::new();
    let mut row = |name: &str, value: String| {
        if value != "-" {
            rows.push((name.to_owned(), value));
        }
    };
    row("key", text(item, "key"));
    row("tenant", text(item, "tenant"));
    row("state", text(item, "state"));
    row("begun", text(item, "begun"));
    row("hash", text(item, "hash"));
    row("created", instant(item, "created_at"));
    row("changed", instant(item, "changed_at"));
    row("lease until", instant(item, "lease_until"));
    row("until", instant(item, "until"));
    if let Some(outcome) = item.get("outcome") {
        row("status", text(outcome, "status"));
        row("code", text(outcome, "code"));
        row("error", text(outcome, "error"));
        if let Some(bytes) = outcome.get("bytes").and_then(Value::as_u64) {
            row("result", format!("{bytes} bytes"));
        }
        row("  sha-256", text(outcome, "sha256"));
        row("  content", outcome.get("result").map_or("-".to_owned(), content));
    }
    output::one(context.term, context.format, &answer.text, &piped(item), rows)
}

fn content(result: &Value) -> String {
    let whole = plain(&Value::String(result.to_string()));
    let cut: String = whole.chars().take(RESULT_SHOWN_MAX).collect();
    if cut.len() < whole.len() { format!("{cut}... (all of it: -o json)") } else { cut }
}

async fn release(args: &Release, context: &mut Context<'_>) -> Result<(), CliError> {
    let key = &args.one.key;
    if args.dry_run || (!args.yes && context.term.interactive) {
        let answer = look(context, &args.one).await?;
        if args.dry_run || context.format == Format::Table {
            show(context, &answer)?;
        }
        if args.dry_run {
            return Ok(());
        }
        if !context.term.confirm(&format!("release {key}? what its holder says afterwards is refused"))? {
            return Err(CliError::Declined);
        }
    } else if !args.yes {
        return Err(CliError::usage(
            format!("this would release {key}, and there is no terminal to ask on"),
            "look with --dry-run, then add --yes",
        ));
    }
    let mut body = json!({ "key": key, "finished": args.finished, "reason": args.reason });
    if let (Some(tenant), Some(fields)) = (&args.one.tenant, body.as_object_mut()) {
        fields.insert("tenant".to_owned(), json!(tenant));
    }
    let answer = checked(context.client.post(&["v1", "idempotency", "forget"], &[], &body).await, &args.one)?;
    context.term.say(&format!("released {key}; it was {}", text(&answer.body, "state")));
    if context.format == Format::Table { Ok(()) } else { show(context, &answer) }
}
