//! `waybill saga list`.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::args::Format;
use crate::args::saga::List;
use crate::commands::lists::More;
use crate::commands::{Context, lists, messages};
use crate::exit::CliError;
use crate::output::{self, View, column, instant, plain, text};

/// How often the host is asked for more.
const POLL: Duration = Duration::from_secs(1);
/// Sagas asked for each time while following.
const FOLLOW_MAX: usize = 1_000;

/// How sagas are listed.
pub(super) const VIEW: View<'_> = View {
    columns: &[
        column("ID", |item| text(item, "id")),
        column("TENANT", |item| text(item, "tenant")),
        column("DEFINITION", |item| format!("{}@{}", text(item, "definition"), text(item, "version"))),
        column("STATE", |item| text(item, "state")),
        column("WAITS FOR", |item| text(item, "waiting_for")),
        column("SINCE", |item| instant(item, "since")),
        column("STEPS", |item| {
            let steps = item.get("steps").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if steps.is_empty() { "-".into() } else { steps.iter().map(plain).collect::<Vec<_>>().join(" ") }
        }),
        column("STARTED", |item| instant(item, "started_at")),
        column("ERROR", |item| match item.get("code").and_then(Value::as_str) {
            Some(_) => format!("{}: {}", text(item, "code"), text(item, "reason")),
            None => "-".into(),
        }),
    ],
    id: messages::piped_id,
    none: "no saga matches",
};

/// Lists them, and goes on with those that move if asked.
pub(in crate::commands) async fn run(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let items = page(args, lists::bound(args.limit, args.all), context).await?;
    let (items, more) = items;
    output::list(context.term, context.format, &items, &VIEW)?;
    if args.follow {
        return follow(args, context, &items).await;
    }
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn page(args: &List, limit: usize, context: &Context<'_>) -> Result<(Vec<Value>, More), CliError> {
    let mut query = lists::tenant_query(args.tenant.as_deref());
    query.push(("filter", &args.filter));
    lists::fetch(context, &["v1", "sagas"], &query, limit, args.cursor.as_deref()).await
}

/// Writes every saga that is new or has moved since it was written last. One that doesn't match any more isn't seen.
async fn follow(args: &List, context: &mut Context<'_>, shown: &[Value]) -> Result<(), CliError> {
    // A document can't be followed.
    let format = if context.format == Format::Json { Format::Jsonl } else { context.format };
    let mark = |item: &Value| (messages::piped_id(item), item.to_string());
    let mut seen: BTreeMap<String, String> = shown.iter().map(mark).collect();
    loop {
        context.term.out.flush().map_err(CliError::io("writing the result"))?;
        tokio::time::sleep(POLL).await;
        let (mut items, _) = page(args, FOLLOW_MAX, context).await?;
        items.reverse();
        let now: BTreeMap<String, String> = items.iter().map(mark).collect();
        for item in items.iter().filter(|item| seen.get(&messages::piped_id(item)) != Some(&item.to_string())) {
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
