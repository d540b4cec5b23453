//! Rows that stand failed: a list of them, and their way back.

use super::Table;
use super::columns::{Kind, Layout, Role};
use super::event::context;
use super::names::{self, literal};
use crate::wire::{Row, Statement, Value, array};

/// A row that stands failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DeadRow {
    pub(crate) id: String,
    pub(crate) aggregate: String,
    /// With its scheme; none if one of its columns is NULL.
    pub(crate) topic: Option<String>,
    pub(crate) context: Option<String>,
    pub(crate) event_type: Option<String>,
    pub(crate) attempts: u32,
    /// As the table has it.
    pub(crate) error: String,
    /// Milliseconds since 1970.
    pub(crate) occurred_at: Option<u64>,
    pub(crate) failed_at: Option<u64>,
}

/// The statements for them.
#[derive(Clone, Debug)]
pub(crate) struct Dead {
    page: Statement,
    replay: Statement,
    context: Option<String>,
}

impl Dead {
    pub(crate) fn new(table: &Table) -> Self {
        let (name, id, cast, dead) = (&table.name, table.column(Role::Id), table.id_cast(), table.is_dead());
        let order = table.order.sql();
        let stamp = |role: Role| match table.columns.get(role) {
            Some(column) if column.kind == Kind::Time => names::millis(&format!("o.{}", column.quoted()), ""),
            _ => "NULL::bigint".to_owned(),
        };
        let text = |role: Role| match table.columns.get(role) {
            Some(column) => format!("o.{}::text", column.quoted()),
            None => "NULL".to_owned(),
        };
        let occurred = if table.columns.get(Role::OccurredAt).is_some() { Role::OccurredAt } else { Role::CreatedAt };
        // A page begins behind a row that may be gone meanwhile: then from the beginning, so that nothing is left out.
        let page = format!(
            "SELECT o.{id}::text, {aggregate}, {topic}, {event_type}, {attempts}, {error}, {occurred}, {failed} \
             FROM {name} o WHERE {dead} AND ($1::{cast} IS NULL OR NOT EXISTS (SELECT 1 FROM {name} WHERE {id} = $1::{cast}) \
             OR ROW({order}) > (SELECT {order} FROM {name} WHERE {id} = $1::{cast})) ORDER BY {order} LIMIT $2::bigint",
            aggregate = table.aggregate_sql("o."),
            topic = table.topic.expression("o."),
            event_type = text(Role::EventType),
            attempts = text(Role::Attempts),
            error = text(Role::LastError),
            occurred = stamp(occurred),
            failed = stamp(Role::UpdatedAt),
        );
        let (attempts, error) = (table.column(Role::Attempts), table.column(Role::LastError));
        let set = match table.layout {
            Layout::Status => format!(
                "{} = {}, {attempts} = 0, {} = clock_timestamp(), {} = clock_timestamp()",
                table.column(Role::Status),
                literal(&table.words.pending),
                table.column(Role::AvailableAt),
                table.column(Role::UpdatedAt),
            ),
            Layout::Published => format!("{error} = NULL, {attempts} = 0"),
        };
        // By text, since what an operator writes may be no key at all.
        let replay =
            format!("UPDATE {name} SET {set} WHERE {dead} AND {id}::text = ANY ($1::text[]) RETURNING {id}::text");
        Self { page: Statement::new(page), replay: Statement::new(replay), context: table.context.clone() }
    }

    /// Asks for so many rows, from the beginning or behind a row.
    pub(crate) fn page(&self, behind: Option<&str>, most: u32) -> (&Statement, Vec<Value>) {
        let behind = behind.map_or(Value::Null, |id| Value::Text(id.to_owned()));
        (&self.page, vec![behind, Value::number(most)])
    }

    /// Reads a row of a page.
    pub(crate) fn read(&self, row: &Row) -> Option<DeadRow> {
        let topic = row.text(2).map(str::to_owned);
        let own = || topic.as_deref().map(|topic| context(topic).to_owned());
        Some(DeadRow {
            id: row.text(0)?.to_owned(),
            aggregate: row.text(1)?.to_owned(),
            context: self.context.clone().or_else(own),
            topic,
            event_type: row.text(3).map(str::to_owned),
            attempts: row.number(4).unwrap_or(0),
            error: row.text(5).unwrap_or_default().to_owned(),
            occurred_at: row.text(6).and_then(|text| text.parse().ok()),
            failed_at: row.text(7).and_then(|text| text.parse().ok()),
        })
    }

    /// Puts these back, attempts 0; the answer names those that were failed.
    pub(crate) fn replay(&self, ids: &[String]) -> (&Statement, Vec<Value>) {
        (&self.replay, vec![Value::Text(array::texts(ids.iter().map(|id| Some(id.as_str()))))])
    }
}
