//! The memory store with trouble between it and the engine: each call may be delayed, refused or made to panic.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use parking_lot::Mutex;
use waybill_core::audit::AuditQuery;
use waybill_core::fates::Fates;
use waybill_core::idempotency::{Applied, Entry, EntryFilter, EntryKey, Op};
use waybill_core::ids::{MessageId, Place, Seq, ShardId, Tenant};
use waybill_core::outbox::records::{
    DeadLetter, DoorKey, DoorRow, HistoryChunk, HistoryKey, IdRecord, Parked, ShardRecord,
};
use waybill_core::port::dedup::{DedupAsk, DedupEnd, DedupKey, DedupStore, FirstDelivery, Reservation};
use waybill_core::port::idempotency::{FoundEntry, IdempotencyStore};
use waybill_core::port::query::Page;
use waybill_core::port::store::{DueScheduled, OwnerCommit, OwnerStore, SegmentInfo, StoreError, StoredSegment};
use waybill_core::port::transact::{
    AuditEvent, Conclusion, DoorGroup, Operation, Statement, TransactStore, Transacted,
};
use waybill_core::streams::joint::JointAppends;
use waybill_core::time::UnixMillis;
use waybill_testkit::memory_store::MemoryStore;

/// A call as the hook sees it.
#[derive(Debug)]
pub enum Call<'a> {
    Commit(&'a OwnerCommit),
    /// Any read, by name.
    Read(&'static str),
    Transact,
    /// A call of payload dedup, by name.
    Dedup(&'static str),
    /// Acts on idempotency keys.
    Idempotency,
    /// History is read for retention, from here on.
    History(ShardId, Option<HistoryKey>),
    /// Dead letters are read for retention.
    DeadBefore(ShardId),
    /// Rows in quarantine are put back, dropped or counted, by name.
    Quarantine(&'static str),
    /// A bulk operation's state is written.
    Note(&'a Operation),
}

/// What happens to a call.
#[derive(Clone, Debug)]
pub enum Act {
    Pass,
    /// It takes this long.
    Slow(Duration),
    /// It happens at once, and the caller hears of it this much later (acts on idempotency keys and on quarantine, reservations).
    SlowAfter(Duration),
    /// Nothing happens and the caller hears this.
    Fail(StoreError),
    /// It happens, and the caller hears this.
    FailAfter(StoreError),
    Panic,
}

type Hook = dyn FnMut(Call<'_>) -> Act + Send;

pub struct Shim {
    pub(super) inner: Arc<MemoryStore>,
    hook: Mutex<Box<Hook>>,
    /// Statements of business transactions that went in.
    pub statements: Mutex<Vec<Statement>>,
}

impl Shim {
    pub fn new(inner: Arc<MemoryStore>) -> Arc<Self> {
        Arc::new(Self { inner, hook: Mutex::new(Box::new(|_| Act::Pass)), statements: Mutex::new(Vec::new()) })
    }
    /// From now on every call is decided by `hook`.
    pub fn on(&self, hook: impl FnMut(Call<'_>) -> Act + Send + 'static) {
        *self.hook.lock() = Box::new(hook);
    }
    /// From now on every call passes.
    pub fn calm(&self) {
        self.on(|_| Act::Pass);
    }
    async fn meet(&self, call: Call<'_>) -> Result<Option<StoreError>, StoreError> {
        let act = self.ask(call);
        self.follow(act).await
    }
    pub(super) fn ask(&self, call: Call<'_>) -> Act {
        (self.hook.lock())(call)
    }
    pub(super) async fn follow(&self, act: Act) -> Result<Option<StoreError>, StoreError> {
        match act {
            Act::Pass | Act::SlowAfter(_) => Ok(None),
            Act::Slow(time) => {
                tokio::time::sleep(time).await;
                Ok(None)
            }
            Act::Fail(error) => Err(error),
            Act::FailAfter(error) => Ok(Some(error)),
            Act::Panic => panic!("a test made the store panic"),
        }
    }
    async fn read(&self, name: &'static str) -> Result<(), StoreError> {
        self.meet(Call::Read(name)).await.map(|_| ())
    }
}

#[async_trait]
impl DedupStore for Shim {
    async fn reserve(
        &self,
        asks: &[DedupAsk],
        now: UnixMillis,
        stale: UnixMillis,
    ) -> Result<Vec<Reservation>, StoreError> {
        let asked = self.ask(Call::Dedup("reserve"));
        let late = if let Act::SlowAfter(time) = asked { time } else { Duration::ZERO };
        let after = self.follow(asked).await?;
        let done = self.inner.reserve(asks, now, stale).await?;
        tokio::time::sleep(late).await;
        after.map_or(Ok(done), Err)
    }
    async fn conclude(&self, ends: &[DedupEnd], now: UnixMillis) -> Result<(), StoreError> {
        let after = self.meet(Call::Dedup("conclude")).await?;
        self.inner.conclude(ends, now).await?;
        after.map_or(Ok(()), Err)
    }
    async fn delivered(&self, key: &DedupKey, now: UnixMillis) -> Result<Option<FirstDelivery>, StoreError> {
        self.inner.delivered(key, now).await
    }
    async fn purge_dedup(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.meet(Call::Dedup("purge")).await?;
        self.inner.purge_dedup(now, limit).await
    }
}

#[async_trait]
impl IdempotencyStore for Shim {
    async fn act(&self, ops: &[Op], now: UnixMillis) -> Result<Vec<Result<Applied, StoreError>>, StoreError> {
        let asked = self.ask(Call::Idempotency);
        let late = if let Act::SlowAfter(time) = asked { time } else { Duration::ZERO };
        let after = self.follow(asked).await?;
        let done = self.inner.act(ops, now).await?;
        tokio::time::sleep(late).await;
        after.map_or(Ok(done), Err)
    }
    async fn entry(&self, of: &EntryKey, now: UnixMillis) -> Result<Option<Entry>, StoreError> {
        self.inner.entry(of, now).await
    }
    async fn entries(
        &self,
        tenant: Option<&Tenant>,
        filter: &EntryFilter,
        now: UnixMillis,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<FoundEntry>, StoreError> {
        self.inner.entries(tenant, filter, now, cursor, limit).await
    }
    async fn purge_idempotency(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.inner.purge_idempotency(now, limit).await
    }
}

#[async_trait]
impl OwnerStore for Shim {
    async fn shard(&self, shard: ShardId) -> Result<ShardRecord, StoreError> {
        self.read("shard").await?;
        self.inner.shard(shard).await
    }
    async fn commit(&self, commit: OwnerCommit) -> Result<(), StoreError> {
        let after = self.meet(Call::Commit(&commit)).await?;
        self.inner.commit(commit).await?;
        after.map_or(Ok(()), Err)
    }
    async fn directory(&self, shard: ShardId, from: Seq, limit: usize) -> Result<Vec<SegmentInfo>, StoreError> {
        self.read("directory").await?;
        self.inner.directory(shard, from, limit).await
    }
    async fn segments(&self, shard: ShardId, firsts: &[Seq]) -> Result<Vec<StoredSegment>, StoreError> {
        self.read("segments").await?;
        self.inner.segments(shard, firsts).await
    }
    async fn parked(&self, shard: ShardId, after: Option<Seq>, limit: usize) -> Result<Vec<Arc<Parked>>, StoreError> {
        self.read("parked").await?;
        self.inner.parked(shard, after, limit).await
    }
    async fn scheduled_due(&self, shard: ShardId, now: UnixMillis, limit: usize) -> Result<DueScheduled, StoreError> {
        self.read("scheduled_due").await?;
        self.inner.scheduled_due(shard, now, limit).await
    }
    async fn door(
        &self,
        shard: ShardId,
        from_nanos: u64,
        until_nanos: u64,
        after: Option<DoorKey>,
        limit: usize,
    ) -> Result<Vec<DoorRow>, StoreError> {
        self.read("door").await?;
        self.inner.door(shard, from_nanos, until_nanos, after, limit).await
    }
    async fn door_clock(&self) -> Result<u64, StoreError> {
        self.read("door_clock").await?;
        self.inner.door_clock().await
    }
    async fn door_newest(&self, shard: ShardId) -> Result<Option<u64>, StoreError> {
        self.read("door_newest").await?;
        self.inner.door_newest(shard).await
    }
    async fn ids(&self, ids: &[(Tenant, MessageId)]) -> Result<Vec<Option<IdRecord>>, StoreError> {
        self.read("ids").await?;
        self.inner.ids(ids).await
    }
    async fn blob(&self, blob: &str) -> Result<Option<Bytes>, StoreError> {
        self.read("blob").await?;
        self.inner.blob(blob).await
    }
    async fn dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<DeadLetter>>, StoreError> {
        self.read("dead_letter").await?;
        self.inner.dead_letter(shard, seq).await
    }
    async fn dead_before(
        &self,
        shard: ShardId,
        after: Option<Seq>,
        before: UnixMillis,
        now: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Place>, StoreError> {
        self.meet(Call::DeadBefore(shard)).await?;
        self.inner.dead_before(shard, after, before, now, limit).await
    }
    async fn held_keys(&self, shard: ShardId) -> Result<Vec<Arc<DeadLetter>>, StoreError> {
        self.read("held_keys").await?;
        self.inner.held_keys(shard).await
    }
    async fn history_before(
        &self,
        shard: ShardId,
        after: Option<HistoryKey>,
        before: UnixMillis,
        limit: usize,
    ) -> Result<Vec<Arc<HistoryChunk>>, StoreError> {
        self.meet(Call::History(shard, after)).await?;
        self.inner.history_before(shard, after, before, limit).await
    }
    async fn purge_history(
        &self,
        chunks: &[Arc<HistoryChunk>],
        keep_derived: Duration,
        now: UnixMillis,
    ) -> Result<(), StoreError> {
        self.read("purge_history").await?;
        self.inner.purge_history(chunks, keep_derived, now).await
    }
    async fn purge_ids(&self, now: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.read("purge_ids").await?;
        self.inner.purge_ids(now, limit).await
    }
}

#[async_trait]
impl TransactStore for Shim {
    /// The memory store runs no statements, so they are remembered here.
    async fn transact(
        &self,
        statements: Vec<Statement>,
        messages: Vec<DoorGroup>,
        events: JointAppends,
        conclusion: Option<Conclusion>,
    ) -> Result<Transacted, StoreError> {
        let after = self.meet(Call::Transact).await?;
        let mut done = self.inner.transact(Vec::new(), messages, events, conclusion).await?;
        done.results = statements.iter().map(|statement| serde_json::json!({ "ran": statement.query })).collect();
        self.statements.lock().extend(statements);
        after.map_or(Ok(done), Err)
    }
    async fn put_operation(&self, operation: &Operation) -> Result<(), StoreError> {
        self.meet(Call::Note(operation)).await?;
        self.inner.put_operation(operation).await
    }
    async fn operation(&self, id: &str) -> Result<Option<Operation>, StoreError> {
        self.inner.operation(id).await
    }
    async fn operations(&self, tenant: Option<&Tenant>, limit: usize) -> Result<Vec<Operation>, StoreError> {
        self.inner.operations(tenant, limit).await
    }
    async fn fates(&self, operation: &str) -> Result<Fates, StoreError> {
        self.inner.fates(operation).await
    }
    async fn running_operations(&self) -> Result<Vec<Operation>, StoreError> {
        self.inner.running_operations().await
    }
    async fn set_paused(&self, transport: &str, paused: bool) -> Result<(), StoreError> {
        self.inner.set_paused(transport, paused).await
    }
    async fn paused(&self) -> Result<Vec<String>, StoreError> {
        self.inner.paused().await
    }
    async fn note_incidents(&self, host: &str, record: &str) -> Result<(), StoreError> {
        self.inner.note_incidents(host, record).await
    }
    async fn incidents(&self, host: &str) -> Result<String, StoreError> {
        self.inner.incidents(host).await
    }
    async fn audit(&self, event: &AuditEvent) -> Result<(), StoreError> {
        self.inner.audit(event).await
    }
    async fn audit_lines(
        &self,
        query: &AuditQuery,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<Page<AuditEvent>, StoreError> {
        self.inner.audit_lines(query, cursor, limit).await
    }
    async fn purge_audit(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.inner.purge_audit(before, limit).await
    }
    async fn purge_operations(&self, before: UnixMillis, limit: usize) -> Result<usize, StoreError> {
        self.inner.purge_operations(before, limit).await
    }
}
