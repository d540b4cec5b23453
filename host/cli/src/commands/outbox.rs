//! `waybill outbox ...`.

use jiff::Timestamp;
use serde_json::json;

use super::{Context, bulk, lists, messages, one};
use crate::args::Format;
use crate::args::outbox::{List, One, Outbox, Reschedule};
use crate::exit::CliError;
use crate::output::{self, View, ago, column, counted_since, instant, plain, scheduled_until, text, words};

/// Runs one of them.
pub(super) async fn run(command: &Outbox, context: &mut Context<'_>) -> Result<(), CliError> {
    match command {
        Outbox::List(args) => list(args, context).await,
        Outbox::Show(one) => show(one, context).await,
        Outbox::Stats(args) => stats(args.tenant.as_deref(), context).await,
        Outbox::Blocked(args) => blocked(args.tenant.as_deref(), context).await,
        Outbox::Cancel(one) => cancel(one, context).await,
        Outbox::Reschedule(args) => reschedule(args, context).await,
    }
}

async fn list(args: &List, context: &mut Context<'_>) -> Result<(), CliError> {
    let limit = lists::bound(args.limit, args.all);
    let (items, more) =
        lists::fetch(context, &["v1", "messages"], &[("filter", &args.filter)], limit, args.cursor.as_deref()).await?;
    output::list(context.term, context.format, &items, &messages::FLOWING_VIEW)?;
    messages::tell_more(context, items.len(), more);
    Ok(())
}

async fn show(one: &One, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = one::look(context, "messages", &one.id, one.tenant.as_deref()).await?;
    messages::show(context, &answer)
}

async fn stats(tenant: Option<&str>, context: &mut Context<'_>) -> Result<(), CliError> {
    let items = lists::whole(context, &["v1", "outbox", "stats"], &lists::tenant_query(tenant)).await?;
    output::list(context.term, context.format, &items, &STATS)?;
    if let Some(early) = items.iter().find(|item| counted_since(item).is_some()) {
        bulk::tell_counted(context, early);
    }
    if let Some(until) = items.iter().find_map(scheduled_until) {
        context.term.say(&format!("scheduled messages are counted up to what is due at {until}: there may be more"));
    }
    Ok(())
}

/// Depths and ages.
pub(super) const STATS: View<'_> = View {
    columns: &[
        column("TENANT", |item| text(item, "tenant")),
        column("TRANSPORT", |item| text(item, "transport")),
        column("READY", |item| words(item, "ready")),
        column("LEASED", |item| words(item, "leased")),
        column("PARKED", |item| words(item, "parked")),
        column("SCHEDULED", |item| {
            format!("{}{}", words(item, "scheduled"), scheduled_until(item).map_or("", |_| "+"))
        }),
        column("DEAD", |item| format!("{}{}", words(item, "dead"), counted_since(item).map_or("", |_| "+"))),
        column("OLDEST READY", |item| ago(item, "oldest_ready_ms")),
    ],
    id: |item| text(item, "tenant"),
    none: "nothing waits, nothing is dead",
};

async fn blocked(tenant: Option<&str>, context: &mut Context<'_>) -> Result<(), CliError> {
    let items = lists::whole(context, &["v1", "outbox", "blocked"], &lists::tenant_query(tenant)).await?;
    output::list(context.term, context.format, &items, &BLOCKED)
}

/// What holds messages back.
pub(super) const BLOCKED: View<'_> = View {
    columns: &[
        column("KIND", |item| text(item, "kind")),
        column("TENANT", |item| item.get("tenant").filter(|tenant| !tenant.is_null()).map_or("all".into(), plain)),
        column("TRANSPORT", |item| text(item, "transport")),
        column("SUBJECT", |item| text(item, "subject")),
        column("WAITING", |item| words(item, "waiting")),
        column("SINCE", |item| instant(item, "since")),
        column("NEXT TRY", |item| instant(item, "until")),
        column("WHY", |item| text(item, "reason")),
    ],
    id: |item| text(item, "subject"),
    none: "nothing is held back",
};

async fn cancel(one: &One, context: &mut Context<'_>) -> Result<(), CliError> {
    let answer = one::act(context, "messages", &one.id, one.tenant.as_deref(), "cancel", &json!({})).await?;
    context.term.say(&format!("cancelled {}", one.id));
    after_act(context, &answer)
}

async fn reschedule(args: &Reschedule, context: &mut Context<'_>) -> Result<(), CliError> {
    let at = match (&args.at, args.in_) {
        (Some(text), _) => text.parse::<Timestamp>().map_err(|error| {
            CliError::usage(format!("--at {text:?} isn't an instant: {error}"), "write it like 2026-12-01T08:00:00Z")
        })?,
        (None, after) => Timestamp::now() + after.unwrap_or_default(),
    };
    let One { id, tenant } = &args.one;
    let body = json!({ "not_before": format!("{at:.3}") });
    let answer = one::act(context, "messages", id, tenant.as_deref(), "reschedule", &body).await?;
    context.term.say(&format!("{id} waits until {at:.0}"));
    after_act(context, &answer)
}

/// After an act on one message a table would only repeat what was said; the other formats get the message.
pub(super) fn after_act(context: &mut Context<'_>, answer: &crate::client::Answer) -> Result<(), CliError> {
    if context.format == Format::Table { Ok(()) } else { messages::show(context, answer) }
}
