//! An outbox table whose database is in memory: rows, transactions with row locks and lanes' locks, and what a test lets go wrong.
//!
//! | file | holds |
//! |---|---|
//! | `database` | rows, transactions, what a test does to them |
//! | `claim` | what a claim finds and locks |
//! | `fate` | marks and COMMIT |
//!
//! A [`FakeTable`] is one host's way to a [`Database`]; several hosts share one. It waits by tokio's clock, so a paused one costs nothing.
//! What it doesn't do: check what hosts do with the rows. Tests read the log of the transport and the rows.

mod claim;
mod database;
mod fate;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use waybill_core::port::source::{LaneNotices, Notices};
use waybill_core::port::table::{ClaimId, Claimed, ContextStats, DeadPage, Ended, Mark, Table, TableClaim, TableFacts};
use waybill_core::port::transport::{CallError, Fault, Health, HealthReport, PluginIdentity};

pub use database::{ClaimSeen, Database, Fault as TableFault, Row, Status};

/// A host's way to a database.
pub struct FakeTable {
    name: String,
    database: Arc<Database>,
    /// Of its connections; no other host has it.
    session: u64,
    facts: Mutex<TableFacts>,
    claims: AtomicU32,
    notified: Notify,
    count_time: Mutex<Duration>,
    closed: AtomicBool,
}

impl FakeTable {
    /// A way to a database with room for eight claims, whose table keeps times and attempts.
    pub fn new(name: impl Into<String>, database: &Arc<Database>) -> Arc<Self> {
        let facts = TableFacts {
            instances: 1,
            claims_per_instance: 8,
            max_batch: 1_000,
            keeps_due: true,
            keeps_attempts: true,
        };
        Arc::new(Self {
            name: name.into(),
            database: Arc::clone(database),
            session: database.connect(),
            facts: Mutex::new(facts),
            claims: AtomicU32::new(0),
            notified: Notify::new(),
            count_time: Mutex::default(),
            closed: AtomicBool::new(false),
        })
    }

    /// Changes what it tells of itself.
    pub fn set_facts(&self, change: impl FnOnce(&mut TableFacts)) {
        change(&mut self.facts.lock());
    }

    /// Tells that something new waits.
    pub fn notify(&self) {
        self.notified.notify_one();
    }

    /// From now on counting its rows takes so long.
    pub fn set_count_time(&self, time: Duration) {
        *self.count_time.lock() = time;
    }

    /// Claims that it was asked for.
    pub fn claims(&self) -> u32 {
        self.claims.load(Ordering::Acquire)
    }

    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

#[async_trait]
impl Table for FakeTable {
    fn name(&self) -> &str {
        &self.name
    }

    fn identity(&self) -> PluginIdentity {
        PluginIdentity {
            plugin: "fake-table".to_owned(),
            version: "1.0.0".to_owned(),
            digest: format!("sha256:{}", "cd".repeat(32)),
            generation: 1,
        }
    }

    fn facts(&self) -> TableFacts {
        self.facts.lock().clone()
    }

    async fn claim(&self, _instance: u32, claim: TableClaim, _timeout: Duration) -> Result<Claimed, CallError> {
        let number = self.claims.fetch_add(1, Ordering::AcqRel);
        // A statement takes a moment; without one a paused clock would stand still.
        tokio::time::sleep(STATEMENT).await;
        self.database.claim(ClaimId { session: self.session, number }, &claim)
    }

    async fn commit(
        &self,
        _instance: u32,
        claim: ClaimId,
        marks: Vec<Mark>,
        _timeout: Duration,
    ) -> Result<Ended, CallError> {
        tokio::time::sleep(STATEMENT).await;
        self.database.commit(claim, marks)
    }

    async fn stats(&self, _timeout: Duration) -> Result<Vec<ContextStats>, CallError> {
        let takes = *self.count_time.lock();
        tokio::time::sleep(takes).await;
        Ok(self.database.stats())
    }

    async fn dead(&self, page: Option<String>, max: u32, _timeout: Duration) -> Result<DeadPage, CallError> {
        Ok(self.database.dead(page, max))
    }

    async fn replay(&self, ids: Vec<String>, _timeout: Duration) -> Result<Vec<bool>, CallError> {
        Ok(ids.iter().map(|id| self.database.replay(id)).collect())
    }

    async fn next_notices(&self) -> LaneNotices {
        self.notified.notified().await;
        LaneNotices { lane: 0, session: self.session, notices: Notices { waiting: true, ..Notices::default() } }
    }

    async fn health(&self) -> HealthReport {
        HealthReport { health: Health::Ready, detail: None }
    }

    async fn close(&self, _timeout: Duration) {
        self.closed.store(true, Ordering::Release);
    }
}

/// Time of one statement.
const STATEMENT: Duration = Duration::from_millis(1);

fn fault(code: &str) -> Fault {
    Fault::new(code, format!("{code}, as the test wants it"))
}
