//! Counts and the oldest row by context, from the table itself.

use super::Table;
use super::columns::{Kind, Layout, Role};
use super::names::literal;
use crate::wire::{Row, Statement};

/// Most contexts that are told, those with the most rows first.
const CONTEXTS_MAX: u32 = 64;

/// Counts of one context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ContextStats {
    pub(crate) context: String,
    pub(crate) waiting: u32,
    /// Milliseconds since 1970.
    pub(crate) oldest: Option<u64>,
    pub(crate) dead: u32,
}

/// The statement that counts. It reads everything that isn't published: for a look now and then.
pub(crate) fn statement(table: &Table) -> Statement {
    let (waits, dead) = (table.waits(), table.is_dead());
    let open = match table.layout {
        Layout::Status => format!("{waits} OR {dead}"),
        Layout::Published => format!("{} IS NULL", table.column(Role::PublishedAt)),
    };
    let context = match &table.context {
        Some(context) => literal(context),
        None => {
            let topic = table.topic.expression("o.");
            format!("split_part(regexp_replace(coalesce({topic}, ''), '^bus:', ''), '.', 1)")
        }
    };
    let stamp = [Role::CreatedAt, Role::OccurredAt]
        .into_iter()
        .filter_map(|role| table.columns.get(role))
        .find(|column| column.kind == Kind::Time)
        .map_or_else(|| "NULL::timestamptz".to_owned(), |column| column.quoted());
    Statement::new(format!(
        "SELECT {context}, count(*) FILTER (WHERE {waits}), \
         (extract(epoch FROM min({stamp}) FILTER (WHERE {waits} AND isfinite({stamp}))) * 1000)::bigint, count(*) FILTER (WHERE {dead}) \
         FROM {} o WHERE {open} GROUP BY 1 ORDER BY count(*) DESC LIMIT {CONTEXTS_MAX}",
        table.name
    ))
}

/// Reads a row of the answer.
pub(crate) fn read(row: &Row) -> Option<ContextStats> {
    let count =
        |place: usize| row.text(place)?.parse::<u64>().ok().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Some(ContextStats {
        context: row.text(0)?.to_owned(),
        waiting: count(1)?,
        oldest: row.text(2).and_then(|text| text.parse().ok()),
        dead: count(3)?,
    })
}
