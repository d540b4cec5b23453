//! `waybill audit list`.

use std::collections::BTreeSet;
use std::time::Duration;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::{Context, lists};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, text};

/// How often the host is asked for more.
const POLL: Duration = Duration::from_secs(1);
/// Events asked for each time while following: more than come in one second.
const FOLLOW_LIMIT: &str = "1000";

/// The audit trail.
#[derive(Debug, Subcommand)]
pub enum Audit {
    /// Latest events, oldest first
    #[command(visible_alias = "tail")]
    List(List),
}

/// Latest events.
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  waybill audit list\n  waybill audit list --filter 'actor=ann kind=Message* since=2026-12-01'\n  waybill audit list --limit 500 -o jsonl\n  waybill audit tail -f\n\nConditions: actor, kind, object with = and * as a wildcard; since and until with an instant; age with > or <."
)]
pub struct List {
    /// Most events, up to 1,000
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1_000))]
    pub limit: u16,
    /// Only this tenant
    #[arg(long)]
    pub tenant: Option<String>,
    /// Conditions: who (actor), what (kind), to what (object), when (since, until, age)
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Go on with what comes
    #[arg(short, long)]
    pub follow: bool,
}

const VIEW: View<'_> = View {
    columns: &[
        column("AT", |item| instant(item, "at")),
        column("KIND", |item| text(item, "kind")),
        column("ACTOR", |item| text(item, "actor")),
        column("TENANT", |item| text(item, "tenant")),
        column("OBJECT", |item| text(item, "object")),
        column("DETAIL", |item| text(item, "detail")),
    ],
    id: |item| text(item, "object"),
    none: "nothing in the audit trail matches",
};

/// Writes the latest events, oldest first.
pub(super) async fn run(command: &Audit, context: &mut Context<'_>) -> Result<(), CliError> {
    let Audit::List(args) = command;
    let limit = args.limit.to_string();
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.extend([("limit", limit.as_str()), ("filter", args.filter.as_str())]);
    let mut items = lists::whole(context, &["v1", "audit"], &query).await?;
    items.reverse();
    output::list(context.term, context.format, &items, &VIEW)?;
    if args.follow { follow(args, context, items).await } else { Ok(()) }
}

/// The trail has no numbers, so what was shown is remembered by content, as far back as one question reaches.
async fn follow(args: &List, context: &mut Context<'_>, shown: Vec<Value>) -> Result<(), CliError> {
    let mut seen: BTreeSet<String> = shown.iter().map(Value::to_string).collect();
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.extend([("limit", FOLLOW_LIMIT), ("filter", args.filter.as_str())]);
    let format = context.format.followed();
    let mut latest = shown.last().and_then(|item| item.get("at")).cloned();
    loop {
        tokio::time::sleep(POLL).await;
        let mut items = lists::whole(context, &["v1", "audit"], &query).await?;
        items.reverse();
        let now: BTreeSet<String> = items.iter().map(Value::to_string).collect();
        let after = latest.as_ref().map(Value::to_string);
        items.retain(|item| {
            let at = item.get("at").map(Value::to_string);
            !seen.contains(&item.to_string()) && at >= after
        });
        if let Some(last) = items.last() {
            latest = last.get("at").cloned();
            for item in &items {
                write_line(context, format, item)?;
            }
        }
        seen = now;
    }
}

fn write_line(context: &mut Context<'_>, format: Format, item: &Value) -> Result<(), CliError> {
    match format {
        Format::Table => {
            let cells: Vec<String> =
                ["kind", "actor", "tenant", "object", "detail"].map(|name| text(item, name)).into();
            context.term.line(&format!("{}  {}", instant(item, "at"), cells.join("  ")))?;
            context.term.out.flush().map_err(CliError::io("writing the result"))
        }
        format => output::list(context.term, format, std::slice::from_ref(item), &VIEW),
    }
}
