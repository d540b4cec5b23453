//! The two traits.

use std::io;
use std::path::Path;

use async_trait::async_trait;
use surrealdb_expr::expr::LogicalPlan;

use crate::{Bindings, Fault, Object, Reads, RecordIdKey, Value};

/// A record as read.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Key within its table.
    pub key: RecordIdKey,
    /// Fields, the id left out.
    pub fields: Object,
}

/// One end of a range of keys.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// This key and what lies inside.
    Included(RecordIdKey),
    /// What lies inside of this key.
    Excluded(RecordIdKey),
}

/// What is done while a database on disk is closed, with the database's directory.
pub type WhileClosed = Box<dyn FnOnce(&Path) -> io::Result<()> + Send>;

#[async_trait]
pub trait Engine: Send + Sync + 'static {
    /// Begins a transaction at the state of now. One that only reads needs no end: dropping it costs nothing.
    async fn begin(&self, write: bool) -> Result<Box<dyn Transaction>, Fault>;
    /// Runs a text as the host, with its own transactions; answers the value of each statement.
    async fn run(&self, text: &str, bindings: Bindings) -> Result<Vec<Value>, Fault>;
    /// Closes the database with all that was committed in tables, does this, and opens it again: callers wait as for any reopening, and for
    /// this. Done to its end also when the caller goes away. Only a database on this process's disk has that.
    async fn while_closed(&self, work: WhileClosed) -> Result<(), Fault>;
    /// Closes the database after what is running.
    async fn close(&self) -> Result<(), Fault>;
}

/// A transaction with a snapshot of its own. Dropping it undoes it; one that writes should be ended by hand all the same.
///
/// Reads don't see the writes of the same transaction before [`Transaction::run`] or commit: read first, then write.
#[async_trait]
pub trait Transaction: Send + Sync {
    async fn get(&self, table: &'static str, key: RecordIdKey) -> Result<Option<Object>, Fault>;
    /// Reads records between two keys in order, at most `limit`.
    async fn scan(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault>;
    /// The same, the highest key first. SurrealKV walks there from the end of all that it holds in memory, key by key, whatever table is
    /// meant: for lists, and for what happens rarely.
    async fn scan_back(&self, table: &'static str, from: Bound, until: Bound, limit: usize) -> Result<Vec<Row>, Fault>;
    /// Writes a record that must be new; [`Fault::Exists`] comes here or at the commit.
    async fn create(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault>;
    /// Writes a record, whatever was there.
    async fn put(&self, table: &'static str, key: RecordIdKey, fields: Object) -> Result<(), Fault>;
    /// Removes a record if it is there.
    async fn delete(&self, table: &'static str, key: RecordIdKey) -> Result<(), Fault>;
    /// Runs a caller's statements inside this transaction and answers what the last one does.
    ///
    /// They run with a caller's rights: they may change data of the database, not users, access, definitions or other databases,
    /// and [`Fault::Closed`] tells that one wanted to touch a closed table. What they may read is in `reads`. After a failure the
    /// transaction must be cancelled.
    async fn run(&self, plan: LogicalPlan, bindings: Bindings, reads: Reads) -> Result<Value, Fault>;
    /// Commits. [`Fault::Conflict`] and [`Fault::Exists`] prove that nothing was written.
    async fn commit(self: Box<Self>) -> Result<(), Fault>;
    async fn cancel(self: Box<Self>) -> Result<(), Fault>;
}
