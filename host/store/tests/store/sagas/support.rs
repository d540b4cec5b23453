//! A writer of sagas.

use std::sync::Arc;

use ulid::Ulid;
use waybill_core::ids::ShardId;
use waybill_core::port::saga_store::{Acquired, SagaStore};
use waybill_core::port::store::StoreError;
use waybill_core::port::transact::DoorGroup;
use waybill_core::saga::id::SagaKey;
use waybill_core::saga::json::Json;
use waybill_core::saga::records::{JournalEntry, SagaCommit, SagaRow, SagaShardRecord, SagaTakeover, SagaWrite};
use waybill_store::SurrealStore;
use waybill_testkit::conformance::saga_samples::{after, completed, key, transitions};

pub const SHARD: ShardId = ShardId(0);

/// Writes the sagas of one shard.
pub struct Writer {
    pub shard: ShardId,
    pub record: SagaShardRecord,
}

pub async fn take(store: &SurrealStore, shard: ShardId, token: u64) -> SagaTakeover {
    match store.acquire(shard, token, token * 1_000).await.unwrap() {
        Acquired::Taken(takeover) => *takeover,
        Acquired::Lost { token } => panic!("token {token} stands"),
    }
}

impl Writer {
    pub async fn new(store: &SurrealStore, shard: ShardId, token: u64) -> Self {
        Self { shard, record: take(store, shard, token).await.record }
    }

    pub fn next(&self, journal: Vec<JournalEntry>, writes: Vec<SagaWrite>) -> SagaCommit {
        let record = SagaShardRecord { beat: self.record.beat + 1, nonce: self.record.nonce + 7, ..self.record };
        let (expect_token, expect_beat) = (self.record.token, self.record.beat);
        SagaCommit {
            shard: self.shard,
            expect_token,
            expect_beat,
            record,
            journal,
            writes,
            events: Default::default(),
            messages: Vec::new(),
            door: Vec::new(),
        }
    }

    pub async fn try_commit(&mut self, store: &SurrealStore, commit: SagaCommit) -> Result<(), StoreError> {
        let record = commit.record;
        store.commit_sagas(commit).await?;
        self.record = record;
        Ok(())
    }

    pub async fn journal(&mut self, store: &SurrealStore, journal: Vec<JournalEntry>) {
        let commit = self.next(journal, Vec::new());
        self.try_commit(store, commit).await.unwrap();
    }

    pub async fn write(&mut self, store: &SurrealStore, writes: Vec<SagaWrite>) {
        let commit = self.next(Vec::new(), writes);
        self.try_commit(store, commit).await.unwrap();
    }

    pub async fn messages(&mut self, store: &SurrealStore, messages: Vec<DoorGroup>) {
        let commit = SagaCommit { messages, ..self.next(Vec::new(), Vec::new()) };
        self.try_commit(store, commit).await.unwrap();
    }
}

/// An id that tells the start, which is `at` after the samples' first instant.
pub fn ulid_at(at: u64, number: u128) -> String {
    Ulid::from_parts(after(at).0, number).to_string()
}

pub fn entry(id: &str, at: u64, commit: usize) -> JournalEntry {
    let (of, all) = (key("acme", id), transitions(at));
    let ended = commit + 1 == all.len();
    JournalEntry { key: of, from: 2 * commit as u32, events: all[commit].clone(), ended }
}

/// An ended saga that began at `at` and ended at `ended`.
pub fn ended(of: SagaKey, at: u64, ended: u64) -> SagaRow {
    let mut row = completed(of, at);
    row.summary.ended_at = Some(after(ended));
    row
}

/// With an input of so many bytes.
pub fn with_input(row: SagaRow, bytes: usize) -> SagaRow {
    let mut tree = row.tree.as_ref().clone();
    tree.sagas[0].input = Json::parse(&format!("\"{}\"", "x".repeat(bytes))).unwrap();
    SagaRow { tree: Arc::new(tree), ..row }
}

pub fn put(row: &SagaRow) -> SagaWrite {
    SagaWrite::PutRow(Arc::new(row.clone()))
}

pub fn done(row: &SagaRow) -> SagaWrite {
    SagaWrite::PutDone(Arc::new(row.clone()))
}

pub async fn find(store: &SurrealStore, shard: ShardId, of: &SagaKey) -> Option<SagaRow> {
    store.saga(shard, of).await.unwrap().map(|row| row.as_ref().clone())
}
