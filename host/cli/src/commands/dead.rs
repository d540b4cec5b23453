//! `waybill dead ...`.

use serde_json::{Value, json};

use super::bulk::{self, Act};
use super::{Context, edit, lists, messages, one, outbox};
use crate::args::dead::{Dead, List, Which};
use crate::args::outbox::One;
use crate::exit::CliError;
use crate::output::{self, View, column, instant, text, words};

/// Runs one of them.
pub(super) async fn run(command: Dead, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Dead::List(args) => list(&args, context).await,
        Dead::Show(one) => show(&one, context).await,
        Dead::Groups(args) => groups(&args.filter, context).await,
        Dead::Edit(args) => edit::run(&args, context).await,
        Dead::Replay(args) => {
            let act = Act {
                kind: "replay",
                verb: "replay",
                done: "replayed",
                text: args.bulk.reason.clone().unwrap_or_default(),
            };
            which(&args.which, &act, &args.bulk, context).await
        }
        Dead::Quarantine(args) => {
            let act = Act { kind: "quarantine", verb: "quarantine", done: "quarantined", text: args.note.clone() };
            which(&args.which, &act, &args.bulk, context).await
        }
        Dead::Purge(args) => {
            let act = Act {
                kind: "purge",
                verb: "delete for good",
                done: "deleted",
                text: args.bulk.reason.clone().unwrap_or_default(),
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
    let (items, more) = lists::fetch(context, &["v1", "dead-letters"], &[("filter", &args.filter)], limit).await?;
    output::list(context.term, context.format, &items, &messages::DEAD_VIEW)?;
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn show(one: &One, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = one::look(context, "dead-letters", &one.id, one.tenant.as_deref()).await?;
    messages::show(context, &answer)
}

async fn groups(filter: &str, context: &mut Context<'_>) -> Result<(), CliError> {
    let items = lists::whole(context, &["v1", "dead-letters", "groups"], &[("filter", filter)]).await?;
    output::list(context.term, context.format, &items, &GROUPS)
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
) -> Result<crate::client::Answer, CliError> {
    let body = if act.kind == "quarantine" { json!({ "note": act.text }) } else { json!({ "reason": act.text }) };
    one::act(context, "dead-letters", id, tenant, act.kind, &body).await
}

/// Shows the outcome of an act on one.
pub(super) fn told(
    context: &mut Context<'_>,
    act: &Act,
    id: &str,
    answer: &crate::client::Answer,
) -> Result<(), CliError> {
    context.term.say(&format!("{} {id}", act.done));
    outbox::after_act(context, answer)
}
