//! What is there: the table's columns and indexes, by the catalog.

use waybill_plugin::transport::{ErrorKind, Fault, PluginError};

use super::columns::{Column, Kind, Layout};
use crate::wire::{Answer, Row, Statement, Value};

/// Columns of a table. Asked with its name as it stands in a statement.
const COLUMNS: &str = "SELECT a.attname, format_type(a.atttypid, a.atttypmod), coalesce(b.typname, t.typname), a.attnotnull, c.oid, n.nspname, c.relname \
    FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid = a.attrelid \
    JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace JOIN pg_catalog.pg_type t ON t.oid = a.atttypid \
    LEFT JOIN pg_catalog.pg_type b ON b.oid = t.typbasetype \
    WHERE a.attrelid = pg_catalog.to_regclass($1::text) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";
/// Partial indexes of a table: their names, and what they are over.
const INDEXES: &str = "SELECT c.relname, array_to_string(ARRAY(SELECT pg_get_indexdef(i.indexrelid, n, true) \
    FROM generate_series(1, i.indnkeyatts::int) n ORDER BY n), ', '), i.indisvalid \
    FROM pg_catalog.pg_index i JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid \
    WHERE i.indrelid = pg_catalog.to_regclass($1::text) AND i.indpred IS NOT NULL";

/// A partial index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Index {
    pub(crate) name: String,
    /// What it is over, as the server writes it.
    pub(crate) over: String,
    /// One whose making failed is there all the same, and of no use.
    pub(crate) is_valid: bool,
}

/// What there is of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Catalog {
    /// Its number at the server: another one when the table is made anew.
    pub(crate) oid: String,
    pub(crate) schema: String,
    pub(crate) table: String,
    pub(crate) columns: Vec<Column>,
    pub(crate) indexes: Vec<Index>,
}

impl Catalog {
    /// What is to be asked about a table; the answers go to [`Catalog::read`].
    pub(crate) fn questions(table: &str) -> [(Statement, Vec<Value>); 2] {
        let about = || vec![Value::Text(table.to_owned())];
        [(Statement::new(COLUMNS), about()), (Statement::new(INDEXES), about())]
    }

    /// Reads the answers.
    ///
    /// # Errors
    /// There is no such table.
    pub(crate) fn read(table: &str, answers: &[Answer]) -> Result<Self, PluginError> {
        let rows = |place: usize| answers.get(place).map(|answer| answer.rows.as_slice()).unwrap_or_default();
        let columns: Vec<Column> = rows(0).iter().filter_map(column).collect();
        if columns.is_empty() {
            let reason =
                format!("there is no table {table}, or our user doesn't see its schema: create it, or name another");
            return Err(PluginError::new(
                ErrorKind::InvalidConfig,
                Fault::new("POSTGRES.NO_TABLE", reason).with_attribute("path", "table"),
            ));
        }
        let of_table = |place: usize| rows(0).first().and_then(|row| row.text(place)).unwrap_or_default().to_owned();
        let (oid, schema, table) = (of_table(4), of_table(5), of_table(6));
        Ok(Self { oid, schema, table, columns, indexes: rows(1).iter().filter_map(index).collect() })
    }

    pub(crate) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Which of the two layouts it has, by the columns only they have.
    pub(crate) fn layout(&self) -> Option<Layout> {
        let has = |name: &str| self.column(name).is_some();
        if has("status") && has("available_at") {
            Some(Layout::Status)
        } else if has("published_at") && has("publish_attempts") {
            Some(Layout::Published)
        } else {
            None
        }
    }

    /// Whether a partial index over this can be used.
    pub(crate) fn has_index(&self, over: &str) -> bool {
        self.indexes.iter().any(|index| index.is_valid && index.over == over)
    }
}

fn column(row: &Row) -> Option<Column> {
    let (name, cast, kind) = (row.text(0)?, row.text(1)?, row.text(2)?);
    Some(Column {
        name: name.to_owned(),
        cast: cast.to_owned(),
        kind: Kind::of(kind),
        is_nullable: row.text(3)? == "f",
    })
}

fn index(row: &Row) -> Option<Index> {
    let (name, over) = (row.text(0)?, row.text(1)?);
    Some(Index { name: name.to_owned(), over: over.to_owned(), is_valid: row.text(2)? == "t" })
}
