//! The database with every read counted, so that a test can say what a call costs in rows and not in time.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use surrealdb_expr::expr::LogicalPlan;
use waybill_surreal::{Bindings, Bound, Engine, Fault, Object, RecordIdKey, Row, Transaction, Value, WhileClosed};

use crate::SurrealStore;

#[derive(Debug, Default)]
pub struct Reads {
    /// Scans: table, where it began, rows that came.
    pub scans: Mutex<Vec<(&'static str, Bound, usize)>>,
    /// Tables of the scans that went backwards.
    pub backwards: Mutex<Vec<&'static str>>,
    /// Single records asked for, by table.
    pub gets: Mutex<Vec<&'static str>>,
    /// Reads that one transaction may make before it has to give way; 0 = as many as it likes.
    pub give_way_after: AtomicUsize,
}

impl Reads {
    /// Forgets what was read so far.
    pub fn clear(&self) {
        self.scans.lock().unwrap().clear();
        self.backwards.lock().unwrap().clear();
        self.gets.lock().unwrap().clear();
    }
    /// Rows of a table that scans brought, and records of it that were asked for.
    pub fn rows(&self, table: &str) -> usize {
        let scanned: usize =
            self.scans.lock().unwrap().iter().filter(|(of, ..)| *of == table).map(|(_, _, rows)| rows).sum();
        scanned + self.gets.lock().unwrap().iter().filter(|of| **of == table).count()
    }
    /// Where scans of a table began.
    pub fn begins(&self, table: &str) -> Vec<Bound> {
        self.scans.lock().unwrap().iter().filter(|(of, ..)| *of == table).map(|(_, from, _)| from.clone()).collect()
    }
}

struct Watched {
    inner: Arc<dyn Engine>,
    reads: Arc<Reads>,
}

/// The store over a watched database.
pub fn watch(mut store: SurrealStore) -> (SurrealStore, Arc<Reads>) {
    let reads = Arc::new(Reads::default());
    store.engine = Arc::new(Watched { inner: store.engine, reads: Arc::clone(&reads) });
    (store, reads)
}

#[async_trait]
impl Engine for Watched {
    async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, Fault> {
        let inner = self.inner.begin(write).await?;
        Ok(Box::new(WatchedTransaction { inner, reads: Arc::clone(&self.reads), count: AtomicUsize::new(0) }))
    }
    async fn run(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault> {
        self.inner.run(text, bindings).await
    }
    async fn while_closed(&self, work: WhileClosed) -> Result<(), Fault> {
        self.inner.while_closed(work).await
    }
    async fn close(&self) -> Result<(), Fault> {
        self.inner.close().await
    }
}

struct WatchedTransaction {
    inner: Box<dyn Transaction>,
    reads: Arc<Reads>,
    count: AtomicUsize,
}

impl WatchedTransaction {
    /// As the database does when it is opened again while a transaction is open for long.
    fn count(&self) -> Result<(), Fault> {
        let most = self.reads.give_way_after.load(Ordering::Relaxed);
        if most > 0 && self.count.fetch_add(1, Ordering::Relaxed) >= most {
            return Err(Fault::Conflict("the database is being opened again".into()));
        }
        Ok(())
    }
}

#[async_trait]
impl Transaction for WatchedTransaction {
    async fn get(&self, table: &'static str, key: RecordIdKey) -> Result<Option<Object>, Fault> {
        self.count()?;
        self.reads.gets.lock().unwrap().push(table);
        self.inner.get(table, key).await
    }
    async fn scan(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault> {
        self.count()?;
        let rows = self.inner.scan(table, from.clone(), until, limit).await?;
        self.reads.scans.lock().unwrap().push((table, from, rows.len()));
        Ok(rows)
    }
    async fn scan_back(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault> {
        self.count()?;
        self.reads.backwards.lock().unwrap().push(table);
        let rows = self.inner.scan_back(table, from.clone(), until, limit).await?;
        self.reads.scans.lock().unwrap().push((table, from, rows.len()));
        Ok(rows)
    }
    async fn create(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        self.inner.create(table, key, fields).await
    }
    async fn put(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault> {
        self.inner.put(table, key, fields).await
    }
    async fn delete(&self, table: &'static str, key: RecordIdKey) -> Result<(), Fault> {
        self.inner.delete(table, key).await
    }
    async fn run(&self, plan: LogicalPlan, bindings: Bindings, reads: waybill_surreal::Reads) -> Result<Value, Fault> {
        self.inner.run(plan, bindings, reads).await
    }
    async fn commit(self: Box<Self>) -> Result<(), Fault> {
        self.inner.commit().await
    }
    async fn cancel(self: Box<Self>) -> Result<(), Fault> {
        self.inner.cancel().await
    }
}
