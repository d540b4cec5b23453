//! `waybill stream purge` and `waybill stream delete`: what is taken away.

use clap::Args;
use serde_json::{Value, json};
use waybill_core::seq_json::SeqJson;

use crate::args::within;
use crate::client::Answer;
use crate::commands::{Context, lists, requests};
use crate::exit::CliError;
use crate::output::{self, Format, number, text, words};
use crate::term::DRY_RUN_FIRST;

#[derive(Debug, Args)]
pub struct Which {
    /// Name of the stream
    pub name: String,
    /// Its tenant [default: the token's only one, else default]
    #[arg(long)]
    pub tenant: Option<String>,
    /// Only tell what would go
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
}

/// Take away the front.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill stream purge task.node.7 --before 1200 --dry-run\n  \
    waybill stream purge task.node.7 --before 1200 --reason 'kept elsewhere' --yes\n\n\
    Events go in whole chunks, so a few before that number may stay; so does what a relay with `retention = \"hold\"` hasn't sent. Without \
    --before all of them go.")]
pub struct Purge {
    #[command(flatten)]
    pub which: Which,
    /// Only events before this number
    #[arg(long, value_name = "SEQ", value_parser = within(0_u64..))]
    pub before: Option<u64>,
}

/// Take away all.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill stream delete task.node.7 --dry-run\n  \
    waybill stream delete task.node.7 --reason 'the node is gone' --yes\n\n\
    What is appended later goes on behind the last number.")]
pub struct Delete {
    #[command(flatten)]
    pub which: Which,
}

/// What is taken away.
enum Cut {
    Front { before: Option<u64> },
    All,
}

/// Takes away the front of a stream, after it told what that is.
pub(super) async fn purge(args: &Purge, context: &mut Context<'_>) -> Result<(), CliError> {
    act(&Cut::Front { before: args.before }, &args.which, context).await
}

/// Takes away all of a stream, after it told how much that is.
pub(super) async fn delete(args: &Delete, context: &mut Context<'_>) -> Result<(), CliError> {
    act(&Cut::All, &args.which, context).await
}

/// Asks for the plan, has it agreed to, and has it done.
async fn act(cut: &Cut, which: &Which, context: &mut Context<'_>) -> Result<(), CliError> {
    if which.dry_run || !which.yes {
        let plan = ask(cut, which, context, true).await?;
        if which.dry_run {
            return report(which, context, &plan);
        }
        let events = number(plan.need("events", Value::as_u64)?, "event", "events");
        let what = format!("take {events} away from {}", which.name);
        context.term.confirm(&what, &format!("{what}?"), DRY_RUN_FIRST)?;
    }
    let done = ask(cut, which, context, false).await?;
    report(which, context, &done)
}

async fn ask(cut: &Cut, which: &Which, context: &Context<'_>, dry_run: bool) -> Result<Answer, CliError> {
    let tenant = which.tenant.as_deref();
    let mut query = lists::tenant_query(tenant);
    let answer = match cut {
        Cut::Front { before } => {
            let reason = which.reason.as_deref().unwrap_or_default();
            let body = json!({ "before": before.map(SeqJson), "dry_run": dry_run, "reason": reason });
            context.client.post(&["v1", "streams", &which.name, "purge"], &query, &body).await
        }
        Cut::All => {
            query.extend(which.reason.as_deref().map(|reason| ("reason", reason)));
            query.push(("dry_run", if dry_run { "true" } else { "false" }));
            context.client.delete(&["v1", "streams", &which.name], &query).await
        }
    };
    let answer = answer.map_err(|error| requests::with_tenant(error, tenant))?;
    answer.need("events", Value::as_u64)?;
    Ok(answer)
}

fn report(which: &Which, context: &mut Context<'_>, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let events = item.get("events").and_then(Value::as_u64).unwrap_or_default();
    let verb = if which.dry_run { "would go" } else { "went" };
    context.term.say(&format!("{} {verb}", number(events, "event", "events")));
    let mut rows = vec![("stream".to_owned(), text(item, "stream")), ("tenant".to_owned(), text(item, "tenant"))];
    rows.push(("events".to_owned(), words(item, "events")));
    rows.push(("first kept".to_owned(), words(item, "first_seq")));
    rows.push(("last".to_owned(), words(item, "last_seq")));
    match context.format {
        Format::Ids if which.dry_run => Ok(()),
        format => output::one(context.term, format, &answer.text, &which.name, rows),
    }
}
