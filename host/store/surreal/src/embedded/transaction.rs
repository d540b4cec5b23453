//! A transaction on records of an embedded database.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use surrealdb_core::kvs::QueryRequest;
use surrealdb_datastore::catalog::Record;
use surrealdb_datastore::catalog::providers::{DatabaseProvider, TableProvider};
use surrealdb_datastore::key::schema::RecordKey;
use surrealdb_datastore::tx::Transaction as Inner;
use surrealdb_datastore::val::{RecordId, Strand, TableName};
use surrealdb_expr::expr::LogicalPlan;
use surrealdb_kvs::key::{KVKey, KVKeyDecode, RawRange};
use surrealdb_kvs::value::KVValue;
use tokio::sync::watch;

use super::shared::{Core, Held};
use super::to_its_end;
use super::wall::Gate;
use crate::{Bindings, Bound, Fault, Object, Reads, RecordIdKey, Row, Transaction, Value, value};

pub(super) struct EmbeddedTransaction {
    inner: Arc<Inner>,
    /// Of a transaction that writes.
    gate: Option<Arc<Gate>>,
    core: Arc<Core>,
    /// Changes when the database has to be closed: this transaction then gives way.
    turn: watch::Receiver<u64>,
    /// Let go last: while it is held, the database stays open.
    held: Arc<Held>,
}

fn fault(error: anyhow::Error) -> Fault {
    Fault::of_storage(&error)
}

fn name(table: &'static str) -> TableName {
    TableName::new(Strand::new_static(table))
}

/// The fields of a record, the id left out.
fn fields(data: Value) -> Object {
    match data {
        Value::Object(mut object) => {
            object.remove("id");
            object
        }
        _ => Object::default(),
    }
}

impl EmbeddedTransaction {
    pub(super) fn new(core: Arc<Core>, held: Held, inner: Inner, gate: Option<Arc<Gate>>) -> Self {
        Self { inner: Arc::new(inner), gate, turn: core.turn(), core, held: Arc::new(held) }
    }

    fn gave_way() -> Fault {
        Fault::Conflict("the transaction was open for too long while the store had to be opened again".into())
    }

    /// Works as long as this transaction may stay open.
    async fn in_turn<T>(&self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        if self.turn.has_changed().unwrap_or(true) {
            return Err(Self::gave_way());
        }
        let mut turn = self.turn.clone();
        tokio::select! {
            biased;
            result = work => result,
            _ = turn.changed() => Err(Self::gave_way()),
        }
    }

    fn key<'a>(&self, table: &'a TableName, id: &'a RecordIdKey) -> RecordKey<'a> {
        RecordKey {
            ns: self.held.home.namespace,
            db: self.held.home.database,
            tb: Cow::Borrowed(table),
            id: Cow::Borrowed(id),
        }
    }

    /// What a statement may read: all rows of a table count as held if it isn't sure that SurrealDB lets any go.
    async fn bounded(&self, reads: Reads) -> Reads {
        let Some(scan) = &reads.scan else { return reads };
        let table = TableName::new(Strand::new(&scan.table));
        match self.is_as_stored(&table).await && !self.is_fed(&table).await {
            true => reads,
            false => Reads::held(reads.held_max),
        }
    }

    /// Whether no field of a table is computed when it is read: else what a WHERE and its rows come to isn't in what is stored.
    async fn is_as_stored(&self, table: &TableName) -> bool {
        let home = &self.held.home;
        let fields = self.inner.all_tb_fields(home.namespace, home.database, table, None).await;
        fields.is_ok_and(|fields| fields.iter().all(|field| field.computed.is_none()))
    }

    /// Whether changes of a table go to a changefeed: it keeps rows as they were until the commit.
    async fn is_fed(&self, table: &TableName) -> bool {
        let home = &self.held.home;
        let table = self.inner.get_tb(home.namespace, home.database, table, None).await;
        if !table.is_ok_and(|table| table.is_none_or(|table| table.changefeed.is_none())) {
            return true;
        }
        let databases = self.inner.all_db(home.namespace, None).await;
        !databases.is_ok_and(|all| all.iter().all(|one| one.database_id != home.database || one.changefeed.is_none()))
    }

    /// First byte string of a range, and the first behind it.
    fn range(&self, table: &TableName, from: &Bound, until: &Bound) -> Result<RawRange, Fault> {
        let encode =
            |id: &RecordIdKey| self.key(table, id).encode_key().map(|key| key.as_slice().to_vec()).map_err(fault);
        let just_after = |mut key: Vec<u8>| {
            key.push(0);
            key
        };
        let start = match from {
            Bound::Included(id) => encode(id)?,
            Bound::Excluded(id) => just_after(encode(id)?),
        };
        let end = match until {
            Bound::Included(id) => just_after(encode(id)?),
            Bound::Excluded(id) => encode(id)?,
        };
        Ok(RawRange::of_bytes(&start, &end))
    }

    fn rows(&self, table: &TableName, stored: Vec<(Vec<u8>, Vec<u8>)>) -> Result<Vec<Row>, Fault> {
        let mut rows = Vec::with_capacity(stored.len());
        for (key, bytes) in stored {
            let key = RecordKey::decode_key(&key).map_err(fault)?.id.into_owned();
            let record =
                Record::kv_decode_value(&bytes, RecordId { table: table.clone(), key: key.clone() }).map_err(fault)?;
            rows.push(Row { key, fields: fields(record.data) });
        }
        Ok(rows)
    }
}

/// A range that is upside down reads nothing.
fn is_empty(range: &RawRange) -> bool {
    range.start().as_slice() >= range.end().as_slice()
}

fn limit(rows: usize) -> u32 {
    u32::try_from(rows).unwrap_or(u32::MAX)
}

#[async_trait]
impl Transaction for EmbeddedTransaction {
    async fn get(&self, table: &'static str, key: RecordIdKey) -> Result<Option<Object>, Fault> {
        let table = name(table);
        let record = self.inner.get_key(&self.key(&table, &key), None).await.map_err(fault)?;
        Ok(record.map(|record| fields(record.data)))
    }

    async fn scan(&self, table: &'static str, from: Bound, until: Bound, rows: usize) -> Result<Vec<Row>, Fault> {
        let table = name(table);
        let range = self.range(&table, &from, &until)?;
        if is_empty(&range) || rows == 0 {
            return Ok(Vec::new());
        }
        let read = async { self.inner.scan_raw(range, limit(rows), 0, None).await.map_err(fault) };
        let stored = self.in_turn(read).await?;
        self.rows(&table, stored)
    }

    async fn scan_back(&self, table: &'static str, from: Bound, until: Bound, rows: usize) -> Result<Vec<Row>, Fault> {
        let table = name(table);
        let range = self.range(&table, &from, &until)?;
        if is_empty(&range) || rows == 0 {
            return Ok(Vec::new());
        }
        let read = async { self.inner.scanr_raw(range, limit(rows), 0, None).await.map_err(fault) };
        let stored = self.in_turn(read).await?;
        self.rows(&table, stored)
    }

    async fn create(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        let table = name(table);
        self.inner.put_key(&self.key(&table, &key), &Record::new(Value::Object(fields))).await.map_err(fault)
    }

    async fn put(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        let table = name(table);
        self.inner.set_key(&self.key(&table, &key), &Record::new(Value::Object(fields))).await.map_err(fault)
    }

    async fn delete(&self, table: &'static str, key: RecordIdKey) -> Result<(), Fault> {
        let table = name(table);
        self.inner.del_key(&self.key(&table, &key)).await.map_err(fault)
    }

    async fn run(&self, plan: LogicalPlan, bindings: Bindings, reads: Reads) -> Result<Value, Fault> {
        let Some(gate) = &self.gate else {
            return Err(Fault::Other("callers' statements need a transaction that writes".to_owned()));
        };
        let request = QueryRequest::new(plan, &self.held.home.caller)
            .with_variables(Some(value::variables(bindings)?))
            .with_transaction(Arc::clone(&self.inner));
        let work = async {
            let answers = self.held.datastore.run(request).await.map_err(|error| Fault::of_query(&error))?;
            let mut last = Value::None;
            for answer in answers {
                last = Value::from(answer.result.map_err(|error| Fault::of_query(&error))?);
            }
            Ok(last)
        };
        let reads = self.bounded(reads).await;
        let held_max = reads.held_max;
        gate.close(reads);
        let done = self.in_turn(work).await;
        if let Some(what) = gate.refused() {
            return Err(Fault::Closed(what));
        }
        if gate.overread() {
            return Err(Fault::Statement(format!(
                "the rows that it reads take more than {held_max} bytes of memory, as many as it may read: bound them with LIMIT or by \
                 a range of ids (`t:a..b`), define an index on the field that it looks for, or write to them in several transactions"
            )));
        }
        if let Some(bytes) = gate.overscanned() {
            return Err(Fault::Statement(format!(
                "the transaction looks through more than {bytes} bytes of rows, as many as it may: define an index on the field that \
                 it looks for, or read a range of ids (`t:a..b`)"
            )));
        }
        // After a failure the gate stays closed: what began may not have ended, and nothing is left to do but to cancel.
        if done.is_ok() {
            gate.open();
        }
        done
    }

    async fn commit(self: Box<Self>) -> Result<(), Fault> {
        if self.turn.has_changed().unwrap_or(true) {
            return Err(Self::gave_way());
        }
        if self.gate.as_ref().is_some_and(|gate| gate.is_closed()) {
            return Err(Fault::Statement("a statement of this transaction failed: it can only be cancelled".into()));
        }
        to_its_end(commit(self)).await
    }

    async fn cancel(self: Box<Self>) -> Result<(), Fault> {
        self.inner.cancel().await.map_err(fault)
    }
}

async fn commit(transaction: Box<EmbeddedTransaction>) -> Result<(), Fault> {
    let core = Arc::clone(&transaction.core);
    let committed = transaction.inner.commit().await.map_err(fault);
    if transaction.inner.writeable() {
        if let Err(fault) = &committed {
            core.note(fault);
        }
        core.after_commit(&transaction.held);
    }
    committed
}

impl Drop for EmbeddedTransaction {
    fn drop(&mut self) {
        if self.inner.writeable() && !self.inner.closed() {
            let (inner, held) = (Arc::clone(&self.inner), Arc::clone(&self.held));
            // Undone in the background: a transaction left open keeps old versions alive.
            if let Ok(runtime) = tokio::runtime::Handle::try_current() {
                runtime.spawn(async move {
                    if let Err(error) = inner.cancel().await {
                        tracing::debug!(%error, "a dropped transaction could not be undone");
                    }
                    drop(inner);
                    drop(held);
                });
            }
        }
    }
}
