//! `waybill idempotency release`.

use clap::Args;
use serde_json::json;

use super::key::{self, Key};
use crate::commands::Context;
use crate::exit::CliError;
use crate::output::{Format, text};
use crate::term::DRY_RUN_FIRST;

/// Free one.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill idempotency release order-17 --dry-run\n  \
    waybill idempotency release order-17 --yes --reason 'its client is gone'\n  \
    waybill idempotency release order-17 --finished --yes\n\n\
    What its holder says afterwards is refused (TX.LEASE_LOST). With --finished a known outcome is forgotten too: the\n\
    next request with this key executes again.")]
pub struct Release {
    /// Which.
    #[command(flatten)]
    pub key: Key,
    /// Also when its outcome is known
    #[arg(long)]
    pub finished: bool,
    /// Only show it
    #[arg(long)]
    pub dry_run: bool,
    /// Don't ask; needed where there is no terminal to ask on
    #[arg(short, long)]
    pub yes: bool,
    /// Why, for the audit
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub reason: String,
}

pub(super) async fn run(args: &Release, context: &mut Context<'_>) -> Result<(), CliError> {
    let Key { key, tenant } = &args.key;
    let asks = !args.yes && context.term.interactive;
    if args.dry_run || asks {
        let answer = key::get(context, &args.key).await?;
        if args.dry_run || context.format == Format::Table {
            key::show(context, &answer)?;
        }
    }
    if args.dry_run {
        return Ok(());
    }
    if !args.yes {
        let question = format!("release {key}? what its holder says afterwards is refused");
        context.term.confirm(&format!("release {key}"), &question, DRY_RUN_FIRST)?;
    }
    let mut body = json!({ "key": key, "finished": args.finished, "reason": args.reason });
    if let (Some(tenant), Some(fields)) = (tenant, body.as_object_mut()) {
        fields.insert("tenant".to_owned(), json!(tenant));
    }
    let answer = context.client.post(&["v1", "idempotency", "forget"], &[], &body).await;
    let answer = key::checked(answer, &args.key)?;
    context.term.say(&format!("released {key}; it was {}", text(&answer.body, "state")));
    if context.format == Format::Table { Ok(()) } else { key::show(context, &answer) }
}
