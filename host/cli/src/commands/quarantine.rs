//! `waybill quarantine ...`.

use serde_json::{Value, json};

use super::{Context, bulk, lists, messages};
use crate::args::Format;
use crate::args::quarantine::{Act, Drop, List, Quarantine, Show};
use crate::client::Answer;
use crate::exit::{CliError, Exit};
use crate::output::{self, View, column, instant, number, plain, text};

/// Where rows are asked for.
const PATH: [&str; 2] = ["v1", "quarantine"];
/// Characters of one column shown in a table; more is left to `-o json`.
const SHOWN_MAX: usize = 400;

/// How rows are listed.
const VIEW: View<'_> = View {
    columns: &[
        column("ID", |item| text(item, "id")),
        column("TABLE", |item| text(item, "table")),
        column("KEY", |item| text(item, "key")),
        column("TENANT", |item| text(item, "tenant")),
        column("SINCE", |item| instant(item, "since")),
        column("WHY", |item| text(item, "reason")),
    ],
    id: |item| text(item, "id"),
    none: "nothing is in quarantine",
};

/// Runs one of them.
pub(super) async fn run(command: &Quarantine, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Quarantine::List(args) => list(args, context).await,
        Quarantine::Show(args) => show(args, context).await,
        Quarantine::Restore(args) => each(args, "restore", context).await,
        Quarantine::Drop(args) => drop_rows(args, context).await,
    }
}

async fn list(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = lists::bound(args.limit, args.all);
    let query: Vec<(&str, &str)> = args.table.iter().map(|table| ("table", table.as_str())).collect();
    let (items, more) = lists::fetch(context, &PATH, &query, limit, args.cursor.as_deref()).await?;
    output::list(context.term, context.format, &items, &VIEW)?;
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn show(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let [version, list] = PATH;
    let answer = context.client.get(&[version, list, &args.id], &[]).await?;
    answer.need("columns", Value::as_object)?;
    let item = &answer.body;
    let mut rows: Vec<(String, String)> = ["id", "table", "key", "tenant"]
        .into_iter()
        .map(|name| (name.to_owned(), text(item, name)))
        .chain([("since".to_owned(), instant(item, "since")), ("why".to_owned(), text(item, "reason"))])
        .filter(|(_, value)| value != "-")
        .collect();
    let now = match item.get("unreadable").and_then(Value::as_str) {
        Some(reason) => format!("still unreadable: {reason}"),
        None => "it can be read: `waybill quarantine restore` puts it back".to_owned(),
    };
    rows.push(("now".to_owned(), now));
    for (name, value) in item.get("columns").and_then(Value::as_object).into_iter().flatten() {
        rows.push((format!("  {name}"), cut(&plain(value))));
    }
    output::one(context.term, context.format, &answer.text, &text(item, "id"), rows)
}

fn cut(whole: &str) -> String {
    let cut: String = whole.chars().take(SHOWN_MAX).collect();
    if cut.len() < whole.len() { format!("{cut}... (all of it: -o json)") } else { cut }
}

async fn drop_rows(args: &Drop, context: &mut Context<'_>) -> Result<(), CliError> {
    let ids = args.rows.ids.join(" ");
    bulk::confirm(context, "delete rows in quarantine for good", &ids, args.yes)?;
    each(&args.rows, "drop", context).await
}

/// One after the other, each by itself.
async fn each(args: &Act, act: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let ids = bulk::read_ids(context, &args.ids, None)?;
    if ids.is_empty() {
        context.term.say("no ids: nothing to do");
        return Ok(());
    }
    let body = json!({ "reason": args.reason });
    let [version, list] = PATH;
    let (mut done, mut failed, mut last) = (0_u64, 0_u64, None);
    for (_, id) in &ids {
        match context.client.post(&[version, list, id, act], &[], &body).await.map_err(CliError::from) {
            Ok(answer) => {
                done += 1;
                tell(context, act, &answer)?;
            }
            Err(error)
                if ids.len() == 1 || matches!(error.exit(), Exit::Unreachable | Exit::NotAllowed | Exit::TimedOut) =>
            {
                return Err(error);
            }
            Err(error) => {
                failed += 1;
                context.term.complain(&format!("{id}: {error}"));
                last = Some(error.exit());
            }
        }
    }
    match (done, last) {
        (_, None) => Ok(()),
        (0, Some(exit)) => Err(CliError::NoneDone { failed, exit }),
        (done, Some(_)) => Err(CliError::Partly { done, failed }),
    }
}

fn tell(context: &mut Context<'_>, act: &str, answer: &Answer) -> Result<(), CliError> {
    let item = &answer.body;
    let id = answer.need("id", Value::as_str)?.to_owned();
    let what = match (act, item.get("went").and_then(Value::as_str)) {
        ("drop", _) => format!("dropped {id}: a row of {}", text(item, "table")),
        (_, Some("queued")) => {
            let count = item.get("messages").and_then(Value::as_u64).unwrap_or(0);
            format!("restored {id}: {} entered the order anew", number(count, "message", "messages"))
        }
        (_, Some("at_takeover")) => {
            format!("restored {id}: the host takes it in when it takes the shard over, at the next start at the latest")
        }
        _ => format!("restored {id}: it is back in {}", text(item, "table")),
    };
    context.term.say(&what);
    if context.format == Format::Table {
        Ok(())
    } else {
        output::one(context.term, context.format, &answer.text, &id, Vec::new())
    }
}
