//! A transaction over a connection: reads are queries, writes wait and go out together at the commit.

use async_trait::async_trait;
use parking_lot::Mutex;
use surrealdb::Surreal;
use surrealdb::engine::any::Any;
use surrealdb::method::Transaction as Inner;
use surrealdb_datastore::val::{RecordId, RecordIdKeyRange, Strand, TableName};
use surrealdb_expr::expr::LogicalPlan;

use super::{answers, fault};
use crate::{Bindings, Bound, Fault, Object, Reads, RecordIdKey, Row, Transaction, Value, value};

pub(super) struct RemoteTransaction {
    client: Surreal<Any>,
    /// None in a reading transaction: its queries stand alone, and there is nothing to end.
    inner: Option<Inner<Any>>,
    writes: Mutex<Writes>,
}

#[derive(Default)]
struct Writes {
    text: String,
    bindings: Bindings,
}

fn record(table: &'static str, key: RecordIdKey) -> Value {
    Value::RecordId(RecordId { table: TableName::new(Strand::new_static(table)), key })
}

fn bound(bound: Bound) -> std::ops::Bound<RecordIdKey> {
    match bound {
        Bound::Included(key) => std::ops::Bound::Included(key),
        Bound::Excluded(key) => std::ops::Bound::Excluded(key),
    }
}

fn range(table: &'static str, from: Bound, until: Bound) -> Value {
    let range = RecordIdKeyRange { start: bound(from), end: bound(until) };
    record(table, RecordIdKey::Range(Box::new(range)))
}

fn row(value: Value) -> Option<Row> {
    let Value::Object(mut fields) = value else { return None };
    match fields.remove("id") {
        Some(Value::RecordId(id)) => Some(Row { key: id.key, fields }),
        _ => None,
    }
}

impl RemoteTransaction {
    pub(super) async fn begin(client: &Surreal<Any>, write: bool) -> Result<Self, Fault> {
        let inner = match write {
            true => Some(client.clone().begin().await.map_err(fault)?),
            false => None,
        };
        Ok(Self { client: client.clone(), inner, writes: Mutex::default() })
    }

    fn push(&self, verb: &str, id: Value, content: Option<Object>) {
        let mut writes = self.writes.lock();
        let number = writes.bindings.len();
        writes.bindings.push((format!("k{number}"), id));
        let content = content.map(|fields| {
            writes.bindings.push((format!("c{number}"), Value::Object(fields)));
            format!(" CONTENT $c{number}")
        });
        writes.text.push_str(&format!("{verb} $k{number}{} RETURN NONE;", content.unwrap_or_default()));
    }

    async fn ask(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
        let variables = value::variables(bindings)?;
        let query = match &self.inner {
            Some(inner) => inner.query(text),
            None => self.client.query(text),
        };
        answers(query.bind(variables).await.map_err(fault)?)
    }

    async fn flush(&self) -> Result<(), Fault> {
        let writes = std::mem::take(&mut *self.writes.lock());
        if !writes.text.is_empty() {
            self.ask(&writes.text, writes.bindings).await?;
        }
        Ok(())
    }

    async fn rows(&self, text: &str, range: Value, limit: usize) -> Result<Vec<Row>, Fault> {
        let limit = value::int(i64::try_from(limit).unwrap_or(i64::MAX));
        let answers = self.ask(text, vec![("range".into(), range), ("limit".into(), limit)]).await?;
        match answers.into_iter().next() {
            Some(Value::Array(rows)) => Ok(rows.0.into_iter().filter_map(row).collect()),
            _ => Ok(Vec::new()),
        }
    }
}

#[async_trait]
impl Transaction for RemoteTransaction {
    async fn get(&self, table: &'static str, key: RecordIdKey) -> Result<Option<Object>, Fault> {
        let answers = self.ask("SELECT * FROM $id", vec![("id".into(), record(table, key))]).await?;
        let Some(Value::Array(rows)) = answers.into_iter().next() else { return Ok(None) };
        Ok(rows.0.into_iter().next().and_then(row).map(|row| row.fields))
    }

    // The server reads the whole range before it applies LIMIT (SurrealDB 3.3): callers keep ranges narrow.
    async fn scan(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault> {
        self.rows("SELECT * FROM $range LIMIT $limit", range(table, from, until), limit).await
    }

    async fn scan_back(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault> {
        self.rows("SELECT * FROM $range ORDER BY id DESC LIMIT $limit", range(table, from, until), limit).await
    }

    async fn create(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        self.push("CREATE", record(table, key), Some(fields));
        Ok(())
    }

    async fn put(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        self.push("UPSERT", record(table, key), Some(fields));
        Ok(())
    }

    async fn delete(&self, table: &'static str, key: RecordIdKey) -> Result<(), Fault> {
        self.push("DELETE", record(table, key), None);
        Ok(())
    }

    /// Never: they would run with the rights of this host's own user, and without the wall.
    async fn run(&self, _plan: LogicalPlan, _bindings: Bindings, _reads: Reads) -> Result<Value, Fault> {
        Err(Fault::Shared)
    }

    async fn commit(mut self: Box<Self>) -> Result<(), Fault> {
        let flushed = self.flush().await;
        let Some(inner) = self.inner.take() else { return flushed };
        if flushed.is_err() {
            // A failed statement doesn't abort a client transaction: end it ourselves.
            inner.cancel().await.map_err(fault)?;
            return flushed;
        }
        inner.commit().await.map(|_| ()).map_err(|error| fault(error).at_commit())
    }

    async fn cancel(mut self: Box<Self>) -> Result<(), Fault> {
        match self.inner.take() {
            Some(inner) => inner.cancel().await.map(|_| ()).map_err(fault),
            None => Ok(()),
        }
    }
}
