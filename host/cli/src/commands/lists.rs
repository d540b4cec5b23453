//! Lists of the API, followed page by page.

use serde_json::Value;

use super::{Context, nothing};
use crate::args::ListArgs;
use crate::exit::CliError;
use crate::output::{self, Format, View, counted_since, number, safe};

/// Most items of one page (`surface.md`).
const PAGE_MAX: usize = 1_000;

/// Pages looked through for one list at most, unless all of it is wanted: the host ends a page after a bounded read, however
/// little of that matches.
const PAGES_MAX: usize = 20;

/// What is left of a list behind the items that were fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum More {
    Nothing,
    /// More that matches, or may; from this cursor on, where there is one for it.
    Rest(Option<String>),
    /// So much was looked through for so few that the rest wasn't, from this cursor on.
    Unread(Option<String>),
}

/// Writes as much of a list as was asked for, and how to go on where there is more.
pub(super) async fn show(
    context: &mut Context<'_>,
    path: &[&str],
    query: &[(&str, &str)],
    args: &ListArgs,
    view: &View<'_>,
) -> Result<(), CliError> {
    let (items, more) = fetch(context, path, query, args.bound(), args.cursor.as_deref()).await?;
    let filter = query.iter().find(|(name, text)| *name == "filter" && !text.trim().is_empty());
    if let (Format::Table, true, More::Nothing, Some((_, filter))) = (context.format, items.is_empty(), &more, filter) {
        context.term.say(&format!("{}: {}", view.none, safe(filter)));
        let rest: Vec<_> = query.iter().filter(|(name, _)| *name != "filter").copied().collect();
        nothing::explain(context, path, &rest, filter).await;
        return args.ended(true);
    }
    output::list(context.term, context.format, &items, view)?;
    tell_more(context, items.len(), more);
    args.ended(items.is_empty())
}

/// Items of a list, at most `limit`, from its beginning or a cursor on, and what is left of it.
pub(super) async fn fetch(
    context: &Context<'_>,
    path: &[&str],
    query: &[(&str, &str)],
    limit: usize,
    from: Option<&str>,
) -> Result<(Vec<Value>, More), CliError> {
    let mut items = Vec::new();
    let mut cursor = from.map(str::to_owned);
    for number in 1.. {
        let page = limit.saturating_sub(items.len()).clamp(1, PAGE_MAX).to_string();
        let mut query = query.to_vec();
        query.push(("limit", &page));
        if let Some(cursor) = &cursor {
            query.push(("cursor", cursor));
        }
        let answer = context.client.get(path, &query).await?;
        items.extend_from_slice(answer.need("items", Value::as_array)?);
        cursor = answer.body.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
        if cursor.is_none() || items.len() >= limit {
            let more = match cursor {
                // A cursor would skip those that were more than was asked for.
                _ if items.len() > limit => More::Rest(None),
                None => More::Nothing,
                cursor => More::Rest(cursor),
            };
            items.truncate(limit);
            return Ok((items, more));
        }
        if number >= PAGES_MAX && limit != usize::MAX {
            break;
        }
    }
    Ok((items, More::Unread(cursor)))
}

/// A whole list that has no pages.
pub(super) async fn whole(
    context: &Context<'_>,
    path: &[&str],
    query: &[(&str, &str)],
) -> Result<Vec<Value>, CliError> {
    let answer = context.client.get(path, query).await?;
    Ok(answer.need("items", Value::as_array)?.clone())
}

/// `[("tenant", t)]` if there is one.
pub(super) fn tenant_query(tenant: Option<&str>) -> Vec<(&'static str, &str)> {
    tenant.map(|tenant| ("tenant", tenant)).into_iter().collect()
}

/// An id for a pipe: alone in the tenant that is assumed, else behind its tenant and a tab.
pub(super) fn piped(item: &Value, name: &str) -> String {
    let id = item.get(name).and_then(Value::as_str).unwrap_or_default();
    match item.get("tenant").and_then(Value::as_str) {
        None | Some("default") => id.to_owned(),
        Some(tenant) => format!("{tenant}\t{id}"),
    }
}

/// The same of what is called by its `id`.
pub(super) fn piped_id(item: &Value) -> String {
    piped(item, "id")
}

/// Tells that a list was cut, and how to go on.
pub(super) fn tell_more(context: &mut Context<'_>, shown: usize, more: More) {
    let shown = number(shown as u64, "is shown", "are shown");
    match more {
        More::Nothing => {}
        More::Rest(cursor) => {
            let on = go_on(cursor);
            context.term.say(&format!("only {shown}, there are more: raise --limit, or --all{on}"));
        }
        More::Unread(cursor) => {
            let on = go_on(cursor);
            context.term.say(&format!(
                "{shown}, and not all was looked through: little of it matches; narrow the filter, or look through all of it with --all{on}"
            ));
        }
    }
}

fn go_on(cursor: Option<String>) -> String {
    cursor.map_or_else(String::new, |cursor| format!(", or go on with --cursor {cursor}"))
}

/// Tells how far dead letters were counted, if not to the end.
pub(super) fn tell_counted(context: &mut Context<'_>, counted: &Value) {
    if let Some(since) = counted_since(counted) {
        context.term.say(&format!("counted back to what entered the order at {since}: there may be more"));
    }
}
