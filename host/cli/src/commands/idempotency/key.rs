//! `waybill idempotency show`.

use clap::Args;
use serde_json::Value;

use super::PATH;
use crate::client::{Answer, ClientError};
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, instant, safe, shortened, text};

/// Characters of a result shown in a table; more is left to `-o json`.
const RESULT_SHOWN_MAX: usize = 2_000;

/// One key.
#[derive(Debug, Args)]
pub struct Key {
    /// The key
    pub key: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
}

pub(super) async fn run(args: &Key, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = get(context, args).await?;
    show(context, &answer)
}

pub(super) async fn get(context: &Context<'_>, args: &Key) -> Result<Answer, CliError> {
    let mut query = vec![("key", args.key.as_str())];
    query.extend(lists::tenant_query(args.tenant.as_deref()));
    checked(context.client.get(PATH, &query).await, args)
}

/// What the host answered about a key.
pub(super) fn checked(answer: Result<Answer, ClientError>, args: &Key) -> Result<Answer, CliError> {
    let answer = answer.map_err(|error| requests::with_tenant(error, args.tenant.as_deref()))?;
    answer.need("state", Value::as_str)?;
    Ok(answer)
}

/// Writes one key with what came of it.
pub(super) fn show(context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
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
    output::one(context.term, context.format, &answer.text, &lists::piped(item, "key"), rows)
}

fn content(result: &Value) -> String {
    shortened(&safe(&result.to_string()), RESULT_SHOWN_MAX)
}
