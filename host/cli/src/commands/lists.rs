//! Lists of the API, followed page by page.

use serde_json::Value;

use super::Context;
use crate::exit::CliError;

/// Most items of one page (`surface.md`).
const PAGE_MAX: usize = 1_000;

/// Pages looked through for one list at most, unless all of it is wanted: the host ends a page after a bounded read, however
/// little of that matches.
const PAGES_MAX: usize = 20;

/// What is left of a list behind the items that were fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum More {
    /// Nothing.
    Nothing,
    /// More that matches, or may; from this cursor on, where there is one for it.
    Rest(Option<String>),
    /// So much was looked through for so few that the rest wasn't, from this cursor on.
    Unseen(Option<String>),
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
    Ok((items, More::Unseen(cursor)))
}

/// A page of a list.
pub(super) struct Page {
    /// Its items.
    pub(super) items: Vec<Value>,
    /// Where the next one begins; none = this is the last.
    pub(super) next: Option<String>,
}

/// One page, as large as there are.
pub(super) async fn page(
    context: &Context<'_>,
    path: &[&str],
    query: &[(&str, &str)],
    cursor: Option<&str>,
) -> Result<Page, CliError> {
    let size = PAGE_MAX.to_string();
    let mut query = query.to_vec();
    query.push(("limit", &size));
    query.extend(cursor.map(|cursor| ("cursor", cursor)));
    let answer = context.client.get(path, &query).await?;
    let items = answer.need("items", Value::as_array)?.clone();
    let next = answer.body.get("next_cursor").and_then(Value::as_str).map(str::to_owned);
    Ok(Page { items, next })
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

/// How many of a list there may be.
pub(super) fn bound(limit: usize, all: bool) -> usize {
    if all { usize::MAX } else { limit }
}
