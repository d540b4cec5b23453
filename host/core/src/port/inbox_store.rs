//! The storage port of the inbox. Two adapters: SurrealDB (`waybill-store`) and the in-memory reference store
//! (`waybill-testkit`); both run one conformance suite.
//!
//! One writer a shard, fenced by `(token, beat)` as the outbox's owner is: every commit writes a beat higher by one and a fresh nonce,
//! so that of two commits built on one state at most one goes in. A takeover is such a commit, too: it writes the outbox shard's
//! token ([`crate::inbox::owner::takeover`]); what it takes over is read behind it.

use std::sync::Arc;

use async_trait::async_trait;

use crate::ids::{ConsumerName, InboundId, Seq, ShardId, Tenant};
use crate::inbox::fingerprint::{ContentCheck, Fingerprint};
use crate::inbox::records::{
    InboxCommit, InboxDead, InboxDone, InboxRow, InboxShardRecord, InboxTakeover, SagaDoorItem,
};
use crate::inbox::seen::{OwnedAge, SeenQuery};
use crate::outbox::records::DeadState;
use crate::port::query::ReadPage;
use crate::port::store::StoreError;
use crate::time::UnixMillis;

/// What the seen set has of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenHit {
    pub check: ContentCheck,
    /// Age of the shard when it was written; of what is packed a later one may be told, never an earlier one.
    pub age: OwnedAge,
}

/// What one round of tidying went through, in records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InboxTidied {
    /// Of the seen set, removed: their ids are out of the window.
    pub forgotten: usize,
    /// Of the seen set, packed or looked at for it.
    pub packed: usize,
    /// Of the history, removed.
    pub purged: usize,
}

impl InboxTidied {
    pub fn records(&self) -> usize {
        self.forgotten + self.packed + self.purged
    }
}

/// Which rows or dead letters to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InboxFilter {
    pub consumer: Option<ConsumerName>,
    pub tenant: Option<Tenant>,
    pub context: Option<String>,
    pub id: Option<InboundId>,
}

impl InboxFilter {
    /// Whether a message of a consumer is meant.
    pub fn takes(&self, consumer: &ConsumerName, message: &crate::inbox::message::InboundMessage) -> bool {
        self.consumer.as_ref().is_none_or(|wanted| wanted == consumer)
            && self.tenant.as_ref().is_none_or(|wanted| *wanted == message.tenant)
            && self.context.as_ref().is_none_or(|wanted| *wanted == message.context)
            && self.id.as_ref().is_none_or(|wanted| *wanted == message.id)
    }
}

/// A row of `saga_door`: what the inbox left for a saga.
#[derive(Clone, Debug, PartialEq)]
pub struct SagaDoorRow {
    /// Orders the rows of a shard as they were committed; its key.
    pub key: SagaDoorKey,
    pub item: SagaDoorItem,
}

/// Key of a row of `saga_door`: the inbox's shard and beat that wrote it, and its number there. Unique, and rising for one writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SagaDoorKey {
    pub from: ShardId,
    pub beat: u64,
    pub number: u32,
}

/// What the writer of a shard's inbox and its readers need of the store.
#[async_trait]
pub trait InboxStore: Send + Sync + 'static {
    /// The shard record; the default record when there is none yet.
    async fn inbox_shard(&self, shard: ShardId) -> Result<InboxShardRecord, StoreError>;
    /// Applies a commit, all or nothing: record, takes, rows, dead letters, seen marks, history, and what leaves by the doors of outbox
    /// and sagas. `Err(Conflict)` and `Err(TooLarge)` prove that nothing was applied; after any other error the outcome is unknown and
    /// the caller reads the shard record.
    async fn commit_inbox(&self, commit: InboxCommit) -> Result<(), StoreError>;
    /// All rows, without their messages, and all records of takes of a shard, read behind a takeover. A row or a record that can't be
    /// read is moved to quarantine and left out; so is a row that was processed before it was received (`INVALID_TIMESTAMP`).
    async fn inbox_takeover(&self, shard: ShardId) -> Result<InboxTakeover, StoreError>;
    /// The rows with these seqs, in the order asked; none for one that isn't there.
    async fn inbox_rows(&self, shard: ShardId, seqs: &[Seq]) -> Result<Vec<Option<Arc<InboxRow>>>, StoreError>;
    /// What the seen set has of each id, in the order asked; none where it has nothing. It may answer what is out of the window.
    async fn inbox_seen(&self, shard: ShardId, queries: &[SeenQuery]) -> Result<Vec<Option<SeenHit>>, StoreError>;
    /// The same of one id, for people who ask: what that reads isn't among [`Self::inbox_seen_reads`].
    async fn inbox_seen_for_people(&self, shard: ShardId, query: &SeenQuery) -> Result<Option<SeenHit>, StoreError>;
    /// The same of one id that may lie in any minute: it was filed by a stamp of its sender's (`id_time = "occurred_at"`), and that isn't
    /// known. Of several the one that was finished last, as exactly as blocks tell: a packed id has the age of its block. A read or two for each minute in which the consumer finished anything, so it is for people who ask, and not for what flows.
    async fn inbox_seen_in_any_minute(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: Fingerprint,
    ) -> Result<Option<SeenHit>, StoreError>;
    /// How often this process has read the store to answer for a consumer's messages. What is found in memory, or known there to be a stranger, costs
    /// none; of ids that tell nothing, each costs some once there are more than filters have room for.
    fn inbox_seen_reads(&self, consumer: &ConsumerName) -> u64;
    /// Forgets what was seen at or before `until`, packs what lies idle, and removes history written before `done_before`; about
    /// `limit` records of it. Fewer than `limit` records in all = nothing is left to do. Not guarded: what is out of the window
    /// belongs to nobody. Whoever owns the shard calls it about once a minute: what isn't packed is looked up in memory, or slowly.
    async fn tidy_inbox(
        &self,
        shard: ShardId,
        until: OwnedAge,
        done_before: UnixMillis,
        limit: usize,
    ) -> Result<InboxTidied, StoreError>;

    /// The dead letter at a seq.
    async fn inbox_dead_letter(&self, shard: ShardId, seq: Seq) -> Result<Option<Arc<InboxDead>>, StoreError>;
    /// Changes the condition of a dead letter (quarantine with a note, and back). False when there is none. Not guarded: only the writer
    /// puts and removes them, and it doesn't look at the condition.
    async fn mark_inbox_dead(&self, shard: ShardId, seq: Seq, state: &DeadState) -> Result<bool, StoreError>;
    /// Dead letters that match, by shard and seq, at most `limit`; it reads a bounded number of rows and then answers a cursor even when
    /// the page isn't full. `Err(Statement)` for a cursor that this store didn't make.
    async fn inbox_dead(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxDead>)>, StoreError>;
    /// Rows that match, by shard and seq, at most `limit`. The same of cursors.
    async fn inbox_list(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError>;
    /// The same rows, the latest received first; each shard by its places. The same of cursors, which are of this list alone.
    async fn inbox_newest(
        &self,
        filter: &InboxFilter,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<ReadPage<(ShardId, Arc<InboxRow>)>, StoreError>;
    /// What the history has of an id, the latest first.
    async fn inbox_done(
        &self,
        shard: ShardId,
        consumer: &ConsumerName,
        id: &InboundId,
    ) -> Result<Vec<InboxDone>, StoreError>;

    /// The first rows of a shard's `saga_door`, in order of their keys, at most `limit`. The writer of the shard's sagas removes them,
    /// in its own commits ([`crate::saga::records::SagaCommit::door`]).
    async fn saga_door(&self, shard: ShardId, limit: usize) -> Result<Vec<SagaDoorRow>, StoreError>;
    /// Binds a consumer to a home for as long as its seen set lasts. The home that it is bound to: another one means that its sources
    /// moved, and what it has seen lies there.
    async fn bind_inbox_consumer(&self, consumer: &ConsumerName, home: &str) -> Result<String, StoreError>;
    /// Forgets the binding of a consumer whose window is over, or that an operator gave up.
    async fn unbind_inbox_consumer(&self, consumer: &ConsumerName) -> Result<(), StoreError>;
}
