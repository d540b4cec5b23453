//! `waybill saga list`.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use serde_json::Value;

use crate::args::ListArgs;
use crate::commands::Context;
use crate::commands::lists::{self, More, piped_id};
use crate::exit::CliError;
use crate::output::{self, Format, View, column, instant, less, moment, plain, text, whole};

/// How often the host is asked for more.
const POLL: Duration = Duration::from_secs(1);
/// Sagas asked for each time while following.
const FOLLOW_MAX: usize = 1_000;

/// Filter and size of a list.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    waybill saga list --filter 'state=failed'\n  \
    waybill saga list --filter 'tenant=acme definition=order waiting_for=approval age>1h'\n  \
    waybill saga list --filter 'state=paused code=SAGA.*' --follow\n  \
    waybill saga list --filter 'state=failed' --cursor 5pXq8hYwMC8z      go on where it ended\n  \
    waybill saga list --filter 'step=charge waiting_for=retry' -o ids | waybill saga retry -\n\n\
    Conditions: tenant, id, definition, version, state, waiting_for, step, code, reason, with = and * as a wildcard; age \
    (since the start) with > or <. All have to hold. States: running, compensating, completed, cancelled, failed, paused.")]
#[command(mut_arg("limit", |arg| arg.help("Most sagas listed")))]
pub struct List {
    /// Conditions, e.g. 'definition=order state=failed age<1d'
    #[arg(long, default_value = "", hide_default_value = true)]
    pub filter: String,
    /// Only this tenant's
    #[arg(long)]
    pub tenant: Option<String>,
    #[command(flatten)]
    pub list: ListArgs,
    /// Go on with those that move, newest 1,000
    #[arg(short, long, conflicts_with_all = ["cursor", "exit_code"])]
    pub follow: bool,
}

/// How sagas are listed.
pub(super) const VIEW: View<'_> = View {
    columns: &[
        whole("ID", |item| text(item, "id")),
        less(1, column("TENANT", |item| text(item, "tenant"))),
        column("DEFINITION", |item| format!("{}@{}", text(item, "definition"), text(item, "version"))),
        column("STATE", |item| text(item, "state")),
        less(3, column("WAITS FOR", |item| text(item, "waiting_for"))),
        less(2, moment("SINCE", |item| instant(item, "since"))),
        less(
            4,
            column("STEPS", |item| {
                let steps = item.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
                if steps.is_empty() { "-".into() } else { steps.iter().map(plain).collect::<Vec<_>>().join(" ") }
            }),
        ),
        moment("STARTED", |item| instant(item, "started_at")),
        column("ERROR", |item| match item.get("code").and_then(Value::as_str) {
            Some(_) => format!("{}: {}", text(item, "code"), text(item, "reason")),
            None => "-".into(),
        }),
    ],
    id: piped_id,
    none: "no saga matches",
};

/// Lists them, and goes on with those that move if asked.
pub(super) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let (items, more) = page(args, args.list.bound(), context).await?;
    output::list(context.term, context.format, &items, &VIEW)?;
    if args.follow {
        return follow(args, context, &items).await;
    }
    lists::tell_more(context, items.len(), more);
    args.list.ended(items.is_empty())
}

async fn page(args: &List, limit: usize, context: &Context<'_>) -> Result<(Vec<Value>, More), CliError> {
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.push(("filter", &args.filter));
    lists::fetch(context, &["v1", "sagas"], &query, limit, args.list.cursor.as_deref()).await
}

/// Writes every saga that is new or has moved since it was written last. One that doesn't match any more isn't seen.
async fn follow(args: &List, context: &mut Context<'_>, shown: &[Value]) -> Result<(), CliError> {
    let format = context.format.followed();
    let mark = |item: &Value| (piped_id(item), item.to_string());
    let mut seen: BTreeMap<String, String> = shown.iter().map(mark).collect();
    loop {
        context.term.out.flush().map_err(CliError::io("writing the result"))?;
        tokio::time::sleep(POLL).await;
        let (mut items, _) = page(args, FOLLOW_MAX, context).await?;
        items.reverse();
        let now: BTreeMap<String, String> = items.iter().map(mark).collect();
        for item in items.iter().filter(|item| seen.get(&piped_id(item)) != Some(&item.to_string())) {
            write_line(context, format, item)?;
        }
        seen = now;
    }
}

fn write_line(context: &mut Context<'_>, format: Format, item: &Value) -> Result<(), CliError> {
    if format != Format::Table {
        return output::list(context.term, format, std::slice::from_ref(item), &VIEW);
    }
    let cells = ["id", "tenant", "definition", "state", "waiting_for", "code"].map(|name| text(item, name));
    context.term.line(&format!("{}  {}", instant(item, "updated_at"), cells.join("  ")))
}
