//! `waybill dead ...`.

use serde_json::{Value, json};

use super::bulk::{self, Act};
use super::{Context, edit, lists, messages, one, outbox};
use crate::args::Format;
use crate::args::dead::{Dead, Kind, List, Show, Which};
use crate::args::saga_acts::Mode;
use crate::client::Answer;
use crate::exit::CliError;
use crate::output::{self, View, column, instant, text, words};

/// Runs one of them.
pub(super) async fn run(command: Dead, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Dead::List(args) => list(&args, context).await,
        Dead::Show(args) => show(&args, context).await,
        Dead::Groups(args) => groups(&args.filter, context).await,
        Dead::Edit(args) => edit::run(&args, context).await,
        Dead::Replay(args) => {
            let act = Act {
                kind: "replay",
                verb: "replay",
                done: "replayed",
                text: args.bulk.reason.clone().unwrap_or_default(),
                mode: args.mode,
            };
            which(&args.which, &act, &args.bulk, context).await
        }
        Dead::Quarantine(args) => {
            let (text, mode) = (args.note.clone(), None);
            let act = Act { kind: "quarantine", verb: "quarantine", done: "quarantined", text, mode };
            which(&args.which, &act, &args.bulk, context).await
        }
        Dead::Purge(args) => {
            let act = Act {
                kind: "purge",
                verb: "delete for good",
                done: "deleted",
                text: args.bulk.reason.clone().unwrap_or_default(),
                mode: None,
            };
            bulk::by_filter(context, &act, &args.filter, &args.bulk).await
        }
    }
}

async fn which(
    which: &Which,
    act: &Act,
    how: &crate::args::bulk::Bulk,
    context: &mut Context<'_>,
) -> Result<(), CliError> {
    match &which.filter {
        Some(filter) => bulk::by_filter(context, act, filter, how).await,
        None => bulk::by_ids(context, act, which, how).await,
    }
}

async fn list(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = lists::bound(args.limit, args.all);
    let (items, more) =
        lists::fetch(context, &["v1", "dead-letters"], &[("filter", &args.filter)], limit, args.cursor.as_deref())
            .await?;
    output::list(context.term, context.format, &items, &messages::DEAD_VIEW)?;
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn show(args: &Show, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = look(context, args.one.tenant.as_deref(), &args.one.id, args.kind).await?;
    if context.format == Format::Table && answer.body.get("kind").and_then(Value::as_str) == Some("saga") {
        return show_saga(context, &answer.body);
    }
    messages::show(context, &answer)
}

/// What failed of a stuck saga. The saga itself is shown by its own command.
fn show_saga(context: &mut Context<'_>, item: &Value) -> Result<(), CliError> {
    let mut rows = vec![("kind".to_owned(), "saga".to_owned())];
    for name in ["id", "tenant", "state", "note"] {
        rows.push((name.to_owned(), text(item, name)));
    }
    rows.push(("definition".to_owned(), format!("{}@{}", text(item, "definition"), text(item, "version"))));
    if item.get("saga") != item.get("id") {
        rows.push(("sub-saga".to_owned(), text(item, "saga")));
    }
    rows.push(("failed".to_owned(), format!("the compensation of step {}", text(item, "step"))));
    rows.push(("last error".to_owned(), text(item, "last_error")));
    rows.push(("attempts".to_owned(), text(item, "attempts")));
    rows.push(("since".to_owned(), instant(item, "ended_at")));
    rows.retain(|(_, value)| value != "-");
    output::pairs(context.term, rows)?;
    context.term.say(&format!("all of it: waybill saga show {} --tenant {}", text(item, "id"), text(item, "tenant")));
    Ok(())
}

/// Asks for one, of either kind unless one is named.
pub(super) async fn look(
    context: &Context<'_>,
    tenant: Option<&str>,
    id: &str,
    kind: Option<Kind>,
) -> Result<Answer, CliError> {
    one::look_with(context, "dead-letters", id, tenant, &kind_query(kind)).await
}

fn kind_query(kind: Option<Kind>) -> Vec<(&'static str, &'static str)> {
    kind.map(|kind| ("kind", kind.word())).into_iter().collect()
}

async fn groups(filter: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = context.client.get(&["v1", "dead-letters", "groups"], &[("filter", filter)]).await?;
    output::list(context.term, context.format, answer.need("items", Value::as_array)?, &GROUPS)?;
    bulk::tell_counted(context, &answer.body);
    Ok(())
}

/// Dead letters by error.
const GROUPS: View<'_> = View {
    columns: &[
        column("COUNT", |item| words(item, "count")),
        column("TENANT", |item| text(item, "tenant")),
        column("CODE", |item| text(item, "code")),
        column("ERROR", |item| text(item, "signature")),
        column("TOPIC", |item| text(item, "topic")),
        column("FIRST", |item| instant(item, "first_at")),
        column("LATEST", |item| instant(item, "latest_at")),
        column("EXAMPLE", |item| text(item, "example")),
    ],
    id: |item| item.get("example").and_then(Value::as_str).unwrap_or_default().to_owned(),
    none: "there are no dead letters",
};

/// Acts on one dead letter.
pub(super) async fn act_on(
    context: &Context<'_>,
    act: &Act,
    tenant: Option<&str>,
    id: &str,
    kind: Option<Kind>,
) -> Result<Answer, CliError> {
    let mut body = if act.kind == "quarantine" { json!({ "note": act.text }) } else { json!({ "reason": act.text }) };
    if let (Some(mode), Some(body)) = (act.mode, body.as_object_mut()) {
        let mode = if mode == Mode::Retry { "retry" } else { "compensate" };
        body.insert("mode".into(), mode.into());
    }
    let path = ["v1", "dead-letters", id, act.kind];
    one::act_with(context, &path, tenant, &kind_query(kind), &body).await
}

/// Shows the outcome of an act on one.
pub(super) fn told(context: &mut Context<'_>, act: &Act, id: &str, answer: &Answer) -> Result<(), CliError> {
    context.term.say(&format!("{} {id}", act.done));
    outbox::after_act(context, answer)
}
